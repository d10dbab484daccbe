"""The norm of each source's contribution to the sum of the MLP output and the residual stream.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps, the scope AtbFfRes (pre-norm: AtbLnFfRes, the whole layer). `mixlens.replay.mlp_scopes`
describes the computation and the two treatments of the bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import LayerScores, Targets
from mixlens.replay.mlp_scopes import no_mlp, require_plain_mlp, scope_norms, scope_spec

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = scope_spec(
    summary=(
        "the norm of each source's part of the layer's output, before the last norm if there is one"
    ),
    use_when=(
        "for the whole layer of pre-norm models; for post-norm models without their last norm"
    ),
)

refusal = no_mlp
require_layer = require_plain_mlp


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, bias: str = "joint"
) -> LayerScores:
    """Return the norms. `bias` is "joint" or "fixed"."""
    return scope_norms(layer, attention, targets, bias=bias, residual=True)
