"""Write to terminals and pipes with any encoding. If the encoding lacks a character (as ASCII and
many Windows code pages do), mixlens writes a similar one: block shades become punctuation, arrows
become > and <, and letters lose their accents. JSON uses escapes instead, so that nothing is lost.
"""

from __future__ import annotations

import codecs
import json
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlens.errors import end_sentence

_NEAREST = dict(
    zip("░▒▓█·•→←↑↓⏎∅…«»“”‘’–—×±≤≥│┃─━", '.:*#..><^v/0~""""\'\'--x+<>||--', strict=True)
)
_HANDLER = "mixlens_nearest"


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded by similar ones, for `codecs.register_error`."""
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
    """Let stdout and stderr replace characters that they cannot encode, instead of raising an
    error.
    """
    codecs.register_error(_HANDLER, _nearest)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def print_json(value: Any) -> None:
    """Print a value as JSON. Characters that the encoding lacks are escaped."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    wide = encoding.startswith("utf")
    print(json.dumps(value, indent=2, default=str, ensure_ascii=not wide))


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with the names that it applies to."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(same)}: {end_sentence(reason)}" for reason, same in names.items()]


def check_writable(*files: Path | None) -> None:
    """Raise if one of these files cannot be written. Call this before a model runs."""
    from mixlens.maps.storage import writable

    for file in files:
        if file is not None:
            writable(file)
