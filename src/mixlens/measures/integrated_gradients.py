"""Integrated gradients: what each token's representation adds on the straight way from a baseline
to the text.

Sundararajan, Taly, Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, eq. 1: (x_j - x'_j) .
integral over a of d f(x' + a (x - x')) / d x_j, by Gauss-Legendre quadrature.
Attributions add up to f(x) - f(baseline); `completeness_error` says how far the sum is off, and
more `steps` bring it down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.explained import Explained
from mixlens.kernels.gradients import Hidden, Value, path_mean
from mixlens.measures.attribution import attributed, copies_at_once
from mixlens.measures.attribution import baseline as baseline_of

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

SPEC = Spec(
    summary=(
        "gradient of one output times the change of each token's representation, averaged on the"
        " way from a baseline"
    ),
    citation='Sundararajan et al. (2017), "Axiomatic Attribution for Deep Networks", ICML, eq. 1',
    use_when=(
        "signed attributions of one prediction that add up to what the text changes against a"
        " baseline"
    ),
    cost="`steps` forward and backward passes per layer and text",
    facts=Facts(signed=True),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="output",
    gives="rows",
    blind_spots=(
        "in a pre-norm model the length of an embedding changes nothing, so that the path"
        " from zero to it is flat; norms give what a go-between does not pass on a negative"
        " part"
    ),
    memory="graph + chunk",
    least={"steps": 4},
    rounding=3e-5,
    half_precision=None,
)


def scores(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    reduction: str = "sum",
    steps: int = 50,
    baseline: str = "zero",
) -> Scores:
    """`reduction`: sum, l2 or l1;
    `baseline`: zero, pad or mask.
    """
    if steps < 1:
        raise InvalidInput("steps: at least one is needed")
    size = copies_at_once(recording, request)
    errors: list[Tensor] = []

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        base = baseline_of(recording, request, layer, baseline, hidden)
        parts = (hidden - base) * path_mean(value, base, hidden, steps=steps, size=size)
        rows = torch.arange(len(hidden), device=hidden.device)
        with torch.no_grad():
            change = output(recording.output, rows) - value(base, rows)
            errors.append(parts.flatten(1).sum(1) - change)
        return parts

    made = attributed(recording, request, output, attribute, reduction)
    return replace(
        made,
        extras={"completeness_error": torch.stack(errors)},
        extra_dims={"completeness_error": ()},
    )
