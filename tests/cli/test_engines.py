"""`benchmark` and `reproduce` give the same results whoever does the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mixlens.cli import app

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


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_benchmark_and_reproduce_with_two_workers(engine: str, tmp_path: Path) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    two = ["--engine", engine, "--workers", "2"]
    assert without_times(run([*BENCHMARK, *two])) == without_times(run(BENCHMARK))
    lines = [{"text": f"The {colour} keys are here ."} for colour in ("red", "blue", "small")]
    data = tmp_path / "sentences.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reproduce = ["reproduce", "kobayashi2020/table2", "--data", str(data), "--json"]
    one = run([*reproduce, "--threads", "1", "--out", str(tmp_path / "one")])
    more = run([*reproduce, "--threads", "1", "--out", str(tmp_path / "two"), *two])
    for folder in (one, more):
        for result in folder["results"]:
            del result["folder"]
    assert without_times(more) == without_times(one)


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*BENCHMARK, "--engine", "spark"])
    assert result.exit_code != 0
    assert "spark" in str(result.exception)
