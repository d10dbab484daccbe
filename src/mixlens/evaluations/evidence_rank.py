"""Evidence rank: how high does a measure rank the words that determine the next word?

Ferrando et al. (2023), "Explaining How Transformers Use Context to Build Predictions": a language
model continues a text, the target and the foil are two possible next words, and the words that
decide between them (the evidence) are known. Tokens are ranked by signed score, highest first. The
value is the mean of 1 / r, where r is the smallest rank of an evidence token.

* Multi-token words are scored by their first token, as in the paper.
* The value is the expectation over random orders of tied tokens. `details["authors_ties"]` follows
  the authors' rule, in which all tied tokens have the best of their ranks.
* `chance` is the exact expectation for a random ranking with the same number of tokens and of
  evidence tokens.
* Special tokens, and the mask of a masked model, are not ranked.

Layer measures are aggregated by rollout (`aggregate`). `options` are those of the measure. For
example, pass `{"initial": True}` to add the initial term to ALTI-Logit, as the authors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.recovery import expected_reciprocal, reciprocal_rank
from mixlens.evaluating.sources import special
from mixlens.measures import spec_of

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="mean reciprocal rank of the words that decide the next one, by signed scores",
    citation=(
        'Ferrando et al. (2023), "Explaining How Transformers Use Context to Build Predictions"'
    ),
    direction="higher",
    kinds=("agreement",),
)


def authors_reciprocal_rank(scores: np.ndarray, evidence: Sequence[int]) -> float:
    """Return 1 / r for the best-ranked evidence token, under the authors' rule for ties."""
    levels = np.unique(scores, return_inverse=True)[1].reshape(-1) + 1
    return 1 / min(len(scores) - int(levels[place]) + 1 for place in evidence)


def observe(
    case: Case,
    measure: str,
    *,
    aggregate: str | int = "rollout",
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return `value`, `authors_ties` and `chance` of one text."""
    settings = dict(options or {})
    if spec_of(measure).explains_output:
        settings = {**first_tokens(case), **settings}
    source_scores = np.asarray(case.target_row(measure, aggregate, **settings), np.float64)
    is_counted = ~special(case)
    if not case.causal:
        is_counted[case.target] = False
    evidence = np.zeros(len(source_scores), bool)
    evidence[[token for tokens in case.cues for token in tokens]] = True
    places = np.flatnonzero(evidence[is_counted]).tolist()
    if not places:
        raise InvalidInput(
            "No token of the evidence is ranked. Use an example whose evidence is not a "
            "special token."
        )
    scores = source_scores[is_counted]
    return {
        "value": reciprocal_rank(scores, places),
        "authors_ties": authors_reciprocal_rank(scores, places),
        "chance": expected_reciprocal(0, len(scores), len(places)),
        "group": case.example.group or "all",
    }


def first_tokens(case: Case) -> dict[str, Any]:
    """Return the options that make a measure explain the target against the foil.

    In a causal model, both words are represented by their first tokens.
    """
    example: Any = case.example
    tokenizer, text_before = case.lens.tokenizer, case.given
    ids = []
    for word in (example.target, example.foil):
        if not case.causal:
            return dict(case.explain)
        before, both = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (text_before, f"{text_before} {word}")
        )
        if both[: len(before)] != before or len(both) == len(before):
            raise InvalidInput(
                f"The word {word!r} is merged with the token before it. Use an example in "
                "which it starts a token."
            )
        ids.append(int(both[len(before)]))
    if ids[0] == ids[1]:
        raise InvalidInput(
            "Target and foil begin with the same token. Use a pair with different first tokens."
        )
    return {"word": ids[0], "foil": ids[1], "position": case.target}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean over texts.

    `details` has the value and the chance level of each group, and the mean under the authors' rule
    for ties.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for observation in observations:
        groups.setdefault(observation["group"], []).append(observation)

    def mean(part: Sequence[dict[str, Any]], key: str) -> float:
        return float(np.mean([observation[key] for observation in part])) if part else float("nan")

    details = {
        "authors_ties": mean(observations, "authors_ties"),
        "groups": {name: mean(part, "value") for name, part in groups.items()},
        "groups_authors_ties": {name: mean(part, "authors_ties") for name, part in groups.items()},
        "groups_chance": {name: mean(part, "chance") for name, part in groups.items()},
    }
    spec = replace(SPEC, chance=mean(observations, "chance")) if observations else SPEC
    return Result.of(spec, [observation["value"] for observation in observations], details=details)


def evaluate(cases: Iterable[Case], measure: str, **options: Any) -> Result:
    """Return the mean over agreement examples with cues. The options are those of `observe`."""
    return conclude([observe(case, measure, **options) for case in cases])
