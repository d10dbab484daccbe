"""DeepLIFT: how much each token's difference from a baseline contributes to the change in one
output.

Shrikumar, Greenside, Kundaje, "Learning Important Features Through Propagating Activation
Differences", ICML 2017 (Rescale rule). Mohebbi et al. 2023 use it as a baseline (section 4.3).
Attributions are multiplier . (x_j - x'_j) and add up to f(x) - f(baseline).

Captum's DeepLift applies its rule to known activation modules only. Transformers models call
activations, softmax and products of activations as functions, and Captum uses plain gradients for
norms. Captum's attributions therefore do not add up on these models and are close to gradient times
input. In mixlens every operation has a rule (`mixlens.kernels.rescale`). Both implementations agree
on networks of linear layers and activations. If the model uses an operation without a rule, the
attributions do not add up, and mixlens raises an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import UnsupportedModel
from mixlens.kernels.gradients import Hidden, Value
from mixlens.kernels.rescale import constants, differences_explained
from mixlens.replay.attribution import attribute_output, moving_counts
from mixlens.replay.attribution import baseline as baseline_of
from mixlens.replay.explained_output import Explained

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary=(
        "DeepLIFT multipliers times each token's difference from a baseline, for one output of the"
        " model"
    ),
    citation=(
        'Shrikumar et al. (2017), "Learning Important Features Through Propagating Activation'
        ' Differences", ICML'
    ),
    use_when=(
        "for signed attributions of one prediction that add up, at the cost of two forward passes"
        " and one backward pass"
    ),
    cost="about 2 forward and 2 backward passes per layer",
    facts=Facts(signed=True),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="output",
    gives="rows",
    limitations=(
        "propagates the difference from an empty text through every operation up to the output. A"
        " token that changes the attention weights, such as an intermediate token, counts as much"
        " as the token whose content is copied"
    ),
    memory=lambda sizes: (
        2
        * sizes.layers
        * sizes.targets
        * (12 * sizes.d_model + 3 * sizes.d_ff + 3 * sizes.heads * sizes.targets)
    ),
    rounding=1e-4,
    half_precision=None,
)

# Rounding errors of the sum: relative to f(x) - f(baseline), and to the sum of all absolute
# attributions. Some models compute norms and softmax in float32 whatever their dtype. A missing
# rule causes errors of percents.
_TOLERANCE = {
    torch.float64: (1e-3, 1e-6),
    torch.float32: (1e-2, 1e-5),
    torch.bfloat16: (0.2, 1e-2),
    torch.float16: (0.1, 1e-3),
}


def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    reduction: str = "sum",
    baseline: str | int = "zero",
    moves: str = "prompt",
) -> Scores:
    """Return the attributions.

    `reduction` is "sum", "l2" or "l1"; `baseline` is "zero", "pad", "mask" or a token id. If an
    answer is explained, `moves` ("prompt" or "all") selects the tokens that are set to the
    baseline.
    """
    moving = moving_counts(recording, request, output, moves)
    errors: list[Tensor] = []

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        base = baseline_of(recording, request, layer, baseline, hidden, moving)
        texts = torch.arange(len(hidden), device=hidden.device)
        with constants(recording.model):
            attributions, expected, off = differences_explained(
                lambda both: value(both, torch.cat([texts, texts])), hidden, base
            )
        relative, rounding = _TOLERANCE[hidden.dtype]
        with (
            torch.no_grad()
        ):  # f(x) may equal f(baseline): then only its own size tells what is small
            size = output(recording.output, texts).abs() + attributions.flatten(1).abs().sum(1)
        if not bool((off.abs() <= relative * expected.abs() + rounding * size).all()):
            worst = float((off.abs() / expected.abs().clamp_min(1e-30)).max())
            raise UnsupportedModel(
                f"deep_lift: attributions differ from f(x) - f(baseline) by {worst:.1e} "
                "(relative), so this model uses an operation without a rule. Use "
                "integrated_gradients, or load a half-precision model in float32."
            )
        errors.append(off)
        return attributions

    scores = attribute_output(recording, request, output, attribute, reduction)
    error = {"completeness_error": torch.stack(errors)}
    return replace(scores, extras=error, extra_dims={"completeness_error": ()})
