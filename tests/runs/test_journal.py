"""The journal stores values bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mixlens.errors import InvalidInput
from mixlens.runs.journal import Journal

CONTENT = {
    "numbers": [0.1, 1 / 3, float("nan")],
    "states": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32),
    "label": np.array("plural"),
    "count": np.int64(3),
    "nested": {"a": {"b": None}},
    "tensor": torch.arange(3.0, requires_grad=True),
    "set": {"b", "a"},
}


@pytest.mark.parametrize("on_disk", [False, True])
def test_values_survive_a_round_trip(tmp_path: Path, on_disk: bool) -> None:
    folder = tmp_path if on_disk else None
    with Journal.open(folder, {"a": 1}) as journal:
        journal.add("0", CONTENT)
        journal.add("x y", {"numbers": []})
    if on_disk:
        with Journal.open(folder, {"a": 1}) as journal:
            assert journal.finished == {"0", "x y"}
    second, first = journal.entries(["x y", "0"])
    assert second == {"piece": "x y", "numbers": []}
    np.testing.assert_array_equal(first["numbers"], CONTENT["numbers"])
    assert first["states"].dtype == np.float32
    np.testing.assert_array_equal(first["states"], CONTENT["states"])
    assert str(first["label"]) == "plural"
    assert first["nested"] == {"a": {"b": None}}
    assert first["count"] == 3
    assert first["tensor"].tolist() == [0, 1, 2]
    assert first["set"] == ["a", "b"]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path, {}) as journal:
        journal.add("0", {})
        journal.add("1", {})
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"0"', b'"0'))
    with (
        pytest.raises(InvalidInput, match=r"line 1 is damaged.*--fresh"),
        Journal.open(tmp_path, {}),
    ):
        pass
    with Journal.open(tmp_path, {}, fresh=True) as journal:
        assert not journal.finished


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    with Journal.open(tmp_path, {}) as journal:
        journal.add("0", {})
        with open(tmp_path / "journal.jsonl", "ab") as file:
            file.write(b'{"piece": "1"')
        assert [each["piece"] for each in Journal.read(tmp_path / "journal.jsonl")] == ["0"]


def test_damaged_settings_are_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path, {"a": 1}) as journal:
        journal.add("0", {})
    (tmp_path / "settings.json").write_text("{")
    with (
        pytest.raises(InvalidInput, match=r"settings cannot be read.*--fresh"),
        Journal.open(tmp_path, {"a": 1}),
    ):
        pass


def test_values_that_cannot_be_stored_raise() -> None:
    with (
        Journal.open(None, {}) as journal,
        pytest.raises(TypeError, match=r"Path cannot be stored"),
    ):
        journal.add("0", {"a": Path("x")})
