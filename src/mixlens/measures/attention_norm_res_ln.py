"""The norm of each source's part of the block's output, including residual stream and layer norm:
||T_ij||.

Kobayashi et al. 2021, Incorporating Residual and Normalization Layers
(https://aclanthology.org/2021.emnlp-main.373), eq. 9-10. With sigma fixed to its value for the true
input, the layer norm is a linear function. The bias of the norm is not assigned to any source. For
pre-norm blocks, whose output has no norm, the scores are those of `attention_norm_res`. With
`next_norm=True` the norm before the MLP is applied too: the scope AtbLn of Kobayashi et al. 2024,
Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention Maps. `mixing_ratio` is
the ratio of the 2021 paper, ||sum_{j != i} T_ij|| / (||sum_{j != i} T_ij|| + ||T_ii||). The measure
is not defined for cross-attention, where the residual stream is not a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from mixlens.contracts import AttentionKind, Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.errors import UnsupportedModel
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.decomposition import Decomposition
from mixlens.kernels.gram import add_squares, part_norms, take_roots
from mixlens.replay.mlp_scopes import after_norm
from mixlens.structure.norms import LinearisedNorm, norm_of

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary=(
        "the norm of each source's part of the attention block's output, after the residual stream"
        " and the layer norm"
    ),
    citation=(
        "Kobayashi et al. 2021, Incorporating Residual and Normalization Layers into Analysis of"
        " Masked Language Models, eq. 9"
    ),
    use_when="for the whole attention block of post-norm models; leaves out the MLP",
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(residual_included=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "accounts for the layer norm, but not for the MLP, and gives full scores to two sources"
        " that cancel. If content is copied through several tokens, the intermediate tokens rank"
        " above the original source"
    ),
    memory=lambda sizes: 3 * sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, next_norm: bool = False
) -> LayerScores:
    """Return the norms. `next_norm` also applies the norm before the MLP of pre-norm layers."""
    parts = _split(layer, attention, targets, next_norm=next_norm)
    norms = part_norms(parts, block_bytes(layer.memory_budget))
    return _with_ratio(norms, *_others_and_kept(parts))


def _split(
    layer: Layer, attention: Attention, targets: Targets, *, next_norm: bool = False
) -> Decomposition:
    parts = attention.decomposition(targets, own_channels=not next_norm)
    return after_norm(parts, _norm_in_front(layer, attention)) if next_norm else parts


def _weigh(parts: Decomposition, budget: int, *, next_norm: bool = False) -> Mapping[str, Tensor]:
    mixed_norms, kept_norms = _others_and_kept(parts)
    squares = add_squares(part_norms(parts, block_bytes(budget)))
    return {**squares, "others": mixed_norms.square(), "kept": kept_norms.square()}


def _score(weighed: Mapping[str, Tensor], *, next_norm: bool = False) -> LayerScores:
    return _with_ratio(take_roots(weighed), weighed["others"].sqrt(), weighed["kept"].sqrt())


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)


def _with_ratio(
    norms: Float[Tensor, "batch target source"],
    mixed_norms: Float[Tensor, "batch target"],
    kept_norms: Float[Tensor, "batch target"],
) -> LayerScores:
    """Return the norms, with the mixing ratio others / (others + kept) in `extras`."""
    ratio = {"mixing_ratio": mixed_norms / (mixed_norms + kept_norms)}
    return LayerScores(norms, ratio, {"mixing_ratio": ("target",)})


def _norm_in_front(layer: Layer, site: Attention) -> LinearisedNorm:
    """Return the layer norm before the MLP, linearised at the block's output."""
    feed_forward, block = layer.structure.feed_forward, layer.structure.sites[-1]
    path = None if feed_forward is None else feed_forward.input_norm
    norm = None
    if path is not None and site.output_norm is None and not block.parallel:
        norm = norm_of(layer.module.get_submodule(path), site.block_output)
    if norm is None or len(layer.structure.sites) > 1:
        raise UnsupportedModel(
            f"`{layer.structure.path}`: no separate norm reads the output of the attention "
            f"block ({layer.structure.style}), so this scope does not exist. Drop next_norm"
        )
    return norm


def _others_and_kept(
    parts: Decomposition,
) -> tuple[Float[Tensor, "batch target"], Float[Tensor, "batch target"]]:
    """Return ||sum_{j != i} T_ij|| and ||T_ii||.

    The sum over the other sources is computed as the block's output minus the biases and minus
    T_ii. For a span, i stands for all of its targets.
    """
    diagonal = parts.diagonal.sum(1, keepdim=True) if parts.folded else parts.diagonal
    assert parts.constant is not None  # these parts are the block's own
    mixed_norms = torch.linalg.vector_norm(parts.total - parts.constant - diagonal, dim=-1)
    norm = parts.vectors.channels.norm
    return norm(mixed_norms), norm(torch.linalg.vector_norm(diagonal, dim=-1))
