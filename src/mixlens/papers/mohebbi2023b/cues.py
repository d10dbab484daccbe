"""Mohebbi et al. (2023b): what fraction of a homophone's scores falls on the cue, layer by layer?
The experiment measures self-attention in the encoder (between frames), cross-attention (from text
to frames) and self-attention in the decoder (between text tokens).

Scores are computed for whole words. Value Zeroing zeroes all values of a word at once, and the
scores of other measures are summed over the frames or tokens of a word. Scores are normalised over
all words of the sentence, without padding, special tokens and pauses. In the decoder, only the
words before the target are used.

In the encoder, the target is one of these words, so the experiment also normalises the cue's score
over all words except the target. Chance level is the cue's score if all these words had equal
scores. Nearby words tend to have higher scores, and this comparison does not correct for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023b import paper
from mixlens.views import figures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

MEASURES = ("attention", "attention_norm", "value_zeroing")

SPEC = ExperimentSpec(
    title="normalised score of the cue for a spoken homophone, by layer, attention and measure",
    finding=(
        "encoder-only models mix the cue into the homophone, while in encoder-decoder models "
        "this happens mostly in the decoder"
    ),
    kinds=("speech",),
    data=paper.DATA,
    generated=paper.GENERATED,
    models=(),
    needs="speech",
    cost="one forward pass for each text, and one layer for each word and measure",
)


def observe(case: Case, *, measure: str, site: str) -> dict[str, Any]:
    """Return the cue's normalised score in each layer.

    `cue` is normalised over all words, and `others` over all words except the target. `chance` is
    the chance level of `others`.
    """
    speech = paper.speech_of(case)
    if not speech.has_decoder and site != "encoder":
        return {"cue": [], "others": [], "chance": float("nan"), "group": case.example.group or ""}
    example = speech.example
    shares = speech.word_scores(measure, site)
    count = min(example.target) if site == "decoder" else len(example.words)
    other_words = [word for word in range(count) if word not in example.target]
    cue = shares[:, list(example.cue)].sum(1)
    return {
        "cue": cue,
        "others": cue / shares[:, other_words].sum(1),
        "chance": len(example.cue) / len(other_words),
        "group": example.group or "",
    }


def run(setting: Setting, *, measures: Sequence[str] = MEASURES) -> Outcome:
    """Score the words of every sentence with each measure in each attention."""
    observations = setting.observe(
        {
            (site, name): partial(observe, measure=name, site=site)
            for site in paper.SITES
            for name in measures
        }
    )
    answers_by_pair = {
        key: pair_answers
        for key, pair_answers in observations.answers.items()
        if len(pair_answers[0]["cue"])
    }
    excess = {
        key: np.array([_excess(each) for each in pair_answers])
        for key, pair_answers in answers_by_pair.items()
    }
    rows = [_row(*key, pair_answers, excess[key]) for key, pair_answers in answers_by_pair.items()]
    layers = [
        row
        for key, pair_answers in answers_by_pair.items()
        for row in _layer_rows(*key, pair_answers)
    ]
    lines = {
        f"{site}, {name}": np.mean([each["cue"] for each in pair_answers], 0)
        for (site, name), pair_answers in answers_by_pair.items()
    }
    figure = figures.lines(lines, title="share of the cue", y_label="share of all words")
    return Outcome(
        {"cues": pd.DataFrame(rows), "layers": pd.DataFrame(layers)},
        {"cues": figure},
        {f"{row['attention']}, {row['measure']}": row["share"] for row in rows},
        _findings(excess),
        observations.skipped,
    )


def _excess(observation: dict[str, Any]) -> float:
    """Return how far the cue's normalised score exceeds chance level, averaged over layers."""
    return float(np.mean(observation["others"]) - observation["chance"])


def _row(
    site: str, name: str, pair_answers: Sequence[dict[str, Any]], excess: np.ndarray
) -> dict[str, Any]:
    effect = paper.effect(excess)
    return {
        "attention": site,
        "measure": name,
        "share": float(np.mean([np.mean(each["cue"]) for each in pair_answers])),
        "chance among the others": float(np.mean([each["chance"] for each in pair_answers])),
        **{("above chance" if key == "positive" else key): n for key, n in effect.items()},
    }


def _layer_rows(
    site: str, name: str, pair_answers: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = []
    for group in dict.fromkeys(each["group"] for each in pair_answers):
        of = [each for each in pair_answers if each["group"] == group]
        cue, against_others = (np.mean([each[key] for each in of], 0) for key in ("cue", "others"))
        chance = float(np.mean([each["chance"] for each in of]))
        for layer, (share, among) in enumerate(zip(cue, against_others, strict=True)):
            rows.append(
                {
                    "attention": site,
                    "measure": name,
                    "sentences": group,
                    "texts": len(of),
                    "layer": layer,
                    "share": share,
                    "among the others": among,
                    "chance among the others": chance,
                }
            )
    return rows


def _findings(excess: dict[tuple[str, str], np.ndarray]) -> list[Finding]:
    of_value_zeroing = {
        site: values for (site, name), values in excess.items() if name == "value_zeroing"
    }
    if not of_value_zeroing:
        return []
    encoder = paper.effect(of_value_zeroing["encoder"])
    more = paper.is_positive(encoder)
    if "decoder" not in of_value_zeroing:
        return [
            _finding("an encoder without a decoder gives the cue more than other words", encoder)
        ]
    return [
        Finding(
            "the encoder gives the cue no more than other words",
            None if more is None else not more,
            paper.in_words(encoder),
        ),
        _finding(
            "the decoder gives the cue more than other words",
            paper.effect(of_value_zeroing["decoder"]),
        ),
        _finding(
            "the cue has more, above chance, in the decoder than in the encoder",
            paper.effect(of_value_zeroing["decoder"] - of_value_zeroing["encoder"]),
        ),
    ]


def _finding(statement: str, summary: dict[str, Any]) -> Finding:
    return Finding(statement, paper.is_positive(summary), paper.in_words(summary))
