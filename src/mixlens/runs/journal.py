"""The journal of a run: one line per finished piece of work, written to disk before the next one
begins.

A run that is killed loses only its current piece. Arrays are stored bit by bit, so that an
interrupted run ends with the same numbers.
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
from mixlens.runs.settings import SETTINGS, guard, owned_folder

LINES = "journal.jsonl"


class Journal:
    """Finished pieces of work by name.

    Without a file it is kept in memory as the same text, so that both give the same numbers.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lines: list[bytes] = []
        self._starts: dict[str, int] = {}  # offset of the line of each piece
        self._file: IO[bytes] | None = None
        self._path = path

    @property
    def done(self) -> Set[str]:
        """Return the names of all pieces."""
        return self._starts.keys()

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, folder: Path | None, settings: Mapping[str, Any], *, fresh: bool = False
    ) -> Iterator[Journal]:
        """Return the journal of a run with these settings, new or continued."""
        journal = cls(None if folder is None else folder / LINES)
        if folder is None:
            yield journal
            return
        with owned_folder(folder, LINES) as file:
            if fresh:
                file.truncate(0)
                (folder / SETTINGS).unlink(missing_ok=True)
            remove_drafts(folder / SETTINGS)
            guard(folder, settings, begun=file.tell() > 0 and not fresh)
            journal._continue(file)
            yield journal

    @classmethod
    @contextlib.contextmanager
    def continued(cls, path: Path) -> Iterator[Journal]:
        """Return a journal in a folder that the caller already owns."""
        journal = cls(path)
        with open(path, "ab") as file:
            journal._continue(file)
            yield journal

    @classmethod
    def read(cls, path: AnyPath) -> Iterator[dict[str, Any]]:
        """Return the complete pieces of a journal that another process may be writing."""
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _parsed(line, path)

    def _continue(self, file: IO[bytes]) -> None:
        """Read which pieces are done. Drop a last line that was cut off by a crash."""
        assert self._path is not None
        whole = 0
        with open(self._path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                self._starts[_parsed(line, f"{self._path}, line {number}")["piece"]] = whole
                whole += len(line)
        file.truncate(whole)
        self._file = file

    def add(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a finished piece."""
        line = written_line(name, content)
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
        """Return the named pieces in this order. Workers may have finished them in a different
        one.
        """
        if self._path is None:
            for name in names:
                yield _parsed(self._lines[self._starts[name]], "the journal")
            return
        with open(self._path, "rb") as file:
            for name in names:
                file.seek(self._starts[name])
                yield _parsed(file.readline(), self._path)


def written_line(name: str, content: Mapping[str, Any]) -> bytes:
    """Return a piece of work as a line, without its end."""
    return json.dumps({"piece": name, **content}, default=_written, ensure_ascii=False).encode()


def _parsed(line: bytes, place: object) -> dict[str, Any]:
    """Return a piece of work as it was written."""
    try:
        piece = parse_json(line, object_hook=_read)
        require_form(piece, {"piece": str}, "the line")
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{place}: damaged. Start over with --fresh.") from error
    return dict(piece)


def _written(value: Any) -> Any:
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
        f"{type(value).__name__} cannot be stored in an observation. Use numbers, words and arrays."
    )


def _read(value: dict[str, Any]) -> Any:
    if value.keys() == {"array", "dtype", "shape"}:
        return (
            np.frombuffer(base64.b64decode(value["array"]), value["dtype"])
            .reshape(value["shape"])
            .copy()
        )
    return value
