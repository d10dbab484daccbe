"""`mixlens benchmark`."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlens.cli import app, main
from tests.runs.patience import LONGEST, wait_for_lines

run = CliRunner().invoke
QUICK = ["--measures", "attention,gradient_norm", "--evaluations", "cue_alignment"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A data file of one's own, with one row that cannot be used."""
    path = tmp_path / "sentences.csv"
    rows = [
        ("The keys to the old cabinet [MASK] on the table.", "are", "is", "keys"),
        ("The author of the books [MASK] written a letter.", "has", "have", "author"),
        ("The dogs near the river [MASK] barking.", "were", "was", "zebra"),
    ]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("text", "target", "foil", "cue"), *rows])
    return path


def test_the_table_and_the_files(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(app, ["benchmark", "--data", str(table), "--out", str(out), *QUICK])
    assert result.exit_code == 0, result.output
    for words in (
        "cue_alignment ↑",
        "mean rank",
        "s/text",
        "attention",
        "gradient_norm",
        "random",
        "Too few texts",
    ):
        assert words in result.stdout
    assert "report.html" in result.stderr
    files = {path.name for path in out.iterdir()}
    assert files >= {
        "observations.parquet",
        "results.json",
        "report.md",
        "report.html",
        "errors.csv",
        "settings.json",
        "plots",
    }
    assert "zebra" in (out / "errors.csv").read_text() + result.output


def test_json_is_json_and_the_same_as_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(app, ["benchmark", "--sample", "3", "--json", "--out", str(out), *QUICK])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed == json.loads((out / "results.json").read_text())
    assert printed["texts"] == 3
    assert {entry["measure"] for entry in printed["measures"]} == {
        "attention",
        "gradient_norm",
        "random",
    }
    assert "using the bundled agreement sentences" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "/no/such/file"], "/no/such/file does not exist"),
        (["--evaluations", "beauty"], "Unknown evaluation 'beauty'"),
        (["--measures", "attenshun"], "Unknown measure 'attenshun'"),
        (["--other-model", "/no/such/model"], "'/no/such/model' is not an existing folder"),
        (["--out", "/dev/null/x"], "--out /dev/null/x"),
    ],
)
def test_wrong_arguments_get_one_clear_line(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["mixlens", "benchmark", "--sample", "2", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_control_c_prints_how_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "mixlens",
        "benchmark",
        "--sample",
        "100",
        "--out",
        str(out),
        "--evaluations",
        "cue_alignment",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # tests that a shell put in the background ignore it
    ) as process:
        try:
            wait_for_lines(out / "journal.jsonl", process)
            process.send_signal(signal.SIGINT)
            printed, error = process.communicate(timeout=LONGEST)
        finally:
            process.kill()
    assert process.returncode == 130
    assert not printed
    assert " of 100. Run the same command to resume in" in error
    assert "Traceback" not in error
