"""Norm-based measures through the MLP: their shared computation.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps (https://openreview.net/forum?id=mYWsyTuiRp): each source's part of the attention block goes on
through the feed-forward part, the activation by integrated gradients from the zero vector (their
equation 12), which is a chord in closed form (`mixlens.kernels.chords`); then through the residual
stream, then through the last norm with its sigma held.

Where the biases go cannot be checked against the authors' code. `bias="joint"`: what belongs to no
source (biases and shifts) grows along the path as the tokens do. `bias="fixed"`: it is there from
the start, and the chord runs from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.hook_points import HookPoint
from mixlens.contracts import AttentionKind, Facts, LayerScores, Spec, Targets
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.chords import chord, chord_norms
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.replay.mlp import Mlp, perceptron
from mixlens.structure.norms import LinearisedNorm, norm_of

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

BIASES = ("joint", "fixed")


def scope_spec(*, summary: str, use_when: str, also: str = "") -> Spec:
    """What the measures of these scopes have in common; `also`: one more blind spot."""
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
        blind_spots=(
            "follows each source through the MLP with the slope of the activation for all sources"
            f" together. Two sources that cancel look important{also}"
        ),
        memory=lambda sizes: (
            3 * sizes.heads * sizes.targets * sizes.d_model
            + sizes.matrix
            + 2 * sizes.targets * sizes.d_ff
            + sizes.heads * sizes.targets * sizes.d_ff
            + 2 * sizes.block
        ),
    )


def no_feed_forward(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Why parts cannot be followed through the feed-forward part of such a layer."""
    use = "; use attention_norm_res_ln or value_zeroing instead"
    if layer.has_other_parts:
        return f"more than one part of it adds to the stream next to its attention{use}"
    if layer.feed_forward is None:
        return f"it has no feed-forward part{use}"
    if site.parallel:
        return f"its feed-forward part runs next to the attention, not after it{use}"
    if len(layer.sites) > 1:
        return f"a cross-attention block is between the self-attention and the feed-forward{use}"
    if site.gated:
        return f"its attention is gated: each target has an output map of its own{use}"
    if site.branch:
        return f"a norm or scale is on the attention branch ({layer.style}){use}"
    return None


def plain_perceptron(layer: Layer) -> Mlp:
    """The feed-forward part of a layer, if it has the one form that these parts are defined for."""
    mlp = perceptron(layer, normed=False)
    if mlp is None or len(mlp.first) > 1 or mlp.after is not None:
        raise UnsupportedModel(
            f"`{layer.structure.path}`: its feed-forward part is not one activation between two"
            " products (it is gated, a mixture, or has a norm of its own), and the parts of others"
            " are not defined; use value_zeroing instead"
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
    """Norms of each source's part after the feed-forward part, `residual` stream included or not,
    after the `last_norm` or not.
    """
    if bias not in BIASES:
        raise InvalidInput(f"bias={bias!r}: choose one of {', '.join(BIASES)}")
    mlp, feed_forward = plain_perceptron(layer), layer.structure.feed_forward
    assert feed_forward is not None  # `refusal` was asked before
    stream = site.decomposition(targets)
    first, slope = _first_product(stream, mlp, site, bias)
    second = feed_forward.scaled(mlp.second[0])
    through = [feed_forward.own(stream.own), feed_forward.own(stream.vectors.matrix)]
    if last_norm:
        assert feed_forward.output_norm is not None  # `refusal` was asked before
        norm = norm_of(layer.module.get_submodule(feed_forward.output_norm), site.block_output)
        assert norm is not None
        entering = targets.take(layer.seen(HookPoint(feed_forward.output_norm, "in")), 1)
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
    """Each source's part of the pre-activation, and the slope that all of them share."""
    matrix, shift = mlp.first[0]
    if site.output_norm is None:  # the norm in front of the feed-forward part
        stream = after_norm(stream, mlp.norm)
    assert stream.constant is not None  # these parts are the block's own
    known = stream.total - stream.constant  # what the sources bring together
    total = stream.total @ matrix + shift
    start = torch.zeros_like(total) if bias == "joint" else total - known @ matrix
    first = replace(
        stream,
        vectors=Vectors(stream.vectors.values, stream.vectors.matrix @ matrix),
        own=stream.own @ matrix,
        constant=None,
        total=total,
    )
    return first, chord(mlp.activation, start, total)


def after_norm(stream: Decomposition, norm: LinearisedNorm) -> Decomposition:
    """The parts of the stream after a norm that reads it, sigma held."""
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
