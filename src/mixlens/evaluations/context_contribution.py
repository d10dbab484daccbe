"""Context contribution: how much of each hidden token comes from its own input token, and where the
rest comes from.

Brunner et al. (2020), section 5 and appendix C, on Hidden Token Attribution. For each layer, the
evaluation reports a token's own contribution and the fraction of tokens that are not their own
largest contributor (figure 3), contributions by distance and by signed offset (figure 4),
contributions to [CLS] from the tokens around [CLS] and around the first [SEP] (figure 18), and own
contributions by part of speech (figures 26-37). All pieces of a word have the tag of the word.

By default the attribution is estimated with 32 random probes per source token, with an error of
about 3 %. `probes=None` computes it exactly, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.datasets.examples import Tagged
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.states import CATEGORIES, categories

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

DISTANCES = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, None))
QUARTILES = (0.25, 0.5, 0.75)

SPEC = EvaluationSpec(
    summary=("contribution of each hidden token's own input token, and where the rest comes from"),
    citation=(
        'Brunner et al. (2020), "On Identifiability in Transformers", section 5 and appendix C'
    ),
    direction="neither",
    kinds=("text", "agreement", "classification", "tagged"),
    of="model",
    cost="hidden_token_attribution",
    reports={
        "own_mean": Detail("mean contribution of the token's own input", "layer"),
        "not_largest": Detail(
            "fraction of tokens whose own input is not the largest part", "layer"
        ),
    },
)


def observe(
    case: Case, *, probes: int | None = 32, wrt: str = "embedding", seed: int = 0
) -> dict[str, np.ndarray]:
    """Return the contributions between the n tokens of one text, in a dict with these keys:

    * `own` [layer, token]: the contribution of a token's own input;
    * `largest` [layer, token]: whether no other token contributes more;
    * `offsets` [layer, 2 n - 1]: contributions summed over targets, for each offset from the target
      to the source, from -(n - 1) to n - 1;
    * `to_cls` [layer, token]: contributions to [CLS] (no tokens if the text has no [CLS]);
    * `separator`: the position of the first [SEP], or -1;
    * `category` and `tag` [token].
    """
    options = {} if probes is None else {"seed": seed}
    maps = case.maps("hidden_token_attribution", probes=probes, wrt=wrt, **options)
    kinds, scores = categories(case), maps.scores.astype(np.float64)
    count = scores.shape[-1]
    if scores.shape[-2] != count or len(kinds) != count:
        raise InvalidInput(
            "Context contributions need self-attention. Choose the encoder or the decoder."
        )
    self_scores = np.diagonal(scores, axis1=1, axis2=2)
    first, last = (np.flatnonzero(kinds == CATEGORIES.index(name)) for name in ("cls", "sep"))
    return {
        "own": self_scores,
        "largest": self_scores >= scores.max(-1),
        "category": kinds,
        "tag": _tags(case, count),
        "offsets": np.stack(
            [np.trace(scores, offset, 1, 2) for offset in range(1 - count, count)], 1
        ),
        "to_cls": scores[:, first[0]] if len(first) and first[0] == 0 else scores[:, 0, :0],
        "separator": np.array(last[0] if len(last) else -1),
    }


def _tags(case: Case, count: int) -> np.ndarray:
    """Return, for each token, the tag of its word, or an empty string if the word has no tag."""
    tags = [""] * count
    if isinstance(case.example, Tagged):
        if len(case.example.words) != len(case.example.tags):
            raise InvalidInput(
                f"{len(case.example.words)} words have {len(case.example.tags)} tags. Pass "
                "one tag per word."
            )
        for word, tag in zip(case.example.words, case.example.tags, strict=True):
            for token in case.tokens_of(word):
                tags[token] = tag
    return np.array(tags)


# -------------------------------------------------------------------------------------- conclusions


def conclude(
    observations: Sequence[dict[str, Any]], *, special: bool = True, reach: int = 10
) -> Result:
    """Return how much a token's own input contributes to its hidden state in the last layer.

    The value is averaged over the tokens of a text, then over texts. `special=False` excludes [CLS]
    and [SEP] from this value, and from `own`, `own_mean` and `not_largest`.

    `details` has the following results for each layer:

    * `own` [layer, 3]: lower quartile, median and upper quartile of the own contributions of all
      tokens; `own_mean` [layer]: their mean;
    * `not_largest` [layer]: the fraction of tokens to which another token contributes more than
      their own input;
    * `tags`: for each tag, the own contributions of its tokens [layer, token];
    * `by_distance` [layer, 6]: the contribution from each of `distances`, averaged over targets
      (together with `own_mean` of all tokens, these add up to one);
    * `by_offset` [layer, 2 reach + 1]: the contribution from each of `offsets`, averaged over the
      targets that have a source at that offset; `by_offset_total`: the same averaged over all
      targets;
    * `offsets`: from -reach (before the target) to reach;
    * `cls_around_cls` and `cls_around_sep` [layer, 2 reach + 1]: the mean contribution to [CLS] at
      these offsets from [CLS] and from the first [SEP], or NaN if no text has a token there.
    """
    if not len(observations):
        return Result.of(SPEC, [])
    masks = [_choose_tokens(observation, special) for observation in observations]
    self_scores = np.concatenate(
        [
            observation["own"][:, keep]
            for observation, keep in zip(observations, masks, strict=True)
        ],
        1,
    )
    largest = np.concatenate(
        [
            observation["largest"][:, keep]
            for observation, keep in zip(observations, masks, strict=True)
        ],
        1,
    )
    details = {
        "own": np.quantile(self_scores, QUARTILES, axis=1).T,
        "own_mean": self_scores.mean(1),
        "not_largest": 1 - largest.mean(1),
        "tags": _by_tag(observations),
        "distances": DISTANCES,
        **_by_place(observations, reach),
        "cls_around_cls": _around(observations, reach, "cls"),
        "cls_around_sep": _around(observations, reach, "sep"),
    }
    values = [
        observation["own"][-1, keep].mean() if keep.any() else np.nan
        for observation, keep in zip(observations, masks, strict=True)
    ]
    return Result.of(SPEC, values, details=details)


def _choose_tokens(observation: dict[str, Any], special: bool) -> np.ndarray:
    kinds = np.asarray(observation["category"])
    return (
        np.ones(len(kinds), bool)
        if special
        else ~np.isin(kinds, [CATEGORIES.index(name) for name in ("cls", "sep")])
    )


def _by_tag(observations: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    names = sorted({str(tag) for observation in observations for tag in observation["tag"]} - {""})
    return {
        name: np.concatenate(
            [observation["own"][:, observation["tag"] == name] for observation in observations], 1
        )
        for name in names
    }


def _by_place(observations: Sequence[dict[str, Any]], reach: int) -> dict[str, np.ndarray]:
    targets = sum(len(observation["category"]) for observation in observations)
    layers = len(observations[0]["own"])
    groups, near, pairs = (
        np.zeros((layers, len(DISTANCES))),
        np.zeros((layers, 2 * reach + 1)),
        np.zeros(2 * reach + 1),
    )
    for observation in observations:
        count = len(observation["category"])
        offsets = np.arange(1 - count, count)
        for number, (least, most) in enumerate(DISTANCES):
            inside = (np.abs(offsets) >= least) & (np.abs(offsets) <= (most or count))
            groups[:, number] += observation["offsets"][:, inside].sum(1)
        within = np.abs(offsets) <= reach
        near[:, offsets[within] + reach] += observation["offsets"][:, within]
        pairs[offsets[within] + reach] += count - np.abs(offsets[within])
    return {
        "by_distance": groups / targets,
        "by_offset": near / np.where(pairs > 0, pairs, np.nan),
        "by_offset_total": near / targets,
        "offsets": np.arange(-reach, reach + 1),
    }


def _around(observations: Sequence[dict[str, Any]], reach: int, centre: str) -> np.ndarray:
    total, texts = np.zeros((len(observations[0]["own"]), 2 * reach + 1)), np.zeros(2 * reach + 1)
    for observation in observations:
        place = 0 if centre == "cls" else int(observation["separator"])
        offsets = np.arange(observation["to_cls"].shape[1]) - place
        within = (np.abs(offsets) <= reach) & (place >= 0)
        total[:, offsets[within] + reach] += observation["to_cls"][:, within]
        texts[offsets[within] + reach] += 1
    means: np.ndarray = total / np.where(texts > 0, texts, np.nan)
    return means


def evaluate(
    cases: Iterable[Case],
    *,
    probes: int | None = 32,
    wrt: str = "embedding",
    special: bool = True,
    reach: int = 10,
    seed: int = 0,
) -> Result:
    """Evaluate all cases. See `conclude` for the entries of the result.

    `probes` and `wrt` are options of `hidden_token_attribution`.
    """
    return conclude(
        [observe(case, probes=probes, wrt=wrt, seed=seed) for case in cases],
        special=special,
        reach=reach,
    )
