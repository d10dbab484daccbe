"""The norm of each source's contribution including the residual stream: ||c_ij + x_i|| on the
diagonal, ||c_ij|| elsewhere.

Kobayashi et al. 2021, Incorporating Residual and Normalization Layers
(https://aclanthology.org/2021.emnlp-main.373), eq. 6. The models of the paper have no norms or
scales on the attention branch (sandwich blocks, layer scale) and no residual scales. In models with
such operations, mixlens applies them in linear form, with sigma fixed to its true value. The
measure is not defined for cross-attention, where the residual stream is not a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixlens.contracts import AttentionKind, Facts, LayerScores, SpanRule, Spec, Targets
from mixlens.kernels.chunks import block_bytes
from mixlens.kernels.gram import add_squares, part_norms, take_roots

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.kernels.decomposition import Decomposition
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary=(
        "the norm of the vector that each source adds to each target, with the residual stream on"
        " the diagonal"
    ),
    citation=(
        "Kobayashi et al. 2021, Incorporating Residual and Normalization Layers into Analysis of"
        " Masked Language Models, eq. 6"
    ),
    use_when=(
        "to compare the vectors from other tokens with the token's own residual stream; leaves out"
        " the norm after the sum"
    ),
    cost="1 forward pass + head^2 n^2 per layer",
    facts=Facts(residual_included=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "is like `attention_norm`, but includes the residual stream. If content is copied through"
        " several tokens, the intermediate tokens rank above the original source"
    ),
    memory=lambda sizes: 3 * sizes.heads * sizes.targets * sizes.d_model + sizes.block,
)


def score_layer(layer: Layer, attention: Attention, targets: Targets) -> LayerScores:
    """Return the norm of each source's vector, summed over heads. The diagonal includes the
    residual stream.
    """
    parts = _split(layer, attention, targets)
    return LayerScores(part_norms(parts, block_bytes(layer.memory_budget)))


def _split(layer: Layer, attention: Attention, targets: Targets) -> Decomposition:
    return attention.decomposition(targets, normed=False, own_channels=True)


def _weigh(parts: Decomposition, budget: int) -> Mapping[str, Tensor]:
    return add_squares(part_norms(parts, block_bytes(budget)))


def _score(squares: Mapping[str, Tensor]) -> LayerScores:
    return LayerScores(take_roots(squares))


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score)
