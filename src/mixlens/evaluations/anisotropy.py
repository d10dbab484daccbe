"""Anisotropy: mean cosine similarity of block outputs, and of their transformed vectors, by layer.

Ferrando et al. (2022), figure 3: the outputs of a block lie in a narrow cone, where cosines are
uninformative. The transformed vectors T_i(x_j), which each source j adds to the output of target i,
do not. The figure averages over random pairs. mixlens averages over all pairs: for N unit vectors
with the sum s, the mean cosine between two different vectors is (|s|^2 - N) / (N (N - 1)). Zero
vectors have no direction and are skipped. They belong to sources that the target cannot attend to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixlens.contracts import AttentionKind, Request
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.states import generator_of
from mixlens.evaluating.statistics import nan_mean

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.evaluating.case import Case
    from mixlens.recording.attention import Attention

KINDS = ("outputs", "transformed")

SPEC = EvaluationSpec(
    summary="mean cosine similarity of any two block outputs, and of any two transformed vectors",
    citation=(
        'Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the'
        ' Transformer", figure 3'
    ),
    direction="neither",
    kinds=("text", "agreement", "classification", "tagged"),
    of="model",
    cost="1 forward pass + n^2 d_model per layer",
    reports={
        "outputs": Detail("cosine of two block outputs, of all texts", "layer"),
        "outputs_within": Detail("the same within a text", "layer"),
        "transformed": Detail("cosine of two transformed vectors, of all texts", "layer"),
        "transformed_within": Detail("the same within a text", "layer"),
    },
)


def observe(
    case: Case, *, site: str | None = None, targets: int = 64, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return sums and counts of the unit vectors of one text.

    For each kind of vector (block outputs and transformed vectors), the result contains the sum
    `<kind>` [layer, d_model] and the number of vectors `<kind>_count` [layer]. Transformed vectors
    are computed for at most `targets` random targets, with all their sources.
    """
    request = Request.resolved(case.recording, site=site, layers=None, targets=None, per_head=False)
    count = len(case.recording.target_tokens(request.site, 0))
    sources = len(case.recording.source_tokens(request.site, 0))
    target_places = np.sort(generator_of(case, seed).permutation(count)[:targets])
    sums: dict[str, list[np.ndarray]] = {
        key: [] for kind in KINDS for key in (kind, f"{kind}_count")
    }
    for _, parts in request.sites(case.recording):
        for kind, vectors in zip(
            KINDS,
            ([parts.block_output[0, :count]], _transform_vectors(parts, target_places, sources)),
            strict=True,
        ):
            total, number = 0.0, 0
            for of_layer in vectors:
                unit, vector_count = _unit(of_layer)
                total, number = total + unit.sum(0), number + int(vector_count)
            sums[kind].append(np.asarray(total, np.float64))
            sums[f"{kind}_count"].append(np.array(number))
    return {key: np.stack(values) for key, values in sums.items()}


def _transform_vectors(site: Attention, targets: np.ndarray, sources: int) -> Iterable[Tensor]:
    """Yield the transformed vectors T_i(x_j) of each target, [source, d_model].

    In self-attention, the vector of the target itself includes the residual.
    """
    parts = site.parts()
    for target in targets.tolist():
        weights = site.weights[0, :, target, :sources]
        vectors = (
            torch.einsum("hs,hsd->sd", weights, parts.vectors.of(slice(0, sources))[0])
            * parts.scale[0, target]
        )
        if site.structure.kind is AttentionKind.SELF:
            vectors[target] += parts.own[0, target]
        yield vectors


def _unit(vectors: Tensor) -> tuple[np.ndarray, int]:
    wide = vectors.detach().double()
    sizes = wide.norm(dim=-1, keepdim=True)
    is_nonzero = sizes[..., 0] > 0
    return (wide[is_nonzero] / sizes[is_nonzero]).cpu().numpy(), int(is_nonzero.sum())


def mean_cosine(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the mean cosine between two different vectors out of `count` unit vectors.

    `total` [..., d_model] is the sum of the vectors. The result is NaN for fewer than two vectors.
    """
    count = np.asarray(count, np.float64)
    pairs = np.where(count > 1, count * (count - 1), np.nan)
    cosine: np.ndarray = ((total**2).sum(-1) - count) / pairs
    return cosine


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean cosine between two block outputs of one text, averaged over texts and layers.

    In `details`, `outputs` and `transformed` [layer] are mean cosines over pairs of vectors from
    all texts. `outputs_within` and `transformed_within` [layer] use only pairs from the same text,
    and average over texts.
    """
    details: dict[str, Any] = {}
    values: np.ndarray = np.empty(0)
    if len(observations):
        stacked = {
            key: np.stack(
                [np.asarray(observation[key], np.float64) for observation in observations]
            )
            for key in observations[0]
        }
        within = {kind: mean_cosine(stacked[kind], stacked[f"{kind}_count"]) for kind in KINDS}
        for kind in KINDS:
            details[kind] = mean_cosine(stacked[kind].sum(0), stacked[f"{kind}_count"].sum(0))
            details[f"{kind}_within"] = nan_mean(within[kind])
        values = within["outputs"].mean(1)
    return Result.of(SPEC, values, details=details)


def evaluate(
    cases: Iterable[Case], *, site: str | None = None, targets: int = 64, seed: int = 0
) -> Result:
    """Evaluate all cases. See `conclude` for the entries of the result."""
    return conclude([observe(case, site=site, targets=targets, seed=seed) for case in cases])
