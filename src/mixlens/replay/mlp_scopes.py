"""Shared code of the norm-based measures that include the MLP.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps (https://openreview.net/forum?id=mYWsyTuiRp): each source's part of the attention block passes
through the MLP, then through the residual connection, then through the last norm with its sigma
fixed. For the activation, the paper uses integrated gradients from the zero vector (equation 12),
which mixlens computes in closed form as a chord (`mixlens.kernels.chords`).

The released code does not show how biases are treated. With `bias="joint"`, terms that belong to no
source (biases and shifts) are scaled along the path of integration like the tokens. With
`bias="fixed"`, they are already present at the start of the path.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind, Facts, LayerScores, Spec, Targets
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.chords import chord, chord_norms
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.replay.mlp import Mlp, find_mlp
from mixlens.structure.norms import LinearisedNorm, norm_of

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

BIASES = ("joint", "fixed")


def scope_spec(*, summary: str, use_when: str, also: str = "") -> Spec:
    """Return a `Spec` with the properties that all of these measures share. `also` is appended to
    the limitations.
    """
    return Spec(
        summary=summary,
        citation=(
            "Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens"
            " of Attention Maps"
        ),
        use_when=use_when,
        cost="as value_zeroing: about 0.4 n forward passes",
        facts=Facts(residual_included=True),
        splits="block",
        sites=(AttentionKind.SELF,),
        limitations=(
            "uses one slope of the activation for all sources together, so two sources that cancel"
            f" in the MLP still look important{also}"
        ),
        memory=lambda sizes: (
            3 * sizes.heads * sizes.targets * sizes.d_model
            + sizes.matrix
            + 2 * sizes.targets * sizes.d_ff
            + sizes.heads * sizes.targets * sizes.d_ff
            + 2 * sizes.block
        ),
    )


def no_mlp(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return the reason why the MLP of a layer cannot be applied to each source's part, or None."""
    use = ". Use attention_norm_res_ln or value_zeroing instead"
    if layer.has_other_parts:
        return f"more than one part adds to the stream next to its attention{use}"
    if layer.feed_forward is None:
        return f"it has no MLP{use}"
    if site.parallel:
        return f"its MLP is parallel to the attention, not after it{use}"
    if len(layer.sites) > 1:
        return f"a cross-attention block is between the self-attention and the MLP{use}"
    if site.gated:
        return f"its attention is gated, so each target has its own output map{use}"
    if site.branch:
        return f"a norm or scale is on the attention branch ({layer.style}){use}"
    return None


def require_plain_mlp(layer: Layer) -> Mlp:
    """Return the MLP of a layer. Raise `UnsupportedModel` if it is not plain, because the parts are
    only defined for a plain MLP.
    """
    mlp = find_mlp(layer, normed=False)
    if mlp is None or len(mlp.first) > 1 or mlp.after is not None:
        raise UnsupportedModel(
            f"`{layer.structure.path}`: its MLP is gated, is a mixture of experts, or has its own "
            "norm. The parts are only defined for one activation between two products. Use "
            "value_zeroing instead"
        )
    return mlp


@torch.no_grad()
def scope_norms(
    layer: Layer,
    site: Attention,
    targets: Targets,
    *,
    bias: str,
    residual: bool,
    last_norm: bool = False,
) -> LayerScores:
    """Return the norm of the part of the MLP's output that each source contributes.

    Set `residual` to include the residual stream, and `last_norm` to include the norm after the
    MLP.
    """
    if bias not in BIASES:
        raise InvalidInput(f"Unknown bias {bias!r}. Choose one of: {', '.join(BIASES)}.")
    mlp, feed_forward = require_plain_mlp(layer), layer.structure.feed_forward
    assert feed_forward is not None  # `refusal` excludes this
    stream = site.decomposition(targets)
    first, slope = _first_product(stream, mlp, site, bias)
    second = feed_forward.scale_branch(mlp.second[0])
    through = [
        feed_forward.scale_residual(stream.own),
        feed_forward.scale_residual(stream.vectors.matrix),
    ]
    if last_norm:
        assert feed_forward.output_norm is not None  # `refusal` excludes this
        norm = norm_of(layer.module.get_submodule(feed_forward.output_norm), site.block_output)
        assert norm is not None
        entering = targets.take(layer.read_hook(HookPoint(feed_forward.output_norm, "in")), 1)
        inverse = norm.inverse_sigma(entering)
        second, through = norm.linear(second), [norm.linear(part) for part in through]
        slope, through[0] = slope * inverse[..., None], through[0] * inverse[..., None]
        stream = replace(stream, scale=stream.scale * inverse)
    stream = replace(stream, own=through[0], vectors=replace(stream.vectors, matrix=through[1]))
    limit = block_bytes(layer.memory_budget)
    return LayerScores(chord_norms(first, slope, second, stream if residual else None, limit))


def _first_product(
    stream: Decomposition, mlp: Mlp, site: Attention, bias: str
) -> tuple[Decomposition, Float[Tensor, "batch target d_ff"]]:
    """Return each source's part of the pre-activation, and the slope that all sources share."""
    matrix, shift = mlp.first[0]
    if site.output_norm is None:  # the norm before the MLP
        stream = after_norm(stream, mlp.norm)
    assert stream.constant is not None  # these parts are the block's own
    sum_over_sources = stream.total - stream.constant  # the sum over the sources
    total = stream.total @ matrix + shift
    start = torch.zeros_like(total) if bias == "joint" else total - sum_over_sources @ matrix
    first = replace(
        stream,
        vectors=Vectors(stream.vectors.values, stream.vectors.matrix @ matrix),
        own=stream.own @ matrix,
        constant=None,
        total=total,
    )
    return first, chord(mlp.activation, start, total)


def after_norm(stream: Decomposition, norm: LinearisedNorm) -> Decomposition:
    """Return the parts of the stream after a norm with fixed sigma."""
    assert stream.constant is not None
    inverse = norm.inverse_sigma(stream.total)
    return replace(
        stream,
        vectors=replace(stream.vectors, matrix=norm.linear(stream.vectors.matrix)),
        own=norm.linear(stream.own) * inverse[..., None],
        scale=stream.scale * inverse,
        constant=norm.with_inverse(stream.constant, inverse),
        total=norm.with_inverse(stream.total, inverse),
    )
