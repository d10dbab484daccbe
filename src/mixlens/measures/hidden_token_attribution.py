"""Hidden Token Attribution: the normalised gradient norm of each hidden token with respect to each
input token.

Brunner et al., "On Identifiability in Transformers", ICLR 2020, eq. 11: c_ij = |d e_i / d x0_j|_F /
sum_k |d e_i / d x0_k|_F for the output e of every layer and the input x0 of the first layer. x0 is
the output of the embedding module (`wrt="embedding"`), or the sum of the embeddings before their
norm (`wrt="embedding_sum"`). By default the result is exact and computed by forward-mode
differentiation. If it saves time and fits into half of the memory budget, the part of each layer
after its attention is replaced by one matrix per target. With `probes=k` the result is estimated
from k Gaussian vectors per source token. This estimate of the squared norm is unbiased, and
`standard_error` is the standard error of each contribution. For cross-attention x0 is the encoder's
output. For the decoder's self-attention the encoder output is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import tangents_at_once
from mixlens.replay.forward_derivative import Step
from mixlens.replay.intervention import LayerFunction, embedding_norm
from mixlens.replay.jacobian import Seeds, SquaredNorms, squared_norms

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure
    from mixlens.structure.norms import LinearisedNorm

SPEC = Spec(
    summary=(
        "normalised gradient norm of each hidden state with respect to each input token, through"
        " all layers below it"
    ),
    citation='Brunner et al. (2020), "On Identifiability in Transformers", ICLR, eq. 11',
    use_when=(
        "for contributions through the whole stack at once, without aggregating layers; a local"
        " measure: the effect of an infinitesimal change"
    ),
    cost="n * d_model tangents, each about half a forward pass; with probes=k only n * k of them",
    facts=Facts(rows_sum_to_one=True, residual_included=True, reaches_input=True),
    limitations=(
        "has the limitations of `gradient_norm`, and also counts sources whose effect depends only"
        " on their position, not on the word"
    ),
    memory=lambda sizes: (
        sizes.targets * (6 * sizes.d_model + 3 * sizes.d_ff + 3 * sizes.heads * sizes.targets)
        + 4 * sizes.layers * sizes.targets**2
        + sizes.chunk
        + sizes.budget / 2
    ),
    # An unbiased estimate with an error of about 3 %; the exact result takes n * d_model tangents.
    quick={"probes": 32},
    least={"probes": 2},
)


@dataclass(frozen=True)
class _NormStep:
    """The layer norm of the embeddings, wrapped so that it can be differentiated like a layer."""

    norm: LinearisedNorm
    point: Tensor
    states: Tensor | None = None

    def __call__(self, hidden: Tensor, states: Tensor | None = None) -> Tensor:
        return self.norm(hidden)


def refusal(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return why a layer cannot be differentiated alone, or None if it can.

    Layers that reuse the values of an earlier layer cannot be differentiated alone.
    """
    if site.kind is AttentionKind.SELF and not site.own_values:
        return "its values come from an earlier layer, so its derivatives are not the model's"
    return None


def score_model(
    recording: Recording,
    request: Request,
    *,
    probes: int | None = None,
    wrt: str = "embedding",
    seed: int = 0,
) -> Scores:
    """Return the attributions.

    `probes` is the number of Gaussian vectors per source token (None: exact), and `seed` is their
    seed. `wrt` is "embedding" or "embedding_sum".
    """
    if wrt not in ("embedding", "embedding_sum"):
        raise InvalidInput(f"Unknown wrt {wrt!r}. Choose embedding or embedding_sum.")
    if probes is not None and probes < 2:
        raise InvalidInput(f"probes={probes} is too small for a standard error. Pass at least 2.")
    if wrt == "embedding_sum" and request.kind is AttentionKind.CROSS:
        raise InvalidInput(
            "The sources of cross-attention are the encoder's output, which is not a sum of "
            "embeddings. Pass wrt='embedding'."
        )
    norm = embedding_norm(recording, request.site) if wrt == "embedding_sum" else None
    layers = recording.layers(request.site)[: max(request.layers) + 1]
    layers[0].stack.require_every_layer("this attribution", len(layers))
    count = int(layers[0].input.shape[1])
    width = max(
        len(recording.source_tokens(request.site, text))
        for text in range(recording.rows(request.site))
    )
    width = count if request.kind is AttentionKind.SELF else width
    shape = (len(request.layers), recording.rows(request.site), count, width)
    values, errors = (
        torch.zeros(shape, dtype=layers[0].input.dtype, device=layers[0].input.device)
        for _ in range(2)
    )
    for text in range(recording.rows(request.site)):
        squared = _row_norms(recording, request, layers, text, norm, probes, seed)
        share, error = _contributions(squared)
        targets, sources = share.shape[1:]
        layer_numbers = list(request.layers)
        values[:, text, :targets, :sources] = share[layer_numbers].to(values)
        if error is not None:
            errors[:, text, :targets, :sources] = error[layer_numbers].to(values)
    request_targets = request.chosen(recording)
    values_of_targets = torch.stack([request_targets.take(layer, 1) for layer in values])
    if probes is None:
        return Scores(values_of_targets)
    deviations = torch.stack([request_targets.take(layer, 1) for layer in errors])
    return Scores(
        values_of_targets, {"standard_error": deviations}, {"standard_error": ("target", "source")}
    )


def _row_norms(
    recording: Recording,
    request: Request,
    layers: list[Layer],
    text: int,
    norm: tuple[LinearisedNorm, Tensor] | None,
    probes: int | None,
    seed: int,
) -> SquaredNorms:
    steps: list[Step] = [
        LayerFunction(layer, text, of_states=request.kind is AttentionKind.CROSS)
        for layer in layers
    ]
    if norm is not None:
        steps.insert(0, _NormStep(norm[0], norm[1][text]))
    tokens = (
        len(recording.target_tokens(request.site, text)),
        len(recording.source_tokens(request.site, text)),
    )

    def seeds(count: int, width: int, like: Tensor) -> Seeds:
        return (
            Seeds.exact(count, width, like)
            if probes is None
            else Seeds.gaussian(count, width, probes, seed, like)
        )

    budget = recording.memory_budget
    size = tangents_at_once(_tangent_bytes(layers[0]), budget, layers[0].input.device)
    norms = squared_norms(steps, seeds, tokens, size=size, memory=budget // 2)
    if norm is None:
        return norms
    return SquaredNorms(norms.mean[1:], None if norms.variance is None else norms.variance[1:])


def _contributions(
    squared: SquaredNorms,
) -> tuple[Float[Tensor, "layer target source"], Float[Tensor, "layer target source"] | None]:
    """Return scores that sum to one, with their standard errors.

    The standard errors are propagated to first order through the square root and the normalisation.
    """
    norms = squared.mean.clamp_min(0).sqrt()
    total = norms.sum(-1, keepdim=True).clamp_min(torch.finfo(norms.dtype).tiny)
    share = norms / total
    if squared.variance is None:
        return share, None
    deviation = torch.where(
        norms > 0, squared.variance.sqrt() / (2 * norms), torch.zeros_like(norms)
    )
    others_variance = deviation.square().sum(-1, keepdim=True) - deviation.square()
    error = (
        (1 - share).square() * deviation.square() + share.square() * others_variance.clamp_min(0)
    ).sqrt() / total
    return share, error


def _tangent_bytes(layer: Layer) -> int:
    """Return the approximate memory in bytes that one tangent needs inside a layer.

    This includes a few copies of the layer's vectors, of its widest activation and of the attention
    weights.
    """
    tokens, d_model = layer.input.shape[1:]
    widest = max((max(p.shape) for p in layer.module.parameters() if p.dim() > 1), default=d_model)
    heads = max(site.heads for site in layer.structure.sites)
    return int(
        layer.input.element_size() * tokens * (6 * d_model + 3 * widest + 3 * heads * tokens)
    )
