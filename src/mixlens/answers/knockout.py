"""Attention knockout: block the attention from an answer to a passage, in windows of layers.

Geva et al. 2023, Dissecting Recall of Factual Associations in Auto-Regressive Language Models,
section 5. The score of a passage and a window is the drop in the answer's log-probability. The
paper reports `100 (p_new - p) / p` for one token; `percent` computes this number. In contrast to
`leave_one_out`, other tokens of the prompt can still read the passage and carry its content to the
answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from mixlens.answers.answered_prompt import find_passages, read_answered_prompt
from mixlens.answers.attention_edges import BlockedAnswers, Edges, window_layers
from mixlens.answers.leave_one_out import Progress, check_budget, require_finite
from mixlens.answers.passage_scores import PassageScores
from mixlens.errors import InvalidInput
from mixlens.maps.ranked_scores import RankedScores, read_numbers
from mixlens.measuring.answer_odds import token_log_probabilities
from mixlens.model.loading import require_head
from mixlens.model.session import open_session
from mixlens.recording.recording import Recording
from mixlens.text.prompts import Given
from mixlens.text.segments import By


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Knockout(RankedScores):
    """How much an answer depends on the attention to each passage, in each window of layers.

    Attributes
    ----------
    segments, texts : tuple of str
        Names and texts of the passages.
    windows : tuple of tuple of int
        The layers of each window.
    token_scores : numpy.ndarray
        [segment, window, token of the answer]: drop in the log-probability of each token.
    tokens : tuple of str
        The tokens of the answer.
    answer : str
        The text of the answer.
    log_probability : float
        The log-probability of the answer without blocked attention.
    reused : bool
        True if the logits of the answer were computed from cached keys and values.

    Examples
    --------
    >>> from mixlens import Lens
    >>> lens = Lens.bundled("causal")
    >>> blocked = lens.knockout("The dogs bark. The cat sleeps.", answer=" The dogs", windows=3)
    >>> blocked.scores.shape
    (2, 6)
    """

    segments: tuple[str, ...]
    texts: tuple[str, ...]
    windows: tuple[tuple[int, ...], ...]
    token_scores: np.ndarray
    tokens: tuple[str, ...]
    answer: str
    log_probability: float
    reused: bool

    @property
    def scores(self) -> np.ndarray:
        """Drop in the log-probability of the answer, [segment, window]."""
        total: np.ndarray = self.token_scores.sum(-1)
        return total

    @property
    def percent(self) -> np.ndarray:
        """Relative change of the probability of the answer in percent, [segment, window]."""
        change: np.ndarray = 100 * np.expm1(-self.scores)
        return change

    def __repr__(self) -> str:
        first, score = self.top(1)[0]
        return (
            f"<Knockout of {self.answer!r:.60}: {len(self.segments)} segments,"
            f" {len(self.windows)} windows, highest {first!r} ({score:.3g})>"
        )

    def window(self, number: int = 0) -> PassageScores:
        """Return the scores of one window.

        Parameters
        ----------
        number
            The index of the window in `windows`.

        Returns
        -------
        PassageScores
            The passages with a score for each token of the answer.

        Raises
        ------
        InvalidInput
            If the window does not exist.

        Examples
        --------
        >>> blocked.window(0).method
        'knockout'
        """
        is_whole = hasattr(number, "__index__") and not isinstance(number, bool)
        if not is_whole or not -len(self.windows) <= number < len(self.windows):
            raise InvalidInput(f"Window {number!r} is out of range (0–{len(self.windows) - 1}).")
        return PassageScores(
            method="knockout",
            segments=self.segments,
            texts=self.texts,
            token_scores=self.token_scores[:, number],
            tokens=self.tokens,
            answer=self.answer,
            log_probability=self.log_probability,
            passes=len(self.segments) + 1,
            notes={"layers": list(self.windows[number]), "reused_prefix": self.reused},
        )

    _what = "knockout scores"
    _format = "mixlens knockout 1"
    _form: ClassVar[Mapping[str, Any]] = {
        "segments": [str],
        "texts": [str],
        "windows": [[int]],
        "token_scores": [[[float]]],
        "tokens": [str],
        "answer": str,
        "log_probability": float,
        "reused": bool,
    }

    def _rank(self) -> tuple[Sequence[str], np.ndarray]:
        return self.segments, self.scores.max(1)

    def _columns(self) -> Mapping[str, Any]:
        pairs = list(product(range(len(self.segments)), range(len(self.windows))))
        return {
            "segment": [self.segments[segment] for segment, _ in pairs],
            "layers": [list(self.windows[window]) for _, window in pairs],
            "score": self.scores.reshape(-1),
            "percent": self.percent.reshape(-1),
            "text": [self.texts[segment] for segment, _ in pairs],
        }

    def _as_json(self) -> dict[str, Any]:
        return {**vars(self), "token_scores": self.token_scores.tolist()}

    @classmethod
    def _from_json(cls, fields: Mapping[str, Any]) -> Self:
        shape = (len(fields["windows"]), len(fields["tokens"]))
        for names in ("segments", "texts"):
            scores = read_numbers(fields["token_scores"], (len(fields[names]), *shape))
        return cls(
            segments=tuple(fields["segments"]),
            texts=tuple(fields["texts"]),
            windows=tuple(tuple(window) for window in fields["windows"]),
            token_scores=scores,
            tokens=tuple(fields["tokens"]),
            answer=fields["answer"],
            log_probability=float(fields["log_probability"]),
            reused=fields["reused"],
        )


def knockout(
    model: nn.Module,
    tokenizer: Any,
    inputs: Given | Recording,
    *,
    segments: By,
    answer: str | Sequence[int] | None,
    windows: int | str | Sequence[Collection[int]],
    max_passes: int | None,
    batch_size: int | None,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> Knockout:
    """Implement `Lens.knockout`."""
    require_head(model)
    report = progress or (lambda done, total: None)
    with open_session(model, restores=False):
        prompt = read_answered_prompt(model, tokenizer, inputs, answer, options)
        passages = find_passages(prompt.row, segments, prompt.mask)
        answers = BlockedAnswers(model, prompt, batch_size=batch_size)
        layer_lists = window_layers(answers.layers, windows)
        total = len(passages) * len(layer_lists)
        check_budget(total, max_passes, "Choose larger segments or fewer windows")
        full = token_log_probabilities(answers.whole, prompt.answer_ids)
        require_finite(full, "the whole prompt")
        edges = [
            Edges(passage.name, passage.tokens, frozenset(window))
            for passage, window in product(passages, layer_lists)
        ]
        scores = []
        for each, logits in zip(edges, answers.run(edges), strict=True):
            scores.append(full - token_log_probabilities(logits, prompt.answer_ids))
            require_finite(scores[-1], f"attention without {each.name!r}")
            report(len(scores) + 1, total + 1)
    return Knockout(
        segments=tuple(passage.name for passage in passages),
        texts=tuple(passage.text for passage in passages),
        windows=tuple(tuple(window) for window in layer_lists),
        token_scores=np.stack(scores).reshape(len(passages), len(layer_lists), -1),
        tokens=prompt.answer_tokens,
        answer=prompt.answer,
        log_probability=float(full.sum()),
        reused=answers.reuses,
    )
