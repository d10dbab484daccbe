"""Evaluate scores on a prompt with known evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from mixlens.answers.answered_prompt import AnsweredPrompt, read_answered_prompt
from mixlens.datasets.examples import EvidencePrompt
from mixlens.errors import InvalidInput
from mixlens.maps.one_row import shares
from mixlens.measures import scores_layers, spec_of
from mixlens.measuring.answer_odds import answer_log_probabilities, read_answers

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.evaluating.case import Case

_KNOWN: WeakKeyDictionary[Case, KnownEvidence] = WeakKeyDictionary()


@dataclass(eq=False)
class KnownEvidence:
    """A prompt with known evidence: the tokens of its documents and of the evidence, and the
    model's answer with and without some of these tokens.
    """

    case: Case
    example: EvidencePrompt
    prompt: AnsweredPrompt
    _effects: dict[frozenset[int], float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, case: Case) -> KnownEvidence:
        """Return the known evidence of a case. It is cached, so that all measures share it."""
        if not isinstance(case.example, EvidencePrompt):
            raise InvalidInput(
                f"{case.example.kind} examples have no known evidence. Use evidence data."
            )
        if case not in _KNOWN:
            lens = case.lens
            prompt = read_answered_prompt(lens.model, lens.tokenizer, case.recording, None, {})
            _KNOWN[case] = cls(case, case.example, prompt)
        return _KNOWN[case]

    @cached_property
    def documents(self) -> list[tuple[int, ...]]:
        """Return the token indices of each document."""
        return [self.case.tokens_of(span) for span in self.example.documents]

    @cached_property
    def needles(self) -> list[int]:
        """Return the token indices of the evidence."""
        spans = (self.case.tokens_of(span) for span in self.example.needles)
        return sorted({token for tokens in spans for token in tokens})

    @property
    def length(self) -> int:
        """Return the number of tokens in the prompt."""
        return len(self.prompt.ids)

    @cached_property
    def is_answered(self) -> bool:
        """Return whether the model predicts the expected answer."""
        return self._predicts_answer(self.prompt.ids)

    @cached_property
    def counts(self) -> bool:
        """Return whether the model predicts the expected answer, but not without the evidence."""
        return self.is_answered and not self._predicts_answer(self.prompt.without(self.needles))

    def _predicts_answer(self, prompt: Sequence[int]) -> bool:
        answer_ids = list(self.prompt.answer_ids)

        def is_answer(logits: Tensor) -> bool:
            return bool(logits.argmax(-1).tolist() == answer_ids)

        model, tokenizer = self.case.lens.model, self.case.lens.tokenizer
        return read_answers(model, tokenizer, [prompt], answer_ids, is_answer)[0]

    def log_probabilities(self, removed: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-probability of the answer after removing each set of documents.

        The results are cached, so that all measures share the forward passes.
        """
        sets = [frozenset(documents) for documents in removed]
        new = list(dict.fromkeys(each for each in sets if each not in self._effects))
        if new:
            prompts = [
                self.prompt.without([token for each in documents for token in self.documents[each]])
                for documents in new
            ]
            lens, answer = self.case.lens, self.prompt.answer_ids
            by_token = answer_log_probabilities(lens.model, lens.tokenizer, prompts, answer)
            self._effects.update(zip(new, by_token.sum(1).tolist(), strict=True))
        return np.array([self._effects[each] for each in sets])

    def scores(self, measure: str) -> np.ndarray:
        """Return one score for each token of the prompt, aggregated over layers.

        The answer is scored as one span, or as the mean of its tokens if the measure does not
        support spans.
        """
        if spec_of(measure).explains_output:
            maps = self.case.maps(measure, answer=True)
        elif scores_layers(measure):
            maps = self.case.maps(measure, span=True)
        else:
            maps = self.case.maps(measure)
        target_shares = shares(maps.reading.of(maps.scores))
        return np.array(np.atleast_2d(target_shares).mean(0)[: self.length], np.float64)

    def document_scores(self, measure: str) -> np.ndarray:
        """Return the score of each document, which is the sum over its tokens.

        The first token of the prompt is left out, because it is often an attention sink.
        """
        scores = self.scores(measure)
        scores[0] = 0.0
        return np.array([scores[list(tokens)].sum() for tokens in self.documents])
