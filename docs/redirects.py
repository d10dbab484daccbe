"""Keep the addresses of pages that were merged: each becomes a page that leads to the new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MOVED = {
    "compiled_truth": "synthetic_ground_truth",
    "gallery": "viewer",
    "planted_truth": "synthetic_ground_truth",
    "serve": "viewer",
}
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={address}">
<a href="{address}">This page has moved.</a>
"""


def on_post_build(config: Any) -> None:
    """Write a page for each former address; MkDocs calls it at the end of a build."""
    for former, present in MOVED.items():
        folder = Path(config.site_dir) / former
        folder.mkdir(exist_ok=True)
        page = PAGE.format(address=f"../{present}/")
        (folder / "index.html").write_text(page, encoding="utf-8")
