"""Fill folders into the navigation: an entry `measures/*.md` of mkdocs.yml becomes the pages in
that folder, so that a new page needs no entry. The index of a folder has its own entry, and a
notebook is listed by its page.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Fill in the navigation and the address of the repository. MkDocs calls it first."""
    config.nav = filled(config.nav, Path(config.docs_dir))
    if repository := os.environ.get("MIXLENS_REPOSITORY"):
        config.repo_url, config.repo_name = repository, config.site_name
    return config


def filled(nav: Any, docs: Path) -> Any:
    """Return the navigation with its folders filled in."""
    if isinstance(nav, dict):
        return {title: filled(entry, docs) for title, entry in nav.items()}
    if isinstance(nav, list):
        return [page for entry in nav for page in _pages(entry, docs)]
    return nav


def _pages(entry: Any, docs: Path) -> list[Any]:
    if isinstance(entry, str) and "*" in entry:
        paths = (path.relative_to(docs).with_suffix(".md") for path in docs.glob(entry))
        return sorted(path.as_posix() for path in paths if path.stem != "index")
    return [filled(entry, docs)]
