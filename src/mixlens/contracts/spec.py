"""What a measure is: its `Spec`, with the facts of its scores and its options, and the functions
that it must have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts.request import Request
    from mixlens.contracts.scores import LayerScores, Scores
    from mixlens.contracts.targets import Targets
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of one text in one model, counted in numbers (not bytes)."""

    targets: int  # all tokens of the text, or the named targets in single-target mode
    sources: int
    d_model: int
    heads: int
    d_ff: int
    layers: int
    passing: float  # a text on its way through one layer of the model
    graph: float  # everything that a gradient through the whole model keeps
    matrix: int  # d_model * d_ff, if matrices of a layer are copied
    block: int  # the largest block of vectors that is formed at once
    chunk: int  # the largest chunk of rows that goes through a layer at once
    budget: int  # the memory budget
    options: Mapping[str, Any] = field(default_factory=dict)  # of the measure


GIVES = ("maps", "rows", "row", "graph")
READS = ("attention", "output", "gradient")
SPLITS = (None, "projection", "block")


class AttentionKind(StrEnum):
    """Whose tokens an attention reads: those of its own stack, or those of another."""

    SELF = "self"
    CROSS = "cross"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is true of scores."""

    signed: bool = False  # may they be negative?
    rows_sum_to_one: bool = False
    sums_vary: bool = False  # do rows sum to one, but for some from which a part is missing?
    residual_included: bool = False  # does the diagonal hold the residual stream?
    reaches_input: bool = False  # does each layer already speak of the input tokens?
    same_tokens: bool = True  # are the targets the sources? Not so in cross-attention
    joined_by: str | None = None  # the step that joined the layers, after which none can

    @property
    def rows_are_shares(self) -> bool:
        """Does a row sum to one unless a part of it is missing?"""
        return self.rows_sum_to_one or self.sums_vary

    def of(self, scores: np.ndarray) -> Facts:
        """Return what is true of these scores: shares may have rows from which a part is missing
        (ALTI has empty ones).
        """
        if not self.rows_are_shares:
            return self
        whole = bool(self.whole_rows(scores).all())
        return replace(self, rows_sum_to_one=whole, sums_vary=not whole)

    def whole_rows(self, scores: np.ndarray) -> np.ndarray:
        """Return which rows sum to one. Half-precision scores are rounded one by one."""
        bar = 2e-2 if self.joined_by is None else 2e-5
        whole: np.ndarray = np.abs(scores.sum(-1, dtype=np.float64) - 1) <= bar
        return whole


@dataclass(frozen=True)
class Option:
    """A keyword of a measure, in Python and on the command line."""

    name: str
    default: Any
    kind: str  # its annotation


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a measure is. All that others need to know of it is here, and nowhere else."""

    summary: str
    citation: str
    use_when: str  # when to use it, in plain words
    cost: str  # in forward passes, or as a formula of n
    facts: Facts
    sites: tuple[AttentionKind, ...] = tuple(AttentionKind)
    one_stack: bool = False  # is it defined for models with one stack of layers alone?
    per_head: bool = False
    # Does it explain what the model says (a word, a class)? Then `scores` is given an `Explained`,
    # and the options that name the output (label, word, foil, position, of) come by themselves.
    explains_output: bool = False
    explains_embedding: bool = False  # may it be an embedding, or the similarity of two?
    explains_by_default: str = "probability"  # or "logit": the default of the option `of`
    # What of a forward pass it reads: the "attention" inside, taken apart and verified; only what
    # enters the layers and the "output"; or these two and the "gradient" of one by the other.
    reads: str = "attention"
    # "maps": [layer, target, source]. "rows": one row for each layer. "row": one row for the whole
    # model. "graph": nodes and edges.
    gives: str = "maps"
    # Does a layer's score of a target need that layer, its sources and this target alone? Then a
    # few targets are measured without forming maps.
    row_by_row: bool = False
    # Does it need, of the layers, only the tokens whose logits are explained, and others in blocks?
    # Then one text is measured without forming maps.
    follows_output: bool = False
    # Which sum it splits by source: what the output "projection" returns, or the output of the
    # whole "block", residual stream included. None: neither, so it is given for open layers too.
    splits: str | None = None
    # Does it read nothing of a layer that comes after the attention block? Then the last layer is
    # left there, and its feed-forward part does not run.
    within_blocks: bool = False
    # How the rows of the layers become one ("rows" only): the "first" of them, or their "sum".
    one_row: str = "first"
    # The share of the identity that the paper's own rollout mixes in.
    rollout_residual: float | None = None
    rollout_normalised: bool = True
    rollout_adds_identity: bool = False  # R_l = R_(l-1) + M_l R_(l-1), as for relevance
    # What it sees and what it misses, as a predicate: "`name` <blind_spots>."
    blind_spots: str = ""
    # Peak of one text beyond recording, weights and scores, in numbers (not bytes).
    memory: Callable[[Sizes], float] | None = field(default=None, repr=False)
    # Options for an answer in seconds, if the defaults take minutes (`compare`, `benchmark`).
    quick: Mapping[str, Any] = field(default_factory=dict)
    # Options with which the contract can be checked on any model, by the least work.
    least: Mapping[str, Any] = field(default_factory=dict)
    # How far rounding in float32 may move scores, relative to the largest of a text.
    rounding: float = 1e-5
    # How far bfloat16 may move scores on average, relative to their mean. None: not known.
    half_precision: float | None = 0.15
    # A row is rounding, and counts as empty, if its largest score is below this many units of
    # rounding (the dtype's epsilon) times `Scores.scale`. None: no row is.
    empty_below: float | None = None
    # A floor to compare with, not a way to look into the model.
    baseline: bool = False
    options: tuple[Option, ...] = ()  # filled in from the signature of its function

    def __post_init__(self) -> None:
        if self.gives not in GIVES:
            raise InvalidInput(f"gives={self.gives!r}: choose one of {', '.join(GIVES)}")
        if self.reads not in READS:
            raise InvalidInput(f"reads={self.reads!r}: choose one of {', '.join(READS)}")
        if self.splits not in SPLITS:
            raise InvalidInput(f"splits={self.splits!r}: choose projection, block or None")
        if self.one_row not in ("first", "sum"):
            raise InvalidInput(f"one_row={self.one_row!r}: choose first or sum")

    def with_options(self, options: tuple[Option, ...]) -> Spec:
        """The same measure with its options."""
        return replace(self, options=options)


@runtime_checkable
class ScoreLayer(Protocol):
    """`score_layer(layer, attention, targets, *, option=default)`: the measure of one layer. With
    `Spec.per_head` it also takes `per_head`.
    """

    def __call__(
        self, layer: Layer, attention: Attention, targets: Targets, /, *args: Any, **options: Any
    ) -> LayerScores:
        """Return the numbers of one layer for the whole batch, padding still inside."""


@runtime_checkable
class ScoreModel(Protocol):
    """`score_model(recording, request, *, option=default)`: a measure that needs more than one
    layer at a time. One that explains an output takes it third.
    """

    def __call__(
        self, recording: Recording, request: Request, /, *args: Any, **options: Any
    ) -> Scores:
        """Return the numbers for the whole batch, padding still inside."""


@runtime_checkable
class Refusal(Protocol):
    """`refusal(layer, site)`: why a measure cannot be right on a layer of this structure."""

    def __call__(self, layer: LayerStructure, site: AttentionStructure, /) -> str | None:
        """The reason, or None."""


@runtime_checkable
class Measure(Protocol):
    """What a file in `mixlens.measures` is, and what a plug-in must be.

    It has a `score_layer` or a `score_model`, and may have a `refusal` and a `require_layer`.
    """

    @property
    def SPEC(self) -> Spec:
        """What it is."""


def is_released(variant: str) -> bool:
    """Is a measure to do as the authors' released code does, not as their paper says?"""
    if variant not in ("paper", "released"):
        raise InvalidInput(f"variant={variant!r}: choose paper or released")
    return variant == "released"
