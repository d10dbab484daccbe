"""A layer whose output is not known as a sum: its attention is heard, and the rest is run as it is.

Several streams of a token that are mixed anew in each layer (Gemma 3n, DeepSeek V4), a norm between
A V and the output projection (BitNet) or factors on the residual (Doge) have no block that could be
split by source. Attention weights and values are known all the same, and the layer can be run again
with other values: that is all that `attention` and `value_zeroing` need. If a linear module takes
A V, so are the norms of what each source writes.

What is proved: A V is what the attention returned, and the layer's own states pass it next to its
attention. A list of attentions whose residual is added outside of it (XLM) is not a list of layers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.recording.attention_reading import projection_of
from mixlens.recording.differences import attention_product, rounding, row_sizes
from mixlens.recording.evidence import Evidence
from mixlens.recording.sources import is_causal, sources_of
from mixlens.recording.structure import SiteStructure


def open_sites(evidence: Evidence, why: str) -> tuple[SiteStructure, ...] | None:
    """The attention sites of a layer that cannot be read for the reason `why`; None if nothing can
    be said of them either.
    """
    for core in evidence.trace.cores:
        weights, values = core.call.weights, core.call.values
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
        _, error = attention_product(weights, values, core.call.output)
        if not error <= rounding(evidence.hidden):
            return None
    if not _passes_states_on(evidence):
        return None
    if any(core.call.across for core in evidence.trace.cores):
        why = "two streams attend in it, each by calls of its own, and no module takes A V of both"
    return tuple(_open_site(evidence, index, why) for index in range(len(evidence.trace.cores)))


def _open_site(evidence: Evidence, index: int, why: str) -> SiteStructure:
    call = evidence.trace.cores[index].call
    kind, own_sources = sources_of(evidence, index)
    try:
        projection, gated = projection_of(evidence, index, any_width=True)
    except UnsupportedModel:
        path, gated = None, False
    else:
        path = projection.path
    return SiteStructure(
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
        open=why,
    )


def _passes_states_on(evidence: Evidence) -> bool:
    """Does what a token is given reach its output if attention brings nothing? The two rows of the
    run were given different states.
    """

    def nothing(_: int, values: Tensor) -> Tensor:
        return torch.zeros_like(values)

    first, second = evidence.trace.again(edit_values=nothing).output
    apart, size = row_sizes(first - second), torch.maximum(row_sizes(first), row_sizes(second))
    return bool((apart > evidence.tolerance * size).all())
