"""`benchmark` and `reproduce` return the same results with every engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mixlens.cli import app
from tests.runs.patience import patiently

BENCHMARK = [
    *("benchmark", "--sample", "4", "--measures", "attention,gradient_norm", "--json"),
    *("--evaluations", "cue_alignment", "--threads", "1"),
]


def run(arguments: list[str]) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if "seconds" not in key}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def reproduce(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command on three texts, without the folder of its results."""
    lines = [{"text": f"The {colour} keys are here ."} for colour in ("red", "blue", "small")]
    data = tmp_path_factory.mktemp("data") / "sentences.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    name = "kobayashi2020/table2"
    return ["reproduce", name, "--data", str(data), "--json", "--threads", "1", "--out"]


def reproduced(command: list[str]) -> Any:
    answer = run(command)
    for result in answer["results"]:
        del result["folder"]
    return without_times(answer)


@pytest.fixture(scope="module")
def alone(reproduce: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What this process gives."""
    folder = str(tmp_path_factory.mktemp("alone"))
    return without_times(run(BENCHMARK)), reproduced([*reproduce, folder])


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Its name; Ray is started once for both commands."""
    if request.param == "local":
        yield "local"
        return
    ray = pytest.importorskip("ray")
    patiently(ray.init, num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield "ray"
    ray.shutdown()


@pytest.mark.parametrize("engine", ["local", "ray"], indirect=True)
def test_benchmark_and_reproduce_with_two_workers(
    engine: str, alone: tuple[Any, Any], reproduce: list[str], tmp_path: Path
) -> None:
    two = ["--engine", engine, "--workers", "2"]
    assert without_times(run([*BENCHMARK, *two])) == alone[0]
    assert reproduced([*reproduce, str(tmp_path), *two]) == alone[1]


def test_an_unknown_engine(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*BENCHMARK, "--engine", "spark"])
    assert result.exit_code != 0
    assert "spark" in str(result.exception)
