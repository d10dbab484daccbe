"""What commands print and write: on any terminal or pipe, whatever its encoding.

An encoding that lacks a character (ASCII, many Windows code pages) gets the nearest one that it
has: shades become punctuation, arrows become > and <, letters lose their accents. JSON is written
with escapes there, so that nothing is lost.
"""

from __future__ import annotations

import codecs
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

_NEAREST = dict(
    zip("░▒▓█·•→←↑↓⏎∅…«»“”‘’–—×±≤≥│┃─━", '.:*#..><^v/0~""""\'\'--x+<>||--', strict=True)
)
_HANDLER = "mixlens_nearest"


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """For `codecs.register_error`: the nearest characters for those that cannot be written."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    nearest = []
    for character in error.object[error.start : error.end]:
        plain = _NEAREST.get(character) or unicodedata.normalize("NFKD", character)[0]
        try:
            plain.encode(error.encoding)
        except UnicodeEncodeError:
            plain = "?"
        nearest.append(plain)
    return "".join(nearest), error.end


def write_anywhere() -> None:
    """Standard output and standard error take every text from now on."""
    codecs.register_error(_HANDLER, _nearest)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def print_json(value: Any) -> None:
    """One JSON value on standard output, with escapes for what its encoding lacks."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    wide = encoding.startswith("utf")
    print(json.dumps(value, indent=2, default=str, ensure_ascii=not wide))


def check_writable(*files: Path | None) -> None:
    """Refuses files that could not be written, before a model is run for them."""
    from mixlens.maps.storage import writable

    for file in files:
        if file is not None:
            writable(file)
