"""Complete the pages of the measures: a table of all measures and, for each, the parts of the model
that it includes, a figure with its finding, and a summary of its `Spec`.

MkDocs calls the functions `on_…` while it builds the site. The pages in the repository contain only
text that was written by hand.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixlens import Lens, MixingMaps, UnsupportedModel, list_measures
from mixlens.contracts import Facts, Spec
from mixlens.measures import ready_measures
from mixlens.views.canvas import save_figure

FOLDER = "measures"
LIST = "<!-- the list of measures -->"
TEXT = "The pictures of some hat [MASK] scaring Marcus."
BEGINNING = "The pictures of some hat"  # for causal models
STAGES = (
    "weights",
    "values",
    "residual",
    "norm",
    "MLP",
    "last norm",
    "other layers",
    "output",
)
_captions: dict[str, str] = {}  # measure -> finding of its figure


def measure_of(path: str) -> str | None:
    """Return the measure that the page describes, if any."""
    folder, _, name = path.rpartition("/")
    name = name.removesuffix(".md")
    return name if folder == FOLDER and name in list_measures() else None


def on_files(files: Any, config: Any) -> Any:
    """Add a figure for every measure, and keep its caption."""
    from mkdocs.structure.files import File  # of the extra `docs`, which the tests do without

    masked, causal = Lens.bundled(), Lens.bundled("causal")
    for name in ready_measures():
        maps = example_maps(name, masked, causal)
        figure = picture(maps)
        _captions[name] = caption(maps)
        files.append(File.generated(config, f"{FOLDER}/{name}.svg", content=figure))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with the generated parts."""
    name = measure_of(page.file.src_uri)
    return markdown.replace(LIST, table()) if name is None else with_facts(markdown, name)


# ------------------------------------------------------------------------------------------- text


def table() -> str:
    """Return the table of all measures."""
    rows = [
        f"| [`{name}`]({FOLDER}/{name}.md) | {spec.summary} | {spec.cost} |"
        for name, spec in list_measures().items()
    ]
    return "\n".join(["| measure | score | cost |", "|---|---|---|", *rows])


def with_facts(markdown: str, name: str) -> str:
    """Return the page with the included parts as boxes, the figure, and the summary at the end."""
    line = re.search(r"^\*\*Includes\*\* (.+)$", markdown, flags=re.M)
    if line is None:
        raise ValueError(f"docs/{FOLDER}/{name}.md has no line **Includes**")
    top = strip(seen(line[1]))
    if name in ready_measures():
        image = f"![{name} on the bundled model]({name}.svg)"
        top = f"{top}\n\n{image}\n\n*{_captions.get(name, '')}*"
    end = f"## In short\n\n{facts(list_measures()[name])}"
    return f"{markdown.replace(line[0], top)}\n\n{end}\n"


def seen(words: str) -> set[str]:
    """Return the parts of the model that a page lists."""
    names = set(words.rstrip(".").split(", ")) - {"nothing"}
    if unknown := names - set(STAGES):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; stages are {', '.join(STAGES)}")
    return names


def strip(stages: set[str]) -> str:
    """Return a box for each part of a model, filled if the measure includes it."""
    boxes = [
        f'<span class="stage{" seen" if stage in stages else ""}">{stage}</span>'
        for stage in STAGES
    ]
    label = f"Includes: {', '.join(s for s in STAGES if s in stages) or 'nothing'}."
    return f'<div class="stages" role="img" aria-label="{label}">{"".join(boxes)}</div>'


def facts(spec: Spec) -> str:
    """Return the summary of a measure as a table."""
    rows = {"use": spec.use_when, "cost": spec.cost}
    if spec.gives == "maps":
        rows["attention"] = " and ".join(spec.sites) + (", also per head" if spec.per_head else "")
        rows["scores"] = "; ".join(score_facts(spec.facts))
        rows["few targets of a long text"] = (
            "without full maps" if spec.row_by_row else "from full maps"
        )
    rows["limitations"] = f"It {spec.limitations}."
    rows["options"] = ", ".join(f"`{option.name}={option.default!r}`" for option in spec.options)
    rows["reference"] = spec.citation
    lines = [f"| {name} | {text.replace('|', '∣')} |" for name, text in rows.items() if text]
    return "\n".join(["| | |", "|---|---|", *lines])


def score_facts(properties: Facts) -> Iterator[str]:
    """Yield the properties of the scores in words."""
    yield "may be negative" if properties.signed else "never negative"
    yield f"the scores of a target {'sum' if properties.rows_sum_to_one else 'need not sum'} to one"
    yield f"the residual stream is {'' if properties.residual_included else 'not '}included"


# ---------------------------------------------------------------------------------------- figures


def caption(maps: MixingMaps) -> str:
    """Return the finding of a figure in a sentence."""
    row = maps.row(0 if len(maps.tokens) == 1 else "[MASK]")
    first = next(source.token for source in row.top() if source.token != "[MASK]")
    word = first.removeprefix("Ġ")
    if list_measures()[maps.provenance["measure"]].explains_output:
        return f"Why does the bundled model choose *are* over *is*? Largest score: *{word}*."
    where = "Sources of `[MASK]` in each layer of the bundled model."
    return f"{where} Largest score of another token: *{word}*."


def example_maps(name: str, masked: Lens, causal: Lens) -> MixingMaps:
    """Measure an example with the masked model or, if that is not supported, the causal one."""
    spec = list_measures()[name]
    try:
        return measured(masked, name, spec, TEXT, "")
    except UnsupportedModel:
        return measured(causal, name, spec, BEGINNING, " ")


def picture(maps: MixingMaps) -> bytes:
    """Return the figure of the maps as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        save_figure(maps.plot("target" if len(maps.layers) > 1 else "text"), path)
        return path.read_bytes()


def measured(lens: Lens, name: str, spec: Spec, text: str, gap: str) -> MixingMaps:
    """Measure a text with quick options; `gap` is the tokenizer's space before a word."""
    explained = {"word": f"{gap}are", "foil": f"{gap}is"} if spec.explains_output else {}
    return lens.measure(name, text, **spec.quick, **explained)
