"""Comprehensiveness and sufficiency: how the output changes without the most relevant tokens, or
with only those.

DeYoung et al. (2020), "ERASER", section 4.2: with p the probability of the explained output,

* comprehensiveness = p(text) - p(text without its top k %): high if the measure found the tokens
  that the model needs;
* sufficiency = p(text) - p(the top k % alone): low if these tokens are enough.

Both are averaged over several k. This average is the area over the perturbation curve (Samek et al.
2017, equation 12; Nguyen 2018 for text). The paper divides by the number of bins plus one (k = 0,
where nothing changes). Like the code of the paper, mixlens divides by the number of bins, which
scales the results of all measures by the same factor.

The default bins are 1, 5, 10, 20 and 50 % of the tokens, rounded down to at least one. With
`unit="tokens"`, bins are numbers of tokens instead (`bins=(1, 2, 3)`); `bins=range(1, n + 1)`
computes the curve of Samek et al. Removed tokens are replaced with [MASK], or with [UNK] or a zero
embedding if the tokenizer has no mask. The target and special tokens are never removed. Sources are
removed in the order of their signed scores, because a negative score is evidence against the
output. Ties are broken at random, so that an uninformative measure scores at chance level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mixlens.contracts import Request
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import explained_options, measured_row, select_sources
from mixlens.evaluating.statistics import nan_mean
from mixlens.kernels.chunks import split_chunks
from mixlens.measures.blank_out import replacement_id
from mixlens.replay.attribution import copies_at_once
from mixlens.replay.explained_output import select_explained
from mixlens.replay.intervention import ModelFrom, model_output, token_input

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.recording.recording import Recording

BINS = (1, 5, 10, 20, 50)
METRICS = ("comprehensiveness", "sufficiency")
UNITS = ("percent", "tokens")

SPEC = EvaluationSpec(
    summary=(
        "drop in the output's probability when the most relevant tokens are replaced, averaged "
        "over several numbers of tokens"
    ),
    citation=(
        'DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", section'
        ' 4.2; Samek et al. (2017), "Evaluating the Visualization of What a Deep Neural Network Has'
        ' Learned"; Nguyen (2018)'
    ),
    direction="higher",
    kinds=("agreement", "classification"),
    same_method=("blank_out",),
    cost="the measure itself, and two forward passes for each bin, in one batch",
)


def bin_sizes(bins: Sequence[float], unit: str, count: int) -> list[int]:
    """Return the number of tokens to remove in each bin, between one and `count`."""
    if unit not in UNITS:
        raise InvalidInput(f"Unknown unit {unit!r}. Choose one of: {', '.join(UNITS)}.")
    if (
        not len(bins)
        or any(not size > 0 for size in bins)
        or (unit == "percent" and max(bins) > 100)
    ):
        raise InvalidInput(
            f"Bins {tuple(bins)} are out of range. Pass percentages above 0 up to 100, or "
            "numbers of tokens from 1."
        )
    if unit == "tokens" and any(size != int(size) for size in bins):
        raise InvalidInput(f"Bins {tuple(bins)} are not integers. Pass whole numbers of tokens.")
    sizes = [
        int(size) if unit == "tokens" else math.floor(count * size / 100 + 1e-9) for size in bins
    ]
    return [min(count, max(1, size)) for size in sizes]


def removal_order(scores: np.ndarray, removable: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the positions of removable tokens, highest score first. Ties are broken at random."""
    places = np.flatnonzero(removable)
    tie_breakers = np.random.default_rng(seed).random(len(places))
    order: np.ndarray = places[np.lexsort((tie_breakers, -np.asarray(scores, np.float64)[places]))]
    return order


def removals(order: np.ndarray, sizes: Sequence[int], tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks [bin, token] of the tokens to remove.

    The first removes the top tokens of each bin, the second removes all other tokens in `order`.
    """
    first = np.zeros((len(sizes), tokens), bool)
    all_but_first = np.zeros((len(sizes), tokens), bool)
    for number, size in enumerate(sizes):
        first[number, order[:size]] = True
        all_but_first[number, order[size:]] = True
    return first, all_but_first


def outputs(
    recording: Recording,
    removed: np.ndarray,
    output_options: dict[str, Any],
    replacement: str | int | None,
) -> np.ndarray:
    """Return the explained output of the recorded text without the tokens in each row of the mask
    `removed` [mask, token].
    """
    return read_without(
        recording, removed, replacement, select_explained(recording, **output_options)
    )


@torch.no_grad()
def read_without(
    recording: Recording,
    removed: np.ndarray,
    replacement: str | int | None,
    read: Callable[[Any, Tensor], Tensor],
) -> np.ndarray:
    """Run the model without the tokens in each row of the mask `removed` [mask, token], and apply
    `read` to each output. Equal rows are run only once.
    """
    token = replacement_id(recording, replacement)
    distinct, where = np.unique(removed, axis=0, return_inverse=True)
    request = Request.resolved(recording, site=None, layers=None, targets=None, per_head=False)
    model = ModelFrom(recording)
    removed_masks = torch.as_tensor(distinct, device=model.hidden(0).device)
    answers = []
    for numbers in split_chunks(
        torch.arange(len(removed_masks), device=removed_masks.device),
        copies_at_once(recording, request),
    ):
        texts, part = torch.zeros_like(numbers), removed_masks[numbers]
        if token is None:
            output = model(0, model.hidden(0)[texts].masked_fill(part[..., None], 0), texts)
        else:
            name, ids = token_input(recording, None)
            output = model_output(recording, texts, {name: ids[texts].masked_fill(part, token)})
        answers.append(read(output, texts).double().cpu().numpy())
    return np.concatenate(answers)[where.reshape(-1)]


def observe(
    case: Case,
    measure: str,
    *,
    metric: str = "comprehensiveness",
    bins: Sequence[float] = BINS,
    unit: str = "percent",
    aggregate: str | int = "rollout",
    replacement: str | None = None,
    against: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the results of one text: `value`, `comprehensiveness` and `sufficiency`.

    `value` is the mean over the bins, and the other two have one number per bin. `value` is NaN if
    no token can be removed.
    """
    if metric not in METRICS:
        raise InvalidInput(f"Unknown metric {metric!r}. Choose one of: {', '.join(METRICS)}.")
    output_options = explained_options(case, against)
    removable = select_sources(case, special_tokens=False, include_target=False)
    sizes = bin_sizes(bins, unit, int(removable.sum()))
    if not removable.any():
        nothing = [math.nan] * len(sizes)
        return {"value": math.nan, "comprehensiveness": nothing, "sufficiency": nothing}
    order = removal_order(measured_row(case, measure, aggregate, output_options), removable, seed)
    first, all_but_first = removals(order, sizes, len(case.row))
    chosen_output = (
        replacement
        if replacement is not None
        else case.options.get("blank_out", {}).get("replacement")
    )
    whole = np.zeros((1, len(case.row)), bool)
    values = outputs(
        case.recording, np.concatenate([whole, first, all_but_first]), output_options, chosen_output
    )
    drops = values[0] - values[1:].reshape(2, len(sizes))
    observation = dict(zip(METRICS, drops, strict=True))
    return {
        "value": float(observation[metric].mean()),
        **{name: [float(drop) for drop in part] for name, part in observation.items()},
    }


def conclude(
    observations: Sequence[dict[str, Any]], *, metric: str = "comprehensiveness"
) -> Result:
    """Return the mean over texts. `details` holds both metrics for each bin."""
    spec = SPEC if metric == "comprehensiveness" else replace(SPEC, direction="lower")
    details = (
        {name: nan_mean([observation[name] for observation in observations]) for name in METRICS}
        if len(observations)
        else {}
    )
    return Result.of(spec, [observation["value"] for observation in observations], details=details)


def evaluate(
    cases: Iterable[Case], measure: str, *, metric: str = "comprehensiveness", **options: Any
) -> Result:
    """Return the mean over cases. The options are those of `observe`."""
    return conclude(
        [observe(case, measure, metric=metric, **options) for case in cases], metric=metric
    )
