"""Data sets: what an example is, and readers for the files that people have.

`read` finds out what a file, a folder or a hub name holds; `bundled` is the small agreement set
that comes with the package.

* `examples`, `dataset`: what an example and a data set are
* `reading`: `read`; `formats`: which reader a file belongs to; `origins`: where to get data sets
* `files`, `tables`, `objects`, `hub`: lines, tables, JSON rows and the hub
* `targets`, `word_lists`, `blimp`, `cues`, `linzen`, `evidence`: agreement and evidence words
* `classes`, `conllu`, `plain`: classes of texts, parts of speech, plain text
* `generated_prompts`: prompts with known evidence, made by a seed
* `alignments`, `links`: parallel text and its gold links
* `places`, `spelling`: where words are in a text, and tokenised text in plain spelling
* `shards`, `rows`: a large corpus, cut once and read shard by shard
"""

from __future__ import annotations

from mixlens.datasets.dataset import Dataset
from mixlens.datasets.examples import (
    Agreement,
    Aligned,
    EvidencePrompt,
    Example,
    Labelled,
    Span,
    Tagged,
)
from mixlens.datasets.reading import bundled, read

__all__ = [
    "Agreement",
    "Aligned",
    "Dataset",
    "EvidencePrompt",
    "Example",
    "Labelled",
    "Span",
    "Tagged",
    "bundled",
    "read",
]
