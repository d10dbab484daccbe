"""Find other attention weights that give the same head output, and the bounds of each weight.

Brunner et al. 2020, On Identifiability in Transformers
(https://openreview.net/forum?id=BJg1f6EFDB), section 3. The output of a head is A T, with T = V
W_O. The paper proves that different weights can give the same output. This module finds such
weights by linear programming over the following set:

    { a' >= 0, sum a' = sum a, a' T = a T, a'_j = 0 if the target cannot see j }.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from mixlens.contracts import Request
from mixlens.errors import InvalidInput
from mixlens.kernels.projector import tolerance, value_columns, with_ones
from mixlens.kernels.simplex import left_null_basis, scipy_optimize
from mixlens.measures import effective_attention
from mixlens.recording.recording import Recording
from mixlens.text.tokens import whole_number

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention


@dataclass(frozen=True)
class AlternativeAttention:
    """Alternative attention weights for one target that leave the head output unchanged."""

    weights: Float[np.ndarray, " source"]
    original: Float[np.ndarray, " source"]
    output_error: float  # largest change of the head's output, relative to its largest number

    @property
    def distance(self) -> float:
        """Return the L1 distance between the two distributions. It is at most 2."""
        return float(np.abs(self.weights - self.original).sum())


@dataclass(frozen=True)
class AttentionBounds:
    """Bounds of the attention weights that leave the head output of one target unchanged."""

    lower: Float[np.ndarray, " source"]
    upper: Float[np.ndarray, " source"]
    original: Float[np.ndarray, " source"]
    # Row j is a distribution that gives source j its smallest (largest) weight.
    lower_rows: Float[np.ndarray, "source source"]
    upper_rows: Float[np.ndarray, "source source"]


@dataclass(frozen=True)
class _FreeRow:
    """The attention weights of one target and head, and the directions in which they are free.

    Changing the weights along a free direction changes neither their sum nor the head's output.
    """

    weights: Float[np.ndarray, " source"]
    visible: Int[np.ndarray, " seen"]
    null: Float[np.ndarray, "seen free"]  # directions that change neither the output nor the sum
    fixed: Float[np.ndarray, "seen bound"]  # orthonormal complement
    transformed: Float[np.ndarray, "source d_model"]

    @property
    def visible_weights(self) -> Float[np.ndarray, " seen"]:
        visible_weights: np.ndarray = self.weights[self.visible]
        return visible_weights

    def whole(self, visible_part: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " source"]:
        """Expand the weights of visible sources to all sources, with zeros for hidden sources."""
        weights = np.zeros_like(self.weights)
        weights[self.visible] = visible_part
        return weights

    def furthest(self, direction: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " seen"]:
        """Return the distribution with the same head output that is furthest in this direction."""
        start = self.visible_weights
        solution = scipy_optimize().linprog(
            -direction,
            A_eq=self.fixed.T,
            b_eq=self.fixed.T @ start,
            bounds=(0, None),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if (
            solution.x is None
        ):  # the solver failed on a badly scaled problem; the weights themselves are feasible
            return start
        # Remove errors within the solver's tolerance: only the null space of the change is kept.
        shifted_weights = start + self.null @ (self.null.T @ (solution.x - start))
        shifted_weights = np.clip(shifted_weights, 0, None)
        rescaled: np.ndarray = shifted_weights * (start.sum() / shifted_weights.sum())
        return rescaled


def alternative_attention(
    recording: Recording,
    layer: int,
    head: int,
    target: int,
    site: str | None = None,
    row: int = 0,
    *,
    starts: int = 8,
    seed: int = 0,
) -> AlternativeAttention:
    """Find different attention weights of one target with the same output (Brunner et al. 2020).

    The result is a valid distribution, and the search maximises its L1 distance to the original
    weights. Maximising the L1 distance is not a linear programme, but the distance equals the
    maximum of s·(a' - a) over all sign vectors s. mixlens solves a linear programme for one sign
    vector, continues with the signs of the solution, and stops when the distance no longer grows.
    The search may miss weights that are further away. Needs the extra `eval`.

    Parameters
    ----------
    recording
        A recording of whole texts (`lens.record`).
    layer, head, target
        Indices of the layer, the head and the target token, counted from 0.
    site
        The attention (such as "decoder" or "cross"), if the model has several.
    row
        The index of the text, if the recording has several.
    starts
        The number of sign vectors to start from. The first one raises small weights, the second one
        lowers small weights, and the others are random.
    seed
        Seed of the random sign vectors.

    Returns
    -------
    AlternativeAttention
        The new and the original weights, and the relative change of the head output.

    Raises
    ------
    InvalidInput
        If an index is out of range.
    MissingExtra
        If the extra `eval` is not installed.

    Examples
    --------
    >>> import mixlens
    >>> recording = mixlens.Lens.bundled().record("The dogs bark.")
    >>> found = mixlens.alternative_attention(recording, layer=0, head=0, target=1)
    >>> found.distance  # few tokens: the weights are identifiable
    0.0
    """
    starts = whole_number(starts, "starts")
    if starts < 1:
        raise InvalidInput(f"starts={starts} is out of range. Pass at least 1.")
    recorded = _free_row(recording, layer, head, target, site, row)
    best = recorded.visible_weights
    if recorded.null.shape[1] > 0:
        random = np.random.default_rng(seed)
        low = np.where(best < np.median(best), 1.0, -1.0)
        signs = [low, -low, *random.choice([-1.0, 1.0], size=(max(0, starts - 2), len(low)))]
        candidates = [_climbed(recorded, start) for start in signs[:starts]]
        best = max(
            [best, *candidates],
            key=lambda other: float(np.abs(other - recorded.visible_weights).sum()),
        )
    weights = recorded.whole(best)
    output = recorded.weights @ recorded.transformed
    largest_change = np.abs(weights @ recorded.transformed - output).max()
    return AlternativeAttention(
        weights, recorded.weights, float(largest_change / max(np.abs(output).max(), 1e-300))
    )


def _climbed(recorded: _FreeRow, signs: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " seen"]:
    """Search for the most distant weights, starting from the given sign vector.

    Each linear programme uses the signs of the last solution. The search stops when the distance no
    longer grows.
    """
    best, reached = recorded.visible_weights, 0.0
    for _ in range(20):
        other = recorded.furthest(signs)
        distance = float(np.abs(other - recorded.visible_weights).sum())
        if distance <= reached + 1e-9:
            break
        best, reached, signs = (
            other,
            distance,
            np.where(other >= recorded.visible_weights, 1.0, -1.0),
        )
    return best


def attention_bounds(
    recording: Recording, layer: int, head: int, target: int, site: str | None = None, row: int = 0
) -> AttentionBounds:
    """Compute the range of each attention weight of one target that leaves the output unchanged.

    mixlens solves two linear programmes for each source. With few tokens, both bounds equal the
    true weight. The weights of sources that the target cannot attend to stay zero. Needs the extra
    `eval`.

    Parameters
    ----------
    recording
        A recording of whole texts (`lens.record`).
    layer, head, target
        Indices of the layer, the head and the target token, counted from 0.
    site
        The attention (such as "decoder" or "cross"), if the model has several.
    row
        The index of the text, if the recording has several.

    Returns
    -------
    AttentionBounds
        The smallest and the largest weight of each source, with the distributions that attain them.

    Raises
    ------
    InvalidInput
        If an index is out of range.
    MissingExtra
        If the extra `eval` is not installed.

    Examples
    --------
    >>> import mixlens
    >>> recording = mixlens.Lens.bundled().record("The dogs bark.")
    >>> bounds = mixlens.attention_bounds(recording, layer=0, head=0, target=1)
    >>> bool((bounds.lower == bounds.upper).all())
    True
    """
    recorded = _free_row(recording, layer, head, target, site, row)
    count = len(recorded.weights)
    extremes = {
        -1: np.tile(recorded.weights, (count, 1)),
        1: np.tile(recorded.weights, (count, 1)),
    }
    if recorded.null.shape[1] > 0:
        for place, source in enumerate(recorded.visible):
            unit = np.zeros(len(recorded.visible))
            unit[place] = 1
            for sign, extreme in extremes.items():
                other = recorded.whole(recorded.furthest(sign * unit))
                if sign * (other[source] - recorded.weights[source]) > 0:  # otherwise it stays
                    extreme[source] = other
    return AttentionBounds(
        extremes[-1].diagonal().copy(),
        extremes[1].diagonal().copy(),
        recorded.weights,
        extremes[-1],
        extremes[1],
    )


def _free_row(
    recording: Recording, layer: int, head: int, target: int, site: str | None, text: int
) -> _FreeRow:
    if not isinstance(recording, Recording):
        raise InvalidInput(
            f"{type(recording).__name__} is not a recording. Pass one from lens.record."
        )
    request = Request.resolved(recording, site=site, layers=[layer], targets=None, per_head=True)
    _, parts = next(request.sites(recording))
    heads, batch = parts.weights.shape[1], recording.batch
    targets = len(recording.target_tokens(request.site, text)) if -batch <= text < batch else 0
    for name, value, count in (
        ("row", text, batch),
        ("head", head, heads),
        ("target", target, targets),
    ):
        if not hasattr(value, "__index__") or not -count <= value < count:
            raise InvalidInput(
                f"{name} {value!r} is out of range (0–{count - 1}). Pass a number in this range."
            )
    text, head, target = text % batch, head % heads, target % targets
    visible, columns = _visible_columns(recording, request, parts, text, head, target)
    null = left_null_basis(columns[visible], tolerance(parts.values.dtype))
    fixed = np.linalg.qr(columns[visible])[0] if null.shape[1] == 0 else _complement(null)
    weights, transformed = (
        parts.weights[text, head, target].double(),
        (parts.values[text, head] @ parts.output_weight[head]).double(),
    )
    count = len(recording.source_tokens(request.site, text))
    return _FreeRow(
        weights[:count].cpu().numpy(), visible, null, fixed, transformed[:count].cpu().numpy()
    )


def _visible_columns(
    recording: Recording, request: Request, parts: Attention, text: int, head: int, target: int
) -> tuple[Int[np.ndarray, " seen"], Float[np.ndarray, "source k"]]:
    """Return the sources that a target can attend to, and the matrix [T, 1] of the head."""
    sources = effective_attention.visible_sources(parts, request.chosen(recording))
    columns = with_ones(
        value_columns(parts.values, parts.output_weight, sources.lengths), sources.lengths
    )[text, head]
    visible = sources.of_head(head)[text, target]
    return np.flatnonzero(visible.cpu().numpy()), columns.cpu().numpy()


def _complement(null: Float[np.ndarray, "seen free"]) -> Float[np.ndarray, "seen bound"]:
    """Return an orthonormal basis of the orthogonal complement of `null`."""
    basis = np.linalg.qr(null, mode="complete")[0]
    return basis[:, null.shape[1] :]
