"""Integrated gradients: what each token's representation adds on the straight way from a baseline
to the text.

Sundararajan, Taly, Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, eq. 1: (x_j - x'_j) .
integral over a of d f(x' + a (x - x')) / d x_j, computed by Captum with Gauss-Legendre steps.
Attributions add up to f(x) - f(baseline); `completeness_error` says how far the sum is off, and
more `steps` bring it down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.contracts import Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.explained import explained
from mixlens.kernels.gradients import Hidden, Value
from mixlens.measures.attribution import attributed, captum_attribution, copies_at_once
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
    sites=("self",),
)


def scores(
    recording: Recording,
    request: Request,
    *,
    label: str | int | list[str | int] | None = None,
    word: str | int | list[str | int] | None = None,
    foil: str | int | list[str | int] | None = None,
    position: int | list[int] | None = None,
    of: str = "probability",
    reduction: str = "sum",
    steps: int = 50,
    baseline: str = "zero",
) -> Scores:
    """`label`, `word`, `foil`, `position`, `of` name the output; `reduction`: sum, l2 or l1;
    `baseline`: zero, pad or mask.
    """
    if steps < 1:
        raise InvalidInput("steps: at least one is needed")
    captum: Any = captum_attribution()
    output = explained(recording, label=label, word=word, foil=foil, position=position, of=of)
    size = copies_at_once(recording, request)
    errors: list[Tensor] = []

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        base = baseline_of(recording, request, layer, baseline, hidden)
        parts = []
        for row in range(len(hidden)):

            def of_row(copies: Hidden, row: int = row) -> Tensor:
                return value(copies, torch.full((len(copies),), row, device=copies.device))

            method = captum.IntegratedGradients(of_row)
            parts.append(
                method.attribute(
                    hidden[row : row + 1],
                    base[row : row + 1],
                    n_steps=steps,
                    method="gausslegendre",
                    internal_batch_size=min(size, steps),
                ).to(hidden.dtype)
            )
        found = torch.cat(parts).detach()
        rows = torch.arange(len(hidden), device=hidden.device)
        with torch.no_grad():
            errors.append(found.flatten(1).sum(1) - (value(hidden, rows) - value(base, rows)))
        return found

    made = attributed(recording, request, output, attribute, reduction)
    return Scores(
        made.values,
        {"completeness_error": torch.stack(errors)},
        {"completeness_error": ()},
        made.layers,
        made.target_labels,
        made.facts,
    )
