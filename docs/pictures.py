"""Draw the pictures of the documentation: `python docs/pictures.py`.

docs/first_example.png is the picture of the README, docs/compare.svg that of docs/maps.md, and
docs/figures/ has those of docs/figures.md, at 100 dots per inch to keep the files small.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console

from mixlens import Lens, MixingMaps
from mixlens.cli.compare import show
from mixlens.text.tokens import TokenRow
from mixlens.views.canvas import save_figure

HERE = Path(__file__).parent
QUESTION = "The keys to the cabinet [MASK] here."
CUE, WORDS = "keys", {"word": "are", "foil": "is"}
SHOWN = (
    "blank_out",
    "decompx_logit",
    "deep_lift",
    "value_zeroing",
    "alti",
    "attention",
    "random",
)
TEXT = "The keys to the old cabinet near the door [MASK] on the kitchen table."


def first_example(lens: Lens) -> None:
    """Draw docs/first_example.png: three output measures, three layer measures and chance."""
    comparison = lens.compare(QUESTION, "[MASK]", only=list(SHOWN), explain=WORDS, cue=CUE)
    save_figure(comparison.plot(), HERE / "first_example.png", dots_per_inch=160)


def terminal(lens: Lens) -> None:
    """Draw docs/compare.svg: the output of `mixlens compare`."""
    console = Console(
        record=True, width=90, highlight=False, file=io.StringIO(), force_terminal=True
    )
    show(lens.compare(QUESTION, "[MASK]", cue=CUE, explain=WORDS), console)
    console.save_svg(str(HERE / "compare.svg"), title="mixlens compare")


def figures(lens: Lens) -> None:
    """Draw docs/figures: one picture of each kind."""
    maps = lens.measure("value_zeroing", TEXT)
    heads = lens.measure("attention", TEXT, per_head=True)
    plots = {
        "map": maps.plot("map", layer=2),
        "layers": maps.plot("layers"),
        "heads": heads.plot("heads", layer=1),
        "target": maps.plot("target"),
        "text": maps.plot("text", layer=3),
        "curves": maps.plot("curves", target="[MASK]"),
        "all_targets": maps.plot("curves"),
        "flow": maps.plot("flow", target="[MASK]"),
        "sources": lens.compare(TEXT).plot(),
        "agreement": lens.compare(TEXT).plot("agreement"),
    }
    for name, scripts in enumerate(_scripts(), 1):
        plots[f"script{name}"] = scripts.plot("text", target=3)
    for name, figure in plots.items():
        save_figure(figure, HERE / "figures" / f"{name}.png", dots_per_inch=100)


def _scripts() -> Iterator[MixingMaps]:
    """Return made-up scores, for figures that show letters."""
    for text in (
        "قرأت الطالبات الكتب الجديدة في المكتبة مع BERT model يوم الخميس",
        "東京 の 大学 で 自然 言語 処理 を 研究 して います 。",
    ):
        words = text.split(" ")
        at = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).tolist()
        spans = tuple((start, start + len(word)) for start, word in zip(at, words, strict=True))
        row = TokenRow(tuple(words), text, spans, (False,) * len(words))
        scores = np.random.default_rng(1).dirichlet(np.ones(len(words)) * 0.4, (1, len(words)))
        yield MixingMaps.of(scores, row, measure="made up")


if __name__ == "__main__":
    bundled = Lens.bundled()
    first_example(bundled)
    terminal(bundled)
    figures(bundled)
