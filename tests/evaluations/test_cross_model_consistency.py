from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from scipy.stats import spearmanr

from mixlens import Lens
from mixlens.datasets.examples import Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluations import cross_model_consistency
from tests.evaluations.sentences import cases, lens

TEXT = "The unhappy keepers found the keys near the old table, again."


@functools.cache
def classifier(seed: int, tokens: str = "masked", predicts: int = 0) -> Lens:
    torch.manual_seed(seed)
    config = hf.BertConfig(  # type: ignore[call-arg]
        vocab_size=len(lens(tokens).tokenizer),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        num_labels=3,
        initializer_range=0.3,
    )
    model: Any = hf.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        model.classifier.bias[predicts] = 10.0
    return Lens(model, lens(tokens).tokenizer)


def labelled(one: Lens, text: str = TEXT) -> Case:
    return Case(one, Labelled(name="x", text=text, label="0"))


def test_a_model_agrees_with_itself() -> None:
    result = cross_model_consistency.evaluate(cases(), "alti", other=Lens.bundled("masked"))
    assert result.per_example == pytest.approx(np.ones(4))
    assert result.details["examples"] == 4


def test_it_is_the_correlation_of_the_words() -> None:
    case, other = labelled(classifier(0)), classifier(1)
    words = [i for i, label in enumerate(case.row.labels) if label not in ("[CLS]", "[SEP]")]
    rows = [one.target_row("value_zeroing") for one in (case, labelled(other))]
    expected = spearmanr(rows[0][words], rows[1][words]).statistic
    assert cross_model_consistency.observe(case, "value_zeroing", other=other) == pytest.approx(
        expected, abs=1e-9
    )
    observation = cross_model_consistency.observe(
        case, "value_zeroing", other=other, special=True, own=True
    )
    assert observation == pytest.approx(spearmanr(*rows).statistic, abs=1e-9)


def test_models_that_disagree_have_no_number() -> None:
    case = labelled(classifier(0))
    assert math.isnan(
        cross_model_consistency.observe(case, "attention", other=classifier(1, predicts=2))
    )
    assert cross_model_consistency.name_prediction(case) == "LABEL_0"
    assert cross_model_consistency.name_prediction(cases()[0]) == "are"


def test_other_tokens_are_compared_by_words() -> None:
    case, other = labelled(classifier(0)), classifier(0, "causal")
    beside = labelled(other)
    assert case.row.labels != beside.row.labels

    def by_word(one: Case) -> list[float]:
        row = one.target_row("attention")
        return [
            sum(row[i] for i in one.tokens_of(match.span()))
            for match in re.finditer(r"\w+|[,.]", TEXT)
        ]

    expected = spearmanr(by_word(case), by_word(beside)).statistic
    assert cross_model_consistency.observe(case, "attention", other=other) == pytest.approx(
        expected, abs=1e-9
    )
    with pytest.raises(InvalidInput, match="special=False"):
        cross_model_consistency.observe(case, "attention", other=other, special=True)


def test_other_words_are_refused_with_the_first_of_them() -> None:
    with pytest.raises(
        InvalidInput, match="'cabinet'"
    ):  # the last token of a causal model is its target
        cross_model_consistency.observe(cases()[0], "attention", other=lens("causal"))


def test_all_measures_share_the_other_models_recording() -> None:
    case, other = labelled(classifier(0)), classifier(1)
    for measure in ("attention", "alti"):
        cross_model_consistency.observe(case, measure, other=other)
    assert list(case._other_cases) == [other]
