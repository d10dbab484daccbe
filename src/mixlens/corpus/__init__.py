"""Data sets: what an example is, and readers for the files that people have.

`read` finds out what a file, a folder or a hub name holds; `bundled` is the small agreement set
that comes with the package.
"""

from __future__ import annotations

from mixlens.corpus.dataset import Dataset
from mixlens.corpus.examples import Agreement, Aligned, Example, Labelled, Span, Tagged
from mixlens.corpus.reading import bundled, read

__all__ = [
    "Agreement",
    "Aligned",
    "Dataset",
    "Example",
    "Labelled",
    "Span",
    "Tagged",
    "bundled",
    "read",
]
