"""Write the payload and the viewer to an HTML file, or to a frame in a notebook.

The Content-Security-Policy of the page forbids requests to other servers. Only the page's own
script may run, which is identified by its hash, and nothing else may load. The script includes the
style.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from mixlens.maps.provenance import plain
from mixlens.maps.storage import writable, write_whole
from mixlens.maps.tables import well_formed

HEIGHT = 700  # pixels of a view in a notebook
_ROW, _QUESTION, _REST = 36, 56, 330  # pixels of a ranking's measures, evaluations and words


def page(payload: Mapping[str, Any], *, live: Mapping[str, Any] | None = None) -> str:
    """Return a self-contained HTML file.

    If a server delivers the page, `live` describes that server (docs/viewer.md). Only such a page
    may send requests to its own origin.
    """
    connect = "'none'" if live is None else "'self'"
    policy = (
        f"default-src 'none'; script-src {script_source()}; img-src data: blob:;"
        f" connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    data = {**payload, "live": None if live is None else dict(live)}
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(well_formed(str(payload.get('title', 'mixlens'))))} · mixlens</title>\n"
        '<meta name="color-scheme" content="light dark">\n</head>\n<body>\n'
        f'<script type="application/json" id="payload">{_inert(data)}</script>\n'
        '<main id="view"></main>\n'
        "<noscript>This page draws its view with JavaScript, which is switched off here."
        "</noscript>\n"
        f"<script>{built()}</script>\n</body>\n</html>\n"
    )


def frame(payload: Mapping[str, Any]) -> str:
    """Return the page as an iframe for a notebook.

    In an iframe, several views are independent of each other, and a saved notebook shows them
    without a kernel.
    """
    return (
        f'<iframe srcdoc="{escape(page(payload))}" title="mixlens: {escape(payload["title"])}"'
        ' sandbox="allow-scripts allow-downloads allow-popups" allow="clipboard-write"'
        f' style="width:100%;height:{_height(payload)}px;border:0;display:block"'
        ' loading="lazy"></iframe>'
    )


def _height(payload: Mapping[str, Any]) -> int:
    """Return the fixed height of a frame in pixels. A short ranking gets a smaller frame."""
    ranking = payload.get("ranking")
    if ranking is None:
        return HEIGHT
    needed = _REST + _ROW * len(ranking["measures"]) + _QUESTION * len(ranking["evaluations"])
    return min(HEIGHT, needed)


def write(payload: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page to a file and return its path."""
    place = writable(path)
    write_whole(place, page(payload))
    return place


@cache
def built() -> str:
    """Return the script of the built viewer (`make web`), which includes its style."""
    return (resources.files("mixlens.views.viewer") / "built" / "viewer.js").read_text(
        encoding="utf-8"
    )


def _inert(value: Any) -> str:
    """Return JSON without `<`, so that it cannot close the HTML element that contains it.

    NaN and infinity, which JSON does not have, become null, and lone surrogates, which cannot be
    written, become question marks.
    """
    options: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
    try:
        text = json.dumps(value, allow_nan=False, **options)
    except ValueError:  # rare, so large payloads are not walked otherwise
        text = json.dumps(plain(value, finite=True), **options)
    return (
        well_formed(text)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


@cache
def script_source() -> str:
    """Return the hash of the viewer's script for the Content-Security-Policy."""
    digest = hashlib.sha256(built().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
