from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from mixlens import Lens
from mixlens.datasets.examples import Example, Tagged
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluations import context_contribution
from mixlens.maps.mixing_maps import MixingMaps
from tests.evaluations.model_cases import bundled, case_of, random_case
from tests.measures.models import inputs

PAIR = Example(name="pair", text="A dog sat, the cat ran.", pair="They left.")


def _maps(case: Case) -> np.ndarray:
    return case.maps("hidden_token_attribution", probes=None, wrt="embedding").scores.astype(
        np.float64
    )


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [random_case("bert", 6, seed=0), random_case("bert", 14, seed=1)]


def test_own_shares_with_loops(cases: list[Case]) -> None:
    result = context_contribution.evaluate(cases, probes=None)
    for layer in range(2):
        own, beaten = [], []
        for case in cases:
            for i, row in enumerate(_maps(case)[layer]):
                own.append(row[i])
                beaten.append(any(row[j] > row[i] for j in range(len(row))))
        assert np.allclose(result.details["own"][layer], np.percentile(own, [25, 50, 75]))
        assert math.isclose(result.details["own_mean"][layer], np.mean(own))
        assert math.isclose(result.details["not_largest"][layer], np.mean(beaten))
    assert np.allclose(result.per_example, [np.diag(_maps(case)[-1]).mean() for case in cases])
    assert math.isclose(result.value, result.per_example.mean())


def test_a_hand_worked_map() -> None:
    """Token 1 gives way to token 0, token 2 is level with token 1: of three, one is not its own
    largest contributor.
    """
    case = random_case("bert", 3)
    scores = np.array([[[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.2, 0.4, 0.4]]])
    case.maps = lambda measure, **options: MixingMaps.of(scores)
    details = context_contribution.evaluate([case], reach=2).details
    assert np.allclose(details["own"], [[0.35, 0.4, 0.5]])
    assert np.allclose(details["not_largest"], [1 / 3])
    assert np.allclose(details["by_offset"], [[0.2, 0.45, 1.3 / 3, 0.25, 0.1]])
    assert np.allclose(details["by_distance"], [[1.4 / 3, 0.1, 0, 0, 0, 0]])


def test_places_with_loops(cases: list[Case]) -> None:
    result = context_contribution.evaluate(cases, probes=None, reach=12)
    groups, near, pairs, targets = np.zeros((2, 6)), np.zeros((2, 25)), np.zeros(25), 0
    for case in cases:
        scores = _maps(case)
        targets += scores.shape[-1]
        for i in range(scores.shape[-1]):
            for j in range(scores.shape[-1]):
                away = abs(i - j)
                number = [
                    away == 1,
                    away == 2,
                    away == 3,
                    away in (4, 5),
                    6 <= away <= 10,
                    away > 10,
                ]
                groups[:, np.flatnonzero(number)] += scores[:, i, j][:, None]
                if away <= 12:
                    near[:, j - i + 12] += scores[:, i, j]
                    pairs[j - i + 12] += 1
    assert np.allclose(result.details["by_distance"], groups / targets)
    assert np.allclose(result.details["by_offset"], near / pairs)
    assert np.allclose(result.details["by_offset_total"], near / targets)
    assert result.details["offsets"].tolist() == list(range(-12, 13))


def test_contributions_add_up_to_one(cases: list[Case]) -> None:
    details = context_contribution.evaluate(cases, probes=None).details
    assert np.allclose(details["by_distance"].sum(1) + details["own_mean"], 1)
    assert np.allclose(details["by_offset_total"][:, 10], details["own_mean"])


def test_order_does_not_matter(cases: list[Case]) -> None:
    first, backwards = (
        context_contribution.evaluate(ordered, probes=4, seed=1).details
        for ordered in (cases, cases[::-1])
    )
    for key in ("own", "not_largest", "by_distance", "by_offset"):
        assert np.allclose(first[key], backwards[key], equal_nan=True), key


def test_a_causal_model_takes_nothing_from_what_follows() -> None:
    details = context_contribution.evaluate([random_case("llama", 6)], probes=None, reach=5).details
    assert (details["by_offset"][:, 6:] == 0).all()
    assert (details["by_offset"][:, :6] > 0).all()


def test_layers_that_do_nothing_keep_every_token_to_itself() -> None:
    """Figure 3b is zero where layers mix nothing: attention writes all but the same whatever the
    tokens are.
    """
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
    )
    model = BertModel(config, add_pooling_layer=False).double().eval()
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.self.value.weight.mul_(1e-6)
            layer.attention.self.value.bias.normal_()
    result = context_contribution.evaluate(
        [case_of(Lens(model).record(inputs("bert", 6)), "still")], probes=None
    )
    assert np.allclose(result.details["own"], 1, atol=1e-4)
    assert (result.details["not_largest"] == 0).all()
    assert np.allclose(result.details["by_distance"], 0, atol=1e-4)


def test_contributions_to_cls_around_cls_and_the_first_separator() -> None:
    case = Case(bundled("masked"), PAIR)
    result = context_contribution.evaluate([case], probes=2, reach=4)
    row = case.maps("hidden_token_attribution", probes=2, wrt="embedding", seed=0).row(0).scores
    separator = case.row.labels.index("[SEP]")
    around = result.details["cls_around_cls"]
    assert np.allclose(around[:, 4:], row[:, :5])
    assert np.isnan(around[:, :4]).all()
    assert np.allclose(result.details["cls_around_sep"], row[:, separator - 4 : separator + 5])
    inner = context_contribution.evaluate([case], probes=2, special=False)
    seen = context_contribution.observe(case, probes=2)
    assert math.isclose(
        inner.value,
        np.delete(seen["own"][-1], [0, separator, len(case.row) - 1]).mean(),
        rel_tol=1e-6,
    )


def test_no_cls_leaves_its_contributions_unknown(cases: list[Case]) -> None:
    details = context_contribution.evaluate(cases[:1], probes=2).details
    assert np.isnan(details["cls_around_cls"]).all()
    assert np.isnan(details["cls_around_sep"]).all()
    assert details["tags"] == {}


def test_pieces_of_a_word_have_its_tag() -> None:
    text = "The keys sat."
    tagged = Tagged(
        name="t",
        text=text,
        words=((0, 3), (4, 8), (9, 12), (12, 13)),
        tags=("DET", "NOUN", "VERB", "PUNCT"),
    )
    case = Case(bundled("causal"), tagged)
    seen = context_contribution.observe(case, probes=2)
    assert seen["tag"].tolist() == [
        "",
        "DET",
        "NOUN",
        "NOUN",
        *["VERB"] * (len(case.row) - 5),
        "PUNCT",
    ]
    tags = context_contribution.conclude([seen, seen]).details["tags"]
    assert sorted(tags) == ["DET", "NOUN", "PUNCT", "VERB"]
    assert np.array_equal(tags["NOUN"], np.concatenate([seen["own"][:, 2:4]] * 2, 1))
    wrong = Tagged(name="t", text=text, words=((0, 3),), tags=())
    with pytest.raises(InvalidInput, match="1 words have 0 tags"):
        context_contribution.observe(Case(bundled("causal"), wrong), probes=2)


def test_probes_come_near_the_exact_shares() -> None:
    case = random_case("bert", 9)
    exact, guessed = (context_contribution.evaluate([case], probes=probes) for probes in (None, 64))
    assert np.abs(exact.details["own_mean"] - guessed.details["own_mean"]).max() < 0.05
    assert np.isnan(context_contribution.conclude([]).value)
