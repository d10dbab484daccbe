"""Injection recovery: does a measure find the instruction that the model followed?

One document of the prompt contains an instruction to answer with a certain word instead of
answering the question (`generated:injection`). If the model follows it, the instruction is the
evidence of the answer, and the evaluation reports the same metrics as `needle_recovery`. Prompts on
which the model does not follow the instruction are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import Result
from mixlens.evaluations import needle_recovery

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = replace(
    needle_recovery.SPEC,
    summary="reciprocal rank of the document with the instruction that the model followed",
    citation=(
        "Protocol after Wang et al. 2025 (TracLLM, injected instructions); generated prompts of our"
        " own"
    ),
    by_default=False,
)


def observe(case: Case, measure: str, *, sink: bool = False) -> dict[str, Any]:
    """Return the results for one prompt, or NaN if the model does not follow the instruction."""
    if case.example.group != "injection":
        raise InvalidInput(
            f"{case.example.name} contains no injected instruction. Use --data generated:injection."
        )
    return needle_recovery.observe(case, measure, sink=sink)


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean over the prompts on which the model follows the instruction."""
    return needle_recovery.conclude(observations)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over prompts with an injected instruction. The options are those of
    `observe`.
    """
    return conclude([observe(case, measure, **options) for case in cases])
