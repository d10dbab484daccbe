"""Gradient norm: how sensitive one output of the model is to each token's representation.

The score is |d f / d x_j| for the explained output f (see `mixlens.replay.explained_output`) and
the representation x_j that enters a layer (the first by default). Simonyan et al. 2014 introduced
it for images. Ferrando et al. 2022 use it as a baseline (appendix B: gradient of the softmax
probability, l2 norm), and so do Kobayashi et al. 2020 (table 3) with `smooth=k` noisy copies
(SmoothGrad, Smilkov et al. 2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.replay.attribution import smooth_gradients
from mixlens.replay.explained_output import Explained

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary=(
        "length of the gradient of one output of the model with respect to each token's"
        " representation"
    ),
    citation=(
        'Simonyan et al. (2014), "Deep Inside Convolutional Networks"; Smilkov et al. (2017),'
        ' "SmoothGrad"'
    ),
    use_when="for a quick look at the tokens to which one prediction is sensitive; has no sign",
    cost="one forward and one backward pass (with `smooth=k`: k of each, per layer)",
    facts=Facts(),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="gradient",
    gives="rows",
    limitations=(
        "measures the effect of a small change, not the current content of the target. A marker"
        " gets a high score because a word in its place would add content, and an intermediate"
        " token because scaling it up would shrink the content that it has copied. An MLP lookup,"
        " or a chain of copies through several tokens, has the same slope for all its inputs,"
        " decisive or not"
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
    reduction: str = "l2",
    smooth: int = 0,
    noise: float = 0.15,
    seed: int = 0,
) -> Scores:
    """Return the norm of the gradient for each token.

    `reduction` is "l2" or "l1"; `smooth` is the number of noisy copies, and `noise` the scale of
    their noise.
    """
    if reduction == "sum":
        raise InvalidInput("reduction='sum' has no meaning for a gradient norm. Pass l2 or l1.")
    return smooth_gradients(
        recording,
        request,
        output,
        lambda grad, _: grad,
        reduction,
        smooth=smooth,
        noise=noise,
        seed=seed,
    )
