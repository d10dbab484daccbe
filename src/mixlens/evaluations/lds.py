"""Linear datamodelling score: do a measure's scores predict the effect of random ablations?

There are `masks` random ablations, each of which keeps every document with probability 1/2. The
score is Spearman's rank correlation, over these ablations, between the sum of the kept documents'
scores and the log-probability of the answer (Park et al. 2023; Cohen-Wang et al. 2024). The score
favours surrogate models that were fitted on ablations of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.statistics import spearman

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="rank correlation of summed scores with the answer's log-probability when documents"
    " are removed at random",
    citation=(
        'Park et al. (2023), "TRAK"; Cohen-Wang et al. (2024), "ContextCite: Attributing Model'
        ' Generation to Context"'
    ),
    direction="higher",
    kinds=("evidence",),
    chance=0.0,
    cost="the measure and 32 forward passes",
    same_method=("blank_out",),
)


def observe(case: Case, measure: str, *, masks: int = 32, seed: int = 0) -> float:
    """Return the rank correlation of one prompt."""
    if masks < 2:
        raise InvalidInput(f"masks={masks} is out of range. A correlation needs at least 2.")
    prompt = KnownEvidence.of(case)
    generator = np.random.default_rng([seed, len(case.example.text)])
    kept_documents = generator.random((masks, len(prompt.documents))) < 0.5
    removed = [np.flatnonzero(~mask).tolist() for mask in kept_documents]
    effects = prompt.log_probabilities(removed)
    return float(spearman(kept_documents @ prompt.document_scores(measure), effects))


def conclude(observations: Iterable[float]) -> Result:
    """Return the mean over prompts."""
    return Result.of(SPEC, list(observations))


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over prompts with documents. The options are those of `observe`."""
    return conclude([observe(case, measure, **options) for case in cases])
