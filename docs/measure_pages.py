"""What the pages of the measures take from the code: a list of all measures, and for each what it
sees as a strip of boxes, what its `Spec` says, a picture, and the docstring of its file.

MkDocs calls the functions `on_…` while it builds the site. Nothing of it is stored, so that nothing
has to be kept in step. The pages hold what a person wrote.
"""

from __future__ import annotations

import html
import inspect
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixlens import Lens, MixingMaps, UnsupportedModel, list_measures
from mixlens.contracts import Facts, Spec
from mixlens.measures import MEASURES
from mixlens.views.canvas import save_figure

FOLDER = "measures"
LIST = "<!-- the list of measures -->"
TEXT = "The pictures of some hat [MASK] scaring Marcus."
BEGINNING = "The pictures of some hat"  # the same for a model that reads from left to right
STAGES = (
    "weights",
    "values",
    "residual",
    "norm",
    "feed-forward",
    "last norm",
    "other layers",
    "output",
)


def measure_of(path: str) -> str | None:
    """The measure whose page a path is."""
    folder, _, name = path.rpartition("/")
    name = name.removesuffix(".md")
    return name if folder == FOLDER and name in list_measures() else None


def on_files(files: Any, config: Any) -> Any:
    """Adds a picture for every measure."""
    from mkdocs.structure.files import File  # of the extra `docs`, which the tests do without

    masked, causal = Lens.bundled(), Lens.bundled("causal")
    for name in list_measures():
        drawn = picture(name, masked, causal)
        files.append(File.generated(config, f"{FOLDER}/{name}.svg", content=drawn))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page with what the code says."""
    name = measure_of(page.file.src_uri)
    return markdown.replace(LIST, table()) if name is None else with_facts(markdown, name)


# --------------------------------------------------------------------------------------- the words


def table() -> str:
    """All measures, from their descriptions."""
    rows = [
        f"| [`{name}`]({FOLDER}/{name}.md) | {spec.summary} | {spec.cost} |"
        for name, spec in list_measures().items()
    ]
    return "\n".join(["| measure | what it is | costs |", "|---|---|---|", *rows])


def with_facts(markdown: str, name: str) -> str:
    """The strip in place of its words, then the picture; at the end the table and the docstring."""
    line = re.search(r"^\*\*Sees\*\* (.+)$", markdown, flags=re.M)
    if line is None:
        raise ValueError(f"docs/{FOLDER}/{name}.md has no line **Sees**")
    drawn = f"![{name} on the bundled model]({name}.svg)"
    top = f"{strip(seen(line[1]))}\n\n{drawn}\n\n*{caption(name)}*"
    end = f"## In short\n\n{facts(list_measures()[name])}\n\n## From the code\n\n{docstring(name)}"
    return f"{markdown.replace(line[0], top)}\n\n{end}\n"


def seen(words: str) -> set[str]:
    """The stages that a page names."""
    names = set(words.rstrip(".").split(", ")) - {"nothing"}
    if unknown := names - set(STAGES):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; stages are {', '.join(STAGES)}")
    return names


def strip(stages: set[str]) -> str:
    """Boxes for the parts of a model, filled if the measure sees them."""
    boxes = [
        f'<span class="stage{" seen" if stage in stages else ""}">{stage}</span>'
        for stage in STAGES
    ]
    label = f"It sees: {', '.join(s for s in STAGES if s in stages) or 'nothing'}."
    return f'<div class="stages" role="img" aria-label="{label}">{"".join(boxes)}</div>'


def facts(spec: Spec) -> str:
    """The table of what others need to know."""
    rows = {"use it": spec.use_when, "costs": spec.cost}
    if spec.gives == "maps":
        rows["attention"] = " and ".join(spec.sites) + (", per head too" if spec.per_head else "")
        rows["scores"] = "; ".join(score_facts(spec.facts))
        rows["a few targets of a long text"] = "without maps" if spec.row_by_row else "from maps"
    rows["blind spots"] = spec.blind_spots
    rows["options"] = ", ".join(f"`{option.name}={option.default!r}`" for option in spec.options)
    rows["cite"] = spec.citation
    lines = [f"| {name} | {said.replace('|', '∣')} |" for name, said in rows.items() if said]
    return "\n".join(["| | |", "|---|---|", *lines])


def score_facts(known: Facts) -> Iterator[str]:
    """What is true of the scores, in words."""
    yield "may be negative" if known.signed else "never negative"
    yield f"rows {'sum' if known.rows_sum_to_one else 'need not sum'} to one"
    yield f"the residual stream is {'' if known.residual_included else 'not '}in them"


def docstring(name: str) -> str:
    """What the file says of itself, as it is there."""
    return f"<pre class='docstring'>{html.escape(inspect.getdoc(MEASURES.entry(name)) or '')}</pre>"


# ------------------------------------------------------------------------------------ the pictures


def caption(name: str) -> str:
    """What the picture shows."""
    if list_measures()[name].explains_output:
        return "Why the bundled model says “are” and not “is”."
    return "What is inside the masked word in each layer of the bundled model."


def picture(name: str, masked: Lens, causal: Lens) -> bytes:
    """A measure on the masked model or, if that is refused, on the causal one."""
    spec = list_measures()[name]
    try:
        maps = measured(masked, name, spec, TEXT, "")
    except UnsupportedModel:
        maps = measured(causal, name, spec, BEGINNING, " ")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        save_figure(maps.plot("target" if len(maps.layers) > 1 else "text"), path)
        return path.read_bytes()


def measured(lens: Lens, name: str, spec: Spec, text: str, gap: str) -> MixingMaps:
    """A measure as quick as it can be; `gap` is what the tokenizer has before a word."""
    explained = {"word": f"{gap}are", "foil": f"{gap}is"} if spec.explains_output else {}
    return lens.measure(name, text, **spec.quick, **explained)
