"""Choose a reader for records with named fields (JSONL lines, hub records) by their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mixlens.datasets import (
    blimp,
    classes,
    evidence,
    evidence_prompts,
    speech,
    targets,
    word_lists,
)
from mixlens.datasets.examples import Example
from mixlens.datasets.files import Refused, objects_of, parse_record

Parser = Callable[[str, Mapping[str, Any]], Example]


def parser_of(first: Mapping[str, Any], group: str, folder: Path | None = None) -> Parser:
    """Return the reader of records with these fields. `group` is the default group, and `folder`
    contains the files that the records refer to.
    """
    if evidence_prompts.recognises(first):
        return evidence_prompts.prompt
    if speech.recognises(first):
        return partial(speech.parse_spoken, group=group, folder=folder)
    if word_lists.recognises(first):
        return partial(word_lists.agreement, group=group)
    if evidence.recognises(first):
        return partial(evidence.agreement, group=group)
    if blimp.recognises(first):
        return partial(blimp.agreement, group=group)
    return targets.agreement if targets.recognises(first) else classes.from_fields


def read(path: Path) -> Iterator[Example | Refused]:
    """Return the examples of a JSONL file."""
    records = list(objects_of(path))
    parse = parser_of(
        next((record for _, record in records if not isinstance(record, Refused)), {}),
        path.name.split(".")[0],
        path.parent,
    )
    return (parse_record(name, record, parse) for name, record in records)
