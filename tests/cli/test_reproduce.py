"""`mixlens reproduce`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlens.cli import app, main
from mixlens.papers import names

run = CliRunner().invoke
CHEAP = ["kobayashi2020/fig3", "kobayashi2020/table2"]


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    """Four good rows, and one without its text."""
    path = tmp_path / "sentences.jsonl"
    rows = [{"text": f"The {colour} keys are here ."} for colour in ("red", "blue", "small", "old")]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": ""}]))
    return path


def test_the_list_names_every_experiment() -> None:
    result = run(app, ["reproduce", "--list", "--json"])
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)
    assert set(listed) == set(names())
    assert all(entry["finding"] and entry["cost"] for entry in listed.values())
    printed = run(app, ["reproduce", "--list"]).stdout
    assert all(name in printed for name in listed)


def test_several_experiments_read_the_data_once_and_are_kept(
    tmp_path: Path, sentences: Path
) -> None:
    command = ["reproduce", *CHEAP, "--data", str(sentences), "--out", str(tmp_path / "out")]
    result = run(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Skipped 1 row of") == 1, "the record without text is reported once"
    printed = json.loads(result.stdout)
    assert [entry["settings"]["experiment"] for entry in printed["results"]] == CHEAP
    assert all(entry["settings"]["texts"] == 4 for entry in printed["results"])
    assert all((Path(entry["folder"]) / "README.md").is_file() for entry in printed["results"])
    again = run(app, command)
    assert again.exit_code == 0, again.output
    assert again.stdout.count("(finished before)") == 2
    assert re.search(r"^punctuation {2}-?\d", again.stdout, re.M), "numbers stand in columns"


def test_one_that_cannot_run_does_not_stop_the_others(tmp_path: Path, sentences: Path) -> None:
    wanted = ["ferrando2022/table2", CHEAP[0]]  # the first needs a classifier
    result = run(
        app,
        ["reproduce", *wanted, "--data", str(sentences), "--out", str(tmp_path / "out"), "--json"],
    )
    assert result.exit_code == 0, result.output
    assert "ferrando2022/table2 did not run: " in result.stderr
    printed = json.loads(result.stdout)
    assert list(printed["not_run"]) == wanted[:1]
    assert len(printed["results"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "PAPER/ID is missing"),
        (["kobayashi2020"], "is a paper. Pass --all"),
        (["kobayashi2020/fig99"], "Choose one of: fig3"),
        (["kobayashi2020/fig3", "--data", "/no/such/file"], "does not exist"),
        (["kobayashi2020/fig3", "--option", "colour=red"], "Unknown option 'colour'"),
        (["kobayashi2020/fig3", "--sample", "0"], "Sample size 0 is out of range"),
    ],
)
def test_wrong_arguments_get_one_clear_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["mixlens", "reproduce", *arguments, "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code not in (0, None)
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
