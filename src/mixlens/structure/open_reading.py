"""Describe layers whose output is not a known sum: their attention is captured, and the rest runs
unchanged.

Several streams of a token that are mixed in each layer (Gemma 3n, DeepSeek V4), a norm between A V
and the output projection (BitNet) or factors on the residual (Doge) have no block that could be
split by source. Attention weights and values are still known, and the layer can run again with
other values, which is enough for `attention` and `value_zeroing`. If a linear module takes A V, the
norms of each source's vectors are known too.

mixlens verifies that A V is the output of attention, that each value depends on one token alone
(Inkling uses a convolution), and that the layer passes its own states on next to its attention. A
list of attentions whose residual is added outside of it (XLM) is not a list of layers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import attention_product, rounding, row_sizes
from mixlens.structure.attention_reading import projection_of
from mixlens.structure.attention_sources import has_sink, is_causal, sources_of
from mixlens.structure.layer_structure import AttentionStructure
from mixlens.structure.trace_matching import Evidence


def open_sites(evidence: Evidence, why: str) -> tuple[AttentionStructure, ...] | None:
    """Return the attentions of a layer that cannot be explained for the reason `why`, or None if
    they are unknown too.
    """
    for core in evidence.trace.cores:
        weights, values = core.call.weights, core.call.values
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
        _, error = attention_product(weights, values, core.call.output)
        if not error <= rounding(evidence.hidden):
            return None
    output, moved = _run_without_attention(evidence)
    if not _passes_states_on(output, evidence.tolerance):
        return None
    if any(core.call.across for core in evidence.trace.cores):
        why = "two streams attend in it, each in its own calls, and no module takes A V of both"
    sites = tuple(_open_site(evidence, index, why) for index in range(len(evidence.trace.cores)))
    _require_values_of_tokens(evidence, moved)
    return sites


def _open_site(evidence: Evidence, index: int, why: str) -> AttentionStructure:
    call = evidence.trace.cores[index].call
    kind, own_sources = sources_of(evidence, index)
    try:
        projection, gated = projection_of(evidence, index, any_width=True)
    except UnsupportedModel:
        path, gated = None, False
    else:
        path = projection.path
    return AttentionStructure(
        kind=kind,
        own_sources=own_sources,
        own_values=any(evidence.trace.own_sources[index]),
        heads=int(call.weights.shape[1]),
        kv_heads=int(call.values.shape[1]),
        d_head=int(call.values.shape[-1]),
        causal=is_causal(evidence, index),
        across=call.across,
        projection=path,
        gated=gated,
        branch=(),
        branch_norm=False,
        has_sink=has_sink(call.weights),
        open=why,
    )


def _run_without_attention(evidence: Evidence) -> tuple[Tensor, Tensor]:
    """Return the layer's output if attention adds nothing and one token has a different input, and
    the values of its first attention in that run.
    """
    first: list[Tensor] = []

    def nothing(number: int, values: Tensor) -> Tensor:
        if number == 0:
            first.append(values.clone())
        return torch.zeros_like(values)

    given = evidence.hidden.clone()
    place = given.shape[1] // 2
    given[:, place] = given[:, place].flip(-1)
    output = evidence.trace.again(edit_values=nothing, given=given).output
    return output, torch.stack(first).sum(0)  # pieces have zeros at the positions of the others


def _passes_states_on(output: Tensor, tolerance: float) -> bool:
    """Return whether the input of a token reaches its output if attention adds nothing. The two
    texts of the run have different states.
    """
    first, second = output
    apart, size = row_sizes(first - second), torch.maximum(row_sizes(first), row_sizes(second))
    return bool((apart > tolerance * size).all())


def _require_values_of_tokens(evidence: Evidence, moved: Tensor) -> None:
    """Raise unless changing the input of one token changes at most one value of the first
    attention.
    """
    values = evidence.trace.cores[0].call.values
    gaps, sizes = row_sizes(moved - values), row_sizes(values)
    followed = int((gaps > evidence.tolerance * sizes).flatten(0, 1).any(0).sum())
    if followed > 1:
        raise UnsupportedModel(
            f"layer `{evidence.path}`: {followed} values of its attention depend on one token "
            "(a convolution or a delay computes them), so no score belongs to one token"
        )
