"""Fill in the project's addresses when the package is built.

The addresses follow from MIXLENS_REPOSITORY, such as https://github.com/OWNER/mixlens. The release
workflow sets it to the repository that it runs in. Without it, the package has no addresses.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    """Adds `[project.urls]`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses of the repository, if it is known."""
        home = os.environ.get("MIXLENS_REPOSITORY", "").rstrip("/")
        pages = {
            "Source": "",
            "Documentation": "/tree/main/docs",
            "Issues": "/issues",
            "Changelog": "/blob/main/CHANGELOG.md",
        }
        metadata["urls"] = {name: home + path for name, path in pages.items()} if home else {}
