"""Evaluations on prompts with known evidence, on the bundled causal model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mixlens import Lens
from mixlens import datasets as corpus
from mixlens.datasets.examples import Example
from mixlens.datasets.generated_prompts import generate_prompts
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import recovery
from mixlens.evaluations import evaluate, injection_recovery, lds, needle_recovery, top_k_drop
from mixlens.runs.observing import TimedCase
from training.leaderboard.document_methods import score_documents

LOST = 2  # a prompt whose answer needs two documents; the bundled model names the wrong place


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    lens = Lens.bundled("causal")
    first, *others = generate_prompts("fact", 3, documents=2)
    lost = generate_prompts("two_hop", LOST + 1, documents=4)[LOST]
    return [Case(lens, prompt) for prompt in (first, lost, *others)]


def log_probability(lens: Lens, prompt: str, answer: str) -> float:
    """By the model alone."""
    tokenizer = lens.tokenizer
    before = tokenizer(prompt).input_ids
    wanted = tokenizer(answer, add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = lens.model(input_ids=torch.tensor([before + wanted])).logits[0]
    chosen = logits[len(before) - 1 : -1].log_softmax(-1)
    return float(chosen[range(len(wanted)), wanted].sum())


def test_only_answered_prompts_count(cases: list[Case]) -> None:
    for case, expected in zip(cases, (True, False, True, True), strict=True):
        known, lens = KnownEvidence.of(case), case.lens
        assert known.counts is expected
        with torch.no_grad():
            ids = lens.tokenizer(case.example.text, return_tensors="pt").input_ids
            word = lens.tokenizer.decode(lens.model(input_ids=ids).logits[0, -1].argmax())
        assert (word == known.example.answer) is expected
    lost = needle_recovery.observe(cases[1], "attention")
    assert math.isnan(lost["value"])


def test_numbers_are_those_of_the_measure(cases: list[Case]) -> None:
    case = cases[0]
    known = KnownEvidence.of(case)
    numbers = needle_recovery.observe(case, "alti")
    recording = case.lens.generate(case.example.text, answer=known.example.answer)
    maps = case.lens.measure("alti", recording, span=True)
    layers = maps.scores[:, 0] / maps.scores[:, 0].sum(-1, keepdims=True)
    row = layers.mean(0)[: known.length].astype(np.float64)
    row[0] = 0
    by_hand = recovery(
        row, known.documents, known.example.evidence, known.needles, range(1, known.length)
    )
    assert numbers["value"] == pytest.approx(by_hand.reciprocal_rank)
    assert numbers["token_recovery"] == pytest.approx(by_hand.token_recovery)
    assert {numbers["first_document"], numbers["last_document"]} == {0.5, 1.0}
    assert numbers["chance"] == pytest.approx(0.75)


def test_all_kinds_of_measures_are_judged(cases: list[Case]) -> None:
    for measure in ("attention", "gradient_x_input", "random"):
        result = evaluate("needle_recovery", cases, measure)
        assert result.details["counted"] == 3
        assert 0.5 <= result.value <= 1
        assert np.isnan(result.per_example[1])


def test_drops_are_those_of_the_model(cases: list[Case]) -> None:
    case = cases[0]
    known = KnownEvidence.of(case)
    numbers = top_k_drop.observe(case, "attention")
    best = int(np.argmax(known.document_scores("attention")))
    text, (start, stop) = case.example.text, known.example.documents[best]
    answer = known.example.answer
    whole = log_probability(case.lens, text, answer)
    removed = [known.prompt.ids[i] for i in range(known.length) if i not in known.documents[best]]
    assert case.lens.tokenizer.decode(removed, skip_special_tokens=True) == (
        text[:start] + text[stop:]
    )
    ids = torch.tensor([[*removed, *known.prompt.answer_ids]])
    with torch.no_grad():
        after = case.lens.model(input_ids=ids).logits[0, len(removed) - 1].log_softmax(-1)
    assert numbers["value"] == pytest.approx(
        whole - float(after[known.prompt.answer_ids[0]]), abs=1e-4
    )
    assert math.isnan(numbers["drop_3"])
    assert math.isnan(top_k_drop.evaluate([case], "attention").details["drop_5"])


def test_ablations_are_the_same_for_all_measures() -> None:
    case = Case(Lens.bundled("causal"), generate_prompts("fact", 1, documents=4)[0])
    known = KnownEvidence.of(case)
    value = lds.observe(case, "attention", masks=12)
    assert -1 <= value <= 1
    assert value == lds.observe(case, "attention", masks=12)
    assert len(known._effects) <= 12  # each set once
    assert lds.evaluate([case], "attention", masks=12).value == pytest.approx(value)


def test_options_out_of_range_are_refused(cases: list[Case]) -> None:
    """k=-1 would remove all documents but the last one."""
    with pytest.raises(InvalidInput, match="k=-1 is out of range"):
        top_k_drop.observe(cases[0], "attention", k=-1)
    with pytest.raises(InvalidInput, match="masks=1 is out of range"):
        lds.observe(cases[0], "attention", masks=1)


def test_other_examples_are_refused(cases: list[Case]) -> None:
    with pytest.raises(InvalidInput, match="no injected instruction"):
        injection_recovery.observe(cases[0], "attention")
    plain = Case(cases[0].lens, Example(name="x", text="The dogs bark."))
    with pytest.raises(InvalidInput, match="no known evidence"):
        needle_recovery.observe(plain, "attention")


def test_a_benchmark_reads_generated_prompts() -> None:
    data = corpus.read("generated:injection?count=2&documents=3")
    result = evaluate(
        "injection_recovery", [Case(Lens.bundled("causal"), each) for each in data.examples], "alti"
    )
    assert result.details["counted"] == 0


def test_measures_of_layers_share_one_pass(cases: list[Case]) -> None:
    """Scores are those of measures alone, and the first one computes all of them."""
    lens, example = cases[0].lens, cases[0].example
    names = ("attention", "alti", "flow_routes")
    case = TimedCase(lens, example, options={}, pass_measures=names)
    shared = KnownEvidence.of(case)
    first = shared.scores("alti")
    assert case.seconds.keys() == set(names)  # all were computed
    for name in names:
        assert np.array_equal(shared.scores(name), KnownEvidence.of(cases[0]).scores(name))
    assert np.array_equal(first, shared.scores("alti"))


def test_documents_are_scored_by_removal(cases: list[Case]) -> None:
    case = cases[0]
    known = KnownEvidence.of(case)
    text, answer = case.example.text, known.example.answer
    losses = score_documents(known, "leave_one_out")
    for loss, tokens in zip(losses, known.documents, strict=True):
        ids = [*known.prompt.without(tokens), *known.prompt.answer_ids]
        with torch.no_grad():
            logits = case.lens.model(input_ids=torch.tensor([ids[:-1]])).logits[0, -1]
        after = float(logits.log_softmax(-1)[ids[-1]])
        whole = log_probability(case.lens, text, answer)
        assert loss == pytest.approx(whole - after, abs=1e-4)
    best = known.example.evidence[0]
    for method in ("leave_one_out", "context_cite", "lexical"):
        assert int(np.argmax(score_documents(known, method))) == best
    assert score_documents(known, "first").argmax() == 0
    assert score_documents(known, "last").argmax() == len(known.documents) - 1
    assert (score_documents(known, "value_zeroing_segments") > 0).all()


def test_the_sink_counts_on_request(cases: list[Case]) -> None:
    known = KnownEvidence.of(Case(cases[0].lens, cases[0].example))
    known.documents[0] = (0, *known.documents[0])  # as without a token that begins every text
    without, with_it = (score_documents(known, "attention", sink=s) for s in (False, True))
    gap = with_it - without
    assert gap[0] == pytest.approx(known.scores("attention")[0])
    assert gap[0] > 0
    assert not gap[1:].any()


def test_lds_is_that_of_the_native_model() -> None:
    """Attention by transformers, passes of the shortened prompts, and scipy's correlation."""
    case = Case(Lens.bundled("causal"), generate_prompts("fact", 1, documents=4)[0])
    known, seed, masks = KnownEvidence.of(case), 3, 14
    model: Any = case.lens.model
    prompt, answer = list(known.prompt.ids), list(known.prompt.answer_ids)
    tokens = [list(own) for own in known.documents]
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        layers = model(torch.tensor([prompt + answer[:-1]]), output_attentions=True).attentions
    model.set_attn_implementation(before)
    weights = torch.stack(layers).double().mean((0, 2))[0].numpy()  # [target, source]
    row = weights[len(prompt) - 1 :].mean(0)
    row[0] = 0
    scores = np.array([row[own].sum() for own in tokens])
    draw = np.random.default_rng([seed, len(case.example.text)])
    kept = draw.random((masks, len(tokens))) < 0.5
    effects = []
    for mask in kept:
        gone = {token for own, keep in zip(tokens, mask, strict=True) if not keep for token in own}
        rest = [token for place, token in enumerate(prompt) if place not in gone]
        with torch.no_grad():
            logits = model(torch.tensor([rest + answer[:-1]])).logits[0].double().log_softmax(-1)
        places = range(len(rest) - 1, len(rest) - 1 + len(answer))
        effects.append(
            sum(float(logits[place, token]) for place, token in zip(places, answer, strict=True))
        )
    expected = spearmanr(kept @ scores, effects).statistic
    assert lds.observe(case, "attention", masks=masks, seed=seed) == pytest.approx(expected)
