"""Workers of several processes on a real local Ray: the results of one process, also if a process
of the group is killed or the run is interrupted.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.runs.corpus_run import read_errors, run_corpus
from mixlens.runs.engines import Engine, do_tasks
from mixlens.runs.job import ModelSource
from tests.recording.parallel_models import save_reader
from tests.runs.dying import fails_in_process_1
from tests.runs.patience import patiently
from tests.runs.ray_processes import ray_workers
from tests.runs.sentences import job_for, write_corpus

MEASURES = ("attention", "alti", "value_zeroing")


@pytest.fixture(scope="module")
def _ray() -> Iterator[None]:
    """Start Ray once for all tests, with room for one group."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("transformers.distributed.expert_parallel")
    patiently(ray.init, num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny Llama with a tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    save_reader(folder)
    return str(folder / "reader")


@pytest.mark.usefixtures("_ray")
def test_a_group_has_the_results_of_one_process(model: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", 24)
    with corpus.open("a") as file:
        file.write("\n" + 400 * "dog " + "\n")  # which no process can measure

    def run(processes: int, **how: Any) -> Any:
        source = ModelSource(name=model, dtype="float64", threads=1, processes=processes)
        job = job_for(corpus, tmp_path / str(processes), keep="scores", measures=MEASURES)
        return run_corpus(job, source, **how)

    finished: list[int] = []

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "shard":
            finished.append(event["shard"])
            raise KeyboardInterrupt

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "shard":
            finished.append(event["shard"])
            number = {2: 0, 4: -1}.get(len(finished))  # one holds the store of the group
            if number is not None:
                os.kill(ray_workers()[number], signal.SIGKILL)

    run(1)
    with pytest.raises(KeyboardInterrupt):
        run(2, engine="ray", on_event=interrupt)
    counts = run(2, engine="ray", on_event=kill)
    assert counts.complete
    assert sorted(finished) == [0, 1, 2, 3, 4]  # none twice
    one, two = (mixlens.load(tmp_path / name) for name in ("1", "2"))
    assert read_errors(tmp_path / "1") == read_errors(tmp_path / "2") != []
    assert one.ids == two.ids
    for name in MEASURES:
        for text in one.ids:
            expected = one.maps(text, name).scores
            np.testing.assert_allclose(two.maps(text, name).scores, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("_ray")
def test_an_error_in_one_process_ends_the_run(tmp_path: Path) -> None:
    engine = Engine(kind="ray", group_size=2, threads=1)
    results = do_tasks(engine, fails_in_process_1, [1, 2, 3])
    assert [next(results), next(results)] == [(0, [0, 10]), (1, [0, 20])]  # of the first process
    with pytest.raises(InvalidInput, match="process 1 cannot do task 3"):
        next(results)
    source = ModelSource(threads=1, processes=2)  # the bundled BERT
    corpus = write_corpus(tmp_path / "corpus.txt", 6)
    with pytest.raises(UnsupportedModel, match=r"no tensor-parallel plan.*without --group-size"):
        run_corpus(job_for(corpus, tmp_path / "out"), source, engine="ray")


REFUSED: dict[str, dict[str, Any]] = {
    "--group-size 2 does not work with --engine local": {"group_size": 2},
    "0 is out of range for --group-size": {"kind": "ray", "group_size": 0},
    "2 is out of range for --gpus-per-worker": {"kind": "ray", "gpus_per_worker": 2},
    "0.5 does not work with --engine local": {"device": "cuda", "gpus_per_worker": 0.5},
    "0.5 does not work with --engine ray and --device cpu": {"kind": "ray", "gpus_per_worker": 0.5},
    "each process of a group needs its own GPU": {
        **{"kind": "ray", "device": "cuda", "group_size": 2, "gpus_per_worker": 0.5}
    },
    "one task at a time": {"kind": "ray", "group_size": 2, "at_once": 4},
}


@pytest.mark.parametrize("message", REFUSED)
def test_groups_that_cannot_work_are_refused(message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Engine(**REFUSED[message])


@pytest.mark.parametrize(
    ("engine", "needed"),
    [
        (Engine(kind="ray"), 0.0),
        (Engine(kind="ray", device="cuda"), 1.0),
        (Engine(kind="ray", device="cuda:0", gpus_per_worker=0.25), 0.25),
    ],
)
def test_gpus_of_a_process(engine: Engine, needed: float) -> None:
    assert engine.gpus_of_a_process == needed
