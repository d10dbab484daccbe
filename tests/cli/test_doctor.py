"""`mixlens doctor` on a folder of every family: the right report, or a clear failure and exit
status 1.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlens.cli import app
from tests.conformance.zoo import HEADS, LAYERS, REFUSED, ZOO, built

run = CliRunner().invoke


@pytest.mark.parametrize("name", ZOO)
def test_report_of_every_family(name: str, tmp_path: Path) -> None:
    built(name).save_pretrained(tmp_path)
    result = run(app, ["doctor", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["ok"] is True
    first = report["stacks"][0]
    assert (first["layers"], first["heads"], first["styles"][0]) == (LAYERS, HEADS, ZOO[name].style)
    assert report["native_error"] < 1e-5
    assert all(error < 1e-5 for stack in report["stacks"] for error in stack["errors"])
    assert set(report["from_maps"]) == set(report["sites"])
    two_sided = ZOO[name].kind in ("translation", "whisper", "captions")
    assert report["sites"] == (["encoder", "decoder", "cross"] if two_sided else report["sites"])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_families_exit_with_1(name: str, tmp_path: Path) -> None:
    built(name).save_pretrained(tmp_path)
    result = run(app, ["doctor", str(tmp_path), "--json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["ok"] is False
    assert report["error"] == "UnsupportedModel"
    printed = run(app, ["doctor", str(tmp_path)])
    assert printed.exit_code == 1
    assert "FAILED  UnsupportedModel: " in printed.stderr
    assert "coverage" in printed.stderr


def test_left_out_measures_are_listed(tmp_path: Path) -> None:
    built("jamba").save_pretrained(tmp_path)
    result = run(app, ["doctor", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "unsupported  `layers` 0: mixlens cannot capture softmax attention" in result.output
    assert "the measured parts add up" in result.output
    assert "docs/coverage.md" in result.output


def test_readable_report(tmp_path: Path) -> None:
    built("llama").save_pretrained(tmp_path)
    result = run(app, ["doctor", str(tmp_path)])
    assert result.exit_code == 0
    assert "4 heads of 8 on 2 KV heads; pre-norm blocks, causal" in result.output
    assert "verified" in result.output


def test_measures_with_the_same_reason_share_a_line() -> None:
    result = run(app, ["doctor"])
    assert "not alti_logit, logit_update: layer 0 of encoder" in result.output
    assert result.output.count("a norm is applied to the stream itself") == 1


def test_wrong_arguments() -> None:
    missing = run(app, ["doctor", "/no/such/folder"])
    assert missing.exit_code == 2
    assert "'/no/such/folder' is not an existing folder" in missing.output
    dtype = run(app, ["doctor", "--dtype", "float99"])
    assert dtype.exit_code == 2
    assert "Choose one of float32" in dtype.output


@pytest.mark.parametrize("model", ["stories15M", "opus-mt-en-fr-pruned-fp16"])
def test_real_models(model: str, shared: Path) -> None:
    result = run(
        app,
        [
            "doctor",
            str(shared / "models" / model),
            "--json",
            "--text",
            "The dogs near the river are very old.",
        ],
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["native_error"] < 1e-5
    assert all(error < 1e-5 for stack in report["stacks"] for error in stack["errors"])
    assert [stack["layers"] for stack in report["stacks"]] == [6] * len(report["stacks"])


def test_memory_estimates_for_a_long_text() -> None:
    shown = run(app, ["doctor", "--tokens", "4096"]).output
    assert "4,096 tokens, a forward pass of about" in shown
    line = next(line for line in shown.splitlines() if line.strip().startswith("value_zeroing "))
    assert "GiB" in line
    assert "MiB for one target" in line
    needs = json.loads(run(app, ["doctor", "--tokens", "64", "--json"]).stdout)["needs"]
    assert needs["attention"]["fits"]
    assert needs["attention"]["bytes of one target"] < needs["attention"]["bytes"]


def test_a_text_with_more_tokens_than_the_model_has_positions() -> None:
    model = "mixlens/bundled/causal"
    shown = run(app, ["doctor", model, "--tokens", "100000"]).output
    assert "100,000 tokens are more than the 256 positions of the model" in shown
    assert "refuses" not in run(app, ["doctor", model, "--tokens", "256"]).output
    report = json.loads(run(app, ["doctor", model, "--tokens", "100000", "--json"]).stdout)
    assert report["positions"] == 256
