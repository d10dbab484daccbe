"""The audit reports skipped packages."""

from __future__ import annotations

import pytest

from release.audit import verdict
from release.environment import Failed

GOOD = {"name": "a", "version": "1", "vulns": []}
WEAK = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


def test_verdicts() -> None:
    assert verdict([SKIPPED]).startswith("NOT DONE")
    assert verdict([GOOD, SKIPPED]) == (
        "1 packages without known weaknesses, 1 unknown to the service"
    )
    with pytest.raises(Failed, match=r"b 2.*PYSEC-1"):
        verdict([GOOD, WEAK])
