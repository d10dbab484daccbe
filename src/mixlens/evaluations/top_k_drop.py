"""Top-k drop: how much less likely is an answer without the k documents that a measure ranks first?

The drop is F(all documents) - F(all without the top k), where F is the log-probability of the
answer, for k = 1, 3 and 5 (Cohen-Wang et al. 2024, ContextCite). The value is the drop for `k`. A
larger drop means that the measure found documents that the answer needs. There are two baselines:
`last_document` is the drop without the last document, and `any_document` is the mean drop over
removals of a single document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.known_evidence import KnownEvidence

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

DEPTHS = (1, 3, 5)

SPEC = EvaluationSpec(
    summary="drop of the answer's log-probability without the documents ranked first",
    citation='Cohen-Wang et al. (2024), "ContextCite: Attributing Model Generation to Context"',
    direction="higher",
    kinds=("evidence",),
    cost="the measure and at most 5 forward passes",
    same_method=("blank_out",),
    reports={
        **{f"drop_{k}": Detail(f"drop without the best {k}") for k in DEPTHS},
        "last_document": Detail("baseline: the last document removed"),
        "any_document": Detail("baseline: mean over single documents"),
    },
)


def observe(case: Case, measure: str, *, k: int = 1) -> dict[str, Any]:
    """Return the drops in log-probability for one prompt. The drop for k is NaN if the prompt has
    no more than k documents.
    """
    if k < 1:
        raise InvalidInput(f"k={k} is out of range. Pass at least 1 document.")
    prompt = KnownEvidence.of(case)
    count = len(prompt.documents)
    order = np.argsort(-prompt.document_scores(measure), kind="stable").tolist()
    depths = [depth for depth in sorted({k, *DEPTHS}) if depth < count]
    removed = [[], *(order[:depth] for depth in depths), *([each] for each in range(count))]
    whole, *rest = prompt.log_probabilities(removed).tolist()
    drops = {f"drop_{depth}": float("nan") for depth in {k, *DEPTHS}}
    drops |= {f"drop_{d}": whole - after for d, after in zip(depths, rest, strict=False)}
    single = [whole - after for after in rest[len(depths) :]]
    return {
        "value": drops[f"drop_{k}"],
        **drops,
        "last_document": single[-1],
        "any_document": float(np.mean(single)),
    }


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean over prompts."""
    names = [name for name in (observations[0] if observations else {}) if name != "value"]
    details = {}
    for name in names:
        numbers = [each[name] for each in observations if not np.isnan(each[name])]
        details[name] = float(np.mean(numbers)) if numbers else float("nan")
    return Result.of(SPEC, [each["value"] for each in observations], details=details)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over prompts with documents. The options are those of `observe`."""
    return conclude([observe(case, measure, **options) for case in cases])
