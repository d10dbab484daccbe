"""Compiled truth: does a measure find the tokens that a known program used?

The models are compiled, not trained (`compiled_cases`): Lindner et al. 2023, "Tracr: Compiled
Transformers as a Laboratory for Interpretability". The sources of a target's output are known under
two definitions. A *carried* source is one whose content reaches the output, by the program's
expression. A *counterfactual* source is one whose replacement can change the output, all else being
equal. They differ if a program reads a token to decide which other one to copy.

A measure's scores for the target, aggregated by its own rollout, are right if every true source
ranks above every other token: the rule of `planted_truth`. The value is the fraction of inputs that
are right by the first definition. Inputs in which all tokens are sources (programs that count) are
excluded, because no ranking could be wrong.

`python -m mixlens.evaluations.compiled_truth` writes the table into
docs/development/compiled_models.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixlens.errors import UnsupportedModel
from mixlens.evaluating.compiled_cases import DEFINITIONS, Compiled, compiled_cases
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluations.planted_truth import judged, list_item, row_of_target, written
from mixlens.measures import names

SPEC = EvaluationSpec(
    summary="share of compiled programs' inputs whose true sources a measure puts first",
    citation='Lindner et al. (2023), "Tracr: Compiled Transformers", NeurIPS: the compiler',
    direction="higher",
    kinds=(),
    cost="half a minute for all measures",
    by_default=False,
)


cases = compiled_cases


def observe(case: Compiled, measure: str) -> dict[str, Any]:
    """Return, by definition, whether the scores are right: 1, 0, or NaN if the measure or the
    question is undefined.
    """
    seen: dict[str, Any] = {"case": case.name, "reason": None}
    try:
        row = row_of_target(measure, case.recording, case.target, case.options, case.blank)
    except UnsupportedModel as error:
        return seen | dict.fromkeys(DEFINITIONS, math.nan) | {"reason": str(error)}
    for definition in DEFINITIONS:
        seen[definition] = math.nan
        if case.stands_out(definition):
            seen[definition] = float(judged(row, case.target, case.sources[definition])[0])
    return seen


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the fraction of inputs that are right by the first definition; both are in
    `details`.
    """
    details = {
        key: {seen["case"]: seen[key] for seen in observations} for key in (*DEFINITIONS, "reason")
    }
    return Result.of(SPEC, [seen[DEFINITIONS[0]] for seen in observations], details=details)


def evaluate(measure: str) -> Result:
    """Evaluate one measure on all inputs.

    The interval is over inputs, which are not a random sample, so interpret it with care.
    """
    return conclude([observe(case, measure) for case in compiled_cases()])


# ----------------------------------------------------------------------------------------- the page


def table() -> str:
    """Return the fraction of right inputs of each program, by measure and definition, as
    Markdown.
    """
    cases = compiled_cases()
    programs = {case.program: case.what for case in cases}
    lines = [
        f"| measure | {' | '.join((*DEFINITIONS, *programs))} |",
        "|---|" + "---|" * (len(DEFINITIONS) + len(programs)),
    ]
    in_words = [list_item(f"`{name}`: {what}.") for name, what in programs.items()]
    return "\n".join([*lines, *(table_row(name) for name in names()), "", *in_words])


def table_row(measure: str) -> str:
    """Return the table row of one measure."""
    cases, details = compiled_cases(), evaluate(measure).details
    whole = [_share(list(details[definition].values())) for definition in DEFINITIONS]
    cells = [
        " / ".join(
            _share([details[key][case.name] for case in cases if case.program == program])
            for key in DEFINITIONS
        )
        for program in dict.fromkeys(case.program for case in cases)
    ]
    return f"| `{measure}` | {' | '.join([*whole, *cells])} |"


def _share(values: list[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{np.mean(known):.2f}" if known else "·"


def main() -> None:
    """Write the table into a page, by default docs/development/compiled_models.md."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/development/compiled_models.md")
    path.write_text(written(path.read_text("utf-8"), table()), "utf-8")


if __name__ == "__main__":
    main()
