"""A real Ray on two local workers: the same bytes, also if one of them is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.runs.patience import patiently
from tests.runs.ray_processes import ray_workers
from tests.runs.sentences import contents, run, write_corpus

ray = pytest.importorskip("ray")


def test_two_workers_of_which_one_is_killed(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", 36)
    run(corpus, tmp_path / "whole")
    killed: list[int] = []

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "shard" and not killed:
            killed.extend(ray_workers()[:1])
            os.kill(killed[0], signal.SIGKILL)

    counts = patiently(run, corpus, tmp_path / "ray", engine="ray", workers=2, on_event=kill)
    assert killed
    assert counts.complete
    assert contents(tmp_path / "ray") == contents(tmp_path / "whole")
