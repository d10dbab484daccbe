"""Is attention identifiable? Measure how far the attention weights of a head can change without
changing its output.

The result is a table with one entry for each layer and head.

Brunner et al. 2020, On Identifiability in Transformers
(https://openreview.net/forum?id=BJg1f6EFDB), section 3. The output of a head is A T, with T = V
W_O. Changing the weights of a target along the left null space of T has no effect on the output. If
the weights must keep their sum, this is the left null space of [T, 1]. Its dimension is the number
of tokens minus the rank. `alternative_attention` computes such weights.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from mixlens.contracts import Request
from mixlens.kernels.projector import tolerance, value_columns, with_ones
from mixlens.measures import effective_attention
from mixlens.model.session import outside_inference_mode
from mixlens.recording.recording import score_layers

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from mixlens.recording.recording import Recording


@outside_inference_mode()
def identifiability(recording: Recording, site: str | None = None) -> xr.Dataset | list[xr.Dataset]:
    """Return a table of properties for each layer and head, or a list of tables for a batch of
    texts.

    * `rank`: the rank of T;
    * `null_dimension`: the number of tokens minus the rank, which is the dimension of T's left null
      space;
    * `null_dimension_simplex`: the same for [T, 1], whose null space keeps the sum of the weights;
    * `null_share`: the fraction of the squared norm of the attention weights that lies in T's left
      null space;
    * `pearson`: the correlation between raw and effective weights, over all pairs of a target and a
      source that it can attend to.

    The rank and the dimensions refer to all tokens of the text. In a causal model, only the last
    target attends to all of them. `null_share` and `pearson` use each target's own null space.
    """
    request = Request.resolved(recording, site=site, layers=None, targets=None, per_head=True)
    score = functools.partial(effective_attention.score_layer, per_head=True)
    effective = score_layers({"effective": score}, recording, request)["effective"]
    targets_of_request = request.chosen(recording)
    tables: list[list[dict[str, Any]]] = [[] for _ in range(recording.rows(site))]
    for number, (_, parts) in enumerate(request.sites(recording)):
        visible = effective_attention.visible_sources(parts, targets_of_request)
        columns = value_columns(parts.values, parts.output_weight, visible.lengths)
        simplex = _ranks(with_ones(columns, visible.lengths), tolerance(parts.values.dtype))
        for text, table in enumerate(tables):
            targets = len(recording.target_tokens(request.site, text))
            freedom = _freedom(
                parts.weights[text, :, :targets],
                effective.values[number, text, :, :targets],
                visible.visible[text, :, :targets],
            )
            table.append(
                {
                    "rank": effective.extras["rank"][number, text],
                    "null_dimension": effective.extras["null_dimension"][number, text],
                    "null_dimension_simplex": visible.lengths[text] - simplex[text],
                    **freedom,
                }
            )
    datasets = [_dataset(table, request.layers) for table in tables]
    return datasets[0] if recording.rows(site) == 1 else datasets


def _freedom(
    raw: Float[Tensor, "head target source"],
    effective: Float[Tensor, "head target source"],
    visible: Bool[Tensor, "heads_or_one target source"],
) -> dict[str, Float[Tensor, " head"]]:
    """Return `null_share` and `pearson` for each head, over the visible target-source pairs."""
    if len(visible) > 1:
        heads = [slice(head, head + 1) for head in range(len(visible))]
        by_head = [_freedom(raw[head], effective[head], visible[head]) for head in heads]
        return {name: torch.cat([part[name] for part in by_head]) for name in by_head[0]}
    raw, effective = raw[:, visible[0]], effective[:, visible[0]]
    share = (raw - effective).square().sum(-1) / raw.square().sum(-1)
    return {"null_share": share, "pearson": _pearson(raw, effective)}


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
    """Count the singular values that are larger than `least` times the largest one.

    Padding consists of zeros, which do not affect the singular values.
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
