"""The benchmarks run from end to end on very small models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import corpus, corpus_stages, cpu, gpu, gpu_rows, growth, naive, report, since


def test_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cpu.json"
    assert cpu.main(["--tiny", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    labels = [row.label for row in cpu.rows(24)]
    assert {f"{label}: forward passes" for label in labels} <= set(report["figures"])
    assert {f"{label}: against naive" for label in labels if label != "attention"} <= set(
        report["figures"]
    )
    assert f"value_zeroing, all targets, {cpu.FLOOR}: against naive" in report["figures"]
    assert "hidden_token_attribution, 16 probes: mean relative error" in report["figures"]
    assert report["figures"]["torch modules loaded by mixlens --help"]["passed"]
    assert {"date", "command", "versions", "machine"} <= set(report)
    assert "against the last" in capsys.readouterr().out


def test_measures_since_2023(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is run again leaves the others as they are."""
    out = ["--tiny", "--threads", "1", "--out", str(tmp_path / "since.json")]
    assert since.main([*out, "--only", "decompx,scopes,decoders"]) == 0
    assert since.main([*out, "--only", "route", "--cpu-seconds"]) == 0
    known = json.loads((tmp_path / "since.json").read_text())
    bars = {key: kept["bar"] for part in known.values() for key, kept in part["figures"].items()}
    assert bars == {
        "decompx: forward passes": 55,
        "decompx: memory of the call": 1,
        "decompx_logit, linear rules: forward passes": 4,
        "attention_norm_ff: against value_zeroing": 1.5,
        "attention_norm_ff_res: against value_zeroing": 1.5,
        "attention_norm_ff_res_ln: against value_zeroing": 1.5,
        "alti, in forward passes": None,
        "alti_logit beyond alti, in forward passes": 0.3,
        "flow_routes of all rows, against alti": 3.5,
        "one route at 0.04, against alti": 1,
    }
    assert "rows" in known["route"]["details"]["one route at 0.04, against alti"]
    assert known["decompx"]["figures"]["decompx: memory of the call"]["unit"] == "GB"
    assert "≤ 1.5" in capsys.readouterr().out


def test_cpu_fails_where_numbers_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sizes = cpu.Run(), cpu.TINY
    model = cpu.models.bert(**sizes.config)
    recording = cpu.mixlens.Lens(model).record(cpu.models.tokens(model, sizes.tokens))
    layer = naive.RecordedLayer.of(recording, sizes.layer)
    right = naive.MAPS["alti"]
    monkeypatch.setitem(naive.MAPS, "alti", lambda given: 1.001 * right(given))
    cpu.kernel_row(run, cpu.Row("alti", "alti", 8, 2.5), recording, layer, sizes)
    assert run.wrong


def test_gpu_rows_survive_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bench: gpu_rows.Bench) -> None:
        """Always fails."""
        raise RuntimeError("out of luck")

    monkeypatch.setattr(gpu, "ROWS", [broken, gpu_rows.llama_attention_norm, gpu_rows.batch_alti])
    assert gpu.main(["--tiny", "--out", str(tmp_path)]) == 1
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["failed"] == {"broken": "RuntimeError: out of luck"}
    assert len(report["figures"]) == 3
    assert "Traceback" in (tmp_path / "gpu.txt").read_text()


def test_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        growth, "CASES", [case for case in growth.CASES if case.label in ("attention", "alti")]
    )
    out = tmp_path / "growth.json"
    assert growth.main(["--tiny", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert len(report["curves"]) == 2 * 3
    assert all(size > 0 for curve in report["curves"] for size in curve["bytes"])


def test_slope_is_the_power() -> None:
    sizes = [16, 32, 64]
    assert growth.slope(sizes, [3.0 * size**2 for size in sizes]) == pytest.approx(2)


def test_changes_tell_better_from_worse() -> None:
    last = {"figures": {"speed": {"value": 10.0}, "cost": {"value": 10.0}}}
    assert report.change(report.Figure("speed", 5.0, at_least=True), last) == "×0.50 WORSE"
    assert report.change(report.Figure("cost", 5.0), last) == "×0.50 better"
    assert report.change(report.Figure("cost", 10.5), last) == "×1.05"
    assert report.change(report.Figure("other", 1.0), last) == "new"


def test_a_section_of_the_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- cpu -->\nold\n<!-- end of cpu -->\nafter\n")
    report.write_section("cpu", "new", page)
    assert page.read_text() == "before\n<!-- cpu -->\nnew\n<!-- end of cpu -->\nafter\n"


def test_the_page_has_a_place_for_every_table() -> None:
    text = report.PAGE.read_text()
    for name in ("cpu", "growth", "memory", "gpu"):
        assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1


def test_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kind of text that is measured again takes the place of what was stored."""
    out = tmp_path / "corpus.json"
    chosen = ["--model", "bundled", "--kind", "sentences", "--out", str(out), "--turns", "1"]
    for count in (1, 2):
        corpus.main([*chosen, "--texts", str(count)])
    stored = json.loads(out.read_text())
    assert [(one["measure"], one["texts"]) for one in stored] == [(m, 2) for m in corpus.BARS]
    assert all(one["multiple"] > 0 for one in stored)
    corpus_stages.main(["--host", "--kind", "sentences", "--texts", "4", "--measure", "alti"])
    assert "start a batch" in capsys.readouterr().out
