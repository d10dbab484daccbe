"""Branches are counted separately from lines."""

from __future__ import annotations

from typing import Any

import pytest

from release.coverage import verdict
from release.environment import Failed


def _file(branches: int, missing: list[list[int]]) -> dict[str, Any]:
    return {"summary": {"num_branches": branches}, "missing_branches": missing}


def test_verdicts() -> None:
    whole = _file(90, [])
    assert verdict({"a.py": whole, "b.py": _file(10, [[3, 5], [7, -1]])}) == (
        "98.00 % of 100 branches are run, 2 are not\nb.py: 3 to 5, 7 to the end"
    )
    with pytest.raises(Failed, match=r"94\.00 % of 100 branches(.|\n)*b\.py: 1 to 2, 1 to 2"):
        verdict({"a.py": whole, "b.py": _file(10, [[1, 2]] * 6)})
