"""`mixlens finetune`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlens.cli import app, main
from tests.finetuning.sentences import labelled

run = CliRunner().invoke


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    path = tmp_path / "classes.tsv"
    path.write_text(
        "sentence\tlabel\n"
        + "".join(f"{example.text}\t{example.label}\n" for example in labelled())
    )
    return path


def test_prompt_on_the_bundled_set_and_the_result_is_a_model(tmp_path: Path) -> None:
    out = tmp_path / "model"
    result = run(
        app,
        [
            "finetune",
            "prompt",
            "--out",
            str(out),
            "--sample",
            "20",
            "--epochs",
            "1",
            "--batch",
            "4",
        ],
    )
    assert result.exit_code == 0, result.output
    assert "using the bundled agreement sentences" in result.stderr
    assert "epoch 1 of 1: loss" in result.stderr
    assert "held-out examples  before   after" in result.stdout
    mapped = run(
        app,
        [
            "map",
            "The dog [MASK] old.",
            "--model",
            str(out),
            "--measure",
            "attention",
            "--target",
            "[MASK]",
        ],
    )
    assert mapped.exit_code == 0, mapped.output


def test_classification_with_a_held_out_file(tmp_path: Path, classes: Path) -> None:
    out = tmp_path / "model"
    command = [
        "finetune",
        "classification",
        "--data",
        str(classes),
        "--held-out",
        str(classes),
        "--out",
        str(out),
    ]
    result = run(
        app, [*command, "--epochs", "2", "--lr", "1e-3", "--batch", "8", "--seed", "3", "--json"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report == json.loads((out / "mixlens_finetuning.json").read_text())
    assert report["settings"]["seed"] == 3
    assert report["settings"]["rate"] == 1e-3
    assert report["data"]["labels"] == ["awful", "fine"]
    assert "24 of the 24 held-out texts are also training texts" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prompt", "--data", "CLASSES"], "classification examples, not agreement"),
        (["classification"], "classification needs --data"),
        (["prompt", "--held-out", "CLASSES"], "--held-out is only for classification"),
        (["prompt", "--epochs", "0"], "epochs=0"),
        (["prompt", "--dtype", "float16"], "Choose one of: float32"),
        (["prompt", "--data", "/no/such/file"], "does not exist"),
    ],
)
def test_wrong_arguments_get_one_clear_line(
    arguments: list[str],
    words: str,
    classes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(classes) if word == "CLASSES" else word for word in arguments]
    monkeypatch.setattr(
        sys, "argv", ["mixlens", "finetune", *given, "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert "Traceback" not in printed
