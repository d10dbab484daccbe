from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import mixlens
from mixlens import Lens
from mixlens.answers.fit_heads import fit_heads
from mixlens.answers.head_examples import FitPrompt
from mixlens.contracts import Facts
from mixlens.contracts.scores import Extra
from mixlens.errors import CannotWrite, InvalidInput
from mixlens.maps import storage
from mixlens.maps.mixing_maps import MixingMaps, load
from mixlens.text.tokens import TokenRow

pytestmark = pytest.mark.smoke

TEXT = "naïve 😀\nhat"

DATA = Path(__file__).parent / "data"


def example() -> MixingMaps:
    row = TokenRow(
        ("<s>", "na", "ïve", "Ġ😀", "Ċhat"),
        TEXT,
        ((0, 0), (0, 2), (2, 5), (5, 7), (7, 11)),
        (True, *[False] * 4),
    )
    maps = MixingMaps.of(
        np.random.default_rng(0).random((3, 5, 5)).astype(np.float32),
        tokens=row,
        measure="mine",
        facts=Facts(signed=True, residual_included=True),
        rollout_residual=0.25,
        rollout_normalised=False,
        provenance={"options": {"k": (1, 2.5), "none": None}},
    )
    extras = {
        "rank": Extra(("layer", "head"), np.arange(6).reshape(3, 2)),
        "ratio": Extra(("layer", "target"), np.ones((3, 5))),
    }
    return replace(maps, measured=extras)


def test_all_of_it_comes_back(tmp_path: Path) -> None:
    maps = example().at(layers=[2, 0], targets=[3, 1])
    maps.save(tmp_path / "maps")
    loaded = load(os.fspath(tmp_path / "maps"))
    assert loaded == maps
    assert loaded.scores.dtype == np.float32
    assert loaded.scores.tobytes() == maps.scores.tobytes()
    assert (loaded.target_row, loaded.source_row, loaded.target_positions) == (
        maps.target_row,
        maps.source_row,
        (3, 1),
    )
    assert (loaded.layers, loaded.facts, loaded.provenance) == ((2, 0), maps.facts, maps.provenance)
    assert (loaded.rollout_residual, loaded.rollout_normalised) == (0.25, False)
    assert loaded.data.identical(maps.data)
    assert all(loaded.extras[name].identical(maps.extras[name]) for name in ("rank", "ratio"))
    assert loaded.words() == maps.words()
    assert os.listdir(tmp_path) == ["maps"]


def test_different_values_are_not_equal() -> None:
    maps = example()
    assert maps == example()
    assert maps != example().normalised(absolute=True)
    assert maps != maps.scores.tolist()
    change: dict[str, Any]
    for change in (
        {"scores": maps.scores.astype(np.float64)},
        {"scores": np.nextafter(maps.scores, np.float32(1))},
        {"facts": Facts()},
        {"measured": {}},
        {"rollout_residual": None},
        {"target_row": replace(maps.target_row, text=None)},
    ):
        assert replace(maps, **change) != maps


@settings(deadline=None, max_examples=40)
@given(
    labels=st.lists(st.text(max_size=4), min_size=1, max_size=4),
    heads=st.integers(0, 2),
    wide=st.booleans(),
    special=st.sampled_from([0.0, -0.0, 5e-324, 1 / 3]),
    options=st.dictionaries(
        st.text(),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    ),
)
def test_any_maps_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    labels: list[str],
    heads: int,
    wide: bool,
    special: float,
    options: dict[str, Any],
) -> None:
    shape = (2, *([heads] if heads else []), len(labels), len(labels))
    scores = np.full(shape, special, dtype=np.float64 if wide else np.float32)
    maps = MixingMaps.of(scores, tokens=labels, provenance={"options": options})
    path = tmp_path_factory.getbasetemp() / "any"
    maps.save(path)
    assert load(path) == maps
    assert load(path).provenance["options"] == options


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "maps"
    example().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match=r"cannot be written .*disk full"):
        example().normalised(absolute=True).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["maps"]
    monkeypatch.undo()
    example().last().save(path)
    assert load(path) == example().last()


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    example().save(path)
    data = path.read_bytes()
    for end in (0, 1, 7, 8, 50, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(InvalidInput, match=f"{path}.*truncated"):
            load(path)


def test_a_changed_number_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    example().save(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="checksum"):
        load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a,b,c\n" * 100)
    with pytest.raises(InvalidInput, match="mixlens did not write it"):
        load(path)
    save_file({"weight": np.ones(3)}, path)
    with pytest.raises(InvalidInput, match="mixlens did not write"):
        load(path)
    storage.write(path, "something else", {}, {})
    with pytest.raises(InvalidInput, match="does not hold mixing maps"):
        load(path)
    with pytest.raises(InvalidInput, match="does not exist"):
        load(tmp_path / "absent")
    with pytest.raises(InvalidInput, match="does not exist"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="does not exist"):
        example().save(tmp_path / "absent" / "maps")


def rewritten(path: Path, version: str, change: dict[str, Any]) -> None:
    with safe_open(path, framework="np") as file:
        header = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content = {**json.loads(header["mixlens_content"]), **change}
    save_file(
        arrays, path, metadata={"mixlens_format": version, "mixlens_content": json.dumps(content)}
    )


AUDIO = {"seconds": float("inf")}


def test_a_newer_format_and_a_damaged_description_have_different_errors(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    example().save(path)
    rewritten(path, "2", {})
    assert load(path) == example()
    rewritten(path, "3", {})
    with pytest.raises(InvalidInput, match="Install a newer version"):
        load(path)
    change: dict[str, Any]
    for change in (
        {"layers": [0]},
        {"layers": None},
        {"layers": [0, 10**30]},
        {"layers": [0, -1]},
        {"facts": {"unheard_of": True}},
        {"facts": {"signed": "no"}},
        {"facts": {"joined_by": True}},
        {"rollout": [-1, True]},
        {"rollout": [0.5, None]},
        {"targets": {"labels": ["a"], "text": None, "offsets": None, "special": None} | AUDIO},
        {"extras": {"absent": ["layer"]}},
        {"targets": {}},
        {"targets": []},
        {"target_positions": [99, 0]},
        {"sources": {"labels": ["a"], "text": "a", "offsets": [[0, 1]], "special": []}},
    ):
        example().save(path)
        rewritten(path, "2", change)
        with pytest.raises(InvalidInput, match="does not match its arrays"):
            load(path)


def test_files_of_version_0_1_are_read_with_what_they_knew() -> None:
    joined = load(DATA / "rollout_of_0.1.safetensors")
    assert joined.facts.joined_by == "rollout(residual=0.5, normalize=True)"  # its own words
    with pytest.raises(InvalidInput, match="already aggregated"):
        joined.rollout()
    with pytest.raises(InvalidInput, match="already refers to the input"):
        load(DATA / "hidden_token_attribution_of_0.1.safetensors").rollout()


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    maps = MixingMaps.of(np.ones((1, 2, 2)))
    target, link, pipe = tmp_path / "maps", tmp_path / "link", tmp_path / "pipe"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    maps.save(link)
    assert link.is_symlink()
    assert load(target) == maps
    assert target.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    for place, words in (
        (pipe, "a device or a pipe"),
        (Path("/dev/null"), "a device or a pipe"),
        (tmp_path, "is a folder. Pass"),
        (tmp_path / "no" / "file", "does not exist. Create it"),
        (target / "below", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (None, "NoneType is not a file name"),
    ):
        with pytest.raises(InvalidInput, match=words):
            maps.save(place)  # type: ignore[arg-type]
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    place = tmp_path / "maps"
    small, large = MixingMaps.of(np.ones((1, 2, 2))), MixingMaps.of(np.ones((1, 90, 90)))
    small.save(place)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(InvalidInput, match=r"cannot be written .*too large"):
            large.save(place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load(place) == small
    assert [file.name for file in tmp_path.iterdir()] == ["maps"]


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        (("layer",), (2,)),
        (("layer", "target"), (3, 4)),
        (("source",), (7,)),
        (("layer",), (3, 5)),
        (("layer", "layer"), (3, 3)),
        ((), (3,)),
    ],
)
def test_extras_that_do_not_fit_the_scores_are_refused(
    dims: tuple[str, ...], shape: tuple[int, ...], tmp_path: Path
) -> None:
    extra = Extra(dims, np.zeros(shape))
    replace(example(), measured={"own": extra}).save(tmp_path / "maps")
    with pytest.raises(InvalidInput, match=r"its metadata does not match its arrays.*own has"):
        load(tmp_path / "maps")


def test_names_that_no_system_takes_are_refused(tmp_path: Path) -> None:
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(InvalidInput, match="does not exist"):
            mixlens.load(tmp_path / name)
        with pytest.raises(CannotWrite, match="cannot be written"):
            example().save(tmp_path / name)
        with pytest.raises(CannotWrite, match="cannot be written"):
            example().to_html(os.fspath(tmp_path / name))
    for other in (3, "maps", None, np.zeros((1, 2, 2))):
        with pytest.raises(InvalidInput, match="is not a MixingMaps object"):
            example().to_html(tmp_path / "page.html", other)  # type: ignore[arg-type]


def test_drafts_of_killed_processes_are_removed_by_name(tmp_path: Path) -> None:
    for name in (".a.json.12.part", ".a.json.13.part", ".a.json.b.1.part", ".b.json.12.part"):
        (tmp_path / name).write_text("")
    long = tmp_path / ("n" * 250)
    (tmp_path / f".{'n' * 200}.7.part").write_text("")
    storage.remove_drafts(tmp_path / "a.json", tmp_path / "missing" / "x", long)
    assert sorted(os.listdir(tmp_path)) == [".a.json.b.1.part", ".b.json.12.part"]


def test_every_saved_result_is_read_and_equal(tmp_path: Path) -> None:
    """`mixlens.load` recognises the kind of a file."""
    lens, text = Lens.bundled("causal"), "The dogs bark. The cat sleeps.\n\nIt rains."
    answered: dict[str, Any] = {"answer": " The dogs"}
    cited = {"ablations": 8, "held_out": 4, "within": "paragraphs"}
    results: list[Any] = [
        lens.measure("flow_routes", text, targets=[3, 4], span="sum"),
        lens.answer(text, methods=["alti", "leave_one_out"], **answered),
        lens.leave_one_out(text, within="paragraphs", **answered),
        lens.knockout(text, windows="all", **answered),
        lens.knockout(text, windows=3, **answered).window(1),
        lens.hops(text, answer=[8], reasoning=[4, 5]),
        lens.context_cite(text, "Who barks?", " The dogs", **cited),  # type: ignore[arg-type]
        fit_heads(lens, [FitPrompt("one", text, " The dogs")], masks=4, steps=2),
    ]
    path = tmp_path / "result"
    for made in results:
        made.save(path)
        again = mixlens.load(path)
        assert type(again) is type(made)
        assert again == made
        assert not any(again == other for other in results if other is not made)
    path.write_text('{"format": "mixlens hops 1", "scores": []}')
    with pytest.raises(InvalidInput, match="does not hold scores of hops"):
        mixlens.load(path)
    path.write_text('{"format": "something else"}')
    with pytest.raises(InvalidInput, match="mixlens did not write it"):
        mixlens.load(path)
