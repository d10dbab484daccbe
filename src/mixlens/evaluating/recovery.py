"""Measure how well the token scores of a prompt recover the documents and tokens that are known to
be the evidence.

The score of a document is the sum over its tokens. Ties are broken at random: every metric is the
mean over all possible orders of equal scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np


@dataclass(frozen=True)
class Recovery:
    """The metrics of one prompt, each between 0 and 1."""

    recall: float  # of the evidence among the best k documents, k = number of evidence documents
    first: float  # is the best document evidence?
    reciprocal_rank: float  # of the best-ranked evidence document
    token_recovery: float  # evidence tokens among the best 10 % of the prompt's tokens


def recovery(
    scores: np.ndarray,
    documents: Sequence[Sequence[int]],
    evidence: Sequence[int],
    needles: Sequence[int],
    candidates: Sequence[int],
    *,
    share: float = 0.1,
) -> Recovery:
    """Compare the scores of prompt tokens with the known evidence.

    `documents` lists the tokens of each document, and `evidence` the indices of the documents with
    evidence. `needles` are the tokens of the evidence. `candidates` lists the tokens to rank.
    """
    sums = np.array([float(scores[list(tokens)].sum()) for tokens in documents])
    is_evidence = np.zeros(len(sums), bool)
    is_evidence[list(evidence)] = True
    tokens = np.asarray(candidates)
    gold = np.isin(tokens, list(needles))
    positive = np.maximum(scores[tokens], 0.0)  # negative scores count as none
    return Recovery(
        recall=expected_recall(sums, is_evidence, int(is_evidence.sum())),
        first=expected_recall(sums, is_evidence, 1) * is_evidence.sum(),
        reciprocal_rank=reciprocal_rank(sums, list(evidence)),
        token_recovery=expected_recall(positive, gold, math.ceil(share * len(tokens))),
    )


def expected_reciprocal(before: int, tied: int, right: int) -> float:
    """Return the expected reciprocal rank of the first relevant token if ties are broken at random.

    `tied` tokens share a score, `right` of them are relevant, and `before` tokens have a higher
    score.
    """
    ways = comb(tied, right)
    return sum(
        comb(tied - place, right - 1) / ways / (before + place)
        for place in range(1, tied - right + 2)
    )


def reciprocal_rank(scores: np.ndarray, evidence: Sequence[int]) -> float:
    """Return the expected reciprocal rank of the best-ranked evidence if ties are broken at
    random.
    """
    best = max(scores[place] for place in evidence)
    tied = scores == best
    right = sum(bool(tied[place]) for place in evidence)
    return expected_reciprocal(int((scores > best).sum()), int(tied.sum()), right)


def expected_recall(scores: np.ndarray, is_evidence: np.ndarray, best: int) -> float:
    """Return the expected recall of the wanted entries among the `best` highest scores."""
    order = np.sort(scores)[::-1]
    bar = order[best - 1]
    above, tied = scores > bar, scores == bar
    places = best - int(above.sum())
    recovered = float((above & is_evidence).sum()) + places * float(
        (tied & is_evidence).sum()
    ) / float(tied.sum())
    return recovered / float(is_evidence.sum())


def overlap_scores(documents: Sequence[str], question: str) -> np.ndarray:
    """Return the scores of the lexical baseline: the number of words that each document shares with
    the question and the answer.
    """
    question_words = _words(question)
    return np.array([len(question_words & _words(text)) for text in documents], np.float64)


def _words(text: str) -> set[str]:
    return {word.strip(".,:;?!\"'()").lower() for word in text.split()} - {""}
