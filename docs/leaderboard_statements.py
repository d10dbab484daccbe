"""Find the best measures for each question, and test statements of the papers, over all entries of
the leaderboard.

Two measures differ in an entry if their 95 % intervals do not overlap. Ranks are within an entry,
over the measures that are evaluated; a measure that works like the evaluation is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from docs.kept_pages import wrapped
from mixlens.benchmark.plan import BASELINE
from mixlens.evaluations import evaluations
from mixlens.measures import ready_measures

Row = Mapping[str, Any]

# The question of each evaluation.
NAMES = {
    "cue_alignment": "Which token decides the grammar?",
    "evidence_rank": "Is the deciding word ranked first?",
    "aopc": "Which tokens does the output need?",
    "erasure": "In which order does removing tokens change the output?",
    "gradient_agreement": "To which tokens is the output sensitive?",
    "randomisation": "Does the measure depend on the trained weights?",
    "cross_model_consistency": "Do two models of one task get the same scores?",
    "word_alignment": "Which source word does this word translate?",
    "planted_truth": "What are the sources in a hand-built model?",
    "compiled_truth": "What are the sources in a compiled program?",
}
OWN_CASES = tuple(name for name, spec in evaluations().items() if not spec.kinds)


@dataclass(frozen=True)
class Statement:
    """A claim that one measure is better than another by an evaluation, with its source."""

    better: str
    worse: str
    evaluation: str
    after: str


STATEMENTS = (
    *(
        Statement("value_zeroing", other, "cue_alignment", "Mohebbi et al. 2023")
        for other in ("attention", "attention_norm", "attention_norm_res_ln")
    ),
    Statement("alti", "attention", "gradient_agreement", "Ferrando et al. 2022"),
    Statement("alti", "attention_norm_res_ln", "gradient_agreement", "Ferrando et al. 2022"),
    Statement("attention_norm", "attention", "word_alignment", "Kobayashi et al. 2020"),
    *(
        Statement("decompx_logit", other, "aopc", "Modarressi et al. 2023")
        for other in ("alti", "gradient_x_input", "integrated_gradients")
    ),
    Statement("alti_logit", "gradient_x_input", "evidence_rank", "Ferrando et al. 2023"),
    Statement("alti_logit", "logit_update", "evidence_rank", "Ferrando et al. 2023"),
    Statement("globenc", "attention_norm_res_ln", "gradient_agreement", "Modarressi et al. 2022"),
    Statement("deep_lift", "gradient_x_input", "aopc", "Shrikumar et al. 2017"),
    Statement("alti", "value_zeroing", "cue_alignment", "our own question"),
    Statement("alti", "attention", "erasure", "our own question"),
    Statement("alti", BASELINE, "cue_alignment", "our own question"),
    Statement("attention", BASELINE, "cue_alignment", "our own question"),
    Statement("value_zeroing", BASELINE, "cue_alignment", "our own question"),
)


def ranked_evaluations(row: Row) -> dict[str, Any]:
    """Return the evaluations of an entry that have a better direction, without those that have
    their own examples, unless the entry consists of these.
    """
    directed = {n: c for n, c in row["evaluations"].items() if c["direction"] != "neither"}
    of_texts = {n: c for n, c in directed.items() if n not in OWN_CASES and n != "probing"}
    return of_texts or directed


def known(column: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the cells of the measures that are evaluated."""
    return {
        measure: cell
        for measure, cell in column["measures"].items()
        if cell["value"] is not None and not cell.get("judges_itself")
    }


def order_of(column: Mapping[str, Any], one: str, other: str) -> int | None:
    """Return 1 if the first is better, -1 if it is worse, 0 if their intervals overlap, and None if
    one of them has no number.
    """
    cells = known(column)
    if one not in cells or other not in cells:
        return None
    a, b = cells[one], cells[other]
    if None in (a["low"], a["high"], b["low"], b["high"]):
        return None
    sign = -1 if column["direction"] == "lower" else 1
    return sign * (int(a["low"] > b["high"]) - int(a["high"] < b["low"]))


def separate_pairs(row: Row) -> float | None:
    """Return the fraction of pairs of measures whose intervals do not overlap."""
    orders = [
        order_of(column, one, other)
        for column in ranked_evaluations(row).values()
        for one, other in combinations(known(column), 2)
    ]
    decided = [order != 0 for order in orders if order is not None]
    return float(np.mean(decided)) if decided else None


def half_widths(row: Row) -> list[float]:
    """Return half the width of every interval of an entry."""
    cells = (cell for column in ranked_evaluations(row).values() for cell in known(column).values())
    return [(cell["high"] - cell["low"]) / 2 for cell in cells if cell["low"] is not None]


def ranks(column: Mapping[str, Any]) -> dict[str, float]:
    """Return the rank of each measure; 1 is best, and ties share their mean rank."""
    cells = {m: cell for m, cell in known(column).items() if m != BASELINE}
    sign = -1 if column["direction"] == "lower" else 1
    values = {measure: sign * cell["value"] for measure, cell in cells.items()}
    return {
        measure: 1
        + sum(other > value for other in values.values())
        + (sum(other == value for other in values.values()) - 1) / 2
        for measure, value in values.items()
    }


def answers(held: Mapping[str, Row]) -> str:
    """Return the best measures of both kinds for each question, by mean rank."""
    specs = ready_measures()
    inside = [name for name, spec in specs.items() if not spec.explains_output]
    outside = [name for name in specs if name not in inside]
    lines = [
        "| question | evaluation | entries | output measures | layer measures |",
        "|---|---|---|---|---|",
    ]
    for name, question in NAMES.items():
        columns = _columns(held, name)
        if columns:
            lines.append(
                f"| {question} | `{name}` | {len(columns)} | {_first(columns, outside)} |"
                f" {_first(columns, inside)} |"
            )
    return "\n".join([*lines, "", wrapped(HOW_RANKED)])


HOW_RANKED = (
    "The three best measures of each kind that are defined in at least half of the entries. In"
    " brackets: the mean rank among all measures, and the number of entries in which the measure is"
    " the best or not significantly different from the best (paired permutation test, Holm's"
    " correction). Some measures are not defined in every entry, so ignore small differences."
)


def _columns(held: Mapping[str, Row], evaluation: str) -> list[Mapping[str, Any]]:
    return [
        ranked_evaluations(row)[evaluation]
        for row in held.values()
        if evaluation in ranked_evaluations(row)
    ]


def _first(columns: Sequence[Mapping[str, Any]], measures: Sequence[str], count: int = 3) -> str:
    places = {
        measure: [ranks(column)[measure] for column in columns if measure in ranks(column)]
        for measure in measures
        if measure != BASELINE
    }
    judged = {m: float(np.mean(p)) for m, p in places.items() if len(p) * 2 >= len(columns)}
    return ", ".join(
        f"`{measure}` ({judged[measure]:.1f}; {_times_best(columns, measure)} of"
        f" {len(places[measure])})"
        for measure in sorted(judged, key=judged.__getitem__)[:count]
    )


def _times_best(columns: Sequence[Mapping[str, Any]], measure: str) -> int:
    cells = [known(column).get(measure, {}) for column in columns]
    return sum(bool(c.get("is_best") or c.get("not_different_from_best")) for c in cells)


def statements(held: Mapping[str, Row]) -> str:
    """Return each statement with its source and the counts of entries that decide it."""
    lines = ["| statement | source | result |", "|---|---|---|"]
    for statement in STATEMENTS:
        if found := dict(_found(held, statement)):
            words = f"`{statement.better}` is better than `{statement.worse}` by"
            words += f" `{statement.evaluation}`"
            lines.append(f"| {words} | {statement.after} | {_verdict(found)} |")
    return "\n".join([*lines, "", wrapped(HOW_DECIDED)])


HOW_DECIDED = (
    "An entry decides a statement if the 95 % intervals of the two measures do not overlap. The"
    " result has the number of entries that decide, and the entries in which the statement fails."
)


def _verdict(found: Mapping[str, int]) -> str:
    decided = {name: order for name, order in found.items() if order}
    fails = [name for name, order in decided.items() if order < 0]
    counted = f"{len(decided)} of {len(found)} decided"
    if not fails:
        return f"{counted}, holds" if decided else f"{counted}, open"
    where = f"fails in {', '.join(fails)}"
    holds = len(decided) - len(fails)
    return f"{counted}, holds in {holds}, {where}" if holds else f"{counted}, {where}"


def layers_table(held: Mapping[str, Row]) -> str:
    """Return, for each layer measure, the layer in which the cue has its largest score."""
    lines = ["| entry | " + " | ".join(f"`{name}`" for name in BY_LAYER) + " |"]
    lines.append("|---|" + "---|" * len(BY_LAYER))
    firsts = []
    for name, row in held.items():
        cells = known(ranked_evaluations(row).get("cue_alignment", {"measures": {}}))
        if cells:
            lines.append(
                f"| {name} | " + " | ".join(_best_layer(cells.get(m)) for m in BY_LAYER) + " |"
            )
            firsts.append(_largest_in_a_layer(cells))
    first = max(firsts, key=firsts.count)
    which = (
        f"Of all layer measures, `{first}` gives the cue the largest score in a single layer in"
        f" {firsts.count(first)} of {len(firsts)} entries."
    )
    return "\n".join([*lines, "", wrapped(f"{HOW_BY_LAYER} {which}")])


def _largest_in_a_layer(cells: Mapping[str, Mapping[str, Any]]) -> str:
    specs = ready_measures()
    inside = [m for m in cells if m in specs and not specs[m].explains_output and m != BASELINE]
    return max(inside, key=lambda measure: max(cells[measure]["layers"]))


BY_LAYER = ("value_zeroing", "attention_norm", "attention", "alti", "attention_gradient", BASELINE)
HOW_BY_LAYER = (
    "The largest normalised score of the cue in a single layer, and the number of that layer. In"
    " brackets: the rollout over all layers. A measure can find the cue in one layer and lose it in"
    " the rollout."
)


def _best_layer(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return ""
    best = int(np.argmax(cell["layers"]))
    return f"{cell['layers'][best]:.2f} in {best} ({cell['value']:.2f})"


def _found(held: Mapping[str, Row], statement: Statement) -> Iterator[tuple[str, int]]:
    for name, row in held.items():
        column = ranked_evaluations(row).get(statement.evaluation)
        if column is not None:
            order = order_of(column, statement.better, statement.worse)
            if order is not None:
                yield name, order
