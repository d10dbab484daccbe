"""The journal of a run. It has one line for each finished piece of work, which is written to disk
before the next piece begins.

If a run is killed, only the piece in progress is lost. Arrays are stored bit for bit, so a resumed
run gives the same numbers as an uninterrupted one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import IO, Any

import numpy as np

from mixlens.datasets.object_storage import AnyPath
from mixlens.errors import InvalidInput
from mixlens.maps.storage import remove_drafts
from mixlens.model.json_values import parse_json, require_form
from mixlens.runs.settings import SETTINGS, guard, lock_folder

LINES = "journal.jsonl"


class Journal:
    """The finished pieces of work of a run, by name.

    Without a file, the pieces are kept in memory in the same text format, so that a run gives the
    same numbers with and without a file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lines: list[bytes] = []
        self._starts: dict[str, int] = {}  # offset of the line of each piece
        self._file: IO[bytes] | None = None
        self._path = path

    @property
    def finished(self) -> Set[str]:
        """Return the names of all finished pieces."""
        return self._starts.keys()

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: Path | None, settings: Mapping[str, Any], *, fresh: bool = False
    ) -> Iterator[Journal]:
        """Yield the journal of a run with these settings. An existing journal is continued."""
        journal = cls(None if folder is None else folder / LINES)
        if folder is None:
            yield journal
            return
        with lock_folder(folder, LINES) as file:
            if fresh:
                file.truncate(0)
                (folder / SETTINGS).unlink(missing_ok=True)
            remove_drafts(folder / SETTINGS)
            guard(folder, settings, begun=file.tell() > 0 and not fresh)
            journal._continue(file)
            yield journal

    @classmethod
    @contextlib.contextmanager
    def resume(cls, path: Path) -> Iterator[Journal]:
        """Yield the journal in a folder that the caller has already locked."""
        journal = cls(path)
        with open(path, "ab") as file:
            journal._continue(file)
            yield journal

    @classmethod
    def read(cls, path: AnyPath) -> Iterator[dict[str, Any]]:
        """Yield the complete pieces of a journal. Another process may still be writing to it."""
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _parse_line(line, path)

    def _continue(self, file: IO[bytes]) -> None:
        """Find out which pieces are done. Drop the last line if a crash has truncated it."""
        assert self._path is not None
        whole = 0
        with open(self._path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                self._starts[_parse_line(line, f"{self._path}, line {number}")["piece"]] = whole
                whole += len(line)
        file.truncate(whole)
        self._file = file

    def add(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a finished piece of work to the journal."""
        line = encode_line(name, content)
        if self._file is None:
            start = len(self._lines)
            self._lines.append(line)
        else:
            try:
                start = self._file.seek(0, os.SEEK_END)
                self._file.write(line + b"\n")
                self._file.flush()
                os.fsync(self._file.fileno())
            except OSError as error:
                raise InvalidInput(
                    f"{self._path} cannot be written ({error.strerror}). Fix this, then run "
                    "the same command to resume."
                ) from error
        self._starts[name] = start

    def entries(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the named pieces in the order of `names`, regardless of when they finished."""
        if self._path is None:
            for name in names:
                yield _parse_line(self._lines[self._starts[name]], "the journal")
            return
        with open(self._path, "rb") as file:
            for name in names:
                file.seek(self._starts[name])
                yield _parse_line(file.readline(), self._path)


def encode_line(name: str, content: Mapping[str, Any]) -> bytes:
    """Convert a piece of work to a line of the journal, without the line break."""
    return json.dumps(
        {"piece": name, **content}, default=_encode_value, ensure_ascii=False
    ).encode()


def _parse_line(line: bytes, place: object) -> dict[str, Any]:
    """Parse a line of the journal. The result is equal to the piece that was written."""
    try:
        piece = parse_json(line, object_hook=_decode_value)
        require_form(piece, {"piece": str}, "the line")
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{place} is damaged. Start over with --fresh.") from error
    return dict(piece)


def _encode_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": data, "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(
        f"{type(value).__name__} cannot be stored in an observation. "
        "Use numbers, strings and arrays."
    )


def _decode_value(value: dict[str, Any]) -> Any:
    if value.keys() == {"array", "dtype", "shape"}:
        return (
            np.frombuffer(base64.b64decode(value["array"]), value["dtype"])
            .reshape(value["shape"])
            .copy()
        )
    return value
