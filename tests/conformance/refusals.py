"""Which measure is refused on which family, with the key words of the reason.

No other refusal is accepted: a new measure names its own here.
"""

from __future__ import annotations

from mixlens.contracts import AttentionKind
from mixlens.measures import spec_of
from mixlens.recording.recording import Recording
from tests.conformance.zoo import ZOO

WITHOUT_OUTPUT = {"clip", "clip-text", "clip-vision"}  # transformers has no head for them
# Routing to experts, and Bloom's own gelu, are steps whose differences cannot be followed.
NOT_FOLLOWED = {"bloom", "mixtral", "qwen3-moe", "gpt-oss"}
INCOMPLETE = "attributions differ"
# Feed-forward parts that are mixtures, or that make gate and values in one product: a vector of
# one source has no share in them.
NOT_SPLIT = {"modernbert", "phi3", "mixtral", "qwen3-moe", "gpt-oss"}
# An integral over the product of gate and values has no closed form: no feed-forward scopes.
GATED = {"llama", "mistral", "qwen2", "qwen3", "gemma", "granite", "mt5"}
NOT_A_CHAIN = {"beit", "dinov2"}  # their heads take a mean over tokens
BRANCH_IS_SCALED = {"gemma2", "gemma3", "olmo2", "dinov2"}


def expected_refusal(measure: str, family: str, site: str, recording: Recording) -> str | None:
    """The key words of the reason why a measure is not given there; None: it must be given."""
    spec, chosen = spec_of(measure), recording.structure.site(site)
    if spec.explains_output:
        if family in WITHOUT_OUTPUT:
            return "no logits"
        if measure in ("alti_logit", "logit_update"):
            return _of_the_stream(family, recording)
        if measure == "decompx_logit":
            return _of_parts_of_a_logit(family, recording)
        return INCOMPLETE if measure == "deep_lift" and family in NOT_FOLLOWED else None
    if chosen.kind is AttentionKind.CROSS and AttentionKind.CROSS not in spec.sites:
        return "not defined for cross-attention"
    if measure == "flow_routes":
        return _of_routes(family, chosen.stack.has_cross)
    if measure == "globenc" and ZOO[family].style != "post":
        return "no norm follows the attention block"
    if measure == "attention_norm_ff_res_ln" and ZOO[family].style != "post":
        return "no norm follows the MLP"
    if measure in ("globenc", "decompx") or measure.startswith("attention_norm_ff"):
        return _with_feed_forward(family, chosen.stack.has_cross, measure)
    return None


def _of_the_stream(family: str, recording: Recording) -> str | None:
    if len(recording.structure.stacks) > 1:
        return "one stack of layers"
    if ZOO[family].style == "post":
        return "a norm is applied to the stream itself"
    return "not a chain" if family in NOT_A_CHAIN else None


def _of_routes(family: str, has_cross: bool) -> str | None:
    if has_cross:
        return "routes through two stacks"
    return "whether the values have a bias" if family == "deberta" else None


def _of_parts_of_a_logit(family: str, recording: Recording) -> str | None:
    if len(recording.structure.stacks) > 1:
        return "one stack of layers"
    if ZOO[family].style == "parallel":
        return "parallel to the attention"
    if family in BRANCH_IS_SCALED:
        return "on the attention branch"
    if family in NOT_A_CHAIN:
        return "not a chain"
    if family == "deberta":
        return "no affine module computes its values"
    return "only defined for one activation" if family in NOT_SPLIT else None


def _with_feed_forward(family: str, has_cross: bool, measure: str) -> str | None:
    if has_cross:
        return "a cross-attention block"
    if measure == "globenc":
        return None
    if ZOO[family].style == "parallel":
        return "parallel to the attention"
    if family in BRANCH_IS_SCALED:
        return "on the attention branch"
    if measure == "decompx" and family == "deberta":
        return "no affine module computes its values"
    refused = NOT_SPLIT if measure == "decompx" else NOT_SPLIT | GATED
    return "only defined for one activation" if family in refused else None
