"""The pages of the leaderboard agree with its entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs import leaderboard_pages
from docs.leaderboard_counts import duels, matrix, orders
from docs.leaderboard_pages import ROOT, pages, rows
from docs.leaderboard_statements import (
    STATEMENTS,
    answers,
    half_widths,
    known,
    layers_table,
    order_of,
    ranked_evaluations,
    ranks,
    separate_pairs,
    statements,
)
from mixlens.errors import InvalidInput
from mixlens.evaluations import names as evaluation_names
from mixlens.measures import names as measure_names
from training.leaderboard.rows import ROWS


def row(scores: dict[str, tuple[float, float]], direction: str = "higher") -> dict[str, Any]:
    """A row of one evaluation, from values and half widths."""
    cells = {
        measure: {"value": value, "low": value - half, "high": value + half}
        for measure, (value, half) in scores.items()
    }
    return {"evaluations": {"cue_alignment": {"direction": direction, "measures": cells}}}


def test_pages_are_current() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m docs.leaderboard_pages"
    assert {path.stem for path in ROOT.glob("*.md")} == {path.stem for path in pages()}


def test_rows_and_statements_are_about_what_there_is() -> None:
    assert len(rows()) >= 8
    for kept in rows().values():
        for name, column in kept["evaluations"].items():
            assert name in evaluation_names()
            assert set(column["measures"]) <= set(measure_names())
    for statement in STATEMENTS:
        assert {statement.better, statement.worse} <= set(measure_names())
        assert statement.evaluation in evaluation_names()


def test_the_summary_agrees_with_the_entries() -> None:
    held = rows()
    for name in ("gte-sst2", "minilm-sst2", "masked-sst2", "gte-prompt-linzen"):
        for evaluation in ("aopc", "erasure"):
            cells = known(ranked_evaluations(held[name])[evaluation])
            assert cells["decompx_logit"]["is_best"]
            assert bool(cells["deep_lift"]["not_better_than_random"]) == (name == "minilm-sst2")
    for name in ("gte-prompt-blimp", "masked-blimp"):
        column = ranked_evaluations(held[name])["cue_alignment"]
        assert order_of(column, "deep_lift", "decompx_logit") == 1
    assert set(held) == set(ROWS), "a row is missing: the page names it"
    ranked = known(ranked_evaluations(held["smollm2-evidence"])["evidence_rank"])
    better = {name for name, cell in ranked.items() if not cell["not_better_than_random"]}
    assert better - {"random"} == {"deep_lift", "logit_update", "blank_out", "alti_logit", "alti"}
    assert set(orders(held, "alti", "flow_routes")) == {0}
    assert set(orders(held, "decompx", "alti")) == {1, 0, -1}
    count = sum("cue_alignment" in ranked_evaluations(row) for row in held.values())
    finding = f"`value_zeroing` gives the cue the largest score in a single layer in {count} of"
    assert f"{finding} {count} entries" in layers_table(held).replace("\n", " ")
    aligned = known(held["opus-alignment"]["evaluations"]["word_alignment"])
    assert aligned["value_zeroing"]["is_best"]
    for row in held.values():
        column = ranked_evaluations(row).get("gradient_agreement")
        assert column is None or known(column)["hidden_token_attribution"]["is_best"]


def test_an_order_needs_intervals_that_do_not_overlap() -> None:
    scores = {"alti": (0.5, 0.1), "attention": (0.2, 0.1), "random": (0.35, 0.1)}
    (column,) = row(scores)["evaluations"].values()
    assert order_of(column, "alti", "attention") == 1
    assert order_of(column, "attention", "alti") == -1
    assert order_of(column, "alti", "random") == 0
    assert order_of(column, "alti", "globenc") is None
    assert order_of({**column, "direction": "lower"}, "alti", "attention") == -1
    assert ranks(column) == {"alti": 1, "attention": 2}
    assert ranks({**column, "direction": "lower"}) == {"alti": 2, "attention": 1}
    assert separate_pairs(row(scores)) == pytest.approx(1 / 3)
    assert half_widths(row(scores)) == pytest.approx([0.1, 0.1, 0.1])


def test_a_verdict_is_over_all_rows() -> None:
    good = row({"alti": (0.5, 0.1), "value_zeroing": (0.2, 0.1), "random": (0.1, 0.05)})
    bad = row({"alti": (0.2, 0.1), "value_zeroing": (0.5, 0.1), "random": (0.1, 0.02)})
    even = row({"alti": (0.5, 0.1), "value_zeroing": (0.5, 0.1), "random": (0.1, 0.05)})
    statement = "| `alti` is better than `value_zeroing` by `cue_alignment` | our own question |"
    for held, verdict in (
        ({"a": good, "c": even}, "1 of 2 decided, holds"),
        ({"a": good, "b": bad}, "2 of 2 decided, holds in 1, fails in b"),
        ({"b": bad}, "1 of 1 decided, fails in b"),
        ({"c": even}, "0 of 1 decided, open"),
    ):
        (line,) = [x for x in statements(held).splitlines() if x.startswith(statement)]
        assert line.endswith(f"{verdict} |")
    assert "`alti` (1.5; 0 of 2)" in answers({"a": good, "b": bad})
    assert "| `alti`, `flow_routes` | 0 | 0 | 0 |" in duels({"a": good, "b": bad})
    assert orders({"a": good, "b": bad}, "alti", "value_zeroing") == [1, -1]


def test_the_matrix_has_the_mean_rank_of_every_measure() -> None:
    good = row({"alti": (0.5, 0.1), "value_zeroing": (0.2, 0.1), "blank_out": (0.9, 0.1)})
    bad = row({"alti": (0.2, 0.1), "value_zeroing": (0.5, 0.1), "blank_out": (0.9, 0.1)})
    bad["evaluations"]["cue_alignment"]["measures"]["alti"]["not_better_than_random"] = True
    lines = matrix({"a": good, "b": bad, "c": good}).splitlines()
    assert lines[0].startswith("Each number is a mean rank")
    assert "| measure | [grammatical cue](../evaluations.md#cue_alignment) |" in lines
    assert "| *entries* | *3* |" in lines
    assert lines.index("| **output measures** | |") < lines.index("| **layer measures** | |")
    assert "| [`blank_out`](../measures/blank_out.md) | **1.0** |" in lines
    assert "| [`alti`](../measures/alti.md) | **2.3** |" in lines  # random numbers in one of three
    assert "| [`value_zeroing`](../measures/value_zeroing.md) | **2.7** |" in lines
    assert "**3.0\N{NO-BREAK SPACE}○**" in matrix({"b": bad})
    few = row({"globenc": (0.5, 0.1)})
    assert "| *1.0* |" in matrix({"a": good, "b": bad, "d": few})


def test_a_submitted_entry_gets_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json.loads((ROOT / "rows" / "masked-blimp.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(leaderboard_pages, "ROOT", tmp_path / "board")
    (tmp_path / "theirs.json").write_text(json.dumps(kept | {"model": "bert-of-mine"}))
    assert leaderboard_pages.taken(tmp_path) == 1
    written = {path.name: text for path, text in leaderboard_pages.pages().items()}
    assert "bert-of-mine" in written["index.md"]
    assert "mixlens benchmark --model bert-of-mine" in written["theirs.md"]
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"broken\.json"):
        leaderboard_pages.taken(tmp_path)
