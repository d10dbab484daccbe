"""Score the documents of a prompt with known evidence, by a measure, by removal or by a baseline.

A method is the name of a measure or one of `METHODS`:

* `leave_one_out`: the drop in the log-probability of the answer if a document is removed;
* `context_cite`: the weights of a linear model that predicts the log-odds of the answer, fitted on
  `ABLATIONS` shortened prompts;
* `value_zeroing_segments`: Value Zeroing of all tokens of a document at once;
* `random`, `first`, `last`, `lexical`: baselines that do not use the model. `lexical` counts the
  words that a document shares with the question and the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import overlap_scores
from mixlens.maps.one_row import shares
from mixlens.measuring.answer_odds import log_odds
from mixlens.measuring.context_citing import draw_masks, surrogate

ABLATIONS = 32
BASELINES = ("random", "first", "last", "lexical")


def score_documents(known: KnownEvidence, method: str, *, sink: bool = False) -> np.ndarray:
    """Return one score for each document.

    With `sink`, the first token of the prompt (the attention sink) counts as part of its document.
    This has no effect on methods that remove documents.
    """
    if method in METHODS:
        return METHODS[method](known)
    scores = known.scores(method)
    if not sink:
        scores[0] = 0.0
    return np.array([scores[list(tokens)].sum() for tokens in known.documents])


def _leave_one_out(known: KnownEvidence) -> np.ndarray:
    count = len(known.documents)
    whole, *without = known.log_probabilities([[], *([each] for each in range(count))])
    return np.array([whole - after for after in without])


def _context_cite(known: KnownEvidence) -> np.ndarray:
    masks = draw_masks(ABLATIONS, len(known.documents), 0)
    logs = known.log_probabilities([np.flatnonzero(~kept).tolist() for kept in masks])
    weights, _ = surrogate(masks, log_odds(logs), len(known.prompt.answer_ids))
    return np.asarray(weights)


def _value_zeroing_segments(known: KnownEvidence) -> np.ndarray:
    spans = [(f"document {i}", *span) for i, span in enumerate(known.example.documents)]
    maps = known.case.maps("value_zeroing", segments=spans)
    rows = np.atleast_2d(shares(maps.reading.of(maps.scores))).mean(0)
    labels = list(maps.source_tokens)
    return np.array([rows[labels.index(name)] for name, *_ in spans])


def _random(known: KnownEvidence) -> np.ndarray:
    seed = zlib.crc32(known.example.name.encode())
    return np.random.default_rng(seed).random(len(known.documents))


def _first(known: KnownEvidence) -> np.ndarray:
    return -np.arange(len(known.documents), dtype=np.float64)


def _last(known: KnownEvidence) -> np.ndarray:
    return np.arange(len(known.documents), dtype=np.float64)


def _lexical(known: KnownEvidence) -> np.ndarray:
    example = known.example
    texts = [example.text[slice(*span)] for span in example.documents]
    return overlap_scores(texts, example.text[example.documents[-1][1] :] + example.answer)


METHODS: dict[str, Callable[[KnownEvidence], np.ndarray]] = {
    "leave_one_out": _leave_one_out,
    "context_cite": _context_cite,
    "value_zeroing_segments": _value_zeroing_segments,
    "random": _random,
    "first": _first,
    "last": _last,
    "lexical": _lexical,
}
