"""Engines run every task once, even if workers die, and process several shards at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mixlens.datasets.shards import cut_into_shards
from mixlens.errors import InvalidInput, MixlensError
from mixlens.runs.engines import Engine, do_tasks
from mixlens.runs.shard import AT_ONCE, worker_for
from tests.runs.dying import dies_at
from tests.runs.sentences import SOURCE, contents, job_for, run, write_corpus


@pytest.mark.parametrize("times", [1, 3])
def test_a_process_that_is_killed_is_replaced(tmp_path: Path, times: int) -> None:
    tasks, engine = list(range(6)), Engine(workers=2)
    start = partial(dies_at, str(tmp_path), times)
    if times == 1:
        assert dict(do_tasks(engine, start, tasks)) == {n: 10 * n for n in tasks}
        return
    only = [3]  # nothing else is finished in between
    with pytest.raises(MixlensError, match="died 3 times"):
        list(do_tasks(engine, start, only))


def test_two_tasks_are_in_hand_at_once() -> None:
    both = threading.Barrier(2, timeout=20)

    def start() -> Callable[[int], int]:
        return lambda task: both.wait() * 0 + task

    assert sorted(do_tasks(Engine(at_once=2), start, [5, 6, 7, 8])) == list(enumerate([5, 6, 7, 8]))
    with pytest.raises(InvalidInput, match="at least 1"):
        Engine(workers=0)


def test_shards_that_overlap_give_the_same_bytes(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", 12)
    run(corpus, tmp_path / "one", shard_rows=3)
    job = job_for(corpus, tmp_path / "two", shard_rows=3)
    (tmp_path / "two" / "data").mkdir(parents=True)
    shards = cut_into_shards(job.corpus, job.shard_rows)
    reports = dict(do_tasks(Engine(at_once=AT_ONCE), partial(worker_for, SOURCE, job), shards))
    files = {report["file"]: report["sha256"] for report in reports.values()}
    assert files == contents(tmp_path / "one")["files"]
