"""Read data sets. `read` infers the format from the file.

| what | how it is recognised | kind |
|---|---|---|
| BLiMP | JSONL with `sentence_good` and `sentence_bad` as sentences | agreement |
| word lists with cues | JSONL with the same as lists, and `target_index` | agreement |
| prefixes with evidence words | CSV with `one_prefix_prefix` and `target` | agreement |
| Linzen | `NAME.text` next to `NAME.gold` | agreement |
| your own | CSV, TSV or JSONL with `text`, `target`, `foil` | agreement |
| labelled text | CSV, TSV, JSONL; GLUE files without header | classification (text if unlabelled) |
| Universal Dependencies | `.conllu` | tagged |
| parallel text | gold alignments (`.talp`, `.gold` …); see `alignments` | alignment |
| HotpotQA, TracLLM | JSON list with `supporting_facts`, or with `gt_important_texts` | evidence |
| RULER | JSONL with `input` and `outputs` | evidence |
| audio with word times | JSONL with `audio` and `target` or `target_indices` | speech |
| spoken homophones | `generated:homophones` or `generated:homophones?language=fr` | speech |
| generated prompts | `generated:TASK` or `generated:TASK?documents=8&language=de` | evidence |
| plain text | anything else | text |
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from mixlens.datasets import formats, generated_prompts, homophones, hub
from mixlens.datasets.dataset import Dataset
from mixlens.datasets.examples import Example
from mixlens.datasets.files import Refused
from mixlens.datasets.origins import advice
from mixlens.errors import InvalidInput

KINDS = ("agreement", "classification", "tagged", "alignment", "evidence", "speech", "text")
SHOWN = 3


def read(
    path: str | Path, kind: str | None = None, *, sample: int | None = None, seed: int = 0
) -> Dataset:
    """Return the data set in a file, a folder or on the hub (`hf:glue/sst2`). With `sample`, return
    a random sample of that many examples. `kind` is the wanted type (agreement, classification,
    tagged, alignment, evidence, speech, text); everything can be read as text. Records that cannot
    be read are listed in `errors`. If no record can be read, `InvalidInput` gives the reasons.
    """
    if kind is not None and kind not in KINDS:
        raise InvalidInput(f"Unknown kind of data {kind!r}. Choose one of: {', '.join(KINDS)}.")
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{type(path).__name__} is not a path. Pass a file or a folder.")
    if str(path).startswith("generated:"):
        made = homophones if homophones.recognises(str(path)) else generated_prompts
        data = dataset(str(path), made.read(str(path)), kind, origin=str(path))
    elif str(path).startswith("hf:"):
        data = dataset(str(path), hub.read(str(path)), kind, origin=str(path))
    else:
        place = Path(path).expanduser()
        if not place.exists():
            known = advice(str(path))
            raise InvalidInput(
                f"{path} does not exist. "
                + (f"To get {known}" if known else "Pass a file or a folder.")
            )
        data = dataset(place.name, formats.read(place, kind), kind, origin=str(place.resolve()))
    return data if sample is None else data.sample(sample, seed)


def bundled() -> Dataset:
    """Return the bundled agreement set: 200 sentences, written by
    `training/agreement_sentences.py`.
    """
    with resources.as_file(resources.files("mixlens") / "bundled" / "agreement.jsonl") as path:
        data = read(path)
    return Dataset(
        "bundled agreement",
        data.kind,
        data.examples,
        data.errors,
        "mixlens/bundled/agreement.jsonl",
    )


def dataset(name: str, rows: Iterable[Example | Refused], kind: str | None, origin: str) -> Dataset:
    """Return a data set of one kind. Records that cannot be read become its errors."""
    examples: list[Example] = []
    errors: list[tuple[str, str]] = []
    for row in rows:
        if isinstance(row, Refused):
            errors.append((row.name, row.reason))
        else:
            examples.append(row)
    if not examples:
        reasons = "; ".join(f"{row}: {reason}" for row, reason in errors[:SHOWN])
        raise InvalidInput(f"{origin} has no readable example. {reasons or 'The file is empty.'}")
    if kind == "text":
        examples = [
            Example(name=each.name, text=each.text, pair=each.pair, group=each.group)
            for each in examples
        ]
    kinds = sorted({example.kind for example in examples})
    if len(kinds) > 1 or (kind is not None and kinds != [kind]):
        raise InvalidInput(
            f"{origin} holds {' and '.join(kinds)} examples"
            + (f", not {kind}" if kind else ". Read its files one by one.")
        )
    return Dataset(name, kinds[0], tuple(examples), tuple(errors), origin)
