"""Count over all entries of the leaderboard: the matrix of measures and questions, the leading
measures in pairs, and comparisons with random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from docs.kept_pages import wrapped
from docs.leaderboard_statements import NAMES, Row, known, order_of, ranked_evaluations, ranks
from mixlens.benchmark.plan import BASELINE
from mixlens.measures import ready_measures

LEADING = (
    ("decompx", "alti"),
    ("decompx", "flow_routes"),
    ("alti", "flow_routes"),
    ("decompx_logit", "deep_lift"),
    ("decompx_logit", "attention_gradient"),
    ("decompx_logit", "blank_out"),
)


# Heads of the matrix, shorter than the questions.
SHORT = {
    "cue_alignment": "grammatical cue",
    "evidence_rank": "evidence first",
    "aopc": "drop of the output",
    "erasure": "order of removal",
    "gradient_agreement": "gradient",
    "randomisation": "random weights",
    "cross_model_consistency": "two models",
    "word_alignment": "word alignment",
    "planted_truth": "hand-built models",
    "compiled_truth": "compiled models",
}
FIRST = 3  # measures in bold in each column


def matrix(held: Mapping[str, Row]) -> str:
    """Return the mean rank of every measure for every question, as a table."""
    columns = {
        name: [ranked_evaluations(r)[name] for r in held.values() if name in ranked_evaluations(r)]
        for name in NAMES
    }
    columns = {name: found for name, found in columns.items() if found}
    means = {name: _mean_ranks(found) for name, found in columns.items()}
    heads = [f"[{SHORT[name]}](../evaluations.md#{name})" for name in columns]
    lines = ["| measure | " + " | ".join(heads) + " |", "|---|" + "---|" * len(columns)]
    counts = " | ".join(f"*{len(found)}*" for found in columns.values())
    lines.append(f"| *entries* | {counts} |")
    for kind, measures in _by_kind(means).items():
        lines.append(f"| **{kind}** |" + " |" * len(columns))
        for name in measures:
            cells = [_mean_cell(name, means[each], columns[each]) for each in columns]
            lines.append(f"| [`{name}`](../measures/{name}.md) | {' | '.join(cells)} |")
    return "\n".join([wrapped(HOW_RANKED), "", *lines])


HOW_RANKED = (
    "Each number is a mean rank over the entries (1 is best). Bold: the three best of each"
    " question. Italics: defined in fewer than half of the entries. ○: no better than random"
    " numbers in at least half of the entries. Empty: not defined, or the evaluation works in the"
    " same way as the measure."
)


def _mean_ranks(columns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for column in columns:
        for name, rank in ranks(column).items():
            found.setdefault(name, []).append(rank)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _by_kind(means: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the measures of each kind, the best on average first."""
    average = {
        name: np.mean([column[name] for column in means.values() if name in column])
        for name in ready_measures()
        if any(name in column for column in means.values())
    }
    order = sorted(average, key=average.__getitem__)
    explains = {name: spec.explains_output for name, spec in ready_measures().items()}
    return {
        "output measures": [name for name in order if explains[name]],
        "layer measures": [name for name in order if not explains[name]],
    }


def _mean_cell(name: str, means: Mapping[str, float], columns: Sequence[Mapping[str, Any]]) -> str:
    if name not in means:
        return ""
    defined = {each: sum(each in known(c) for c in columns) for each in means}
    often = [each for each in means if 2 * defined[each] >= len(columns)]
    flags = [known(c)[name].get("not_better_than_random") for c in columns if name in known(c)]
    text = f"{means[name]:.1f}" + "\N{NO-BREAK SPACE}○" * (2 * sum(map(bool, flags)) >= len(flags))
    if name not in often:
        return f"*{text}*"
    is_first = sum(means[other] < means[name] for other in often) < FIRST
    return f"**{text}**" if is_first else text


def orders(held: Mapping[str, Row], one: str, other: str) -> list[int]:
    """Return `order_of` for every entry and evaluation that has both."""
    found = (
        order_of(column, one, other)
        for row in held.values()
        for column in ranked_evaluations(row).values()
    )
    return [order for order in found if order is not None]


def duels(held: Mapping[str, Row]) -> str:
    """Compare the leading measures in pairs, over all entries and evaluations."""
    lines = [
        "| measures | the first is better | the second is better | undecided |",
        "|---|---|---|---|",
    ]
    for one, other in LEADING:
        found = orders(held, one, other)
        counts = " | ".join(str(found.count(order)) for order in (1, -1, 0))
        lines.append(f"| `{one}`, `{other}` | {counts} |")
    return "\n".join([*lines, "", wrapped(HOW_COUNTED)])


HOW_COUNTED = (
    "Counts of pairs of an entry and an evaluation. A measure is better if the 95 % intervals do"
    " not overlap."
)


def against_random(held: Mapping[str, Row]) -> str:
    """Return how often each measure is no better than random numbers."""
    columns = [c for row in held.values() for c in ranked_evaluations(row).values()]
    found = {
        name: [
            bool(known(c)[name].get("not_better_than_random")) for c in columns if name in known(c)
        ]
        for name in ready_measures()
        if name != BASELINE
    }
    judged = {name: flags for name, flags in found.items() if flags}
    lines = ["| measure | evaluated | no better than random |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {len(flags)} | {sum(flags)} ({100 * np.mean(flags):.0f} %) |"
        for name, flags in sorted(judged.items(), key=lambda item: float(np.mean(item[1])))
    ]
    return "\n".join([*lines, "", wrapped(HOW_OFTEN)])


HOW_OFTEN = (
    "Counts of pairs of an entry and an evaluation. Almost all measures fail in"
    " `smollm2-evidence` (60 texts), so measures that are not defined there look better."
)
