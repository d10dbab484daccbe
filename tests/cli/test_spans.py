"""`mixlens map --span`: an answer, a word of it, positions, or a piece of a text as one target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.cli.span_targets import span_positions
from tests.cli.running import run

GIVEN = ("map", "The keys to the cabinet", "--answer", " are on the table.", "--json")


def test_spans_of_an_answer(tmp_path: Path) -> None:
    rows = Lens.bundled("causal").generate("The keys to the cabinet", answer=" are on the table.")
    for target, words in ((None, "are on the table."), ("the table", "the table")):
        named = () if target is None else ("--target", target)
        saved = tmp_path / "maps.mixlens"
        ran = run(*GIVEN, "--measure", "flow_routes", "--span", "sum", *named, "--save", str(saved))
        assert ran.status == 0, ran.err
        made = json.loads(ran.out)
        assert made["targets"] == [{"position": 0, "token": words}]
        assert made["provenance"]["span"]["definition"] == "sum"
        targets = made["provenance"]["span"]["targets"]
        expected = mixlens.measure("flow_routes", rows, targets=targets, span="sum")
        assert isinstance(expected, MixingMaps)
        np.testing.assert_allclose(made["scores"], expected.scores, atol=1e-6)
        assert mixlens.load(saved).tokens == (words,)


def test_positions_weights_and_rollout() -> None:
    text = "The keys to the cabinet are old."
    chosen = ("--measure", "alti", "--span", "auto", "--weights", "1,2,3", "--json")
    scores = {}
    for target in ("2-4", "2,3,4", "keys to the"):
        ran = run("map", text, "--target", target, *chosen)
        assert ran.status == 0, ran.err
        scores[target] = np.array(json.loads(ran.out)["scores"])
    expected = Lens.bundled().measure(
        "alti", text, targets=[2, 3, 4], span="mean", weights=[1, 2, 3]
    )
    for made in scores.values():
        np.testing.assert_allclose(made, expected.scores, atol=1e-6)
    ran = run("map", text, "--target", "2-4", *chosen, "--rollout")
    rolled = Lens.bundled().rollout("alti", text, [2, 3, 4], span="mean", weights=[1, 2, 3])
    np.testing.assert_allclose(json.loads(ran.out)["scores"], rolled.scores, atol=1e-6)


def test_a_number_that_is_no_position_is_a_word() -> None:
    text = "The keys of 1932 are here."
    row = Lens.bundled().record(text, targets=0).named_targets("encoder", 0)
    places = span_positions("1932", row, None)
    assert "".join(row.labels[place].removeprefix("##") for place in places) == "1932"
    assert span_positions("4", row, None) == [4]
    with pytest.raises(InvalidInput, match="'1933' is not in the"):
        span_positions("1933", row, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--span", "sum"), "--span needs targets"),
        (("--span", "product", "--target", "1-2"), "sum, joint, mean, auto"),
        (("--span", "product", "--model", "nowhere/at-all"), "Unknown --span 'product'"),
        (("--span", "sum", "--target", "5-2"), "ends before it begins"),
        (("--span", "sum", "--target", "1-99"), "out of range"),
        (("--span", "sum", "--target", "the"), "occurs 2 times"),
        (("--span", "sum", "--target", "zebra"), "'zebra' is not in the"),
        (("--span", "sum", "--target", "1-2", "--weights", "a,b"), "not numbers"),
        (("--weights", "1,2"), "--weights needs --span"),
    ],
)
def test_wrong_spans(given: tuple[str, ...], words: str) -> None:
    ran = run("map", "Keys of the old cabinet and the door.", "--measure", "alti", *given)
    assert ran.status == 2, ran.err
    assert words in ran.err


def test_a_whole_answer_is_one_explained_output() -> None:
    """The answer, a word of it, or the tokens that positions produce."""
    rows = Lens.bundled("causal").generate("The keys to the cabinet", answer=" are on the table.")
    assert rows.targets is not None
    first, measure = rows.targets[0][0], ("--measure", "gradient_x_input")
    chosen: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (("--span", "sum"), {"answer": True}),
        (("--span", "mean", "--target", "the table"), {"answer": "the table", "reduce": "mean"}),
        (
            ("--span", "auto", "--target", f"{first}-{first + 1}"),
            {"answer": (first + 1, first + 3)},
        ),
    ]
    for given, options in chosen:
        ran = run(*GIVEN, *measure, *given)
        assert ran.status == 0, ran.err
        expected = mixlens.measure("gradient_x_input", rows, **options)
        assert isinstance(expected, MixingMaps)
        np.testing.assert_allclose(json.loads(ran.out)["scores"], expected.scores, atol=1e-6)
    failed = run(*GIVEN, *measure, "--span", "joint")
    assert failed.status == 2
    assert "pass --span sum or mean" in failed.err


def test_a_range_without_span_saves_nothing(tmp_path: Path) -> None:
    saved = tmp_path / "maps.mixlens"
    for measure in ("attention", "gradient_norm"):
        ran = run("map", "The dogs are old.", "--measure", measure, "--target", "3-4")
        assert (ran.status, "names several targets. Pass --span" in ran.err) == (2, True)
    given = ("--measure", "attention", "--target", "3-4", "--save", str(saved))
    assert run("map", "The dogs are old.", *given).status == 2
    assert not saved.exists()


def test_the_ranking_of_a_target_comes_first() -> None:
    long = "The keys to the old cabinet near the doors are here. " * 5
    ran = run("map", long, "--measure", "attention", "--target", "-2")
    lines = ran.out.splitlines()
    assert lines[1] == "largest, mean of 6 layers"
    assert lines[2].startswith("1. ")
    assert lines[12] == "and 52 more sources"
    assert sum(line.strip()[:1].isdigit() for line in lines[13:]) == 10


def test_spans_are_compared() -> None:
    given = ("--answer", " are on the table.", "--measures", "alti,gradient_x_input", "--json")
    ran = run("compare", "The keys to the cabinet", *given, "--span", "auto")
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    lens = Lens.bundled("causal")
    rows = lens.generate("The keys to the cabinet", answer=" are on the table.")
    expected = lens.compare(rows, answer=True, only=["alti", "gradient_x_input"])
    assert made["target_token"] == "are on the table."
    for name, scores in expected.scores.items():
        np.testing.assert_allclose(made["scores"][name], scores, atol=1e-6)
    ran = run("compare", "The dogs are old.", "--measures", "alti", "--target", "2-4")
    assert "names several targets. Pass --span" in ran.err
    ran = run(
        "compare", "The dogs are old.", "--measures", "alti", "--target", "2-4", "--span", "sum"
    )
    assert ran.status == 0, ran.err
