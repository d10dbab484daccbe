"""Remove one passage at a time, and score the change of the answer.

The leave-one-out score of a passage g is `F(all) - F(without g)`, where F is the log-probability of
the given answer (teacher forcing). ARC-JSD (Li et al. 2025, Attributing Response to Context) is the
Jensen–Shannon divergence of the next-token distributions with and without g, summed over the tokens
of the answer. It has no sign and does not depend on which token follows. Both scores need one
forward pass per passage and one for the whole prompt. If keys and values can be cached (see
`prefix_reuse`), only the tokens after the passage are re-run.

To remove a passage, mixlens deletes its tokens, and later tokens move up. The text is not tokenised
again. ContextCite, in contrast, tokenises the shortened text, which may produce different tokens
where the text was cut.

The released ARC-JSD function casts to bfloat16 and then computes `(KL(M||P) + KL(M||Q)) / 2` with
`M = (P + Q) / 2`, which is not bounded by log 2. `variant="released"` computes the same number
without the cast. The default is the Jensen–Shannon divergence, `(KL(P||M) + KL(Q||M)) / 2`. Both
are in nats and float64.

The hierarchical search (`within`) scores larger passages first, and then only the segments of the
best ones. For p larger passages of q segments, of which the k best are searched, this takes p + k q
forward passes instead of p q. The search misses the segments of a larger passage whose removal
alone has no effect, for example because another document says the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.answers.answered_prompt import (
    AnsweredPrompt,
    Passage,
    find_passages,
    read_answered_prompt,
    require_rest,
)
from mixlens.answers.passage_scores import PassageScores
from mixlens.answers.prefix_reuse import AnswerPasses
from mixlens.errors import InvalidInput, NonFiniteActivations, no_such
from mixlens.measuring.answer_odds import token_log_probabilities
from mixlens.model.loading import require_head
from mixlens.model.session import open_session
from mixlens.recording.recording import Recording
from mixlens.text.prompts import Given
from mixlens.text.segments import By

Progress = Callable[[int, int], None]
"""Takes the number of finished passes and of all passes."""

SCORES = ("log_probability", "arc_jsd")
_REMOVED = {"log_probability": "leave_one_out", "arc_jsd": "arc_jsd"}


def leave_one_out(
    model: nn.Module,
    tokenizer: Any,
    inputs: Given | Recording,
    *,
    segments: By,
    answer: str | Sequence[int] | None,
    score: str,
    variant: str | None,
    within: By,
    best: int | None,
    max_passes: int | None,
    reuse: bool,
    batch_size: int | None,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> PassageScores:
    """Implement `Lens.leave_one_out`."""
    require_head(model)
    _check_options(score, variant, within, best)
    with open_session(model, restores=False):
        prompt = read_answered_prompt(model, tokenizer, inputs, answer, options)
        passages = find_passages(prompt.row, segments, prompt.mask)
        larger = [] if within is None else find_passages(prompt.row, within, prompt.mask)
        require_rest(prompt, [*passages, *larger])
        advice = "Choose larger segments" if larger else "Search with within='paragraphs'"
        check_budget(len(larger) or len(passages), max_passes, advice)
        run = _Removal(model, tokenizer, prompt, score, variant, reuse, batch_size, progress)
        if not larger:
            return run.score(passages, len(passages) + 1)
        first = run.score(larger, len(larger) + 1)
        inner = _inside_best(passages, larger, first.scores, best, max_passes)
        total = len(larger) + 1 + len(inner)
        return replace(run.score(inner, total), within=first)


class _Removal:
    """Score the passages of one prompt by removing them."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        prompt: AnsweredPrompt,
        score: str,
        variant: str | None,
        reuse: bool,
        batch_size: int | None,
        progress: Progress | None,
    ) -> None:
        self.prompt, self.kind, self.variant = prompt, score, variant
        self.progress = progress or (lambda done, total: None)
        self.passes = AnswerPasses(model, tokenizer, prompt, reuse=reuse, batch_size=batch_size)
        self.finished_passes = 1
        self.full = token_log_probabilities(self.passes.whole, prompt.answer_ids)
        require_finite(self.full, "the whole prompt")

    def score(self, passages: Sequence[Passage], total: int) -> PassageScores:
        """Remove each passage in turn, and return the scores."""
        self.progress(self.finished_passes, total)
        scores = []
        for passage, changes in zip(passages, self._changes(passages), strict=True):
            require_finite(changes, f"the prompt without {passage.name!r}")
            scores.append(changes)
            self.finished_passes += 1
            self.progress(self.finished_passes, total)
        notes = {"reused_prefix": self.passes.reuses}
        return PassageScores(
            method=_REMOVED[self.kind],
            segments=tuple(passage.name for passage in passages),
            texts=tuple(passage.text for passage in passages),
            token_scores=np.stack(scores),
            tokens=self.prompt.answer_tokens,
            answer=self.prompt.answer,
            log_probability=float(self.full.sum()),
            passes=self.finished_passes,
            notes=notes | ({"variant": self.variant} if self.variant else {}),
        )

    def _changes(self, passages: Sequence[Passage]) -> Iterator[np.ndarray]:
        removals = [passage.tokens for passage in passages]
        if self.kind == "arc_jsd":
            return self.passes.without(
                removals,
                lambda logits: divergence(self.passes.whole, logits, self.variant).cpu().numpy(),
            )
        ids = self.prompt.answer_ids
        return self.passes.without(
            removals, lambda logits: self.full - token_log_probabilities(logits, ids)
        )


def divergence(
    one: Float[Tensor, "token word"], other: Float[Tensor, "token word"], variant: str | None = None
) -> Float[Tensor, " token"]:
    """Return the Jensen–Shannon divergence of two next-token distributions per token, in nats.

    With `variant="released"`, return `(KL(M||P) + KL(M||Q)) / 2`, where M is the mean of both
    distributions.
    """
    p, q = (logits.double().log_softmax(-1) for logits in (one, other))
    mean = torch.logaddexp(p, q) - np.log(2)
    if variant == "released":
        terms = mean.exp() * (mean - (p + q) / 2)
    else:
        terms = (p.exp() * (p - mean) + q.exp() * (q - mean)) / 2
    total: Tensor = terms.sum(-1)
    return total


def require_finite(numbers: np.ndarray, what: str) -> None:
    """Raise `NonFiniteActivations` if a score is NaN or infinite."""
    if not np.isfinite(numbers).all():
        raise NonFiniteActivations(
            f"The logits of the answer after {what} are not finite. Load the model in float32 or"
            " bfloat16."
        )


def _check_options(score: str, variant: str | None, within: By, best: int | None) -> None:
    if score not in SCORES:
        raise InvalidInput(no_such("score", score, SCORES))
    if variant not in (None, "released"):
        raise InvalidInput(no_such("variant", variant, ("released",)))
    if variant is not None and score != "arc_jsd":
        raise InvalidInput(f"variant={variant!r} needs score='arc_jsd'. Pass both.")
    if best is not None and within is None:
        raise InvalidInput(f"best={best} needs larger passages. Pass within='paragraphs' too.")
    if best is not None and (isinstance(best, bool) or not isinstance(best, int) or best < 1):
        raise InvalidInput(f"best={best!r} is not a whole number of at least 1.")


def check_budget(passages: int, max_passes: int | None, advice: str) -> None:
    """Raise `InvalidInput` if `max_passes` is too small.

    The search needs one pass for each passage and one for the whole prompt.
    """
    if max_passes is None:
        return
    if isinstance(max_passes, bool) or not isinstance(max_passes, int) or max_passes < 1:
        raise InvalidInput(f"max_passes={max_passes!r} is not a whole number of at least 1.")
    if passages + 1 > max_passes:
        raise InvalidInput(
            f"{passages + 1} forward passes exceed max_passes={max_passes}. {advice}, or raise the"
            " limit."
        )


def _inside_best(
    passages: Sequence[Passage],
    larger: Sequence[Passage],
    scores: np.ndarray,
    best: int | None,
    max_passes: int | None,
) -> list[Passage]:
    """Return the segments inside the best larger passages, within the limits `best` and
    `max_passes`.
    """
    most = 3 if best is None and max_passes is None else best
    budget = None if max_passes is None else max_passes - len(larger) - 1
    selection: list[Passage] = []
    for place in np.argsort(-scores, kind="stable")[:most]:
        inside = set(larger[place].tokens)
        inner = [passage for passage in passages if passage.tokens[0] in inside]
        if budget is not None and len(selection) + len(inner) > budget:
            break
        selection += inner
    if not selection and budget is None:
        raise InvalidInput(
            f"No segment begins in {larger[int(scores.argmax())].name!r}, the best larger passage."
            " Raise best, or choose other segments."
        )
    if not selection:
        raise InvalidInput(
            f"max_passes={max_passes} leaves no pass for the segments of the best larger passage,"
            f" {larger[int(scores.argmax())].name!r}. Raise the limit, or choose larger segments."
        )
    return sorted(selection, key=lambda passage: passage.tokens)
