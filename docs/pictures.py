"""Draws docs/compare.svg, the picture of the README: `python docs/pictures.py`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from mixlens import Lens
from mixlens.cli.compare import show
from mixlens.cli.demo import SENTENCES


def main() -> None:
    text, cue, word, foil = SENTENCES[0]
    console = Console(
        record=True, width=90, highlight=False, file=io.StringIO(), force_terminal=True
    )
    found = Lens.bundled().compare(text, "[MASK]", explain={"word": word, "foil": foil})
    show(found, cue, console)
    console.save_svg(str(Path(__file__).parent / "compare.svg"), title="mixlens compare")


if __name__ == "__main__":
    main()
