"""Evidence ranks by hand and by enumeration, the reader of their data, and one real model."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mixlens import Lens
from mixlens import datasets as corpus
from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case, cases
from mixlens.evaluating.recovery import expected_reciprocal, reciprocal_rank
from mixlens.evaluations.evidence_rank import (
    authors_reciprocal_rank,
    evaluate,
    first_tokens,
    observe,
)

HEADER = ",sentence_good,one_prefix_prefix,one_prefix_word_good,one_prefix_word_bad,target"


@pytest.mark.parametrize("scores", [[3, 1, 2], [1, 1, 1], [2, 2, 5, 2, 0], [0, 4, 4, 4]])
@pytest.mark.parametrize("evidence", [[0], [1, 2], [0, 2]])
def test_expectation_is_the_mean_over_all_orders_of_ties(
    scores: list[int], evidence: list[int]
) -> None:
    total, count = Fraction(0), 0
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            total += Fraction(1, min(order.index(place) for place in evidence) + 1)
            count += 1
    rank = reciprocal_rank(np.array(scores, float), evidence)
    assert rank == pytest.approx(float(total / count))


def test_the_authors_rule_by_hand() -> None:
    assert authors_reciprocal_rank(np.array([3.0, 1.0, 2.0]), [2]) == pytest.approx(1 / 2)
    # Two levels among four tokens: the best one has rank 3.
    assert authors_reciprocal_rank(np.array([1.0, 1.0, 2.0, 1.0]), [2]) == pytest.approx(1 / 3)
    assert authors_reciprocal_rank(np.array([1.0]), [0]) == 1


def test_chance_by_hand() -> None:
    assert expected_reciprocal(0, 3, 1) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert expected_reciprocal(0, 3, 3) == 1
    assert expected_reciprocal(2, 1, 1) == pytest.approx(1 / 3)


def _table(folder: Path) -> Path:
    rows = [
        HEADER,
        "0,The keys are old.,The keys to the cabinet,are,is,keys",
        "1,The dogs bark.,The dogs,bark,barks,NA",
        "2,The dog barks.,The dog,barks,bark,cat",
    ]
    path = folder / "my_set.csv"
    path.write_text("\n".join(rows))
    return path


def test_rows_with_evidence_are_read_and_others_refused(tmp_path: Path) -> None:
    for given in (_table(tmp_path), tmp_path):
        data = corpus.read(given)
        (example,) = data.examples
        assert isinstance(example, Agreement)
        assert (example.text, example.target, example.foil, example.group) == (
            "The keys to the cabinet are",
            "are",
            "is",
            "my_set",
        )
        assert example.text[slice(*example.cues[0])] == "keys"
        assert [reason for _, reason in data.errors] == [
            "the evidence word is missing.",
            "the evidence 'cat' is not in the text 'The dog'.",
        ]


def test_a_real_model_ranks_its_evidence(tmp_path: Path) -> None:
    lens, data = Lens.bundled("causal"), corpus.read(_table(tmp_path))
    for measure in ("alti_logit", "logit_update", "value_zeroing", "random"):
        result = evaluate(cases(lens, data.examples), measure)
        assert 0 < result.value <= 1
        assert result.details["groups"] == {"my_set": result.value}
        case = Case(lens, data.examples[0])
        counted = sum(not mark for mark in case.row.special or (False,) * len(case.row))
        assert result.chance == pytest.approx(expected_reciprocal(0, counted, len(case.cues[0])))
    case = Case(lens, data.examples[0])
    maps = case.maps("alti_logit", initial=True, **first_tokens(case))
    order = np.argsort(-maps.scores[:, 0].sum(0))
    judged = evaluate([case], "alti_logit", options={"initial": True})
    words = [place for place in order if not (case.row.special or ())[place]]
    best = min(words.index(place) for place in case.cues[0])
    assert judged.value == pytest.approx(1 / (best + 1))


def test_a_masked_model_leaves_the_mask_itself_out() -> None:
    lens, text = Lens.bundled(), "The keys to the cabinet are old ."
    example = Agreement(name="x", text=text, place=(24, 27), foil="is", cues=((4, 8),))
    case = Case(lens, example)
    assert first_tokens(case) == case.explain
    counted = sum(not mark for mark in case.row.special or ())
    assert case.row.special is not None
    counted -= not case.row.special[case.target]
    for measure in ("value_zeroing", "gradient_norm"):
        assert observe(case, measure)["chance"] == expected_reciprocal(0, counted, 1)


def test_words_that_begin_alike_are_refused() -> None:
    lens = Lens.bundled("causal")
    text = "The keys are"
    example = Agreement(name="x", text=text, place=(9, 12), foil="are", cues=((4, 8),))
    with pytest.raises(InvalidInput, match="same token"):
        first_tokens(Case(lens, example))


def test_the_authors_data_are_read_as_they_read_them(shared: Path) -> None:
    """Every row that their rules use is read, with the same evidence, target and foil."""
    folder = shared / "data" / "logit_explanations"
    data = corpus.read(folder)
    assert len(data.groups) == 12
    read = {(each.group, each.name.rpartition(":")[2]): each for each in data.examples}
    for file in sorted((folder / "derived").glob("evidence_gpt2_*.json")):
        name = file.stem.removeprefix("evidence_gpt2_")
        if name == "summary":
            continue
        for row in json.loads(file.read_text()):
            example = read.get(("ioi_dataset" if name == "ioi" else name, str(row["i"] + 2)))
            if example is None:
                assert not row["used"], (name, row)
            elif row["used"]:
                assert isinstance(example, Agreement)
                assert example.text[slice(*example.cues[0])] == row["evidence"]
                assert (example.target, example.foil) == (row["target"], row["foil"])
