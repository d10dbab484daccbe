"""Gradient times input: the first-order contribution of each token's representation to one output
of the model.

The score is x_j . d f / d x_j (Shrikumar et al. 2016; Denil et al. 2014) for the explained output f
(see `mixlens.replay.explained_output`) and the representation x_j that enters a layer (the first by
default). Ferrando et al. 2022 and Mohebbi et al. 2023 (section 4.3) use it as a baseline. The
channels are summed, so scores are signed; `reduction="l2"` or `"l1"` returns the norm of the
products instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.replay.attribution import smooth_gradients
from mixlens.replay.explained_output import Explained

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary="gradient of one output of the model times each token's representation",
    citation=(
        'Shrikumar et al. (2016), "Not Just a Black Box: Learning Important Features Through'
        ' Propagating Activation Differences"'
    ),
    use_when=(
        "for a quick signed look at the tokens that support or oppose one prediction; exact for"
        " linear models only"
    ),
    cost="one forward and one backward pass (with `smooth=k`: k of each, per layer)",
    facts=Facts(signed=True),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="gradient",
    gives="rows",
    limitations=(
        "misses changes along an embedding in a pre-norm model, because the norm removes its"
        " length. After any norm, the copied and the original content of an intermediate token get"
        " the same weight with opposite signs. An MLP lookup has the same slope for all its"
        " inputs, decisive or not"
    ),
    memory=lambda sizes: sizes.graph,
    rounding=3e-5,
    half_precision=None,
)


def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    reduction: str = "sum",
    smooth: int = 0,
    noise: float = 0.15,
    seed: int = 0,
) -> Scores:
    """Return the product of gradient and input for each token.

    `reduction` is "sum", "l2" or "l1"; `smooth` is the number of noisy copies, and `noise` the
    scale of their noise.
    """
    return smooth_gradients(
        recording,
        request,
        output,
        lambda grad, x: grad * x,
        reduction,
        smooth=smooth,
        noise=noise,
        seed=seed,
    )
