"""Layers whose output is not known as a sum: their attention is captured, and the rest is run as it
is.

Several streams of a token that are mixed anew in each layer (Gemma 3n, DeepSeek V4), a norm between
A V and the output projection (BitNet) or factors on the residual (Doge) have no block that could be
split by source. Attention weights and values are known all the same, and the layer can be run again
with other values: that is all that `attention` and `value_zeroing` need. If a linear module takes
A V, so are the norms of what each source writes.

What is proved: A V is what the attention returned, each value follows one token alone (Inkling
makes them by a convolution), and the layer's own states pass it next to its attention. A list of
attentions whose residual is added outside of it (XLM) is not a list of layers.
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
    """The attention sites of a layer that cannot be read for the reason `why`; None if nothing can
    be said of them either.
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
        why = "two streams attend in it, each by calls of its own, and no module takes A V of both"
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
    """What the layer returns if attention brings nothing and one token is given something else, and
    the values that its first attention had then.
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
    return output, torch.stack(first).sum(0)  # pieces have zeros at the places of the others


def _passes_states_on(output: Tensor, tolerance: float) -> bool:
    """Does what a token is given reach its output if attention brings nothing? The two rows of the
    run were given different states.
    """
    first, second = output
    apart, size = row_sizes(first - second), torch.maximum(row_sizes(first), row_sizes(second))
    return bool((apart > tolerance * size).all())


def _require_values_of_tokens(evidence: Evidence, moved: Tensor) -> None:
    """Values that the first attention has if one token is given something else: one may differ."""
    values = evidence.trace.cores[0].call.values
    gaps, sizes = row_sizes(moved - values), row_sizes(values)
    followed = int((gaps > evidence.tolerance * sizes).flatten(0, 1).any(0).sum())
    if followed > 1:
        raise UnsupportedModel(
            f"layer `{evidence.path}`: {followed} values of its attention follow one token (a"
            " convolution or a delay makes them), so no score belongs to one token"
        )
