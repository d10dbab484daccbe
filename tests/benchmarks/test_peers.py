"""The comparison with other libraries, on very small models: with Captum, which the tests have, and
without any of them.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_rows, peers, report


@pytest.fixture
def timings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> dict[str, Any]:
    """What the command leaves behind where only the named peers are installed."""
    monkeypatch.setattr(peers, "installed", lambda module: module in request.param)
    out = tmp_path / "peers.json"
    assert peers.main(["--tiny", "--out", str(out)]) == 0
    results: dict[str, Any] = json.loads(out.read_text())
    return results


@pytest.mark.parametrize("timings", [()], indirect=True)
def test_without_peers_every_line_reports_the_missing_package(timings: dict[str, Any]) -> None:
    assert len(timings["rows"]) == len(peers.tasks())
    for task, row in zip(peers.tasks(), timings["rows"], strict=True):
        assert f"pip install {peers.INSTALL[task.peer]}" in row["remarks"]
        assert "median" in row["mixlens' time"]
        assert row["peer's time"] == row["peer / mixlens"] == row["difference"] == "—"
    assert not timings["figures"]


@pytest.mark.parametrize("timings", [("captum",)], indirect=True)
def test_captum_gives_the_same_numbers(timings: dict[str, Any]) -> None:
    pytest.importorskip("captum")
    labels = [task.label for task in peers.tasks() if task.peer == "captum"]
    rows = [row for row in timings["rows"] if row["peer"] in labels]
    assert len(rows) == 2
    for row in rows:
        assert "median" in row["peer's time"]
        assert row["peer / mixlens"].endswith("×")
    differences = [
        figure for key, figure in timings["figures"].items() if key.endswith(": difference")
    ]
    assert [figure["value"] < 1e-5 for figure in differences] == [True, True]
    assert timings["versions"]["captum"] == importlib.metadata.version("captum")


def test_other_numbers_fail_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("captum")
    right = next(task for task in peers.tasks() if task.peer == "captum")
    wrong = replace(right, ours=lambda maps, scores: 1.01 * right.ours(maps, scores))
    monkeypatch.setattr(peers, "tasks", lambda: [wrong])
    assert peers.main(["--tiny", "--out", str(tmp_path / "peers.json")]) == 1


def test_a_peer_that_fails_is_a_row_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: peer_rows.Case) -> peer_rows.Prepared:
        raise TypeError("no such hook\nmore lines")

    monkeypatch.setattr(peers, "installed", lambda module: True)
    given = peers.case("GPT-2", 12, peers.TINY)
    row = peers.compared(replace(peers.tasks()[0], prepare=broken), given, peers.TINY)
    assert row.theirs is None
    assert row.remark.startswith("does not run with transformers")
    assert row.remark.endswith("TypeError: no such hook")


def test_the_page_has_a_place_for_the_table() -> None:
    text = report.PAGE.read_text()
    assert text.count("<!-- peers -->") == text.count("<!-- end of peers -->") == 1
