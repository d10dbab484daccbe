"""The archive of compiled programs equals the output of the recipe."""

from __future__ import annotations

import json
import zipfile
from importlib import resources

import pytest

pytest.importorskip("tracr", reason="NOT RUN: programs are compiled with the extra tracr")


@pytest.mark.parametrize("name", ["far_copy", "induction", "both_needed", "switch"])
def test_a_program_compiled_again_is_the_one_in_the_archive(name: str) -> None:
    from training.tracr.run import files_of

    again = files_of(name)
    path = resources.files("mixlens") / "bundled" / "compiled.zip"
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        assert json.loads(again[f"{name}/truth.json"]) == json.loads(
            archive.read(f"{name}/truth.json")
        )
        assert again[f"{name}/model.safetensors"] == archive.read(f"{name}/model.safetensors")


def test_sources_by_hand() -> None:
    from training.tracr.programs import PROGRAMS
    from training.tracr.sources import Undecided, carried, value

    programs = {name: make() for name, (_, make) in PROGRAMS.items()}
    assert value(programs["induction"], "abca", 3) == "b"
    assert carried(programs["induction"], "abca", 3) == {1}
    assert value(programs["induction"], "abcd", 3) is None
    with pytest.raises(Undecided):
        value(programs["induction"], "abaca", 4)
    assert value(programs["both_needed"], "bcd", 2) == "d"  # 1 + 2
    assert carried(programs["both_needed"], "bcd", 2) == {0, 1}
    assert [value(programs["switch"], text, 3) for text in ("dcab", "dcbb")] == ["d", "b"]
    assert (value(programs["far_copy"], "dabc", 3), carried(programs["far_copy"], "dabc", 3)) == (
        "d",
        {0},
    )
