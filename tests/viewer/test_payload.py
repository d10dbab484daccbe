"""The payload contains the numbers of the maps, and reports omitted ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from mixlens import Lens, MixingMaps
from mixlens.errors import InvalidInput
from mixlens.maps.one_row import shares
from mixlens.text.tokens import Segment, TokenRow
from mixlens.views.viewer import packing
from mixlens.views.viewer.payload import comparison_payload, payload_of
from mixlens.views.viewer.text import text_of

TEXT = "The keys to the old cabinet near the unbelievable doorway [MASK] here."


def read(written: dict[str, Any]) -> np.ndarray:
    raw = base64.b64decode(written["data"])
    return np.frombuffer(raw, np.dtype(written["dtype"])).reshape(written["shape"])


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


def test_scores_come_back_from_shares_and_totals(lens: Lens) -> None:
    maps = lens.measure("attention_norm", TEXT)
    entry = payload_of(maps)["maps"][0]
    again = read(entry["scores"]["shares"]).astype(float) * read(entry["totals"])[..., None]
    np.testing.assert_allclose(again, maps.scores, rtol=2e-3, atol=1e-6 * maps.scores.max())
    joined = read(entry["joined"]["scores"]["shares"])
    np.testing.assert_allclose(joined, shares(maps.rollout().scores), atol=1e-3)


def test_heads_join_the_layers_of_their_measure(lens: Lens) -> None:
    whole, heads = (lens.measure("attention", TEXT, per_head=each) for each in (False, True))
    (entry,) = payload_of([whole, heads])["maps"]
    assert read(entry["heads"]["shares"]).shape == heads.scores.shape
    (alone,) = payload_of(heads)["maps"]
    assert alone["notes"] == ["A layer is the mean of its heads."]
    expected = shares(heads.heads("mean").scores)
    np.testing.assert_allclose(read(alone["scores"]["shares"]), expected, atol=1e-3)


def test_measures_that_do_not_fit_are_left_out_and_reported(
    lens: Lens, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [lens.measure("attention", TEXT, per_head=each) for each in (False, True)]
    size = packing.written_size((len(both[0].layers) + 1, *both[0].scores.shape[1:]))
    monkeypatch.setattr(packing, "ALL_BYTES", size + packing.written_size(both[1].scores.shape))
    (entry,) = payload_of(both)["maps"]
    assert len(read(entry["joined"]["scores"]["shares"])) == 1
    assert entry["heads"] is not None
    assert "Only the rollout to the last layer" in entry["notes"][0]
    monkeypatch.setattr(packing, "ALL_BYTES", size)
    (entry,) = payload_of(both)["maps"]
    assert (entry["heads"], entry["scores"]["kind"]) == (None, "dense")
    assert "Single heads are left out" in entry["notes"][0]
    (live,) = payload_of(both, room=size + 100)["maps"]  # asked for where a server is behind it
    layers, heads, targets, sources = both[1].scores.shape
    assert live["heads"]["kind"] == "largest"
    assert live["heads"]["shape"] == [layers * heads, targets, sources]
    assert "reduced to the 8 largest entries" in live["notes"][0]
    monkeypatch.setattr(packing, "ALL_BYTES", size - 1)
    assert payload_of(both)["maps"][0]["scores"]["kind"] == "largest"


def test_the_mask_is_the_first_target_and_else_the_last_word(lens: Lens) -> None:
    payload = payload_of(lens.measure("attention", TEXT))
    assert payload["texts"][0]["labels"][payload["start"]["target"]] == "[MASK]"
    payload = payload_of(lens.measure("attention", "The dogs bark"))
    assert payload["texts"][0]["shown"][payload["start"]["target"]] == "bark"


def test_a_long_text_keeps_the_largest_of_rows_and_columns() -> None:
    count = 200
    scores = np.random.default_rng(0).gamma(0.1, size=(3, count, count))
    packed = packing.largest(scores, 3 * 2 * count * 10 * 4 * 4 // 3)
    assert packed["kept"] == 10
    starts, indices = read(packed["starts"]), read(packed["indices"])
    portion = shares(scores)[2]
    kept = [set(indices[starts[2 * count + r] : starts[2 * count + r + 1]]) for r in range(count)]
    for at in range(count):
        assert set(np.argsort(-portion[at])[:10]) <= kept[at]
        assert all(at in kept[row] for row in np.argsort(-portion[:, at])[:10])
    values = read(packed["values"])[starts[2 * count] : starts[2 * count + 1]]
    np.testing.assert_allclose(values, portion[0, sorted(kept[0])], rtol=1e-3)
    assert len(json.dumps(packed)) < 3 * 2 * count * 10 * 4 * 4 / 3 * 1.2


def test_words_and_pieces_of_the_text() -> None:
    row = TokenRow(
        ("[CLS]", "un", "##real", "🙂", "byte", ".", "[SEP]"),
        "Unreal  🙂.",
        ((0, 0), (0, 2), (2, 6), (8, 9), (8, 9), (9, 10), (0, 0)),
        (True, False, False, False, False, False, True),
    )
    text = text_of(row)
    assert text["shown"] == ["[CLS]", "Un", "real", "🙂", "byte", ".", "[SEP]"]
    assert text["gaps"] == ["", "", "", "  ", "", "", ""]
    assert (1, 3) in text["words"]
    text = text_of(TokenRow(("un", "##real", "hat")))  # words are known by their labels alone
    assert text["words"] == [(0, 2), (2, 3)]
    assert text["gaps"] == ["", "", " "]


def test_segments_have_their_names() -> None:
    parts = (Segment("(other)", 0, 1), Segment("user", 1, 3), Segment("answer", 3, 4))
    row = TokenRow(("<s>", "Who", "?", "I"), segments=parts)
    assert text_of(row)["segments"] == [(0, 1), (1, 3, "user"), (3, 4, "answer")]
    long = TokenRow(("w",) * 600, segments=(Segment("prompt", 0, 598), Segment("answer", 598, 600)))
    segments = text_of(long)["segments"]
    assert segments[-1] == (598, 600, "answer")
    assert [len(each) for each in segments[:-1]] == [2] * 7, "a prompt is cut where sentences end"
    assert segments[-2][1] == 598
    assert text_of(TokenRow(("a", "b")))["segments"] is None


def test_a_comparison_of_two_sides_has_no_target_among_its_sources() -> None:
    row = TokenRow(("le", "chat"))
    rows = {"a": np.array([0.2, 0.8])}
    payload = comparison_payload(rows, row, "chat", own_source=None, aggregate="mean")
    assert payload["maps"][0]["targets"] == 1
    assert payload["texts"][1]["labels"] == ["chat"]


def test_maps_without_a_picture_of_their_own_are_given_one() -> None:
    maps = MixingMaps.of(np.full((1, 5, 5), 0.2))
    image = {"src": "data:", "rows": 2, "columns": 2, "first": 1}
    payload = payload_of(maps, image=image)
    assert payload["image"] == {"text": 0, **image}
    shown = payload["texts"][0]["shown"]
    assert shown[1:] == [f"row {row}, column {column}" for row in (0, 1) for column in (0, 1)]
    with pytest.raises(InvalidInput, match="2 × 2 patches from position 2 exceed the 5 sources"):
        payload_of(maps, image={**image, "first": 2})
    assert payload_of(maps, seconds=0.5)["texts"][0]["shown"][3] == "1.50 s"


def test_an_empty_result_is_reported() -> None:
    with pytest.raises(InvalidInput, match="list of maps is empty"):
        payload_of([])
