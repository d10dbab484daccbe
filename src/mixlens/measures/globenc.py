"""GlobEnc: the norm of each source's part after both layer norms of an encoder layer, ||gamma_2 *
(T_ij - mean T_ij) / sigma_2,i||.

Modarressi et al. 2022, GlobEnc: Quantifying Global Token Attribution by Incorporating the Whole
Encoder Layer (https://aclanthology.org/2022.naacl-main.19), eq. 6-8. The MLP enters only through
sigma_2, which is taken from the true input of the second norm. If the residual of the MLP is
scaled, T_ij is multiplied by the same factor. The authors' rollout does not normalise the maps.

The measure is defined for post-norm layers with one attention and a norm after the MLP. It raises
an error for other layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind, Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import add_squares, part_norms, take_roots
from mixlens.structure.norms import norm_of

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.kernels.decomposition import Decomposition
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

SPEC = Spec(
    summary=(
        "the norm of each source's part of the layer's output through both layer norms; the MLP"
        " enters only through the scale of the last one"
    ),
    citation=(
        "Modarressi et al. 2022, GlobEnc: Quantifying Global Token Attribution by Incorporating the"
        " Whole Encoder Layer, eq. 6-8"
    ),
    use_when=(
        "for post-norm encoders (BERT and its relatives), rolled out over layers; raises an error"
        " for other models"
    ),
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(residual_included=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    rollout_normalised=False,
    row_by_row=True,
    limitations=(
        "accounts for both norms, but not for the MLP between them, and gives full scores to two"
        " sources that cancel"
    ),
    memory=lambda sizes: 3 * sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return why the layer has no second norm, or None if it has one."""
    use = ". Use attention_norm_res_ln or alti instead"
    if site.output_norm is None:
        return (
            f"no norm follows the attention block ({layer.style}), but the measure is defined "
            f"only for post-norm layers{use}"
        )
    if layer.feed_forward is None or layer.feed_forward.output_norm is None:
        return f"no norm follows the MLP, so there is no second norm{use}"
    if len(layer.sites) > 1:
        return (
            "a cross-attention block is between the self-attention and the last norm, which "
            f"the measure does not support{use}"
        )
    return None


def score_layer(layer: Layer, attention: Attention, targets: Targets) -> LayerScores:
    """Return the norms of each source's part after both layer norms."""
    parts = _split(layer, attention, targets)
    return LayerScores(part_norms(parts, block_bytes(layer.memory_budget)))


def _split(layer: Layer, attention: Attention, targets: Targets) -> Decomposition:
    feed_forward = layer.structure.feed_forward
    assert feed_forward is not None  # `refusal` excludes this
    assert feed_forward.output_norm is not None
    norm = norm_of(layer.module.get_submodule(feed_forward.output_norm), attention.block_output)
    assert norm is not None
    entering = targets.take(layer.read_hook(HookPoint(feed_forward.output_norm, "in")), 1)
    factor = norm.inverse_sigma(entering) * feed_forward.residual_scale
    parts = attention.decomposition(targets, through=norm)
    return replace(parts, scale=parts.scale * factor, own=parts.own * factor[..., None])


def _weigh(parts: Decomposition, budget: int) -> Mapping[str, Tensor]:
    return add_squares(part_norms(parts, block_bytes(budget)))


def _score(squares: Mapping[str, Tensor]) -> LayerScores:
    return LayerScores(take_roots(squares))


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)
