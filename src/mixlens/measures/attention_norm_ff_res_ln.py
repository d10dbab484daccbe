"""The norm of each source's contribution to the layer's output, after the last layer norm.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps, the scope AtbFfResLn. `mixlens.replay.mlp_scopes` describes the computation and the two
treatments of the bias. Pre-norm layers do not end with a norm, so the measure raises an error for
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import LayerScores, Targets
from mixlens.replay.mlp_scopes import no_mlp, require_plain_mlp, scope_norms, scope_spec

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure

SPEC = scope_spec(
    summary="the norm of each source's part of the layer's output, with MLP and both norms",
    use_when=(
        "for the whole layer of post-norm models, vector by vector; raises an error for pre-norm"
        " models"
    ),
)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return why the vectors of sources cannot be propagated through this layer, or None if they
    can.
    """
    if layer.feed_forward is not None and layer.feed_forward.output_norm is None:
        use = "attention_norm_ff_res, or value_zeroing if the MLP is gated"
        if no_mlp(layer, site) is not None:
            use = "attention_norm_res_ln or value_zeroing instead"
        return f"no norm follows the MLP, so this scope does not exist. Use {use}"
    return no_mlp(layer, site)


require_layer = require_plain_mlp


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, bias: str = "joint"
) -> LayerScores:
    """Return the norms. `bias` is "joint" or "fixed"."""
    return scope_norms(layer, attention, targets, bias=bias, residual=True, last_norm=True)
