"""Over all rows of the leaderboard: how often one leading measure is better than a different one,
and how often a measure is no better than random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from docs.kept_pages import wrapped
from docs.leaderboard_statements import Row, known, order_of, ranked_evaluations
from mixlens.benchmark.plan import BASELINE
from mixlens.measures import list_measures

LEADING = (
    ("decompx", "alti"),
    ("decompx", "flow_routes"),
    ("alti", "flow_routes"),
    ("decompx_logit", "deep_lift"),
    ("decompx_logit", "attention_gradient"),
    ("decompx_logit", "blank_out"),
)


def orders(held: Mapping[str, Row], one: str, other: str) -> list[int]:
    """`order_of` in every row and evaluation that judges both."""
    found = (
        order_of(column, one, other)
        for row in held.values()
        for column in ranked_evaluations(row).values()
    )
    return [order for order in found if order is not None]


def duels(held: Mapping[str, Row]) -> str:
    """The leading measures in pairs, over all rows and evaluations."""
    lines = [
        "| measures | the first is better | the second is better | open |",
        "|---|---|---|---|",
    ]
    for one, other in LEADING:
        found = orders(held, one, other)
        counts = " | ".join(str(found.count(order)) for order in (1, -1, 0))
        lines.append(f"| `{one}`, `{other}` | {counts} |")
    return "\n".join([*lines, "", wrapped(HOW_COUNTED)])


HOW_COUNTED = (
    "Numbers are pairs of a row and an evaluation that judge both measures. One is better if the"
    " 95 % intervals do not overlap."
)


def against_random(held: Mapping[str, Row]) -> str:
    """Of each measure, how often random numbers do as well."""
    columns = [c for row in held.values() for c in ranked_evaluations(row).values()]
    found = {
        name: [
            bool(known(c)[name].get("not_better_than_random")) for c in columns if name in known(c)
        ]
        for name in list_measures()
        if name != BASELINE
    }
    judged = {name: flags for name, flags in found.items() if flags}
    lines = ["| measure | judged | no better than random |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {len(flags)} | {sum(flags)} ({100 * np.mean(flags):.0f} %) |"
        for name, flags in sorted(judged.items(), key=lambda item: float(np.mean(item[1])))
    ]
    return "\n".join([*lines, "", wrapped(HOW_OFTEN)])


HOW_OFTEN = (
    "Numbers are pairs of a row and an evaluation. Rows in which nearly everything fails count too"
    " (`smollm2-evidence`, with 60 texts), and measures without numbers there look better for it."
)
