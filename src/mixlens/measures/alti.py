"""ALTI: the L1 contribution of each source to the block's output, max(0, ||y_i||_1 - ||y_i -
T_ij||_1), normalised to sum to one.

Ferrando, Gallego & Costa-jussa 2022, Measuring the Mixing of Contextual Information in the
Transformer (https://aclanthology.org/2022.emnlp-main.595), eq. 9-10. y_i includes the biases, but
the parts T_ij do not.

Cross-attention follows their paper on translation (Ferrando et al. 2022,
https://aclanthology.org/2022.emnlp-main.599, eq. 10-12): the decoder's residual stream competes
with the encoder's tokens, so the scores of a target and its `residual_share` together sum to one.

`variant="released"` follows the authors' code: 1e-6 is added to every difference (as in
`pairwise_distance`), sigma is computed without epsilon, and a token that a target cannot see counts
as a zero vector. If the difference is not positive for any source, the contributions cannot be
normalised and the scores are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from mixlens.contracts import (
    AttentionKind,
    Facts,
    LayerScores,
    SpanRule,
    Spec,
    Targets,
    is_released,
)
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import cached_bytes
from mixlens.kernels.contributions import l1_contribution, l1_contributions
from mixlens.kernels.decomposition import Decomposition
from mixlens.model.placement import sent
from mixlens.recording.attention import Block

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer

SPEC = Spec(
    summary=(
        "how much each source's vector moves the attention block's output towards its value, in"
        " the L1 norm"
    ),
    citation=(
        "Ferrando et al. 2022, Measuring the Mixing of Contextual Information in the Transformer,"
        " eq. 9-10"
    ),
    use_when=(
        "for contributions that sum to one and roll out over layers to the input; leaves out the"
        " MLP"
    ),
    cost="1 forward pass + head d_model n^2 per layer",
    facts=Facts(rows_sum_to_one=True, residual_included=True),
    splits="block",
    row_by_row=True,
    within_blocks=True,
    limitations=(
        "decomposes the output of the attention block and does not see that the MLP erases a"
        " source. If content is copied through several tokens, the intermediate tokens rank above"
        " the original source. A token that only changes the attention weights, as in a counting"
        " program, adds no vector and gets a score of zero"
    ),
    memory=lambda sizes: (
        3 * sizes.heads * sizes.targets * sizes.d_model
        + sizes.heads * sizes.targets**2
        + sizes.block
    ),
    # Differences of large L1 norms are clipped at zero: if they nearly cancel, half precision
    # decides their sign.
    half_precision=0.35,
)

_RELEASED_SHIFT = 1e-6


def score_layer(
    layer: Layer, attention: Attention, targets: Targets, *, variant: str = "paper"
) -> LayerScores:
    """Return the ALTI contributions. `variant` is "paper" or "released"."""
    scores, residual = normalised_contributions(
        attention, targets, layer.memory_budget, released=is_released(variant)
    )
    if targets.kind is AttentionKind.CROSS:
        return _with_residual(scores, residual)
    return LayerScores(scores)


def normalised_contributions(
    site: Attention, targets: Targets, budget: int, *, released: bool = False
) -> tuple[Float[Tensor, "batch target source"], Float[Tensor, "batch target"]]:
    """Return the normalised scores of the sources and of the residual stream.

    In self-attention, the residual stream is part of the score of the target's own token, so its
    separate score is zero.
    """
    parts = _parts(site, targets, released)
    sources = parts.weights.shape[-1]
    visible = sources if released else _last_visible(site, targets, sources)
    visible_parts = replace(
        parts, weights=parts.weights[..., :visible], vectors=parts.vectors.up_to(visible)
    )
    contributions, residual = _contributions(visible_parts, budget, released)
    contributions = nn.functional.pad(contributions, (0, sources - visible))
    if released:
        y = parts.beside["output"]
        nothing = l1_contribution(torch.zeros_like(y), y, _RELEASED_SHIFT)
        nothing = parts.vectors.channels.sum(nothing)
        lengths = targets.source_lengths
        contributions = _with_unseen(parts, contributions.clamp_min(0), nothing, lengths)
    return _normalise_contributions(contributions, residual)


def _last_visible(site: Attention, targets: Targets, sources: int) -> int:
    """Return the number of sources up to the last one that any of the targets can see, and up to
    the last target.
    """
    if targets.positions is None:
        return sources
    last = min(sources, max(max(positions) for positions in targets.positions) + 1)
    if site.is_causal:
        return last
    ends = site.visibility.ends  # of the targets, if the layer is restricted to them
    return sources if ends is None else max(last, *ends)


def _parts(site: Attention, targets: Targets, released: bool) -> Decomposition:
    """Return the block's output split by source, together with the block's output y."""
    y = targets.take(site.block_output, 1)
    if released and site.output_norm is not None:
        norm = replace(site.output_norm, epsilon=0.0)
        block = Block.of(site.structure, site.residual, site.projected, site.branch, norm)
        assert site.block_parts is not None
        block_parts = replace(site.block_parts, output_norm=norm, block=block)
        site = replace(site, block_parts=block_parts)
    parts = site.decomposition(targets, own_channels=True)
    return replace(parts, beside={"output": parts.vectors.channels.of(y)})


def _contributions(
    parts: Decomposition, budget: int, released: bool
) -> tuple[Float[Tensor, "batch target source"], Float[Tensor, "batch target"]]:
    """Return the L1 contributions of the sources and of the residual stream.

    In self-attention, the residual stream is part of the contribution of the target's own token, so
    its separate contribution is zero.
    """
    y, shift = parts.beside["output"], _RELEASED_SHIFT if released else 0.0
    limit = cached_bytes(budget, y.device)
    contributions = l1_contributions(parts, y, limit, shift=shift, ends=parts.ends)
    if parts.own_is_source:
        return contributions, torch.zeros_like(y[..., 0])
    residual = l1_contribution(parts.own, y, shift)
    return contributions, parts.vectors.channels.sum(residual)


def _normalise_contributions(
    contributions: Float[Tensor, "batch target source"], residual: Float[Tensor, "batch target"]
) -> tuple[Float[Tensor, "batch target source"], Float[Tensor, "batch target"]]:
    contributions, residual = contributions.clamp_min(0), residual.clamp_min(0)
    whole = (contributions.sum(-1) + residual).clamp_min(torch.finfo(contributions.dtype).tiny)
    return contributions / whole[..., None], residual / whole


def _with_residual(
    scores: Float[Tensor, "batch target source"], residual: Float[Tensor, "batch target"]
) -> LayerScores:
    """Return the scores of cross-attention, with the residual stream's score in `extras`."""
    extras = {"residual_share": residual}
    return LayerScores(scores, extras, {"residual_share": ("target",)}, facts=Facts())


def _split(
    layer: Layer, attention: Attention, targets: Targets, *, variant: str = "paper"
) -> Decomposition:
    if is_released(variant):
        raise InvalidInput("variant='released' does not support spans. Use variant='paper'.")
    return _parts(attention, targets, False)


def _weigh(parts: Decomposition, budget: int, *, variant: str = "paper") -> Mapping[str, Tensor]:
    contributions, residual = _contributions(parts, budget, False)
    by_term = {"sources": contributions, "residual": residual}
    return {"sources": contributions} if parts.own_is_source else by_term


def _score(by_term: Mapping[str, Tensor], *, variant: str = "paper") -> LayerScores:
    contributions = by_term["sources"]
    if "residual" in by_term:
        return _with_residual(*_normalise_contributions(contributions, by_term["residual"]))
    return LayerScores(
        _normalise_contributions(contributions, torch.zeros_like(contributions[..., 0]))[0]
    )


SPAN = SpanRule(split=_split, weigh=_weigh, score=_score, long="sum")


def _with_unseen(
    parts: Decomposition,
    contributions: Float[Tensor, "batch target source"],
    of_nothing: Float[Tensor, "batch target"],
    lengths: Sequence[int],
) -> Float[Tensor, "batch target source"]:
    """Assign the contribution of a zero vector to non-padding sources whose attention weight is
    zero.
    """
    ends = sent(torch.tensor(lengths), contributions.device)
    real = torch.arange(contributions.shape[-1], device=contributions.device) < ends[:, None]
    unseen = (parts.weights == 0).all(1) & real[:, None]
    if parts.own_is_source:
        unseen = unseen.scatter(2, parts.positions[..., None], False)
    return torch.where(unseen, of_nothing.clamp_min(0)[..., None], contributions)
