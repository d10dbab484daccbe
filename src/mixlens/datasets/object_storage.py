"""Paths on object storage (`s3://bucket/key`), with the `pathlib.Path` methods that mixlens uses.

`path_of` is the only place that decides between a local path and an object. An object becomes
visible only when it is complete. Readers therefore never see part of an object, and a killed
process leaves no incomplete object behind.

Credentials and region come from the environment or the configuration of AWS. Set `AWS_ENDPOINT_URL`
for other S3-compatible servers.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from mixlens.errors import CannotWrite, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

PREFIX = "s3://"
_BUFFER = 4 * 2**20  # bytes per request when a file is read line by line


@dataclass(frozen=True)
class ObjectPath:
    """The path of an object, or of the common prefix of several objects."""

    key: str  # bucket/name

    def __str__(self) -> str:
        return PREFIX + self.key

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """Return the last component of the path."""
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        """Return the file extension."""
        return PurePosixPath(self.key).suffix

    def resolve(self) -> ObjectPath:
        """Return the path unchanged, because object storage has no symbolic links."""
        return self

    def exists(self) -> bool:
        """Return whether an object or prefix with this name exists."""
        return self._type() != "NotFound"

    def is_dir(self) -> bool:
        """Return whether there are objects below this path, as in a folder."""
        return self._type() == "Directory"

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield the objects directly below this prefix."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.key, allow_not_found=True)
        with _readable(self):
            infos = _filesystem().get_file_info(selector)
        yield from (ObjectPath(each.path) for each in infos)

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield the objects directly below this prefix whose names match the pattern."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def mkdir(self, *, exist_ok: bool) -> None:
        """Do nothing. Prefixes need not be created."""

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the object for reading."""
        assert mode == "rb", mode
        return io.BufferedReader(self.arrow_file(), _BUFFER)

    def arrow_file(self) -> Any:
        """Open the object as a pyarrow file."""
        with _readable(self):
            return _filesystem().open_input_file(self.key)

    def read_bytes(self) -> bytes:
        """Return the whole content."""
        with self.arrow_file() as file, _readable(self):
            content: bytes = file.read()
        return content

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the whole content as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes | memoryview) -> None:
        """Write the whole object, which becomes visible when the upload is complete."""
        try:
            with _filesystem().open_output_stream(self.key) as file:
                file.write(content)
        except OSError as error:
            raise CannotWrite(
                f"{self} cannot be written ({_reason(error)}). Check the bucket and the"
                " credentials, then run the same command to resume."
            ) from error

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Delete the object."""
        if self.exists() or not missing_ok:
            with _readable(self):
                _filesystem().delete_file(self.key)

    def _type(self) -> str:
        with _readable(self):
            return str(_filesystem().get_file_info(self.key).type.name)


AnyPath = Path | ObjectPath


def path_of(address: str | os.PathLike[str] | ObjectPath) -> AnyPath:
    """Return an object storage path if the address begins with `s3://`, or else a local path."""
    if isinstance(address, ObjectPath):
        return address
    text = os.fspath(address)
    if not text.startswith(PREFIX):
        return Path(text)
    key = text.removeprefix(PREFIX).rstrip("/")
    if not key.split("/")[0]:
        raise InvalidInput(f"{text} has no bucket name. Pass s3://BUCKET/NAME.")
    return ObjectPath(key)


def parquet_source(path: AnyPath) -> Any:
    """Return the source from which pyarrow reads a Parquet file fastest: a local path, or an open
    object.
    """
    return path.arrow_file() if isinstance(path, ObjectPath) else path


@cache
def _filesystem() -> S3FileSystem:
    """Return the S3 file system. It is cached, so that a process connects only once."""
    try:
        from pyarrow.fs import S3FileSystem
    except ImportError as error:
        raise MissingExtra("pyarrow", "corpus") from error
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    scheme, _, server = os.environ.get("AWS_ENDPOINT_URL", "").rpartition("://")
    server_options = {"endpoint_override": server, "scheme": scheme or "https"} if server else {}
    return S3FileSystem(region=region, **server_options)


@contextlib.contextmanager
def _readable(path: ObjectPath) -> Iterator[None]:
    """Convert errors of the storage server to `InvalidInput`."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({_reason(error)}). Check the address and the credentials."
        ) from error


def _reason(error: OSError) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
