"""Data sets: the types of examples, and readers for common file formats.

`read` infers the format of a file, a folder or a hub name. `bundled` returns the small agreement
set that comes with the package.

* `examples`, `dataset`: the types of examples and data sets
* `reading`: `read`; `formats`: choose the reader of a file; `origins`: where to get data sets
* `files`, `tables`, `objects`, `hub`: read lines, tables, JSON records, and data from the hub
* `targets`, `word_lists`, `blimp`, `cues`, `linzen`, `evidence`: agreement and evidence words
* `classes`, `conllu`, `plain`: classes of texts, parts of speech, plain text
* `generated_prompts`: prompts with known evidence, generated from a seed; `evidence_prompts`: the
  prompts of HotpotQA, RULER and TracLLM
* `speech`: audio with word times; `homophones`: sentences with homophones, spoken by eSpeak NG
  (`espeak`)
* `alignments`: parallel text and its gold links
* `places`, `spelling`: find words in a text, and convert tokenised text to plain spelling
* `shards`, `rows`: split a large corpus once, and read it shard by shard
* `object_storage`: paths on object storage, for corpora and results
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
    Spoken,
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
    "Spoken",
    "Tagged",
    "bundled",
    "read",
]
