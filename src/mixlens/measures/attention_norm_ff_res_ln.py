"""The norm of each source's part of the layer's output, behind its last norm.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps, the scope AtbFfResLn. `mixlens.measures.feed_forward_scopes` says how, and what the two
readings of the bias are. Pre-norm layers end without a norm and have no such scope: refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.measures.feed_forward_scopes import no_feed_forward, scope_norms

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording
    from mixlens.recording.structure import LayerStructure, SiteStructure

SPEC = Spec(
    summary=(
        "the norm of each source's part of the layer's output, with feed-forward network and both"
        " norms"
    ),
    citation=(
        "Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of"
        " Attention Maps"
    ),
    use_when=(
        "for the whole layer of post-norm models, vector by vector; refused for pre-norm models"
    ),
    cost="as value_zeroing: about 0.4 n forward passes",
    facts=Facts(residual_included=True),
    sites=(AttentionKind.SELF,),
    blind_spots=(
        "sees what the feed-forward network passes on of each source, with the slope that all of"
        " them together set; two sources that cancel each other look important"
    ),
    memory="3 * heads * n * d_model + d_model * d_ff + 2 * n * d_ff + heads * n * d_ff + 2 * block",
)


def refusal(layer: LayerStructure, site: SiteStructure) -> str | None:
    """Why parts cannot be followed through such a layer."""
    if layer.feed_forward is not None and layer.feed_forward.output_norm is None:
        return (
            "no norm follows the feed-forward part, so that there is no such scope; its last one is"
            " attention_norm_ff_res"
        )
    return no_feed_forward(layer, site)


def scores(recording: Recording, request: Request, *, bias: str = "joint") -> Scores:
    """`bias`: joint or fixed."""
    return scope_norms(recording, request, bias=bias, residual=True, last_norm=True)
