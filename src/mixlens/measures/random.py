"""Uniform noise: the baseline of every comparison.

The numbers depend only on the seed, the layer and the tokens of a text, so a text gets the same
noise whether it is measured alone, in a batch or with padding. Sources that a target cannot see in
any head get zero.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

from mixlens.contracts import Facts, Request, Scores, Spec, by_layer

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary="uniform random numbers",
    citation=(
        "none: a baseline, as in Mohebbi et al. 2023, Quantifying Context Mixing in Transformers"
    ),
    use_when="as the baseline of a comparison",
    cost="1 forward pass",
    facts=Facts(),
    baseline=True,
    limitations="is right only by chance",
    memory=lambda sizes: sizes.targets**2,
)


def score_model(recording: Recording, request: Request, *, seed: int = 0) -> Scores:
    """Return numbers from [0, 1) that depend only on the text and the `seed`."""
    layers = recording.layers(request.site)
    sources = [
        recording.source_tokens(request.site, text) for text in range(recording.rows(request.site))
    ]
    targets = [
        recording.target_tokens(request.site, text) for text in range(recording.rows(request.site))
    ]
    drawn_layers, request_targets = [], request.chosen(recording)
    for index in request.layers:
        layer, like = layers[index], layers[index].input
        visible = layer.site(request.kind).visibility.visible
        noise = like.new_zeros(recording.rows(request.site), like.shape[1], max(map(len, sources)))
        for text, (target_tokens, columns) in enumerate(zip(targets, sources, strict=True)):
            text_noise = _noise(
                (seed, index, target_tokens.labels, columns.labels),
                len(target_tokens),
                len(columns),
            )
            noise[text, : len(target_tokens), : len(columns)] = text_noise.to(noise)
        if visible is not None:  # including sources that are padding in every text (LUKE entities)
            noise = noise * visible.any(1)[..., : noise.shape[-1]]
        drawn_layers.append(request_targets.take(noise, 1))
    return Scores(by_layer(drawn_layers))


def _noise(key: object, rows: int, columns: int) -> Tensor:
    """Return random numbers that are the same for the same key on every machine."""
    seed = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big") >> 1
    return torch.rand(
        rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
