"""Pan et al. (2026), FlashTrace: the recall of evidence tokens among the top 10 % of the prompt's
tokens, for answers with reasoning.

The paper's data are long prompts with a generated chain of reasoning. mixlens uses generated
prompts and writes the reasoning itself: the evidence sentences, word for word, in front of the
answer line. A prompt counts only if the model answers it correctly after this reasoning. The
experiment compares four ways to score the prompt's tokens with `flow_routes`:

* `exhaustive`: every generated token is a separate target, and the scores are averaged;
* `span`: all generated tokens are one span (`span="sum"`);
* `answer`: only the tokens of the answer are a span, without hops;
* `hops`: like `answer`, with one hop through the reasoning.

Commas, full stops and white space are excluded, as in the authors' runs. The cost is the CPU time
of the method divided by that of one forward pass on the same text. The median over prompts is
reported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import torch

from mixlens.datasets.examples import EvidencePrompt
from mixlens.errors import InvalidInput
from mixlens.evaluating.recovery import recovery
from mixlens.evaluating.statistics import difference_p, interval_of
from mixlens.maps.one_row import shares
from mixlens.measuring.measure import measure
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.recording.recording import Recording

METHODS = ("exhaustive", "span", "answer", "hops")
_NUMBERS = ("tokens", "rank", "passes")
_MARKS = {",", "."}
_KNOWN: WeakKeyDictionary[Case, _Reasoned] = WeakKeyDictionary()

SPEC = ExperimentSpec(
    title="recovery of evidence tokens for answers with reasoning, by targets, spans and hops",
    finding=(
        "a span of targets recovers the evidence as well as scoring every target separately, "
        "at a fraction of the cost, and hops through the reasoning recover more evidence than"
        " the answer alone"
    ),
    kinds=("evidence",),
    data="long prompts with needles, variables and two hops, and reasoning of the model",
    models=(),
    needs="causal",
    cost="a few forward passes for each text, and one for each generated token",
)


class _Reasoned:
    """A prompt whose answer follows reasoning that quotes the evidence sentences."""

    def __init__(self, case: Case) -> None:
        example = case.example
        if not isinstance(example, EvidencePrompt):
            raise InvalidInput(
                f"{example.kind} examples have no known evidence. Use prompts with evidence."
            )
        self.example = example
        prompt, _, line = example.text.rpartition("\n")
        sentences = " ".join(example.text[slice(*span)] for span in example.needles)
        reasoning = f"\n{sentences}"
        self.recording: Recording = case.lens.generate(
            prompt, answer=f"{reasoning}\n{line}{example.answer}"
        )
        produced = self.recording.produced
        targets = self.recording.targets
        assert produced is not None
        assert targets is not None
        produced_tokens = produced[0].tokens
        assert produced_tokens.offsets is not None
        thought = len(prompt) + len(reasoning)
        last = len(prompt) + len(reasoning) + 1 + len(line)
        ends = {place: produced_tokens.offsets[place][1] for place in targets[0]}
        self.reasoning = [place for place in targets[0] if ends[place] <= thought]
        self.answer = [place for place in targets[0] if ends[place] > last]
        self.ids: list[int] = self.recording.inputs["input_ids"][0].tolist()
        self.answer_ids = [produced[0].ids[place] for place in self.answer]
        tokens = self.recording.source_tokens(None, 0)
        self.length = targets[0][0] + 1
        assert tokens.offsets is not None
        assert tokens.text is not None
        words = [tokens.text[a:b].strip() for a, b in tokens.offsets[: self.length]]
        self.word_places = [i for i, word in enumerate(words) if i and word and word not in _MARKS]
        offsets = tokens.offsets[: self.length]
        self.documents = [_cover(offsets, span) for span in example.documents]
        gold = {token for span in example.needles for token in _cover(offsets, span)}
        self.needles = sorted(gold & set(self.word_places))
        self.seconds, logits = _forward(case.lens.model, self.ids)
        self.counts = logits[self.answer].argmax(-1).tolist() == self.answer_ids


def _cover(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> list[int]:
    return [i for i, (a, b) in enumerate(offsets) if a < span[1] and span[0] < b]


@torch.no_grad()
def _forward(model: Any, ids: Sequence[int]) -> tuple[float, torch.Tensor]:
    tensor = torch.tensor([list(ids)], device=next(model.parameters()).device)
    start = time.process_time()
    logits = model(input_ids=tensor).logits[0]
    return time.process_time() - start, logits


def observe(case: Case, method: str) -> dict[str, float]:
    """Return token recovery, reciprocal rank and cost of one prompt.

    All values are NaN if the model answers the prompt incorrectly.
    """
    if case not in _KNOWN:
        _KNOWN[case] = _Reasoned(case)
    prompt = _KNOWN[case]
    if not prompt.counts:
        return dict.fromkeys(_NUMBERS, float("nan"))
    start = time.process_time()
    scores = _scores(case, prompt, method)
    spent = time.process_time() - start
    scores = np.array(scores[: prompt.length], np.float64)
    scores[0] = 0.0  # the attention sink
    numbers = recovery(
        scores, prompt.documents, prompt.example.evidence, prompt.needles, prompt.word_places
    )
    return {
        "tokens": numbers.token_recovery,
        "rank": numbers.reciprocal_rank,
        "passes": spent / prompt.seconds,
    }


def _scores(case: Case, prompt: _Reasoned, method: str) -> np.ndarray:
    if method in ("answer", "hops"):
        hops = case.lens.hops(
            prompt.recording,
            answer=prompt.answer,
            reasoning=prompt.reasoning,
            hops=int(method == "hops"),
        )
        return np.asarray(hops.scores)
    span = "sum" if method == "span" else None
    maps: Any = measure("flow_routes", prompt.recording, span=span)
    mean_shares: np.ndarray = np.atleast_2d(shares(maps.reading.of(maps.scores))).mean(0)
    return mean_shares


def run(setting: Setting) -> Outcome:
    """Score every prompt with the four methods."""
    observations = setting.observe({name: partial(observe, method=name) for name in METHODS})
    values = {
        name: {key: np.array([each[key] for each in answers]) for key in _NUMBERS}
        for name, answers in observations.answers.items()
    }
    table = pd.DataFrame([_row(name, by_number) for name, by_number in values.items()])
    measured = {
        f"{name}, {key}": (_median if key == "passes" else _mean)(by_number[key])
        for name, by_number in values.items()
        for key in _NUMBERS
    }
    recalls = {name: measured[f"{name}, tokens"] for name in values}
    figure = figures.bars(
        {"": recalls}, title="evidence tokens among the best 10 %", y_label="recall"
    )
    return Outcome(
        {"recovery": table}, {"recovery": figure}, measured, _findings(values), observations.skipped
    )


def _row(name: str, by_number: Mapping[str, np.ndarray]) -> dict[str, Any]:
    tokens = by_number["tokens"][~np.isnan(by_number["tokens"])]
    low, high = interval_of(tokens)
    return {
        "method": name,
        "prompts": len(by_number["tokens"]),
        "counted": len(tokens),
        "token recovery": _mean(tokens),
        "low": low,
        "high": high,
        "reciprocal rank": _mean(by_number["rank"]),
        "passes": _median(by_number["passes"]),
    }


def _mean(values: np.ndarray) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else float("nan")


def _median(values: np.ndarray) -> float:
    """Return the median of all values that are not NaN.

    The median is robust to the first prompt, which is slow because the model is verified on it.
    """
    numbers = values[~np.isnan(values)]
    return float(np.median(numbers)) if len(numbers) else float("nan")


def _findings(values: Mapping[str, Mapping[str, np.ndarray]]) -> list[Finding]:
    hops, answer, span, every = (
        values[m]["tokens"] for m in ("hops", "answer", "span", METHODS[0])
    )
    costs = [_median(values[name]["passes"]) for name in ("span", "exhaustive")]
    return [
        Finding(
            "hops through the reasoning recover more evidence than the answer alone",
            _is_larger(hops, answer),
            _counts(hops, answer),
        ),
        Finding(
            "a span recovers at least as much as every target on its own",
            _not_smaller(span, every),
            _counts(span, every),
        ),
        Finding(
            "a span costs less than every target on its own",
            None if np.isnan(costs).any() else costs[0] < costs[1],
            f"{costs[0]:.1f} and {costs[1]:.1f} forward passes",
        ),
    ]


def _is_larger(one: np.ndarray, other: np.ndarray) -> bool | None:
    """Return whether the mean of `one` is larger than the mean of `other`.

    Return None if a paired test finds no significant difference.
    """
    p = difference_p(one, other)
    return bool(_mean(one) > _mean(other)) if p < 0.05 else None


def _not_smaller(one: np.ndarray, other: np.ndarray) -> bool | None:
    """Return whether the mean of `one` is not significantly smaller than the mean of `other`.

    Return None if no prompt counts.
    """
    if np.isnan(one).all():
        return None
    return _is_larger(other, one) is not True


def _counts(one: np.ndarray, other: np.ndarray) -> str:
    """Describe the two means, and count the prompts for which `one` is better, worse or equal."""
    gaps = (one - other)[~np.isnan(one - other)]
    better, worse = int((gaps > 0).sum()), int((gaps < 0).sum())
    return (
        f"{_mean(one):.2f} and {_mean(other):.2f}; better for {better}, worse for {worse}, equal"
        f" for {len(gaps) - better - worse} of {len(gaps)} prompts;"
        f" p = {difference_p(one, other):.3f}"
    )
