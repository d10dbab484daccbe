"""Planted truth: does a measure find the source that was put there by hand?

No paper's experiment: small transformers with weights set by hand (`_planted_models`,
`_planted_cases`), ordinary models of transformers that go through the same recording and the same
checks as any other. In each it is known exactly which tokens are in the target's final state: those
for which putting a different word (or mark) in their place changes it, which a test does.

A measure's row for the target, with the layers joined by its own rollout, is right if every true
source is above every other token; sizes are compared, ties are wrong, and the target itself is
left aside (it is in its own state by the residual stream). If nothing but the target is in it, a
row is right if the target is first, or if it names no token at all. The value is the share of
the cases that are right; `details["shares"]` says how much of each row lies on true sources. A case
on which a measure is not defined has no number.

Gradients and erasure explain the class that a classifier reads off the target; erasure puts a mark
in a token's place. These cases are few and clean. They show which mistakes a measure can make, not
how often it makes them.

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
from mixlens.evaluating.planted_models import MARKS
from mixlens.maps.one_row import target_row
from mixlens.measures import list_measures, names
from mixlens.measuring.measure import measure as measured
from mixlens.recording.recording import Recording

SPEC = EvaluationSpec(
    summary="share of hand-built transformers whose true source a measure puts first",
    citation="none: built for mixlens, with known sources",
    direction="higher",
    kinds=(),
    cost="a second for all cases",
)

MARGIN = 1e-6  # relative: closer than that is a tie
NOISE = 1e-9  # of the row's largest entry: less than that is nothing
WIDTH = 100
SPACE = "\N{NO-BREAK SPACE}"  # a cell stays on one line
START, END = "<!-- table: start -->", "<!-- table: end -->"


def judged(row: np.ndarray, target: int, sources: Iterable[int]) -> tuple[bool, float]:
    """Whether every true source is above every other token, and the share of the row on true
    sources (NaN if it is empty).
    """
    sizes, true = np.abs(np.asarray(row, np.float64)), np.zeros(len(row), bool)
    sizes[sizes < NOISE * sizes.max()] = 0
    true[list(sources)] = True
    alone = bool(true[target])
    if alone and true.sum() > 1:
        raise InvalidInput("the target is either the only source or left aside")
    others = ~true
    others[target] = False
    total = float(sizes[true].sum() + sizes[others].sum())
    share = float(sizes[true].sum()) / total if total > 0 else math.nan
    if alone and not sizes.any():
        return True, share
    return bool(sizes[true].min() > sizes[others].max(initial=0.0) * (1 + MARGIN)), share


def row_of(case: Planted, measure: str) -> np.ndarray:
    """What the measure says about the target."""
    output = {"position": case.target}
    return row_of_target(measure, case.recording, case.target, output, MARKS[0])


def row_of_target(
    measure: str, recording: Recording, target: int, output: Mapping[str, Any], blank: int
) -> np.ndarray:
    """What a measure says about a target, its layers joined by its own rollout.

    `output` names what is explained, for measures that explain an output; `blank` is the token that
    erasure puts in place of others.
    """
    specs = list_measures()
    if measure not in specs:
        raise InvalidInput(f"there is no measure {measure!r}; choose one of: {', '.join(specs)}")
    options = dict(output) if specs[measure].explains_output else {}
    if measure == "blank_out":
        options["replacement"] = blank
    maps = measured(measure, recording, **options)
    assert not isinstance(maps, list)
    return target_row(maps, specs[measure], target)


def observe(case: Planted, measure: str) -> dict[str, Any]:
    """`value`: 1 if it is right, 0 if wrong, NaN if the measure is not defined; `share`:
    on true sources.
    """
    try:
        row = row_of(case, measure)
    except UnsupportedModel as error:
        return {"case": case.name, "value": math.nan, "share": math.nan, "reason": str(error)}
    right, share = judged(row, case.target, case.sources)
    return {"case": case.name, "value": float(right), "share": share, "reason": None}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """The share of the cases that are right."""
    details = {
        key: {seen["case"]: seen[name] for seen in observations}
        for key, name in (("right", "value"), ("shares", "share"))
    }
    details["refused"] = {seen["case"]: seen["reason"] for seen in observations if seen["reason"]}
    return Result.of(SPEC, [seen["value"] for seen in observations], details=details)


@functools.cache
def cases() -> tuple[Planted, ...]:
    """All cases; built once, recorded once."""
    return planted_cases()


def evaluate(measure: str) -> Result:
    """One measure on all cases; `details` names them.

    The interval is over cases, which are not a random sample: read it with care.
    """
    return conclude([observe(case, measure) for case in cases()])


# ----------------------------------------------------------------------------------------- the page


def table() -> str:
    """What every measure gets right and wrong, why, and what was planted, as Markdown."""
    held = cases()
    lines = [
        "| measure | right | " + " | ".join(case.name for case in held) + " |",
        "|---|---|" + "---|" * len(held),
    ]
    for name in names():
        result = evaluate(name)
        cells = [
            _cell(result.details["right"][case.name], result.details["shares"][case.name])
            for case in held
        ]
        known = result.per_example[~np.isnan(result.per_example)]
        lines.append(f"| `{name}` | {int(known.sum())} of {len(known)} | {' | '.join(cells)} |")
    specs = list_measures().items()
    why = [list_item(f"`{name}` {spec.blind_spots}.") for name, spec in specs if spec.blind_spots]
    planted = [list_item(f"**{case.name}**: {case.planted}.") for case in held]
    return "\n".join(
        [*lines, "", "## Limitations of each measure", "", *why, "", "## Examples", "", *planted]
    )


def list_item(text: str) -> str:
    """A point of a list, in lines of the page's width."""
    return textwrap.fill(f"* {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _cell(right: float, share: float) -> str:
    if math.isnan(right):
        return "·"
    return ("✓" if right else "✗") + ("" if math.isnan(share) else f"{SPACE}{share:.2f}")


def written(page: str, table: str) -> str:
    """A page with this table between its markers."""
    before, _, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise InvalidInput(f"the page has no place for the table: it needs {START} and {END}")
    return f"{before}{START}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Write the table into a page, by default docs/development/hand_built_models.md."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/development/hand_built_models.md")
    path.write_text(written(path.read_text("utf-8"), table()), "utf-8")


if __name__ == "__main__":
    main()
