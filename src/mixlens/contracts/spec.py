"""Describe a measure with a `Spec` (options, properties of the scores, …), and define protocols for
the functions of a measure.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts.request import Request, Targets
    from mixlens.contracts.scores import LayerScores, Scores
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of one text in one model, for memory estimates in tensor elements (not bytes)."""

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


_RENAMED = "`Spec.blind_spots` is now called `limitations`. Pass `limitations=`."
GIVES = ("maps", "rows", "row", "graph")
READS = ("attention", "output", "gradient")
SPLITS = (None, "projection", "block")


class AttentionKind(StrEnum):
    """Whether attention reads the tokens of its own stack or of another stack."""

    SELF = "self"
    CROSS = "cross"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Properties of scores."""

    signed: bool = False  # whether they may be negative
    rows_sum_to_one: bool = False
    sums_vary: bool = (
        False  # whether the scores of a target sum to one, except where a part is missing
    )
    residual_included: bool = False  # whether the diagonal includes the residual stream
    reaches_input: bool = False  # whether each layer already refers to the input tokens
    same_tokens: bool = (
        True  # whether targets and sources are the same tokens (not in cross-attention)
    )
    joined_by: str | None = None  # the step that aggregated the layers, after which none can

    @property
    def rows_are_shares(self) -> bool:
        """Return whether the scores of a target sum to one, unless a part of them is missing."""
        return self.rows_sum_to_one or self.sums_vary

    def of(self, scores: np.ndarray) -> Facts:
        """Return these properties, updated for `scores`.

        Some targets may have no scores, as in ALTI. In this case, `rows_sum_to_one` is False and
        `sums_vary` is True.
        """
        if not self.rows_are_shares:
            return self
        whole = bool(self.whole_rows(scores).all())
        return replace(self, rows_sum_to_one=whole, sums_vary=not whole)

    def whole_rows(self, scores: np.ndarray) -> np.ndarray:
        """Return which targets have scores that sum to one.

        The tolerance allows for half-precision scores, each of which has a rounding error.
        """
        bar = 2e-2 if self.joined_by is None else 2e-5
        whole: np.ndarray = np.abs(scores.sum(-1, dtype=np.float64) - 1) <= bar
        return whole


@dataclass(frozen=True)
class Option:
    """A keyword argument of a measure, in Python and on the command line."""

    name: str
    default: Any
    kind: str  # its annotation


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The description of a measure: its options, requirements and the properties of its scores."""

    summary: str
    citation: str
    use_when: str  # when to use it
    cost: str  # in forward passes, or as a formula of n
    facts: Facts
    sites: tuple[AttentionKind, ...] = tuple(AttentionKind)
    one_stack: bool = False  # whether it supports only models with one stack of layers
    per_head: bool = False
    # Whether it explains an output of the model (a word, a class). Then `scores` receives an
    # `Explained`, and the options that name the output (label, word, foil, position, of) are added.
    explains_output: bool = False
    explains_embedding: bool = (
        False  # whether the output may be an embedding, or the similarity of two
    )
    explains_by_default: str = "probability"  # or "logit": the default of the option `of`
    # The part of a forward pass that it reads: the "attention" inside, split and verified; only the
    # inputs of the layers and the "output"; or these two and the "gradient" of one by the other.
    reads: str = "attention"
    # "maps": [layer, target, source]. "rows": one set of scores per layer. "row": one set for the
    # whole model. "graph": nodes and edges.
    gives: str = "maps"
    # Whether a layer's score of a target needs only that layer, its sources and this target. Then a
    # few targets are measured without maps.
    row_by_row: bool = False
    # Does it need, of the layers, only the tokens whose logits are explained, and others in blocks?
    # Then one text is measured without forming maps.
    follows_output: bool = False
    # Does it need, of a few targets, their layers and the gradients at the inputs of the output
    # projections? Then one pass with a graph measures them without maps.
    follows_gradient: bool = False
    # The sum that it splits by source: the output "projection", or the output of the whole "block",
    # including the residual stream. None: neither, so it supports open layers too.
    splits: str | None = None
    # Whether it reads nothing of a layer after the attention block. Then the forward pass stops
    # there, and the MLP of the last layer does not run.
    within_blocks: bool = False
    # How the scores of the layers are combined ("rows" only): the "first" of them, or their "sum".
    one_row: str = "first"
    # The fraction of the identity in the paper's own rollout.
    rollout_residual: float | None = None
    rollout_normalised: bool = True
    rollout_adds_identity: bool = False  # R_l = R_(l-1) + M_l R_(l-1), as for relevance
    # Its strengths and limitations, as a predicate: "`name` <limitations>."
    limitations: str = ""
    # Peak memory of one text beyond recording, weights and scores, in numbers (not bytes).
    memory: Callable[[Sizes], float] | None = field(default=None, repr=False)
    # Options for a fast answer, if the defaults take minutes (`compare`, `benchmark`).
    quick: Mapping[str, Any] = field(default_factory=dict)
    # Options for checking the contract on any model with the least work.
    least: Mapping[str, Any] = field(default_factory=dict)
    # Largest change of scores by rounding in float32, relative to the largest of a text.
    rounding: float = 1e-5
    # Mean change of scores in bfloat16, relative to their mean. None: unknown.
    half_precision: float | None = 0.15
    # Scores of a target count as zero if the largest is below this many units of rounding (the
    # dtype's epsilon) times `Scores.scale`. None: never.
    empty_below: float | None = None
    # A baseline for comparison, not an explanation of the model.
    baseline: bool = False
    # An option without which it has no scores, such as a file. Lists of measures leave it out.
    needs: str | None = None
    options: tuple[Option, ...] = ()  # filled in from the signature of its function

    def __post_init__(self) -> None:
        if self.gives not in GIVES:
            raise InvalidInput(f"Unknown gives={self.gives!r}. Choose one of: {', '.join(GIVES)}.")
        if self.reads not in READS:
            raise InvalidInput(f"Unknown reads={self.reads!r}. Choose one of: {', '.join(READS)}.")
        if self.splits not in SPLITS:
            raise InvalidInput(f"Unknown splits={self.splits!r}. Choose projection, block or None.")
        if self.one_row not in ("first", "sum"):
            raise InvalidInput(f"Unknown one_row {self.one_row!r}. Choose first or sum.")

    @property
    def blind_spots(self) -> str:
        """Return `limitations`, of which this is the former name."""
        warnings.warn(_RENAMED, DeprecationWarning, stacklevel=2)
        return self.limitations

    @property
    def explains_of_answer(self) -> str:
        """Return the default of the option `of` for a whole answer: its log-probability, or the sum
        of its logits if the measure splits logits.
        """
        splits_logits = self.explains_by_default == "logit" and not self.explains_embedding
        return "logit" if splits_logits else "log_probability"

    def with_options(self, options: tuple[Option, ...]) -> Spec:
        """Return the same description with the options of the measure filled in."""
        return replace(self, options=options)


def _accept_blind_spots(initialise: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of `Spec` that also accepts `blind_spots`, for existing measures."""

    @functools.wraps(initialise)
    def accept(self: Spec, **fields: Any) -> None:
        if "blind_spots" in fields:
            if "limitations" in fields:
                raise InvalidInput(f"limitations and blind_spots were both passed. {_RENAMED}")
            warnings.warn(_RENAMED, DeprecationWarning, stacklevel=2)
            fields["limitations"] = fields.pop("blind_spots")
        initialise(self, **fields)

    return accept


Spec.__init__ = _accept_blind_spots(Spec.__init__)  # type: ignore[method-assign]


@runtime_checkable
class ScoreLayer(Protocol):
    """`score_layer(layer, attention, targets, *, option=default)`: a function that scores one
    layer.

    If `Spec.per_head` is True, it also accepts `per_head`.
    """

    def __call__(
        self, layer: Layer, attention: Attention, targets: Targets, /, *args: Any, **options: Any
    ) -> LayerScores:
        """Return the scores of one layer for the whole batch, with padding."""


@runtime_checkable
class ScoreModel(Protocol):
    """`score_model(recording, request, *, option=default)`: a function that scores several layers
    together.

    If the measure explains an output, the output is the third argument.
    """

    def __call__(
        self, recording: Recording, request: Request, /, *args: Any, **options: Any
    ) -> Scores:
        """Return the scores of the whole batch, with padding."""


@runtime_checkable
class Refusal(Protocol):
    """`refusal(layer, site)`: a function that explains why a measure does not support a layer."""

    def __call__(self, layer: LayerStructure, site: AttentionStructure, /) -> str | None:
        """Return the reason, or None if the measure supports layers of this structure."""


@runtime_checkable
class Measure(Protocol):
    """Protocol of the modules in `mixlens.measures` and of plug-ins.

    A measure has either `score_layer` or `score_model`, and may define `refusal` and
    `require_layer`.
    """

    @property
    def SPEC(self) -> Spec:
        """Return the description."""


def is_released(variant: str) -> bool:
    """Return whether a measure follows the authors' released code instead of their paper."""
    if variant not in ("paper", "released"):
        raise InvalidInput(f"Unknown variant {variant!r}. Choose paper or released.")
    return variant == "released"
