"""FlashTrace's recovery: which tokens are reasoning, answer and evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mixlens import Lens
from mixlens.datasets.generated_prompts import generate_prompts
from mixlens.evaluating.case import Case
from mixlens.papers.pan2026 import recovery


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(Lens.bundled("causal"), generate_prompts("two_hop", 1, documents=4)[0])


def test_spans_produce_the_reasoning_and_the_answer(case: Case) -> None:
    known, tokenizer = recovery._Reasoned(case), case.lens.tokenizer
    produced = [*known.ids[1:], *known.answer_ids[-1:]]  # position t produces token t + 1
    example = known.example
    sentences = [example.text[slice(*span)] for span in example.needles]
    reasoning = tokenizer.decode([produced[place] for place in known.reasoning])
    assert reasoning.strip() == " ".join(sentences)
    assert tokenizer.decode([produced[place] for place in known.answer]) == example.answer
    prompt = tokenizer.decode(known.ids[: known.length], skip_special_tokens=True)
    assert prompt == example.text.rpartition("\n")[0]
    gold = tokenizer.decode([known.ids[place] for place in known.needles])
    wanted = "".join(sentences).replace(".", "")
    assert "".join(gold.split()) == "".join(wanted.split())


def test_the_exhaustive_scores_are_those_of_single_targets(case: Case) -> None:
    known = recovery._Reasoned(case)
    scores = recovery._scores(case, known, "exhaustive")
    rows = []
    for target in (*known.reasoning[:2], known.answer[-1]):
        maps = case.lens.measure("flow_routes", known.recording, targets=[target])
        layers = maps.scores[:, 0] / maps.scores[:, 0].sum(-1, keepdims=True)
        rows.append(layers.mean(0))
    maps = case.lens.measure("flow_routes", known.recording)
    layers = maps.scores / maps.scores.sum(-1, keepdims=True)
    every = layers.mean(0)
    assert np.allclose(scores, every.mean(0), atol=1e-6)
    places = [
        list(maps.target_positions).index(p) for p in (*known.reasoning[:2], known.answer[-1])
    ]
    assert np.allclose(every[places], rows, atol=1e-6)


def test_statements_report_the_number_of_prompts() -> None:
    one, other = np.array([0.5, 0.2, math.nan, 0.1]), np.array([0.1, 0.2, math.nan, 0.3])
    assert "better for 1, worse for 1, equal for 1 of 3 prompts" in recovery._counts(one, other)
    assert recovery._is_larger(one, other) is None
    assert recovery._is_larger(np.arange(9.0) + 1, np.arange(9.0)) is True
    assert recovery._not_smaller(np.full(2, math.nan), np.full(2, math.nan)) is None
