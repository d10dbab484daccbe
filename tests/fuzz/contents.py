"""What goes into files and arguments: damaged samples, odd characters, values of any type."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mixlens.errors import MixlensError

ODD = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1f\x8b", b"\r", b"\n", b"\n\n", b"\t"),
    *(b'"', b'\\"', b",", b" ", b"{", b"}", b"[", b"]", b":", b"|||", b"=", b"#", b"-", b"p", b"."),
    *(
        b"0",
        b"-1",
        b"1.5",
        b"1e999",
        b"NaN",
        b"null",
        b"true",
        b'"\\ud800"',
        b"99999999999999999999",
    ),
    *(each.encode() for each in ("²", "٣", "\u2028", "\x85", "e\u0301", "\u200b", "😀", "İ")),
    b"9" * 5000,
    b"[" * 20_000,
    b'{"a":' * 5000,
)
Edit = tuple[int, int, bytes]
EDITS = st.lists(
    st.tuples(
        st.integers(0, 2**20), st.integers(0, 60), st.sampled_from(ODD) | st.binary(max_size=6)
    ),
    max_size=5,
)


def damaged(samples: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of the samples with a few edits, or any bytes."""
    return st.builds(_edited, st.sampled_from(samples), EDITS) | st.binary(max_size=200)


def _edited(sample: bytes, edits: list[Edit]) -> bytes:
    """Each edit puts bytes in the place of some others."""
    for where, cut, inserted in edits:
        place = where % (len(sample) + 1)
        sample = sample[:place] + inserted + sample[place + cut :]
    return sample


TEXTS = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(
    ["", " ", "The dogs [MASK] old.", "0", "-1", "the#1", "9" * 5000, "\ud800", "\0", "value"]
)
PLAIN = st.none() | st.booleans() | st.integers(-3, 40) | st.floats() | TEXTS | st.just(10**30)
VALUES: st.SearchStrategy[Any] = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def changed(sample: Any, path: Sequence[int], value: Any) -> Any:
    """A copy of a JSON value in which one part, named by numbers, is replaced."""
    if not path or not isinstance(sample, (dict, list)) or not sample:
        return value
    keys = list(sample) if isinstance(sample, dict) else range(len(sample))
    key = keys[path[0] % len(keys)]
    copy: Any = dict(sample) if isinstance(sample, dict) else list(sample)
    copy[key] = changed(sample[key], path[1:], value)
    return copy


CHANGES = st.lists(
    st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=4), VALUES), max_size=3
)


def as_json(value: Any) -> bytes:
    """A value as a line of JSON, odd characters escaped."""
    return json.dumps(value).encode()


@contextmanager
def folder_with(files: dict[str, bytes]) -> Iterator[Path]:
    """A folder that holds these files."""
    with tempfile.TemporaryDirectory(prefix="mixlens_fuzz_") as place:
        for name, content in files.items():
            (Path(place) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / name).write_bytes(content)
        yield Path(place)


@contextmanager
def only_ours() -> Iterator[None]:
    """Errors of ours are an answer; any other goes on."""
    with suppress(MixlensError):
        yield
