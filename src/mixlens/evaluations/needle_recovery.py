"""Needle recovery: does a measure find the documents that an answer rests on?

A prompt contains several documents and a question, and it is known which documents contain the
evidence (`generated:TASK`). The model reads the answer, every token of the answer is a target, and
the scores of the prompt's tokens are compared with the known evidence. The value is the reciprocal
rank of the highest-ranked evidence document. `details` has the recall of evidence documents among
the top k (k is the number of evidence documents), how often the top document is evidence, and the
recall of evidence tokens among the top 10 % of the prompt's tokens (Pan et al. 2026, FlashTrace).

A prompt counts only if the model answers it correctly, and answers differently without the
evidence. `details["counted"]` is the number of these prompts. The baselines on the same prompts are
`first_document`, `last_document` and `shared_words` (which ranks documents by the words that they
share with the question and the answer).

The layers of a measure are aggregated by the mean of their normalised scores, and the tokens of the
answer are combined as the measure defines for a span. The first token of the prompt is excluded,
because it is often an attention sink. With `sink=True`, the first token counts as part of its
document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import overlap_scores, reciprocal_rank, recovery

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="reciprocal rank of the documents that an answer rests on",
    citation=(
        "Protocol after Pan et al. 2026 (FlashTrace, token recovery) and Wang et al. 2025 (TracLLM,"
        " precision and recall of segments); generated prompts of our own"
    ),
    direction="higher",
    kinds=("evidence",),
    reports={
        "recall": Detail("recall of the evidence documents"),
        "first": Detail("the first document is evidence"),
        "token_recovery": Detail("evidence tokens among the best 10 %"),
        "counted": Detail("prompts that count"),
        "shared_words": Detail("baseline: words shared with question and answer"),
        "first_document": Detail("baseline: documents in their order"),
        "last_document": Detail("baseline: documents in reverse order"),
    },
)

_NUMBERS = ("value", "recall", "first", "token_recovery")
_BASELINES = ("shared_words", "first_document", "last_document", "chance")


def observe(case: Case, measure: str, *, sink: bool = False) -> dict[str, Any]:
    """Return the results for one prompt, or NaN if the prompt does not count."""
    prompt = KnownEvidence.of(case)
    if not prompt.counts:
        return dict.fromkeys((*_NUMBERS, *_BASELINES), float("nan"))
    scores = prompt.scores(measure)
    if not sink:
        scores[0] = 0.0
    example, count = prompt.example, len(prompt.documents)
    evidence = example.evidence
    recovered = recovery(
        scores, prompt.documents, evidence, prompt.needles, range(1 - sink, prompt.length)
    )
    texts = [example.text[slice(*span)] for span in example.documents]
    question = example.text[example.documents[-1][1] :] + example.answer
    return {
        "value": recovered.reciprocal_rank,
        "recall": recovered.recall,
        "first": recovered.first,
        "token_recovery": recovered.token_recovery,
        "shared_words": reciprocal_rank(overlap_scores(texts, question), evidence),
        "first_document": reciprocal_rank(-np.arange(count), evidence),
        "last_document": reciprocal_rank(np.arange(count), evidence),
        "chance": reciprocal_rank(np.zeros(count), evidence),
    }


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean over the prompts that count."""
    values = [each["value"] for each in observations]
    valid = [each for each in observations if not np.isnan(each["value"])]
    details: dict[str, Any] = {
        name: float(np.mean([each[name] for each in valid])) if valid else float("nan")
        for name in (*_NUMBERS[1:], *_BASELINES)
    }
    details["counted"] = len(valid)
    return Result.of(SPEC, values, details=details)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over prompts with known evidence. The options are those of `observe`."""
    return conclude([observe(case, measure, **options) for case in cases])
