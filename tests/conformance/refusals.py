"""Which measure is refused on which family, with the key words of the reason."""

from __future__ import annotations

from mixlens.contracts import AttentionKind
from mixlens.measures import spec_of
from mixlens.recording.recording import Recording
from tests.conformance.zoo import ZOO

WITHOUT_OUTPUT = {"clip", "clip-text", "clip-vision"}  # transformers has no head for them
# Routing to experts, and Bloom's own gelu, are steps whose differences cannot be followed.
NOT_FOLLOWED = {"bloom", "mixtral", "qwen3-moe", "gpt-oss"}
INCOMPLETE = "attributions miss"


def expected_refusal(measure: str, family: str, site: str, recording: Recording) -> str | None:
    """The key words of the reason why a measure is not given there; None: it must be given."""
    spec, chosen = spec_of(measure), recording.structure.site(site)
    if spec.explains_output:
        if family in WITHOUT_OUTPUT:
            return "no logits"
        return INCOMPLETE if measure == "deep_lift" and family in NOT_FOLLOWED else None
    if chosen.kind is AttentionKind.CROSS and "cross" not in spec.sites:
        return "not defined for cross-attention"
    if measure == "globenc" and ZOO[family].style != "post":
        return "not followed by a norm"
    if measure == "globenc" and chosen.stack.has_cross:
        return "a cross-attention block"
    return None
