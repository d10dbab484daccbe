"""Writes `docs/results/` from what `mixlens reproduce` kept, and the list of experiments in
`docs/reproduce.md`.

    python -m docs.results_pages --take DIR   # take what lies below DIR into docs/results/data
    python -m docs.results_pages              # write the pages from docs/results/data
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.kept_pages import wrapped, write
from mixlens.papers import experiments, papers
from mixlens.papers.folder import cell

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
DATA = RESULTS / "data"

TITLES = {
    "brunner2020": "Brunner et al. (2020), On Identifiability in Transformers",
    "kobayashi2020": "Kobayashi et al. (2020), Attention is Not Only a Weight",
    "ferrando2022": (
        "Ferrando et al. (2022), Measuring the Mixing of Contextual Information in the Transformer"
    ),
    "ferrando2023": (
        "Ferrando et al. (2023), Explaining How Transformers Use Context to Build Predictions"
    ),
    "modarressi2023": (
        "Modarressi et al. (2023), DecompX: Explaining Transformers Decisions by Propagating Token"
        " Decomposition"
    ),
    "mohebbi2023": "Mohebbi et al. (2023), Quantifying Context Mixing in Transformers",
    "mohebbi2023b": (
        "Mohebbi et al. (2023), Homophone Disambiguation Reveals Patterns of Context Mixing in"
        " Speech Transformers"
    ),
    "pan2026": "Pan et al. (2026), FlashTrace",
}

# The folder of a model's results -> its name on the pages.
MODELS = {
    "masked": "bundled masked LM (BERT, 6 layers)",
    "prompt": "bundled masked LM, prompt fine-tuned",
    # Before the training that taught the bundled model to answer from documents.
    "causal": "causal LM bundled with 0.1 (Llama, 6 layers)",
    "sst2": "bundled masked LM, fine-tuned on SST-2",
    "minilm": "all-MiniLM-L6-v2 (BERT, 6 layers)",
    "minilm-sst2": "MiniLM, fine-tuned on SST-2",
    "gte": "gte-small (BERT, 12 layers)",
    "gte-prompt": "gte-small, prompt fine-tuned",
    "gte-sst2": "gte-small, fine-tuned on SST-2",
    "stories": "stories15M (Llama, 6 layers)",
    "smollm2": "SmolLM2-135M-Instruct (Llama, 30 layers)",
    "rxnfp": "rxnfp (BERT on reactions, 12 layers)",
    "rxnmapper": "rxnmapper (ALBERT on reactions, 12 shared layers)",
    "opus": "opus-mt-en-fr (Marian, 6 + 6 layers, pruned vocabulary)",
    "whisper": "Whisper-tiny.en (4 + 4 layers)",
    "de-en": "German-English Marian trained on Multi30k",
}

VERDICTS = {True: "holds", False: "**does not hold**", None: "cannot be decided"}

# What the numbers of a paper say together; the tables below it are made by this file.
SUMMARIES: dict[str, list[str]] = json.loads(
    (RESULTS / "summaries.json").read_text(encoding="utf-8")
)


def summary(name: str) -> str:
    """Return paragraphs separated by blank lines, and lists without blank lines."""
    lines: list[str] = []
    for text in SUMMARIES[name]:
        follows = text.startswith("* ") and lines and lines[-1].startswith("* ")
        lines += [*([] if follows or not lines else [""]), wrapped(text)]
    return "\n".join(lines)


def taken(source: Path) -> int:
    """Copy numbers and small figures of results into the repository."""
    count = 0
    for path in sorted(source.rglob("result.json")):
        model = next(part for part in path.relative_to(source).parts if part in MODELS)
        target = DATA / model / path.parent.name
        target.mkdir(parents=True, exist_ok=True)
        result = json.loads(path.read_text(encoding="utf-8"))
        result["settings"]["model"] = MODELS[model]
        if result["settings"].get("other_model"):
            result["settings"]["other_model"] = MODELS["minilm-sst2"]  # always that one
        (target / "result.json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        for name in result["figures"]:
            figure = path.parent / name
            if figure.is_file() and figure.stat().st_size < 250_000:
                shutil.copyfile(figure, target / name)
        count += 1
    return count


def results(name: str) -> Iterator[tuple[str, dict[str, Any], Path]]:
    """Return (model, result, folder) of an experiment, in the order of MODELS."""
    for model in MODELS:
        folder = DATA / model / name.replace("/", "_")
        if (folder / "result.json").is_file():
            yield model, json.loads((folder / "result.json").read_text(encoding="utf-8")), folder


def paper_page(paper: str) -> str:
    parts = [f"# {TITLES[paper]}", summary(paper), _command(paper)]
    for name, spec in experiments().items():
        if name.startswith(f"{paper}/"):
            runs = list(results(name))
            parts += [
                f"## {name.split('/')[1]}: {spec.title}",
                f"The paper ({spec.data}): {spec.finding}.",
            ]
            parts += (
                [_statements(runs), _numbers(runs, spec), _figure(runs)]
                if runs
                else ["Not run on these models."]
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def _command(paper: str) -> str:
    says = wrapped(
        "The paper's own checkpoints were not available to us. This command repeats all experiments"
        " on them. With the paper's data, it prints the published numbers as well."
    )
    specs = [spec for name, spec in experiments().items() if name.startswith(f"{paper}/")]
    model = specs[0].models[0] if specs[0].models else "MODEL"
    return (
        f"{says}\n\n```sh\nmixlens reproduce {paper} --all --model {model} --data DATA"
        " --out reproduced\n```"
    )


def _statements(runs: list[tuple[str, dict[str, Any], Path]]) -> str:
    rows = []
    for model, result, _ in runs:
        settings = result["settings"]
        about = (
            f"{settings['texts']} texts of {settings['data']}" if settings["data"] else "no texts"
        )
        if settings["options"]:
            about += "; " + ", ".join(
                f"{key}={_option(value)}" for key, value in settings["options"].items()
            )
        if result["skipped"]:
            about += f"; {len(result['skipped'])} left out"
        rows += [
            f"| {MODELS[model]} | {cell(f['statement'])} | {VERDICTS[f['holds']]} |"
            f" {cell(f['numbers'])} | {about} |"
            for f in result["findings"]
        ]
        if not result["findings"]:
            rows.append(f"| {MODELS[model]} | (a figure; no statement to test) | | | {about} |")
    return "\n".join(
        ["| model | statement | result | numbers | data |", "|---|---|---|---|---|", *rows]
    )


def _option(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _numbers(runs: list[tuple[str, dict[str, Any], Path]], spec: Any) -> str:
    keys = list(
        dict.fromkeys(
            key
            for _, result, _ in runs
            for key, pair in result["numbers"].items()
            if pair["measured"] is not None
        )
    )
    if not keys:
        return ""
    published: tuple[str, Mapping[str, float]] = next(iter(spec.published.items()), ("", {}))
    head = [
        "number",
        *([f"published ({published[0]})"] if published[1] else []),
        *(MODELS[model].split(" (")[0] for model, _, _ in runs),
    ]
    rows = []
    for key in keys:
        published_cell = (
            [f"{published[1][key]:.3g}" if key in published[1] else ""] if published[1] else []
        )
        cells = [result["numbers"].get(key, {}).get("measured") for _, result, _ in runs]
        rows.append(
            [cell(key), *published_cell, *("" if cell is None else f"{cell:.3g}" for cell in cells)]
        )
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def _figure(runs: list[tuple[str, dict[str, Any], Path]]) -> str:
    """Return the first available figure, with its first finding as caption."""
    for model, result, folder in runs:
        for name in result["figures"]:
            if (folder / name).is_file():
                title = f"{result['settings']['experiment']}, {MODELS[model]}"
                path = (folder / name).relative_to(RESULTS).as_posix()
                return f"![{title}]({path})" + _caption(MODELS[model], result["findings"])
    return ""


def _caption(model: str, findings: list[dict[str, Any]]) -> str:
    model = f"{model[0].upper()}{model[1:]}"
    if not findings:
        return f"\n\n*{model}*"
    first = findings[0]
    verdict = VERDICTS[first["holds"]].strip("*")
    return "\n\n" + wrapped(f"*{model}: “{first['statement']}” {verdict}.*")


def index_page() -> str:
    rows = []
    for paper in papers():
        verdicts = [
            f["holds"]
            for name in experiments()
            if name.startswith(f"{paper}/")
            for _, r, _ in results(name)
            for f in r["findings"]
        ]
        counts = [sum(verdict is kind for verdict in verdicts) for kind in (True, False, None)]
        rows.append(f"| [{TITLES[paper]}]({paper}.md) | {counts[0]} | {counts[1]} | {counts[2]} |")
    table = "\n".join(
        ["| paper | holds | does not hold | cannot be decided |", "|---|---|---|---|", *rows]
    )
    parts = ["# Results", summary("index"), table, summary("models"), summary("small")]
    return "\n\n".join([*parts, small_samples()]) + "\n"


def small_samples() -> str:
    """Return the results of fewer than 100 texts, by model."""
    rows = []
    for model, title in MODELS.items():
        by_size: dict[int, list[str]] = {}
        for name in experiments():
            path = DATA / model / name.replace("/", "_") / "result.json"
            if path.is_file():
                texts = json.loads(path.read_text(encoding="utf-8"))["settings"]["texts"]
                by_size.setdefault(texts, []).append(name)
        rows += [
            f"| {title} | {texts} | {', '.join(f'`{name}`' for name in names)} |"
            for texts, names in sorted(by_size.items())
            if 0 < texts < 100
        ]
    return "\n".join(["| model | texts | experiments |", "|---|---|---|", *rows])


def experiment_list() -> str:
    parts = []
    for paper in papers():
        rows = []
        for name, spec in experiments().items():
            if name.startswith(f"{paper}/"):
                also = f" ({', '.join(spec.also)})" if spec.also else ""
                needs = "" if spec.needs == "any" else f"; a {spec.needs} model"
                rows.append(
                    f"| `{name}`{also} | {cell(spec.title)} | {spec.data}{needs} | {spec.cost} |"
                )
        parts += [
            f"### {TITLES[paper]}",
            "\n".join(["| experiment | shows | data | cost |", "|---|---|---|---|", *rows]),
        ]
    return "\n\n".join(parts)


def with_list(page: str) -> str:
    start, end = "<!-- list: start -->", "<!-- list: end -->"
    return re.sub(
        f"{start}.*{end}",
        lambda _: f"{start}\n\n{experiment_list()}\n\n{end}",
        page,
        flags=re.DOTALL,
    )


def pages() -> dict[Path, str]:
    """Return every page that this program writes, with its text."""
    listed = ROOT / "reproduce.md"
    by_paper = {
        RESULTS / "index.md": index_page(),
        listed: with_list(listed.read_text(encoding="utf-8")),
    }
    return by_paper | {RESULTS / f"{paper}.md": paper_page(paper) for paper in papers()}


def pruned() -> int:
    """Delete the figures that no page shows."""
    page_texts = "\n".join(pages().values())
    spare = [
        path
        for path in DATA.rglob("*.svg")
        if path.relative_to(RESULTS).as_posix() not in page_texts
    ]
    for path in spare:
        path.unlink()
    return len(spare)


if __name__ == "__main__":
    write(__doc__, taken, pages)
    pruned()
