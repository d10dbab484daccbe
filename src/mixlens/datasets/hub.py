"""Read data sets from the Hugging Face hub with the `datasets` library.

Use `hf:NAME` or `hf:NAME/CONFIG`, followed by `@REVISION` for a branch, tag or commit, and by
`:SPLIT` for a split other than validation: `hf:glue/sst2`, `hf:blimp/anaphor_number_agreement`,
`hf:owner/name@v1`, `hf:owner/name/config:test`. In a name with one slash, the first part is the
owner, unless it is one of the short names below. Records are read by their fields, as in a JSONL
file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from mixlens.datasets.examples import Example
from mixlens.datasets.files import Refused, parse_record
from mixlens.datasets.objects import parser_of
from mixlens.datasets.origins import advice
from mixlens.errors import InvalidInput
from mixlens.model.hub_access import cache_alone, hub_is_silent, hub_refusal

OWNERS = {
    "glue": "nyu-mll/glue",
    "blimp": "nyu-mll/blimp",
    "wikitext": "Salesforce/wikitext",
    "sst2": "stanfordnlp/sst2",
}
SPLITS = ("validation", "validation_matched", "dev", "test", "train")


class HubName(NamedTuple):
    """The parts of a hub address such as `hf:glue/sst2`."""

    path: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None


def parse_hub_name(name: str) -> HubName:
    """Split a hub address into its parts."""
    path, _, split = name.removeprefix("hf:").partition(":")
    if path.startswith(("/", "./", "../")):  # a folder that holds a data set
        return HubName(path, None, split or None)
    path, _, revision = path.partition("@")
    first, *rest = path.split("/")
    if first in OWNERS:
        first, rest = OWNERS[first], rest
    elif rest:
        first, rest = f"{first}/{rest[0]}", rest[1:]
    if not first or len(rest) > 1:
        raise InvalidInput(
            f"{name!r} is not a hub name. Pass hf:NAME, hf:NAME/CONFIG or "
            "hf:OWNER/NAME/CONFIG, then @REVISION and :SPLIT if needed."
        )
    return HubName(first, rest[0] if rest else None, split or None, revision or None)


def read(name: str) -> Iterator[Example | Refused]:
    """Return the examples of one split."""
    hub_name, table = _open_dataset(name, streaming=False)
    group = hub_name.config or hub_name.path.split("/")[-1]
    yield from _rows(table, f"{group}/{hub_name.split}", group)


def open_stream(name: str, *, skip: int = 0) -> Iterator[Mapping[str, Any]]:
    """Return an iterator over the records of one split, starting after the first `skip` records."""
    table = _open_dataset(name, streaming=True)[-1]
    with _reasons(name):
        yield from table.skip(skip) if skip else table


def _open_dataset(name: str, *, streaming: bool) -> tuple[HubName, Any]:
    """Return the parsed address, with a split, and the loaded data set."""
    hub_name = parse_hub_name(name)
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise InvalidInput(
            f"{name} needs the datasets library. Run pip install datasets."
        ) from error
    which = {"path": hub_name.path, "revision": hub_name.revision}
    silent = not os.path.isdir(hub_name.path) and hub_is_silent()
    with _reasons(name), cache_alone(silent):
        if hub_name.split is None:
            splits = datasets.get_dataset_split_names(config_name=hub_name.config, **which)
            hub_name = hub_name._replace(split=_split(name, splits))
        table = datasets.load_dataset(
            name=hub_name.config, split=hub_name.split, streaming=streaming, **which
        )
    return hub_name, table


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Convert errors that occur while data are loaded from the hub to `InvalidInput`."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # the library passes on errors of its network and file layers
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = advice(name)
        raise InvalidInput(
            f"{name} could not be loaded from the hub: {hub_refusal(error) or first}"
            + (f". To get {hint}" if hint else "")
        ) from error


def _rows(table: Any, place: str, group: str) -> Iterator[Example | Refused]:
    names = {
        key: kind.int2str
        for key, kind in (table.features or {}).items()
        if hasattr(kind, "int2str")
    }
    parse = None
    for number, record in enumerate(table, 1):
        fields = _fields(record, names)
        parse = parse or parser_of(fields, group)
        if str(fields.get("text", "something")).strip():  # WikiText has empty rows
            yield parse_record(f"{place}:{number}", fields, parse)


def _fields(record: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with class names instead of class numbers. A field with the class number
    −1, which stands for a hidden label, is left out.
    """
    return {
        key: names[key](value) if key in names and isinstance(value, int) and value >= 0 else value
        for key, value in record.items()
        if not (key in names and value == -1)
    }


def _split(name: str, splits: list[str]) -> str:
    match = next((split for split in SPLITS if split in splits), None)
    if match is None:
        raise InvalidInput(
            f"{name} has the splits {', '.join(splits)}. Pass one, as in"
            f" {name}:{splits[0] if splits else 'train'}."
        )
    return match
