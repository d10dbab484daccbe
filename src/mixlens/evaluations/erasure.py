"""Erasure: do a measure's scores rank tokens in the same order as the effects of erasing them? The
value of a text is Spearman's rank correlation between the measure's scores for the target and the
blank-out scores: how much the explained output changes when each token is replaced
(`mixlens.measures.blank_out`). Mohebbi et al. (2023), section 7 and table 3; Ferrando et al.
(2022), section 4 and table 2 (the subject-verb agreement column).

By default, layers are aggregated by the measure's own rollout. A token is replaced with [MASK], or
with [UNK] or a zero embedding if the tokenizer has no mask. The explained output is the target,
contrasted with its foil if the example has one. Changes are compared by absolute value. Special
tokens and the target are excluded: a text without [CLS] is unlike the model's training data, and
replacing a mask with a mask changes nothing. `variant` selects the protocol of a paper:

* `"mohebbi2023"`: [UNK], softmax over {target, foil}, signed changes, and a rollout of normalised
  scores without a residual. (The authors' code for this table is not public and the paper does not
  say which tokens it excludes, so the variant keeps the default above.)
* `"ferrando2022"`: [MASK], absolute changes of the probability over the whole vocabulary, with
  special tokens and the target included.

Options that you pass override the variant. Erasure has limitations too: it misses redundant tokens,
because the model can use the remaining one if the other is erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import (
    explained_options,
    mean_and_spread,
    measured_row,
    rank_agreement,
    select_sources,
)
from mixlens.maps.one_row import roll_out_absolute, shares
from mixlens.measures import ready_measures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary=(
        "rank correlation of a measure's scores with the change of the output when each token is "
        "replaced"
    ),
    citation=(
        'Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", section 7; Ferrando'
        ' et al. (2022), "Measuring the Mixing of Contextual Information in the Transformer",'
        " section 4"
    ),
    direction="higher",
    kinds=("agreement", "classification"),
    chance=0.0,
    same_method=("blank_out",),
    cost="the measure itself, and n forward passes once for each text",
)


@dataclass(frozen=True)
class Protocol:
    """Settings that define how blank-out is computed and compared."""

    replacement: str | None = None  # None: mask, else unk, else zero
    against: str | None = None  # None: the foil if there is one
    signed: bool = False
    special: bool = False
    own: bool = False
    residual: bool = True  # whether the rollout adds the residual of the measure's authors


VARIANTS = {
    "default": Protocol(),
    "mohebbi2023": Protocol(replacement="unk", against="foil", signed=True, residual=False),
    "ferrando2022": Protocol(replacement="mask", against="vocabulary", special=True, own=True),
}


def protocol(variant: str = "default", **options: Any) -> Protocol:
    """Return the settings of a variant, overridden by the passed options."""
    if variant not in VARIANTS:
        raise InvalidInput(f"Unknown variant {variant!r}. Choose one of: {', '.join(VARIANTS)}.")
    names = {field.name for field in fields(Protocol)}
    unknown = sorted(set(options) - names)
    if unknown:
        raise InvalidInput(
            f"Unknown option {unknown[0]!r} of erasure. Choose one of: {', '.join(sorted(names))}."
        )
    return replace(
        VARIANTS[variant], **{key: value for key, value in options.items() if value is not None}
    )


def observe(
    case: Case,
    measure: str,
    *,
    variant: str = "default",
    aggregate: str | int = "rollout",
    replacement: str | None = None,
    against: str | None = None,
    signed: bool | None = None,
    special: bool | None = None,
    own: bool | None = None,
) -> float:
    """Return the rank correlation of one text, or NaN if all scores or all changes are equal."""
    how = protocol(
        variant, replacement=replacement, against=against, signed=signed, special=special, own=own
    )
    explained = explained_options(case, how.against)
    replacement_option = {} if how.replacement is None else {"replacement": how.replacement}
    reference = shares(
        case.maps("blank_out", **explained, **replacement_option, signed=how.signed).scores[0, 0]
    )
    counting = select_sources(case, special_tokens=how.special, include_target=how.own)
    if how.residual:
        scores = measured_row(case, measure, aggregate, explained)
    else:
        scores = plain_row(case, measure, aggregate, explained)
    return rank_agreement(scores, reference, counting, signed=how.signed)


def plain_row(
    case: Case, measure: str, aggregate: str | int, explained: dict[str, Any]
) -> np.ndarray:
    """Return the target's scores.

    If the measure scores layers, they are aggregated by the plain product of their normalised maps.
    """
    specs = ready_measures()
    whole = (
        measure not in specs or specs[measure].gives != "maps" or specs[measure].facts.reaches_input
    )
    if whole or aggregate != "rollout":
        return measured_row(case, measure, aggregate, explained)
    return shares(
        roll_out_absolute(case.maps(measure), residual=0, normalise=True)
        .row(case.target)
        .scores[-1]
    )


def conclude(observations: Sequence[float]) -> Result:
    """Return the mean over texts, with their standard deviation."""
    return mean_and_spread(SPEC, observations)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over cases. The options are those of `observe`. `details["std"]` is the
    standard deviation over texts.
    """
    return conclude([observe(case, measure, **options) for case in cases])
