"""Is attention identifiable?

Which other weights would have given the same output, and how far apart they can be.

Brunner et al. 2020, On Identifiability in Transformers
(https://openreview.net/forum?id=BJg1f6EFDB), section 3. A head's output is A T, T = V W_O. Rows of
A may be changed along the left null space of T (of [T, 1] for rows that keep their sum), whose
dimension is the number of tokens less the rank, and nothing after the head can tell.
`identifiability` measures that space; `alternative_attention` and `attention_bounds` turn the
theorem into actual distributions, by linear programmes over

    { a' >= 0, sum a' = sum a, a' T = a T, a'_j = 0 where the target cannot see j }.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int

from mixlens.contracts import Request
from mixlens.errors import InvalidInput
from mixlens.kernels.programs import scipy_optimize
from mixlens.kernels.projector import tolerance, value_columns, with_ones
from mixlens.kernels.simplex import left_null_basis
from mixlens.measures import effective_attention

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from mixlens.recording.recording import Recording
    from mixlens.recording.site import Site


# ------------------------------------------------------------------------------------------- report


def identifiability(recording: Recording, site: str | None = None) -> xr.Dataset | list[xr.Dataset]:
    """For each layer and head (a list of such tables for a batch of several rows):

    * `rank`: the rank of T; `null_dimension`: tokens less rank, the dimension of T's left null
      space;
    * `null_dimension_simplex`: the same for [T, 1], the freedom of rows that keep their sum;
    * `null_share`: the share of the attention's squared norm that lies in T's left null space (both
      parts' shares sum to one);
    * `pearson`: correlation of raw and effective weights over all pairs of a target and a source
      that it can see.

    In causal models rank and dimensions are those of all tokens together, which is what the last
    target sees; share and correlation use each target's own null space.
    """
    request = Request.resolved(recording, site=site, layers=None, targets=None, per_head=True)
    made = effective_attention.scores(recording, request)
    tables: list[list[dict[str, Any]]] = [[] for _ in range(recording.rows(site))]
    for number, (_, found) in enumerate(request.sites(recording)):
        visibility = effective_attention.visibility_of(recording, request, found)
        columns = value_columns(found.values, found.output_weight, visibility.lengths)
        simplex = _ranks(with_ones(columns, visibility.lengths), tolerance(found.values.dtype))
        batch, _, targets, sources = found.weights.shape
        seen = visibility.of(
            request.target_positions(batch, targets, found.weights.device), sources
        )
        for row, table in enumerate(tables):
            targets = len(recording.target_tokens(request.site, row))
            visible = seen[row, :targets]
            raw, effective = (
                found.weights[row, :, :targets][:, visible],
                made.values[number, row, :, :targets][:, visible],
            )
            table.append(
                {
                    "rank": made.extras["rank"][number, row],
                    "null_dimension": made.extras["null_dimension"][number, row],
                    "null_dimension_simplex": visibility.lengths[row] - simplex[row],
                    "null_share": (raw - effective).square().sum(-1) / raw.square().sum(-1),
                    "pearson": _pearson(raw, effective),
                }
            )
    datasets = [_dataset(table, request.layers) for table in tables]
    return datasets[0] if recording.rows(site) == 1 else datasets


def _dataset(table: list[dict[str, Any]], layers: tuple[int, ...]) -> xr.Dataset:
    import xarray as xr

    variables = {
        name: (("layer", "head"), np.stack([line[name].cpu().numpy() for line in table]))
        for name in table[0]
    }
    heads = variables["rank"][1].shape[1]
    return xr.Dataset(variables, coords={"layer": list(layers), "head": np.arange(heads)})


def _ranks(
    columns: Float[Tensor, "batch head source k"], least: float
) -> Int[Tensor, "batch head"]:
    """Numbers of singular values above `least` times the largest.

    Rows of padding are zero and change none of them.
    """
    sizes = torch.linalg.svdvals(columns)
    ranks: Tensor = (sizes > least * sizes[..., :1]).sum(-1)
    return ranks


def _pearson(
    a: Float[Tensor, "head pair"], b: Float[Tensor, "head pair"]
) -> Float[Tensor, " head"]:
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    correlation: Tensor = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))
    return correlation


# --------------------------------------------------------------------------------------- other rows


@dataclass(frozen=True)
class AlternativeAttention:
    """Another row of attention with the same output."""

    weights: Float[np.ndarray, " source"]
    original: Float[np.ndarray, " source"]
    output_error: float  # largest change of the head's output, relative to its largest number

    @property
    def distance(self) -> float:
        """The L1 distance between the two rows; 2 is the most that two distributions can have."""
        return float(np.abs(self.weights - self.original).sum())


@dataclass(frozen=True)
class AttentionBounds:
    """The smallest and the largest weight that each source could have had with the output
    unchanged.
    """

    lower: Float[np.ndarray, " source"]
    upper: Float[np.ndarray, " source"]
    original: Float[np.ndarray, " source"]
    lower_rows: Float[
        np.ndarray, "source source"
    ]  # row j: a distribution that gives source j its smallest weight
    upper_rows: Float[np.ndarray, "source source"]


@dataclass(frozen=True)
class _Row:
    """One target's row of one head and the freedom it has."""

    weights: Float[np.ndarray, " source"]
    visible: Int[np.ndarray, " seen"]
    null: Float[np.ndarray, "seen free"]  # directions that change neither output nor sum
    fixed: Float[np.ndarray, "seen bound"]  # the orthonormal rest of the space
    transformed: Float[np.ndarray, "source d_model"]

    @property
    def seen(self) -> Float[np.ndarray, " seen"]:
        seen: np.ndarray = self.weights[self.visible]
        return seen

    def whole(self, row: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " source"]:
        """The row over all sources, invisible ones zero."""
        weights = np.zeros_like(self.weights)
        weights[self.visible] = row
        return weights

    def furthest(self, direction: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " seen"]:
        """The distribution with the same output that goes furthest in a direction."""
        given = self.seen
        solution = scipy_optimize().linprog(
            -direction,
            A_eq=self.fixed.T,
            b_eq=self.fixed.T @ given,
            bounds=(0, None),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if (
            solution.x is None
        ):  # the solver gave up on a badly scaled corner: the row itself is always feasible
            return given
        # What the solver's tolerance lets through is taken out again: only the null space is left
        # of the change.
        moved = given + self.null @ (self.null.T @ (solution.x - given))
        moved = np.clip(moved, 0, None)
        kept: np.ndarray = moved * (given.sum() / moved.sum())
        return kept


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
    """Another valid row of attention with the same output, as far (L1) from the model's own as
    linear programmes can push it.

    Maximising a distance is not a linear problem, but the distance is the largest of s.(a' - a)
    over sign vectors s. So a programme is solved for a sign vector, the signs are read off its
    solution, and so on while the distance grows, which ends in a corner that no sign flip improves.
    This is repeated from `starts` sign vectors: small weights up and large ones down, the reverse,
    and random ones. The result is a true alternative, but a further one may exist.
    """
    recorded_row = _row(recording, layer, head, target, site, row)
    best = recorded_row.seen
    if recorded_row.null.shape[1] > 0:
        random = np.random.default_rng(seed)
        low = np.where(best < np.median(best), 1.0, -1.0)
        signs = [low, -low, *random.choice([-1.0, 1.0], size=(max(0, starts - 2), len(low)))]
        candidates = [_climbed(recorded_row, start) for start in signs[: max(1, starts)]]
        best = max(
            [best, *candidates], key=lambda other: float(np.abs(other - recorded_row.seen).sum())
        )
    weights = recorded_row.whole(best)
    output = recorded_row.weights @ recorded_row.transformed
    changed = np.abs(weights @ recorded_row.transformed - output).max()
    return AlternativeAttention(
        weights, recorded_row.weights, float(changed / max(np.abs(output).max(), 1e-300))
    )


def _climbed(row: _Row, signs: Float[np.ndarray, " seen"]) -> Float[np.ndarray, " seen"]:
    """From one sign vector to a corner whose own signs lead no further."""
    best, reached = row.seen, 0.0
    for _ in range(20):
        other = row.furthest(signs)
        distance = float(np.abs(other - row.seen).sum())
        if distance <= reached + 1e-9:
            break
        best, reached, signs = other, distance, np.where(other >= row.seen, 1.0, -1.0)
    return best


def attention_bounds(
    recording: Recording, layer: int, head: int, target: int, site: str | None = None, row: int = 0
) -> AttentionBounds:
    """The smallest and the largest weight of each source over all distributions with the same
    output: two linear programmes each.

    Where the tokens are no more than the rank of [T, 1], both are the true weight. Sources that the
    target cannot see stay at zero.
    """
    recorded_row = _row(recording, layer, head, target, site, row)
    count = len(recorded_row.weights)
    rows = {
        -1: np.tile(recorded_row.weights, (count, 1)),
        1: np.tile(recorded_row.weights, (count, 1)),
    }
    if recorded_row.null.shape[1] > 0:
        for place, source in enumerate(recorded_row.visible):
            unit = np.zeros(len(recorded_row.visible))
            unit[place] = 1
            for sign, made in rows.items():
                other = recorded_row.whole(recorded_row.furthest(sign * unit))
                if (
                    sign * (other[source] - recorded_row.weights[source]) > 0
                ):  # else the row itself is as extreme
                    made[source] = other
    return AttentionBounds(
        rows[-1].diagonal().copy(),
        rows[1].diagonal().copy(),
        recorded_row.weights,
        rows[-1],
        rows[1],
    )


def _row(
    recording: Recording, layer: int, head: int, target: int, site: str | None, row: int
) -> _Row:
    request = Request.resolved(recording, site=site, layers=[layer], targets=None, per_head=True)
    _, found = next(request.sites(recording))
    heads, batch = found.weights.shape[1], recording.batch
    targets = len(recording.target_tokens(request.site, row)) if -batch <= row < batch else 0
    for name, value, count in (
        ("row", row, batch),
        ("head", head, heads),
        ("target", target, targets),
    ):
        if not -count <= value < count:
            raise InvalidInput(f"{name} {value}: there are {count}")
    row, head, target = row % batch, head % heads, target % targets
    visible, columns = _visible_columns(recording, request, found, row, head, target)
    null = left_null_basis(columns[visible], tolerance(found.values.dtype))
    fixed = np.linalg.qr(columns[visible])[0] if null.shape[1] == 0 else _complement(null)
    weights, transformed = (
        found.weights[row, head, target].double(),
        (found.values[row, head] @ found.output_weight[head]).double(),
    )
    count = len(recording.source_tokens(request.site, row))
    return _Row(
        weights[:count].cpu().numpy(), visible, null, fixed, transformed[:count].cpu().numpy()
    )


def _visible_columns(
    recording: Recording, request: Request, parts: Site, row: int, head: int, target: int
) -> tuple[Int[np.ndarray, " seen"], Float[np.ndarray, "source k"]]:
    """Which sources a target sees, and the columns of [T, 1] over all of them."""
    visibility = effective_attention.visibility_of(recording, request, parts)
    columns = with_ones(
        value_columns(parts.values, parts.output_weight, visibility.lengths), visibility.lengths
    )[row, head]
    positions = torch.full((recording.batch, 1), target, device=columns.device)
    seen = visibility.of(positions, len(columns))[row, 0]
    return np.flatnonzero(seen.cpu().numpy()), columns.cpu().numpy()


def _complement(null: Float[np.ndarray, "seen free"]) -> Float[np.ndarray, "seen bound"]:
    """An orthonormal basis of everything orthogonal to `null`."""
    basis = np.linalg.qr(null, mode="complete")[0]
    return basis[:, null.shape[1] :]
