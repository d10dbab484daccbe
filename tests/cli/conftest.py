"""Commands of one process share the bundled models."""

from __future__ import annotations

import pytest

from mixlens import Lens
from tests.cli.running import bundled_once


@pytest.fixture(autouse=True)
def _one_bundled_lens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lens, "bundled", bundled_once)
