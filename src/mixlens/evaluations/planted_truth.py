"""Planted truth: does a measure find the source in hand-built transformers?

This experiment does not come from a paper. The models are small transformers with weights set by
hand (`planted_models`, `planted_cases`), which are recorded and checked like any other model. The
tokens that contribute to the target's final state are known exactly. A test verifies that replacing
the word (or marker) of such a token changes the state.

A measure's scores for the target, aggregated by its own rollout, are right if every true source
ranks above every other token. Absolute scores are compared. A tie between a true source and another
token counts as wrong. The target itself is ignored, because the residual stream carries its own
state. If only the target contributes, the scores are right if the target is first, or if all scores
are zero. The value is the fraction of right cases; `details["shares"]` is the fraction of the
scores that falls on true sources. If a measure does not support a case, its value is NaN.

Gradients and erasure explain the class that a classifier predicts at the target. Erasure replaces
each token with a marker. These cases are few and simple. They show which mistakes a measure can
make, not how often it makes them.

`python -m mixlens.evaluations.planted_truth` writes the table into
docs/development/hand_built_models.md.
"""

from __future__ import annotations

import functools
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.planted_cases import Planted, planted_cases
from mixlens.evaluating.planted_models import MARKS, build_model
from mixlens.lens import Lens
from mixlens.maps.one_row import target_row
from mixlens.measures import names, ready_measures
from mixlens.measuring.measure import measure as measured
from mixlens.recording.recording import Recording

SPEC = EvaluationSpec(
    summary="share of hand-built transformers whose true source a measure puts first",
    citation="none: built for mixlens, with known sources",
    direction="higher",
    kinds=(),
    cost="a second for all cases",
)

MARGIN = 1e-6  # relative; a smaller difference is a tie
NOISE = 1e-9  # fraction of the largest score below which a score counts as zero
WIDTH = 100
SPACE = "\N{NO-BREAK SPACE}"  # a cell stays on one line
START, END = "<!-- table: start -->", "<!-- table: end -->"


def judge_target(scores: np.ndarray, target: int, sources: Iterable[int]) -> tuple[bool, float]:
    """Return whether every true source ranks above every other token, and the fraction of the
    scores that falls on true sources (NaN if all scores are zero).
    """
    sizes, true = np.abs(np.asarray(scores, np.float64)), np.zeros(len(scores), bool)
    sizes[sizes < NOISE * sizes.max()] = 0
    true[list(sources)] = True
    includes_target = bool(true[target])
    if includes_target and true.sum() > 1:
        raise InvalidInput(
            "The target is listed with other sources. List it as the only source, or not at all."
        )
    is_other = ~true
    is_other[target] = False
    total = float(sizes[true].sum() + sizes[is_other].sum())
    share = float(sizes[true].sum()) / total if total > 0 else math.nan
    if includes_target and not sizes.any():
        return True, share
    return bool(sizes[true].min() > sizes[is_other].max(initial=0.0) * (1 + MARGIN)), share


def row_of(case: Planted, measure: str) -> np.ndarray:
    """Return the measure's scores for the target."""
    output = {"position": case.target}
    return row_of_target(measure, recording_of(case), case.target, output, MARKS[0])


@functools.cache
def recording_of(case: Planted) -> Recording:
    """Record the hand-built model of a case on the tokens of that case."""
    return Lens(build_model(case.architecture, case.plan)).record(case.inputs)


def row_of_target(
    measure: str, recording: Recording, target: int, output: Mapping[str, Any], blank: int
) -> np.ndarray:
    """Return a measure's scores for a target, aggregated by the measure's own rollout.

    `output` selects the explained output, for measures that explain one. `blank` is the token that
    erasure uses as a replacement.
    """
    specs = ready_measures()
    if measure not in specs:
        raise InvalidInput(f"Unknown measure {measure!r}. Choose one of: {', '.join(specs)}.")
    options = dict(output) if specs[measure].explains_output else {}
    if measure == "blank_out":
        options["replacement"] = blank
    maps = measured(measure, recording, **options)
    assert not isinstance(maps, list)
    return target_row(maps, specs[measure], target)


def observe(case: Planted, measure: str) -> dict[str, Any]:
    """Return whether the measure is right on one case, as a dict.

    `value` is 1 (right), 0 (wrong) or NaN (unsupported). `share` is the fraction of the scores that
    falls on true sources.
    """
    try:
        scores = row_of(case, measure)
    except UnsupportedModel as error:
        return {"case": case.name, "value": math.nan, "share": math.nan, "reason": str(error)}
    right, share = judge_target(scores, case.target, case.sources)
    return {"case": case.name, "value": float(right), "share": share, "reason": None}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the fraction of right cases."""
    details = {
        key: {observation["case"]: observation[name] for observation in observations}
        for key, name in (("right", "value"), ("shares", "share"))
    }
    details["refused"] = {
        observation["case"]: observation["reason"]
        for observation in observations
        if observation["reason"]
    }
    return Result.of(SPEC, [observation["value"] for observation in observations], details=details)


@functools.cache
def cases() -> tuple[Planted, ...]:
    """Return all cases. The models are built and recorded only once."""
    return planted_cases()


def evaluate(measure: str) -> Result:
    """Evaluate one measure on all cases, which `details` lists by name.

    Interpret the confidence interval with care. It is computed over cases, which are not a random
    sample.
    """
    return conclude([observe(case, measure) for case in cases()])


# ----------------------------------------------------------------------------------------- the page


def table() -> str:
    """Return the results of every measure, with explanations and a description of each case, as
    Markdown.
    """
    every_case = cases()
    lines = [
        "| measure | right | " + " | ".join(case.name for case in every_case) + " |",
        "|---|---|" + "---|" * len(every_case),
    ]
    for name in names():
        result = evaluate(name)
        cells = [
            _cell(result.details["right"][case.name], result.details["shares"][case.name])
            for case in every_case
        ]
        verdicts = result.per_example[~np.isnan(result.per_example)]
        lines.append(
            f"| `{name}` | {int(verdicts.sum())} of {len(verdicts)} | {' | '.join(cells)} |"
        )
    specs = ready_measures().items()
    why = [list_item(f"`{name}` {spec.limitations}.") for name, spec in specs if spec.limitations]
    planted = [list_item(f"**{case.name}**: {case.planted}.") for case in every_case]
    return "\n".join(
        [*lines, "", "## Limitations of each measure", "", *why, "", "## Examples", "", *planted]
    )


def list_item(text: str) -> str:
    """Return a Markdown list item, wrapped to the width of the page."""
    return textwrap.fill(f"* {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _cell(right: float, share: float) -> str:
    if math.isnan(right):
        return "·"
    return ("✓" if right else "✗") + ("" if math.isnan(share) else f"{SPACE}{share:.2f}")


def insert_table(page: str, table: str) -> str:
    """Return the text of a page, with this table inserted between the two markers of the page."""
    before, _, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise InvalidInput(f"The page has no markers for the table. Add {START} and {END}.")
    return f"{before}{START}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Write the table to a page, by default docs/development/hand_built_models.md."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/development/hand_built_models.md")
    path.write_text(insert_table(path.read_text("utf-8"), table()), "utf-8")


if __name__ == "__main__":
    main()
