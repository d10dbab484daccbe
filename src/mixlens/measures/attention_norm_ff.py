"""The norm of each source's part of what the feed-forward part writes.

Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of Attention
Maps, the scope AtbFf (pre-norm: AtbLnFf). `mixlens.measures.feed_forward_scopes` says how, and what
the two readings of the bias are.
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
        "the norm of each source's part of the feed-forward output, through attention, residual"
        " stream, norm and activation"
    ),
    citation=(
        "Kobayashi et al. 2024, Analyzing Feed-Forward Blocks in Transformers through the Lens of"
        " Attention Maps"
    ),
    use_when=(
        "to see which sources the feed-forward network acts on, apart from the stream that it adds"
        " to"
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
    return no_feed_forward(layer, site)


def scores(recording: Recording, request: Request, *, bias: str = "joint") -> Scores:
    """`bias`: joint or fixed."""
    return scope_norms(recording, request, bias=bias, residual=False)
