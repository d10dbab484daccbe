"""Trace an answer through its reasoning to the tokens of the prompt (hops).

The method follows FlashTrace (https://github.com/wbopan/flashtrace; MIT). The answer is a span of
targets, and its scores v_0 are those of `flow_routes` with `span="sum"`, summed over layers. In the
next hop, the span is the reasoning, and each target in this span is weighted by its score from the
previous hop.

    result = M v_0 + sum_k rho_(k-1) M v_k        rho_k = rho_(k-1) * share of v_k in the reasoning

M sets the scores of all tokens except those before the reasoning to zero. mixlens first divides
every v_k by its sum, so that the result sums to at most one; the remainder is the unexplained part.
The target of a token is the position that produces it.

`variant="released"` follows the authors' code instead: it adds the v_k without dividing them, and
the targets are the positions of the tokens themselves. Two options of their code are also
supported. `aggregation="avg"` divides the result by the number of hops, although the sum has one
more term, for the answer itself. `threshold` drops the contribution of a head and source if it is
smaller than this number, in the units of the hidden states. Contributions scale with the weights of
the span, which are set as in the authors' code: the targets of the answer have weight 1, and the
weights of each later hop are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mixlens.errors import InvalidInput, no_such
from mixlens.maps.ranked_scores import RankedScores, read_numbers
from mixlens.measuring.generate import require_causal_stack
from mixlens.measuring.measure import measure
from mixlens.recording.passed_layers import PassedLayers
from mixlens.recording.recording import Recording, require_own
from mixlens.text.tokens import TokenRow, resolve_positions, whole_numbers

if TYPE_CHECKING:
    from mixlens.lens import Lens

VARIANTS = ("normalised", "released")
AGGREGATIONS = ("sum", "avg")
# The last four are the names in FlashTrace: "stop_words" leaves commas, full stops and white space
# out, "both" and "in_all_gen" go on through reasoning and answer, "split_hop" through segments of
# the reasoning.
RECURSIONS = ("reasoning", "stop_words", "both", "in_all_gen", "split_hop")
_LEFT_OUT = frozenset({",", ".", ""})
_MARKS = str.maketrans(dict.fromkeys("Ġ▁Ċ", " "))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Hops(RankedScores):
    """Scores of prompt tokens for an answer, traced through its reasoning.

    Attributes
    ----------
    scores : numpy.ndarray
        [source]. With the default variant, the scores sum to at most one.
    by_hop : numpy.ndarray
        [hop, source], the contribution of each hop to the scores. The first hop is the answer
        itself.
    spans : numpy.ndarray
        [hop, source], the scores of the span of each hop, including sources in the reasoning and
        answer.
    passed_on : numpy.ndarray
        [hop], the share of the score that is passed on after each hop (rho).
    unexplained : float or None
        The part of the answer that no token of the prompt explains; None with
        `variant="released"`, where scores have no common scale.
    residual_share, coherence : numpy.ndarray
        [hop, layer], the statistics of the same name that `flow_routes` returns, for the span of
        each hop.
    tokens : tuple of str
        Labels of the sources.
    settings : dict
        Positions and options.

    Examples
    --------
    >>> from mixlens import Lens
    >>> lens = Lens.bundled("causal")
    >>> hops = lens.hops("The dogs are old. So they", answer=[5, 6], reasoning=[3, 4])
    >>> bool(hops.scores.sum() + hops.unexplained > 0.999)
    True
    """

    scores: np.ndarray
    by_hop: np.ndarray
    spans: np.ndarray
    passed_on: np.ndarray
    unexplained: float | None
    residual_share: np.ndarray
    coherence: np.ndarray
    tokens: tuple[str, ...]
    settings: dict[str, Any]

    def __repr__(self) -> str:
        best, score = self.top(1)[0]
        return f"<Hops: {len(self.by_hop)} spans, highest {best!r} ({score:.3g})>"

    _what = "scores of hops"
    _format = "mixlens hops 1"
    _form: ClassVar[Mapping[str, Any]] = {
        "scores": [float],
        "by_hop": [[float]],
        "spans": [[float]],
        "passed_on": [float],
        "unexplained": object,
        "residual_share": [[float]],
        "coherence": [[float]],
        "tokens": [str],
        "settings": {str: object},
    }

    def _rank(self) -> tuple[Sequence[str], np.ndarray]:
        return self.tokens, self.scores

    def _columns(self) -> Mapping[str, Any]:
        columns = {"position": range(len(self.tokens)), "token": self.tokens, "score": self.scores}
        return {**columns, **{f"hop {number}": scores for number, scores in enumerate(self.by_hop)}}

    def _as_json(self) -> dict[str, Any]:
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def _from_json(cls, fields: Mapping[str, Any]) -> Self:
        count, hops = len(fields["tokens"]), len(fields["by_hop"])
        unexplained = fields["unexplained"]
        if unexplained is not None:
            unexplained = float(unexplained)
        layers = len(fields["coherence"][0]) if fields["coherence"] else 0
        return cls(
            scores=read_numbers(fields["scores"], (count,)),
            by_hop=read_numbers(fields["by_hop"], (hops, count)),
            spans=read_numbers(fields["spans"], (hops, count)),
            passed_on=np.array(fields["passed_on"], dtype=np.float64),
            unexplained=unexplained,
            residual_share=read_numbers(fields["residual_share"], (hops, layers)),
            coherence=read_numbers(fields["coherence"], (hops, layers)),
            tokens=tuple(fields["tokens"]),
            settings=fields["settings"],
        )


def trace_hops(
    lens: Lens,
    inputs: Any,
    *,
    answer: Sequence[int] | None,
    reasoning: Sequence[int] | None,
    hops: int,
    variant: str,
    recursion: str,
    left_out: Sequence[int] | None,
    aggregation: str = "sum",
    threshold: float = 0.0,
) -> Hops:
    """Implement `Lens.hops`."""
    for value, choices, what in (
        (variant, VARIANTS, "variant"),
        (recursion, RECURSIONS, "recursion"),
        (aggregation, AGGREGATIONS, "aggregation"),
    ):
        if value not in choices:
            raise InvalidInput(no_such(what, str(value), choices))
    if variant != "released" and (threshold or aggregation != "sum"):
        option = f"threshold={threshold!r}" if threshold else f"aggregation={aggregation!r}"
        raise InvalidInput(
            f"{option} is an option of the authors' program. Pass variant='released' too."
        )
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 0:
        raise InvalidInput(f"hops={hops!r} is out of range. Pass 0 or more.")
    recording = _recording_of(lens, inputs, answer, reasoning)
    if recording.batch != 1:
        raise InvalidInput(f"hops takes one text, got {recording.batch}.")
    require_causal_stack(recording.model, recording.last_stack)
    recording.last_stack.require_every_layer("hops")
    source_tokens = recording.source_tokens(None, 0)
    plan = _HopSpans.of(recording, source_tokens, answer, reasoning, variant, recursion, left_out)
    if hops and not plan.through:
        raise InvalidInput("A hop needs the reasoning. Pass reasoning=[…], or hops=0.")
    if hops and not recording.is_kept:  # one forward pass for all hops
        every = {*plan.first, *plan.through}
        recording = replace(recording, passed=PassedLayers(every))
    walk = _Walked(recording, plan, threshold)
    (_in_segments if recursion == "split_hop" and hops else _in_turn)(walk, hops)
    scores = np.sum(walk.added, 0)
    if aggregation == "avg":  # a segment has at least one token
        scores = scores / max(1, min(hops, len(plan.through)) if recursion == "split_hop" else hops)
    return Hops(
        scores=scores,
        by_hop=np.array(walk.added),
        spans=np.array(walk.spans),
        passed_on=np.array(walk.passed_on),
        unexplained=None if plan.released else float(1 - scores.sum()),
        residual_share=np.array(walk.residual),
        coherence=np.array(walk.coherence),
        tokens=source_tokens.labels,
        settings={
            "answer": list(plan.answer),
            "reasoning": list(plan.reasoning),
            "hops": hops,
            "variant": variant,
            "recursion": recursion,
            "left_out": np.flatnonzero(~plan.counts).tolist(),
            "aggregation": aggregation,
            "threshold": threshold,
        },
    )


def _recording_of(
    lens: Lens, inputs: Any, answer: Sequence[int] | None, reasoning: Sequence[int] | None
) -> Recording:
    if isinstance(inputs, Recording):
        require_own(inputs, lens.model)
        return inputs
    if not _list_positions(answer, "answer"):
        raise InvalidInput(
            "The answer has no positions. Pass answer=[…], or a recording of lens.generate."
        )
    positions = [*_list_positions(answer, "answer"), *_list_positions(reasoning, "reasoning")]
    return lens.record(inputs, targets=positions)


def _list_positions(positions: Any, what: str) -> list[int]:
    if positions is None or (hasattr(positions, "__len__") and len(positions) == 0):
        return []
    return whole_numbers(positions, what) or []


@dataclass(frozen=True, kw_only=True)
class _HopSpans:
    """The targets of the answer and of each hop, and the sources that are scored."""

    answer: tuple[int, ...]  # targets
    reasoning: tuple[int, ...]
    first: tuple[int, ...]  # the targets of the first span
    through: tuple[int, ...]  # the targets that mass is passed on through
    shift: int  # from a target to its token
    released: bool
    counts: np.ndarray  # [source], False: left out
    after_counts: bool  # whether the token that the last position produces counts
    keeps: np.ndarray  # [source], M

    @classmethod
    def of(
        cls,
        recording: Recording,
        row: TokenRow,
        answer: Sequence[int] | None,
        reasoning: Sequence[int] | None,
        variant: str,
        recursion: str,
        left_out: Sequence[int] | None,
    ) -> _HopSpans:
        released, count = variant == "released", len(row)
        shift = 0 if released else 1
        if answer is None:
            if recording.targets is None:
                raise InvalidInput("Pass answer=[…], the positions of the answer.")
            answer = _answer_of(recording, count, shift)
        targets = _places(answer, count, "answer")
        middle = _places(reasoning, count, "reasoning")
        if not targets:
            raise InvalidInput("The answer has no positions. Pass answer=[…].")
        if set(targets) & set(middle):
            both = sorted(set(targets) & set(middle))[0]
            raise InvalidInput(
                f"Position {both} is in the answer and in the reasoning. Leave it out of one."
            )
        if middle and middle[0] > targets[-1]:
            raise InvalidInput(
                f"The reasoning (from position {middle[0]}) is after the answer (to position"
                f" {targets[-1]}), which cannot see it. Swap them, or leave out reasoning=."
            )
        through: tuple[int, ...] = middle
        if recursion in ("both", "in_all_gen"):
            ends = (*targets, *middle)
            through = tuple(range(min(ends), max(ends) + 1))
        counts, after_counts = np.ones(count, bool), True
        if left_out is not None:
            counts[list(_places(left_out, count, "left_out"))] = False
        elif recursion in ("stop_words", "both"):
            counts[[_is_left_out(label) for label in row.labels]] = False
            label, is_special = _token_after(recording, count)
            after_counts = not (is_special or _is_left_out(label))
        keeps = (np.arange(count) < min(through or targets) + shift) & counts
        return cls(
            answer=targets,
            reasoning=middle,
            first=through if recursion == "in_all_gen" else targets,
            through=through,
            shift=shift,
            released=released,
            counts=counts,
            after_counts=after_counts,
            keeps=keeps,
        )

    def tokens_of(
        self, targets: Sequence[int], scores: np.ndarray, after: float = 0.0
    ) -> np.ndarray:
        """Select the scores of the tokens that belong to the targets.

        `after` is the score of the token that the last position produces, which is not in the text.
        """
        target_scores: np.ndarray = np.append(scores, after)[np.array(targets, int) + self.shift]
        return target_scores


def _places(places: Sequence[int] | None, count: int, what: str) -> tuple[int, ...]:
    numbers = _list_positions(places, what)
    try:
        return tuple(sorted(set(resolve_positions(numbers, count))))
    except IndexError:
        outside = next(place for place in numbers if not -count <= place < count)
        raise InvalidInput(
            f"Position {outside} of the {what} is out of range (0–{count - 1})."
        ) from None


def _answer_of(recording: Recording, count: int, shift: int) -> list[int]:
    """Return the positions of a recorded answer.

    A special token at the end is left out if it is not in the recorded text. Any other last token
    that is not in the text raises `InvalidInput`.
    """
    assert recording.targets is not None
    places = [place + 1 - shift for place in recording.targets[0]]
    if places[-1] == count:
        label, is_special = _token_after(recording, count)
        if len(places) == 1 or not is_special:
            raise InvalidInput(
                f"The last token of the answer, {label!r}, is not in the recorded text. With"
                " variant='released', pass the text with its answer, and answer=[…]."
            )
    return [place for place in places if place < count]


def _token_after(recording: Recording, count: int) -> tuple[str, bool]:
    """Return the token that the last position produced, and whether it is special. If the text was
    not generated, the token is unknown and returned as "?".
    """
    if recording.produced is None:
        return "?", False
    produced_tokens = recording.produced[0].tokens
    return produced_tokens.labels[count - 1], produced_tokens.special is not None and bool(
        produced_tokens.special[count - 1]
    )


def _is_left_out(label: str) -> bool:
    return label.translate(_MARKS).strip() in _LEFT_OUT


class _Walked:
    """Score spans one after the other, and collect their scores and contributions."""

    def __init__(self, recording: Recording, plan: _HopSpans, threshold: float) -> None:
        self.recording, self.plan, self.threshold = recording, plan, threshold
        self.spans: list[np.ndarray] = []
        self.added: list[np.ndarray] = []
        self.passed_on: list[float] = []
        self.residual: list[np.ndarray] = []
        self.coherence: list[np.ndarray] = []

    def score(self, targets: Sequence[int], weights: Sequence[float]) -> np.ndarray:
        """Return the scores of one span, summed over layers."""
        positive = [(at, w) for at, w in zip(targets, weights, strict=True) if w > 0]
        # Scores depend on the scale of the weights only through the threshold. The authors' program
        # divides weights by their sum, and has none if all targets of the answer count.
        is_whole_answer = not self.spans and min(weights) == 1
        scale = 1.0 if is_whole_answer else sum(weights)
        maps = measure(
            "flow_routes",
            self.recording,
            targets=[at for at, _ in positive],
            span="sum",
            weights=[w / scale for _, w in positive],
            threshold=self.threshold,
        )
        assert not isinstance(maps, list)
        scores: np.ndarray = maps.scores[:, 0].astype(np.float64).sum(0) * self.plan.counts
        self.residual.append(np.asarray(maps.extras["residual_share"])[:, 0])
        self.coherence.append(np.asarray(maps.extras["coherence"]))
        total = scores.sum()
        return scores if self.plan.released or not total else scores / total

    def mark_counted(self, targets: Sequence[int]) -> np.ndarray:
        """Return 0 for each target whose token is left out, and 1 for all others."""
        counts = self.plan.counts.astype(float)
        is_counted = self.plan.tokens_of(targets, counts, float(self.plan.after_counts))
        if not is_counted.any():
            raise InvalidInput(
                "All tokens of the answer are left out. Pass a shorter left_out=[…]."
            )
        return is_counted


def _in_turn(walk: _Walked, hops: int) -> None:
    """Score the answer, then run hops whose span is the whole reasoning."""
    plan = walk.plan
    weights, remaining = walk.mark_counted(plan.first), 1.0
    targets: Sequence[int] = plan.first
    for _ in range(hops + 1):
        if not weights.any() or not remaining:  # nothing is passed on
            break
        scores = walk.score(targets, weights.tolist())
        walk.spans.append(scores)
        walk.added.append(remaining * plan.keeps * scores)
        targets = plan.through
        weights = plan.tokens_of(targets, scores)
        remaining *= float(weights.sum() / scores.sum()) if scores.any() else 0.0
        walk.passed_on.append(remaining)


def _in_segments(walk: _Walked, hops: int) -> None:
    """Score the answer, then run one hop per segment of the reasoning, from the last to the first.

    Each segment passes its score on to the tokens before the segment.
    """
    plan = walk.plan
    base = walk.score(plan.first, walk.mark_counted(plan.first).tolist())
    walk.spans.append(base)
    walk.added.append(plan.keeps * base)
    pending = plan.tokens_of(plan.through, base)
    for places in reversed(np.array_split(np.arange(len(plan.through)), hops)):
        if not pending[places].any():
            continue
        targets = [plan.through[place] for place in places]
        span_places = np.array(targets, int) + plan.shift
        scores = walk.score(targets, pending[places].tolist())
        scores = np.where(np.arange(len(scores)) >= span_places.min(), 0.0, scores)
        walk.spans.append(scores)
        passed_on = scores * (pending[places].sum() / scores.sum()) if scores.any() else scores
        walk.added.append(plan.keeps * passed_on)
        pending[places] = 0
        pending += plan.tokens_of(plan.through, passed_on)
