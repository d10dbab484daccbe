from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mixlens.datasets.examples import Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluating.sources import rank_agreement, select_sources, special
from mixlens.evaluations import erasure
from tests.evaluations.sentences import agreement, cases, lens


def changes(case: Case, replacement: int, foil: bool) -> np.ndarray:
    """Blank-out by one forward pass for each token."""
    tokenizer, model = case.lens.tokenizer, case.lens.model
    example: Any = case.example
    ids = case.recording.inputs["input_ids"]
    words = [tokenizer.convert_tokens_to_ids(word) for word in (example.target, example.foil)]

    def probability(given: torch.Tensor) -> float:
        logits = model(input_ids=given).logits[0, case.target]
        logits = logits[words] if foil else logits
        return float(torch.softmax(logits, -1)[0 if foil else words[0]])

    changed = []
    with torch.no_grad():
        for place in range(ids.shape[1]):
            replaced = ids.clone()
            replaced[0, place] = replacement
            changed.append(probability(ids) - probability(replaced))
    return np.array(changed)


def product(case: Case, measure: str, residual: float) -> np.ndarray:
    """The row of the rollout, by plain products."""
    joined = np.eye(len(case.row))
    for layer in case.maps(measure).scores.astype(np.float64):
        step = (1 - residual) * layer + residual * np.eye(len(layer))
        joined = step / step.sum(-1, keepdims=True) @ joined
    return joined[case.target]


def test_by_default_words_alone_are_counted_by_size() -> None:
    case = cases()[0]
    reference = np.abs(changes(case, lens().tokenizer.mask_token_id, foil=True))
    words = [i for i, label in enumerate(case.row.labels) if not label.startswith("[")]
    row = product(case, "attention", 0.5)
    assert erasure.observe(case, "attention") == pytest.approx(
        spearmanr(row[words], reference[words]).statistic, abs=1e-6
    )


def test_mohebbis_variant() -> None:
    against = 0
    for case in cases():
        reference = changes(case, lens().tokenizer.unk_token_id, foil=True)
        words = [i for i, label in enumerate(case.row.labels) if not label.startswith("[")]
        against += int((reference[words] < 0).sum())
        row = product(case, "attention", 0.0)
        observation = erasure.observe(case, "attention", variant="mohebbi2023")
        assert observation == pytest.approx(
            spearmanr(row[words], reference[words]).statistic, abs=1e-6
        )
        assert observation != pytest.approx(erasure.observe(case, "attention"))
    assert against > 0  # some words speak against the target, so that signs were put to the test


def test_ferrandos_variant() -> None:
    case = cases()[2]
    reference = np.abs(changes(case, lens().tokenizer.mask_token_id, foil=False))
    observation = erasure.observe(case, "alti", variant="ferrando2022")
    assert observation == pytest.approx(
        spearmanr(product(case, "alti", 0.0), reference).statistic, abs=1e-6
    )


def test_an_option_that_is_named_has_the_last_word() -> None:
    case = cases()[0]
    both = erasure.observe(
        case, "alti", variant="ferrando2022", against="foil", special=False, own=False
    )
    assert both == pytest.approx(erasure.observe(case, "alti", replacement="mask"))
    assert erasure.protocol("mohebbi2023", signed=False).signed is False


def test_the_zero_embedding_is_what_a_model_without_mask_gets() -> None:
    case = cases("causal")[0]
    assert erasure.observe(case, "alti") == pytest.approx(
        erasure.observe(case, "alti", replacement="zero")
    )
    with pytest.raises(InvalidInput, match="unk"):
        erasure.observe(case, "alti", variant="mohebbi2023")


@pytest.mark.parametrize("model", ["masked", "causal"])
def test_erasure_agrees_with_itself(model: str) -> None:
    result = erasure.evaluate(cases(model), "blank_out")
    assert result.per_example == pytest.approx(np.ones(4))
    assert result.details["std"] == pytest.approx(0)
    assert abs(erasure.evaluate(cases(model), "random").value) < 0.9


def test_output_measures_explain_the_same_output_as_the_reference() -> None:
    case = cases()[0]
    assert erasure.observe(case, "blank_out", against="vocabulary") == pytest.approx(1)


def test_the_reference_is_computed_once() -> None:
    case = Case(lens(), cases()[3].example)
    for measure in ("alti", "attention", "random"):
        erasure.observe(case, measure)
    assert sum(name == "blank_out" for name, _ in case._maps) == 1


def test_which_sources_count() -> None:
    case = cases()[0]
    labels = np.array(case.row.labels)
    assert list(labels[special(case)]) == ["[CLS]", "[MASK]", "[SEP]"]
    assert not set(labels[select_sources(case, special_tokens=False, include_target=False)]) & {
        "[CLS]",
        "[MASK]",
        "[SEP]",
    }
    assert list(labels[~select_sources(case, special_tokens=True, include_target=False)]) == [
        "[MASK]"
    ]
    assert list(labels[~select_sources(case, special_tokens=False, include_target=True)]) == [
        "[CLS]",
        "[SEP]",
    ]


def test_an_unknown_word_is_a_word() -> None:
    case = Case(lens(), agreement("The \u4e8c keys are on the table .", "are", "is", "keys"))
    place = case.row.labels.index("[UNK]")
    assert not special(case)[place]


def test_constant_rows_have_no_correlation() -> None:
    everything = np.ones(3, bool)
    assert math.isnan(rank_agreement(np.ones(3), np.arange(3.0), everything))
    assert math.isnan(
        rank_agreement(np.arange(3.0), np.arange(3.0), np.array([True, False, False]))
    )
    assert rank_agreement(
        np.array([1.0, -3.0, 2.0]), np.array([1.0, 3.0, 2.0]), everything
    ) == pytest.approx(1)
    assert rank_agreement(
        np.array([1.0, -3.0, 2.0]), np.array([1.0, 3.0, 2.0]), everything, signed=True
    ) == pytest.approx(-0.5)


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="variant"):
        erasure.observe(cases()[0], "alti", variant="li2016")
    with pytest.raises(InvalidInput, match="against"):
        erasure.observe(cases()[0], "alti", against="all")
    with pytest.raises(InvalidInput, match="no foil"):
        erasure.observe(
            Case(lens(), Labelled(name="x", text="The keys .", label="1")), "alti", against="foil"
        )
    with pytest.raises(InvalidInput, match="Unknown measure"):
        erasure.observe(cases()[0], "atention")
    with pytest.raises(InvalidInput, match="Unknown option"):
        erasure.protocol(sign=True)
