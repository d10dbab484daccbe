from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from mixlens.errors import InvalidInput
from mixlens.evaluations import special_token_rank
from mixlens.evaluations.special_token_rank import places_by_token, relevance_places
from tests.evaluations.released import released
from tests.evaluations.sentences import cases

FOUR = ("[CLS]", "[SEP]", ",", ".")

# Ferrando et al. (2022), figure 6: the means that their code wrote
PUBLISHED = {
    "bert": {
        "raw": 0.63580318,
        "rollout": 0.93424567,
        "norm": 0.8526906,
        "ours": 0.2884935,
        "grad": 0.52485932,
    },
    "distilbert": {
        "raw": 0.58079148,
        "rollout": 0.90392428,
        "norm": 0.81440174,
        "grad": 0.48277366,
    },
}


@pytest.mark.parametrize(
    ("model", "method"), [(model, method) for model, rows in PUBLISHED.items() for method in rows]
)
def test_the_released_attributions_give_the_published_ranks(
    shared: Path, model: str, method: str
) -> None:
    seen = []
    for row in released(shared, model):
        places = places_by_token(np.array(row[method]), row["tokens"], FOUR, "ferrando2022")
        seen.append(
            {
                "value": float(np.mean([p for own in places.values() for p in own])),
                "places": places,
            }
        )
    result = special_token_rank.conclude(seen, variant="ferrando2022")
    assert result.value == pytest.approx(PUBLISHED[model][method], abs=2e-4)
    assert result.interval[0] < result.value < result.interval[1]


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=12))
def test_places_are_scipys_ranks_on_a_scale_from_0_to_1(row: list[int]) -> None:
    ranks = rankdata(np.abs(row))
    places = relevance_places(np.array(row, float))
    assert places == pytest.approx((ranks - 1) / (len(row) - 1))
    assert relevance_places(np.array(row, float), "ferrando2022") == pytest.approx(ranks / len(row))
    assert places.mean() == pytest.approx(0.5)  # chance, at every length


def test_by_hand() -> None:
    row, labels = np.array([0.4, 0.1, 0.2, 0.3, 0.0]), ["[CLS]", ",", "dog", ",", "[SEP]"]
    assert places_by_token(row, labels, FOUR) == {"[CLS]": [1.0], "[SEP]": [0.0], ",": [0.25, 0.75]}
    assert places_by_token(row, labels, FOUR, "ferrando2022")[","] == [0.4]
    assert math.isnan(relevance_places(np.array([1.0]))[0])


def test_special_tokens_of_the_bundled_models() -> None:
    result = special_token_rank.evaluate(cases(), "attention")
    assert set(result.details["tokens"]) == {"[CLS]", "[SEP]", "."}  # not the mask
    assert result.details["counts"] == {"[CLS]": 4, "[SEP]": 4, ".": 4}
    row, labels = cases()[0].target_row("attention"), cases()[0].row.labels
    expected = np.mean(
        [
            (rankdata(row)[labels.index(token)] - 1) / (len(row) - 1)
            for token in ("[CLS]", "[SEP]", ".")
        ]
    )
    assert result.per_example[0] == pytest.approx(expected)
    assert result.direction == "neither"
    assert set(special_token_rank.evaluate(cases("causal"), "alti").details["tokens"]) == {"<s>"}


def test_a_text_without_such_tokens_has_no_number() -> None:
    result = special_token_rank.conclude(
        [{"value": math.nan, "places": {}}, {"value": 0.5, "places": {".": [0.5]}}]
    )
    assert result.value == 0.5
    assert np.isnan(result.per_example[0])


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="variant"):
        special_token_rank.observe(cases()[0], "attention", variant="x")
