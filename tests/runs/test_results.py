"""`mixlens.load` returns the same results as the library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mixlens
from mixlens import Lens
from mixlens.datasets.rows import Columns
from mixlens.errors import InvalidInput
from tests.runs.sentences import run


def test_provenance_of_rolled_out_maps_has_the_step(tmp_path: Path) -> None:
    text, corpus = "The keys are on the table.", tmp_path / "corpus.txt"
    corpus.write_text(f"{text}\n")
    run(corpus, tmp_path / "out", keep="rollout")
    for name in ("attention", "alti"):
        maps, expected = mixlens.load(tmp_path / "out").maps("1", name), Lens.bundled()
        rolled = expected.measure(name, text).rollout()
        assert maps.facts == rolled.facts
        assert maps.provenance["steps"] == rolled.provenance["steps"]
        with pytest.raises(InvalidInput, match="already aggregated"):
            maps.rollout()


def test_a_measure_keeps_its_own_way_of_rolling_out(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"text": "The [MASK] saw it.", "wanted": "dog"}) + "\n")
    run(
        *(corpus, tmp_path / "out"),
        measures=("attention_gradient",),
        keep="scores",
        columns=Columns(explain={"word": "wanted"}),
    )
    expected = Lens.bundled().measure("attention_gradient", "The [MASK] saw it.", word="dog")
    rolled = mixlens.load(tmp_path / "out").maps("1").rollout()
    np.testing.assert_allclose(rolled.scores, expected.rollout().scores, rtol=1e-4, atol=1e-7)


def test_an_id_of_two_texts_is_not_one_text(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    texts = ["The keys are here.", "The cats are here."]
    rows = [{"text": text, "id": "same"} for text in texts]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(
        *(corpus, tmp_path / "out"),
        measures=("attention",),
        keep="scores",
        columns=Columns(id="id"),
    )
    results = mixlens.load(tmp_path / "out")
    with pytest.raises(InvalidInput, match="2 texts have the id 'same', the first on line 1"):
        results.maps("same")
    assert [maps.tokens[2] for maps in results] == ["keys", "cats"]
    assert all(maps.layers == (0, 1, 2, 3, 4, 5) for maps in results)
