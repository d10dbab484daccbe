"""Progress reports of a run."""

from __future__ import annotations

from typing import Any

import pytest

from mixlens.runs.journal import Journal
from mixlens.runs.observing import work_through


def test_the_total_is_reported_before_the_first_piece() -> None:
    """An interruption can come at any time after that, and names it."""
    steps: list[tuple[int, ...]] = []
    journal = Journal()

    def here(task: int) -> dict[str, Any]:
        if task > 2:
            raise KeyboardInterrupt
        return {}

    tasks = {"a": 1, "b": 2, "c": 3}
    with pytest.raises(KeyboardInterrupt):
        work_through({"c": 3}, here, journal, lambda *counts: steps.append(counts))
    assert steps == [(0, 1, 0)]
    with pytest.raises(KeyboardInterrupt):
        work_through(tasks, here, journal, lambda *counts: steps.append(counts))
    assert steps[1:] == [(0, 3, 0), (1, 3, 0), (2, 3, 0)]
    with pytest.raises(KeyboardInterrupt):
        work_through(tasks, here, journal, lambda *counts: steps.append(counts))
    assert steps[4:] == [(2, 3, 2)]
