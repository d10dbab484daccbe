"""Erasure: do a measure's scores rank the tokens as erasing them does?

Spearman's rank correlation, text by text, between the measure's row for the target and blank-out:
the change of the explained output when each token is replaced (`mixlens.measures.blank_out`).
Mohebbi et al. (2023), section 7 and table 3; Ferrando et al. (2022), section 4 and table 2 (the
column of subject-verb agreement).

By default: the layers joined by the measure's own rollout; a token becomes [MASK] (else [UNK], else
a zero embedding); the target against its foil if the example has one; sizes of the changes;
special tokens and the target itself are not counted, because without its [CLS] a model is outside
of all that it has learnt, and replacing a mask by a mask says nothing. `variant` sets all of this
as a paper has it:

* `"mohebbi2023"`: [UNK], softmax over {target, foil}, changes with their signs, rollout of
  normalised rows without a residual part. (The authors' code for this table is not public; which
  tokens it counts is not known, so that stays as above.)
* `"ferrando2022"`: [MASK], absolute changes of the probability among all words, special tokens and
  the target included.

An option that is named as well has the last word. Erasure is itself a measure with blind spots:
tokens that can replace each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import (
    counted,
    explained_options,
    mean_and_spread,
    measured_row,
    rank_agreement,
)
from mixlens.maps.one_row import rolled_out_absolute, shares
from mixlens.measures import list_measures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary=(
        "rank correlation of a measure's row with the change of the output when each token is"
        " replaced"
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
    """How blank-out is taken and compared."""

    replacement: str | None = None  # None: mask, else unk, else zero
    against: str | None = None  # None: the foil if there is one
    signed: bool = False
    special: bool = False
    own: bool = False
    residual: bool = (
        True  # does the rollout mix in the residual share that the measure's authors do?
    )


VARIANTS = {
    "default": Protocol(),
    "mohebbi2023": Protocol(replacement="unk", against="foil", signed=True, residual=False),
    "ferrando2022": Protocol(replacement="mask", against="vocabulary", special=True, own=True),
}


def protocol(variant: str = "default", **chosen: Any) -> Protocol:
    """A variant with the named options in place of its own."""
    if variant not in VARIANTS:
        raise InvalidInput(f"there is no variant {variant!r}; choose one of: {', '.join(VARIANTS)}")
    known = {field.name for field in fields(Protocol)}
    unknown = sorted(set(chosen) - known)
    if unknown:
        raise InvalidInput(
            f"erasure has no option {unknown[0]!r}; it has: {', '.join(sorted(known))}"
        )
    return replace(
        VARIANTS[variant], **{key: value for key, value in chosen.items() if value is not None}
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
    """The rank correlation of one text; NaN if all scores, or all changes, are the same."""
    how = protocol(
        variant, replacement=replacement, against=against, signed=signed, special=special, own=own
    )
    explained = explained_options(case, how.against)
    chosen = {} if how.replacement is None else {"replacement": how.replacement}
    reference = shares(
        case.maps("blank_out", **explained, **chosen, signed=how.signed).scores[0, 0]
    )
    counting = counted(case, special_tokens=how.special, own=how.own)
    if how.residual:
        row = measured_row(case, measure, aggregate, explained)
    else:
        row = plain_row(case, measure, aggregate, explained)
    return rank_agreement(row, reference, counting, signed=how.signed)


def plain_row(
    case: Case, measure: str, aggregate: str | int, explained: dict[str, Any]
) -> np.ndarray:
    """The row with the layers joined by the bare product of normalised maps, if the measure has
    layers to join.
    """
    specs = list_measures()
    whole = (
        measure not in specs or specs[measure].gives != "maps" or specs[measure].facts.reaches_input
    )
    if whole or aggregate != "rollout":
        return measured_row(case, measure, aggregate, explained)
    return shares(
        rolled_out_absolute(case.maps(measure), residual=0, normalise=True)
        .row(case.target)
        .scores[-1]
    )


def conclude(observations: Sequence[float]) -> Result:
    """The mean over texts, with their spread."""
    return mean_and_spread(SPEC, observations)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """The mean over cases; options as in `observe`. `details["std"]` is the spread over texts."""
    return conclude([observe(case, measure, **options) for case in cases])
