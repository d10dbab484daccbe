"""What rows of the leaderboard say together: which measure for which question, and which statements
of the papers hold across models.

Two measures differ in a row if their 95 % intervals do not overlap. Ranks are within a row, over
the measures that the evaluation judges; those that work as the evaluation does take no part.
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
from mixlens.measures import list_measures

Row = Mapping[str, Any]

# The question that each evaluation asks, for people.
NAMES = {
    "cue_alignment": "Which token decides the grammar?",
    "evidence_rank": "Is the deciding word ranked first?",
    "aopc": "Without which tokens does the output fall?",
    "erasure": "Whose removal changes the output, in order?",
    "gradient_agreement": "To what is the output sensitive?",
    "randomisation": "Does it notice that the weights are random?",
    "cross_model_consistency": "Do two models of one task get the same rows?",
    "word_alignment": "Which source word is this a translation of?",
    "planted_truth": "What is in a token of a model built by hand?",
    "compiled_truth": "What is in a token of a compiled program?",
}
OWN_CASES = tuple(name for name, spec in evaluations().items() if not spec.kinds)


@dataclass(frozen=True)
class Statement:
    """One measure is better than a different one, by an evaluation; and who found so."""

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
    """The evaluations of a row that say which way is better, without those that bring their own
    cases, unless the row is about these.
    """
    directed = {n: c for n, c in row["evaluations"].items() if c["direction"] != "neither"}
    of_texts = {n: c for n, c in directed.items() if n not in OWN_CASES and n != "probing"}
    return of_texts or directed


def known(column: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The measures that an evaluation judges, with their numbers."""
    return {
        measure: cell
        for measure, cell in column["measures"].items()
        if cell["value"] is not None and not cell.get("judges_itself")
    }


def order_of(column: Mapping[str, Any], one: str, other: str) -> int | None:
    """1 if the first is better by more than their intervals, -1 if it is worse, 0 if they overlap;
    None if one of them has no number.
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
    """The share of pairs of measures whose intervals do not overlap."""
    orders = [
        order_of(column, one, other)
        for column in ranked_evaluations(row).values()
        for one, other in combinations(known(column), 2)
    ]
    decided = [order != 0 for order in orders if order is not None]
    return float(np.mean(decided)) if decided else None


def half_widths(row: Row) -> list[float]:
    """Of every interval in a row."""
    cells = (cell for column in ranked_evaluations(row).values() for cell in known(column).values())
    return [(cell["high"] - cell["low"]) / 2 for cell in cells if cell["low"] is not None]


def ranks(column: Mapping[str, Any]) -> dict[str, float]:
    """1 is best; equal values share their mean rank."""
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
    """For each question the first measures of both kinds, by their mean rank over the rows."""
    specs = list_measures()
    inside = [name for name, spec in specs.items() if not spec.explains_output]
    outside = [name for name in specs if name not in inside]
    lines = [
        "| question | evaluation | rows | what is inside tokens | what explains an output |",
        "|---|---|---|---|---|",
    ]
    for name, question in NAMES.items():
        columns = _columns(held, name)
        if columns:
            lines.append(
                f"| {question} | `{name}` | {len(columns)} | {_first(columns, inside)} |"
                f" {_first(columns, outside)} |"
            )
    return "\n".join([*lines, "", wrapped(HOW_RANKED)])


HOW_RANKED = (
    "The three first of each kind that at least half of the rows judge. In brackets: the mean rank"
    " among all measures over the rows, and in how many rows the measure is the best or not"
    " different from the best (paired permutation test, Holm's correction). Some measures are not"
    " defined in every row, so a small difference between two ranks means nothing."
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
    """Each statement with the rows in which it holds, fails and is open, and a summary."""
    lines = ["| statement | holds | fails | open | verdict |", "|---|---|---|---|---|"]
    verdicts: dict[str, list[str]] = {}
    for statement in STATEMENTS:
        found = dict(_found(held, statement))
        if not found:
            continue
        parts = [[name for name, order in found.items() if order == k] for k in (1, -1, 0)]
        verdict = _verdict(*map(len, parts))
        words = f"`{statement.better}` is better than `{statement.worse}` by"
        words += f" `{statement.evaluation}`"
        verdicts.setdefault(verdict, []).append(words)
        lines.append(
            f"| {words} ({statement.after}) | {' | '.join(', '.join(p) or '–' for p in parts)} |"
            f" {verdict} |"
        )
    summary = [
        f"* **{verdict[0].upper()}{verdict[1:]}** ({len(named)}): {'; '.join(named)}."
        for verdict, named in sorted(verdicts.items())
    ]
    return "\n".join([wrapped(HOW_DECIDED), "", *summary, "", *lines])


HOW_DECIDED = (
    "A statement holds or fails in a row if the 95 % intervals of the two measures do not overlap."
    " Otherwise this row leaves it open."
)


def layers_table(held: Mapping[str, Row]) -> str:
    """By cue alignment, the layer in which each measure of layers has most of the cue."""
    lines = ["| row | " + " | ".join(f"`{name}`" for name in BY_LAYER) + " |"]
    lines.append("|---|" + "---|" * len(BY_LAYER))
    firsts = []
    for name, row in held.items():
        cells = known(ranked_evaluations(row).get("cue_alignment", {"measures": {}}))
        if cells:
            lines.append(
                f"| {name} | " + " | ".join(_best_layer(cells.get(m)) for m in BY_LAYER) + " |"
            )
            firsts.append(_largest_in_a_layer(cells))
    times = f"`{(first := max(firsts, key=firsts.count))}` does in {firsts.count(first)}"
    which = (
        "Of all measures of what is inside tokens, which has the largest share of the cue in a"
        f" single layer? {times} of {len(firsts)} rows."
    )
    return "\n".join([*lines, "", wrapped(f"{HOW_BY_LAYER} {which}")])


def _largest_in_a_layer(cells: Mapping[str, Mapping[str, Any]]) -> str:
    specs = list_measures()
    inside = [m for m in cells if m in specs and not specs[m].explains_output and m != BASELINE]
    return max(inside, key=lambda measure: max(cells[measure]["layers"]))


BY_LAYER = ("value_zeroing", "attention_norm", "attention", "alti", "attention_gradient", BASELINE)
HOW_BY_LAYER = (
    "The cue's share of the row in the layer where it is largest, and the number of that layer. In"
    " brackets: with all layers joined by rollout. A measure can find the cue in one layer and lose"
    " it in the rollout."
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


def _verdict(holds: int, fails: int, undecided: int) -> str:
    if holds and fails:
        return "depends on the model"
    decided = "wherever it is decided" if undecided else "everywhere"
    if not holds and not fails:
        return "open"
    return f"holds {decided}" if holds else f"fails {decided}"
