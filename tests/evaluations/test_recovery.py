"""Recovery of known evidence from scores of tokens."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from mixlens.evaluating.recovery import expected_recall, overlap_scores, recovery


@pytest.mark.parametrize("best", [1, 2, 3, 4])
def test_ties_count_by_expectation(best: int) -> None:
    scores, wanted = (
        np.array([1.0, 2.0, 1.0, 1.0, 0.0]),
        np.array([True, False, True, False, False]),
    )
    orders = [
        order
        for order in permutations(range(5))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    mean = np.mean([wanted[list(order[:best])].sum() / 2 for order in orders])
    assert expected_recall(scores, wanted, best) == pytest.approx(mean)


def test_documents_are_ranked_by_their_sums() -> None:
    scores = np.array([9.0, 0.1, 0.1, 0.5, 0.6, 0.2, -3.0, 0.0])
    recovered = recovery(scores, [(1, 2), (3, 4), (5, 6)], [1], [4], range(1, 8))
    assert (recovered.recall, recovered.first, recovered.reciprocal_rank) == (1.0, 1.0, 1.0)
    assert recovered.token_recovery == 1.0  # one of seven tokens, and it is the needle
    lost = recovery(-scores, [(1, 2), (3, 4), (5, 6)], [1], [4], range(1, 8))
    assert (lost.recall, lost.reciprocal_rank) == (0.0, pytest.approx(1 / 3))
    assert lost.token_recovery == 0.0


def test_two_documents_of_evidence() -> None:
    scores = np.array([0.4, 0.3, 0.2, 0.1])
    recovered = recovery(scores, [(0,), (1,), (2,), (3,)], [0, 2], [0, 2], range(4), share=0.5)
    assert (recovered.recall, recovered.first, recovered.reciprocal_rank) == (0.5, 1.0, 1.0)
    assert recovered.token_recovery == 0.5


def test_overlap_counts_shared_words() -> None:
    documents = ["Tom keeps the ball.", "The river is long.", "tom and the BALL!"]
    assert overlap_scores(documents, "Where is Tom's ball? Tom").tolist() == [2.0, 1.0, 2.0]
