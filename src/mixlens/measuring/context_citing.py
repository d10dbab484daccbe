"""ContextCite: leave out parts of a context to find the parts that support an answer.

Cohen-Wang et al. 2024, ContextCite: Attributing Model Generation to Context (NeurIPS). Many
shortened prompts are drawn. In each of them, every part of the context is kept with probability
1/2. A linear function of the kept parts (LASSO) is fitted to the log-odds of the answer after each
shortened prompt. The weight of a part is its score, which estimates the drop in log-odds without
the part. As in the released code, the log-odds are divided by the number of answer tokens before
the fit, alpha is 0.01, and mask k is drawn with seed k. The quality of this linear function (the
surrogate) is the rank correlation of its predictions with the log-odds on held-out prompts (the
paper's linear datamodeling score). mixlens differs from the released code in three ways: generated
text is not tokenised again, log-odds stay finite for probabilities close to one, and a prompt that
is drawn twice runs only once.

The number of prompts does not depend on the number of parts, but the fit gets worse if there are
more parts than prompts. The hierarchical search (`within`) scores larger parts first. It then
scores the parts inside the best ones and keeps the rest of the context. This takes twice as many
prompts, but each fit has fewer weights. The search misses a part if the larger part that contains
it has no effect as a whole, for example if another document contains the same information.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mixlens.errors import EmptyInput, InvalidInput, MissingExtra, MissingTokenizer
from mixlens.maps.ranked_scores import RankedScores, read_numbers
from mixlens.measuring.answer_odds import answer_odds, require_causal
from mixlens.measuring.estimates import estimate_of_prompt, memory_advice
from mixlens.model.loading import require_head
from mixlens.model.placement import available_to
from mixlens.model.session import open_session
from mixlens.text.continuation import continue_prompt
from mixlens.text.encoding import decode_ids
from mixlens.text.input_checks import takes_decoder_ids
from mixlens.text.prompts import prompt_of
from mixlens.text.segments import Spans, require_apart, spans_of

if TYPE_CHECKING:
    from torch import nn

TEMPLATE = "Context: {context}\n\nQuery: {query}"
_ALPHA = 0.01  # of the LASSO, on standardised columns


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ContextCitation(RankedScores):
    """Scores of the parts of a context: how much each supports an answer.

    Attributes
    ----------
    segments, texts : tuple of str
        Names and texts of the parts.
    scores : numpy.ndarray
        How much the log-odds of the answer fall if a part is left out.
    intercept : float
        The log-odds of the linear model without any part.
    correlation : float
        The rank correlation of the linear model with the log-odds on held-out prompts. NaN if
        either is constant.
    answer : str
        The text of the answer.
    kept : numpy.ndarray
        [ablation, segment]: True for the parts of each prompt.
    log_odds : numpy.ndarray
        [ablation]: log-odds of the answer after each prompt.
    within : ContextCitation or None
        The scores of the larger parts, if the search was hierarchical. Only the parts inside the
        best larger parts have scores here.

    Examples
    --------
    >>> from mixlens import Lens
    >>> citation = Lens.bundled("causal").context_cite(
    ...     "The dogs bark. The cat sleeps.", "Who barks?", "The dogs", ablations=8, held_out=4
    ... )
    >>> citation.scores.shape
    (2,)
    """

    segments: tuple[str, ...]  # their names
    texts: tuple[str, ...]  # their texts
    scores: np.ndarray
    intercept: float  # the surrogate's log-odds without any part
    correlation: float
    answer: str
    kept: np.ndarray  # [ablation, segment]: the parts in each prompt
    log_odds: np.ndarray  # [ablation]: of the answer after it
    within: ContextCitation | None = None

    def __repr__(self) -> str:
        return (
            f"<ContextCitation of {self.answer!r:.60}: {len(self.segments)} segments,"
            f" {len(self.kept)} ablations, held-out correlation {self.correlation:.2f}>"
        )

    _what = "citations of a context"
    _format = "mixlens context citation 1"
    _form: ClassVar[Mapping[str, Any]] = {
        "segments": [str],
        "texts": [str],
        "scores": [float],
        "intercept": float,
        "correlation": object,
        "answer": str,
        "kept": [[bool]],
        "log_odds": [float],
        "within": object,
    }

    def _rank(self) -> tuple[Sequence[str], np.ndarray]:
        return self.segments, self.scores

    def _columns(self) -> Mapping[str, Any]:
        return {"segment": self.segments, "score": self.scores, "text": self.texts}

    def _as_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "scores": self.scores.tolist(),
            "correlation": None if np.isnan(self.correlation) else self.correlation,
            "kept": self.kept.tolist(),
            "log_odds": self.log_odds.tolist(),
            "within": None if self.within is None else self.within._describe(),
        }

    @classmethod
    def _from_json(cls, fields: Mapping[str, Any]) -> Self:
        count, ablations = len(fields["segments"]), len(fields["log_odds"])
        if len(fields["texts"]) != count:
            raise ValueError(f"it has {len(fields['texts'])} texts for {count} segments")
        fit, within = fields["correlation"], fields["within"]
        return cls(
            segments=tuple(fields["segments"]),
            texts=tuple(fields["texts"]),
            scores=read_numbers(fields["scores"], (count,)),
            intercept=float(fields["intercept"]),
            correlation=float("nan") if fit is None else float(fit),
            answer=fields["answer"],
            kept=read_numbers(fields["kept"], (ablations, count)).astype(bool),
            log_odds=read_numbers(fields["log_odds"], (ablations,)),
            within=None if within is None else cls._read(within),
        )


def context_cite(
    model: nn.Module,
    tokenizer: Any,
    context: str,
    query: str,
    *,
    answer: str | Sequence[int] | None,
    segments: str | Mapping[str, tuple[int, int] | str] | Spans,
    ablations: int,
    seed: int,
    held_out: int,
    template: str,
    within: str | Mapping[str, tuple[int, int] | str] | Spans | None,
    best: int,
    max_passes: int | None,
    batch_size: int | None,
    progress: Callable[[int, int], None] | None,
    options: Mapping[str, Any],
) -> ContextCitation:
    """`Lens.context_cite`."""
    if tokenizer is None:
        raise MissingTokenizer("The model has no tokenizer, so it cannot read a context. Add one.")
    require_head(model)
    for name, count, least in (
        ("ablations", ablations, 2),
        ("held_out", held_out, 2),
        ("best", best, 1),
        ("max_passes", 1 if max_passes is None else max_passes, 1),
        ("seed", seed, 0),
    ):
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InvalidInput(f"{name}={count!r} is out of range. Pass at least {least}.")
    spans = _spans(context, segments)
    larger = None if within is None else _spans(context, within)
    most = (ablations + held_out) * (1 if larger is None else 2)
    if max_passes is not None and most > max_passes:
        raise InvalidInput(
            f"{most} forward passes exceed max_passes={max_passes}. Lower ablations or held_out, or"
            " raise the limit."
        )
    require_lasso()  # before the model runs
    run = _Ablations(model, tokenizer, context, query, template, batch_size)
    run.counts = (ablations, held_out, seed)
    run.progress, run.total = progress, most
    available = available_to(model)
    with open_session(model, restores=False) as session:
        session.memory_advice = lambda: memory_advice(
            estimate_of_prompt(model, tokenizer, run.whole), available
        )
        run.read_answer(answer, options)
        if larger is None:
            return run.fit(spans)
        first = run.fit(larger)
        return replace(run.fit(_inside_best(spans, larger, first, best)), within=first)


@dataclass
class _Ablations:
    """One context and one answer, with the prompts that leave out parts of the context."""

    model: nn.Module
    tokenizer: Any
    context: str
    query: str
    template: str
    batch_size: int | None
    counts: tuple[int, int, int] = (0, 0, 0)  # ablations, held-out ones, seed
    progress: Callable[[int, int], None] | None = None
    total: int = 0
    passes: int = 0
    ids: list[int] = field(default_factory=list)  # of the answer
    start: int | None = None  # the start token of a decoder
    answer: str = ""

    @property
    def whole(self) -> Any:
        """The prompt that contains the whole context."""
        return self.prompt(self.context)

    def prompt(self, context: str) -> Any:
        """Return the prompt, formatted as a chat if the tokenizer has a chat template."""
        text = fill_template(self.template, context, self.query)
        chat = getattr(self.tokenizer, "chat_template", None) is not None
        return [{"role": "user", "content": text}] if chat else text

    def read_answer(self, answer: Any, options: Mapping[str, Any]) -> None:
        """Tokenise the answer if one was passed; otherwise generate one."""
        self.ids, self.start = _answer_ids(self.model, self.tokenizer, self.whole, answer, options)
        self.answer = answer if isinstance(answer, str) else decode_ids(self.tokenizer, self.ids)

    def fit(self, spans: Spans) -> ContextCitation:
        """Leave out random parts of the context, and fit a linear model to the log-odds of the
        answer.
        """
        ablations, held_out, seed = self.counts
        masks = draw_masks(ablations + held_out, len(spans), seed)
        different, inverse = np.unique(masks, axis=0, return_inverse=True)
        prompts = [
            prompt_of(self.tokenizer, self.prompt(keep_segments(self.context, spans, mask))).ids
            for mask in different.tolist()
        ]
        odds = self._odds(prompts)[inverse.reshape(-1)]
        scores, intercept = surrogate(masks[:ablations], odds[:ablations], len(self.ids))
        return ContextCitation(
            segments=tuple(name for name, _, _ in spans),
            texts=tuple(self.context[start:stop] for _, start, stop in spans),
            scores=scores,
            intercept=intercept,
            correlation=_correlation(masks[ablations:] @ scores + intercept, odds[ablations:]),
            answer=self.answer,
            kept=masks[:ablations],
            log_odds=odds[:ablations],
        )

    def _odds(self, prompts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-odds of the answer after each prompt.

        With a progress callback, the prompts run in small groups, and the callback is called after
        each group.
        """
        size = len(prompts) if self.progress is None else max(8, self.batch_size or 1)
        odds = []
        for first in range(0, len(prompts), size):
            block = prompts[first : first + size]
            odds.append(
                answer_odds(
                    self.model, self.tokenizer, block, self.ids, self.batch_size, self.start
                )
            )
            self.passes += len(block)
            if self.progress is not None:
                self.progress(self.passes, self.total)
        return np.concatenate(odds)


def _inside_best(spans: Spans, larger: Spans, first: ContextCitation, best: int) -> Spans:
    """Return the parts of the context that begin inside one of the best larger parts."""
    names = {name for name, _ in first.top(best)}
    best_ranges = [(start, stop) for name, start, stop in larger if name in names]
    inside = [span for span in spans if any(a <= span[1] < b for a, b in best_ranges)]
    if not inside:
        raise InvalidInput(
            f"No segment begins in {first.top(1)[0][0]!r}, the best of the larger parts. Raise "
            "`best`, or choose other segments."
        )
    return inside


def keep_segments(context: str, spans: Spans, mask: Sequence[bool]) -> str:
    """Return the context with only the kept segments.

    White space before a segment is removed together with it. Any other text between segments stays.
    """
    text, end = "", 0
    for (_, start, stop), keep in zip(spans, mask, strict=True):
        between = context[end:start]
        if between.strip() or (keep and text):
            text += between
        text += context[start:stop] if keep else ""
        end = stop
    return text + (context[end:] if context[end:].strip() else "")


def draw_masks(count: int, segments: int, seed: int) -> np.ndarray:
    """Return random masks [ablation, segment], True for kept segments.

    Masks with different values of `seed` are independent.
    """
    seeds = range(seed * count, (seed + 1) * count)
    return np.stack([np.random.RandomState(k).random_sample(segments) >= 0.5 for k in seeds])


def require_lasso() -> Any:
    """Return the class of scikit-learn. Raise `MissingExtra` if it is not installed."""
    try:
        from sklearn.linear_model import Lasso
    except ImportError as error:
        raise MissingExtra("scikit-learn") from error
    return Lasso


def surrogate(masks: np.ndarray, log_odds: np.ndarray, tokens: int) -> tuple[np.ndarray, float]:
    """Fit LASSO on standardised columns, and return the weight of each segment and the
    intercept.
    """
    columns = masks.astype(np.float64)
    spread = columns.std(0)
    spread[spread == 0] = 1  # always or never kept: its weight is 0
    lasso = require_lasso()(alpha=_ALPHA)
    lasso.fit((columns - columns.mean(0)) / spread, log_odds / tokens)
    weights = lasso.coef_ / spread
    intercept = float(lasso.intercept_ - columns.mean(0) @ weights)
    return weights * tokens, intercept * tokens


def _correlation(predicted: np.ndarray, actual: np.ndarray) -> float:
    """Return Spearman's correlation."""
    from scipy.stats import spearmanr

    if np.ptp(predicted) == 0 or np.ptp(actual) == 0:
        return float("nan")
    return float(spearmanr(predicted, actual).statistic)


def _spans(context: str, segments: Any) -> Spans:
    if not isinstance(context, str) or not context.strip():
        raise EmptyInput("The context is empty or not a string. Pass a non-empty string.")
    spans = sorted(spans_of(context, segments), key=lambda span: span[1:])
    require_apart(spans, len(context))
    if not spans:
        raise InvalidInput("The context has no segments. Pass at least one.")
    return spans


def fill_template(template: str, context: str, query: str) -> str:
    """Return the template filled with a context and a query."""
    try:
        text = template.format(context=context, query=query)
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidInput(
            f"template {template!r} is invalid. It needs {{context}} and {{query}}."
        ) from error
    if context not in text or "{context}" not in template:
        raise InvalidInput(f"template {template!r} has no {{context}}. Add it.")
    if not text.strip():
        raise InvalidInput(
            f"template {template!r} leaves no prompt if the whole context is left out. Add a text"
            " such as {query}."
        )
    return text


def _answer_ids(
    model: nn.Module, tokenizer: Any, prompt: Any, answer: Any, options: Mapping[str, Any]
) -> tuple[list[int], int | None]:
    """Return the token ids of the answer, and the start token of a decoder.

    If no answer was passed, one is generated from the prompt with the whole context.
    """
    prompt_ids = prompt_of(tokenizer, prompt).ids
    require_causal(model, prompt_ids)
    continuation = continue_prompt(model, tokenizer, prompt, answer=answer, options=options)
    produced, count = continuation.ready.produced, continuation.targets[0] + 1
    assert produced is not None  # it is a continuation
    before = tuple(continuation.ready.tensors["input_ids"][0, :count].tolist())
    if not takes_decoder_ids(model) and before != prompt_ids:
        raise InvalidInput(
            "The answer changes the tokens of the prompt. Begin the answer with a "
            "space, or pass it as token ids."
        )
    begun = continuation.ready.tensors.get("decoder_input_ids")
    start = None if begun is None else int(begun[0, 0])
    return [produced[0].ids[place] for place in continuation.targets], start
