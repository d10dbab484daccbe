"""The addresses of the repository in the metadata of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://github.com/owner/mixlens"


def _urls() -> dict[str, str]:
    metadata = pytest.importorskip("hatchling.metadata.core")
    manager = pytest.importorskip("hatchling.plugin.manager")
    urls: dict[str, str] = metadata.ProjectMetadata(str(ROOT), manager.PluginManager()).core.urls
    return urls


def test_the_package_has_the_addresses_of_its_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLENS_REPOSITORY", f"{ADDRESS}/")
    urls = _urls()
    assert urls["Source"] == ADDRESS
    assert urls["Issues"] == f"{ADDRESS}/issues"
    for name, path in (("Documentation", "tree/main/"), ("Changelog", "blob/main/")):
        assert (ROOT / urls[name].removeprefix(f"{ADDRESS}/{path}")).exists()


def test_without_a_repository_no_address_is_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIXLENS_REPOSITORY", raising=False)
    assert _urls() == {}
