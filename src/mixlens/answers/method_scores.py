"""Score the sources of an answer by one or several methods.

A method is a measure, which scores every token of the prompt for every token of the answer, or it
removes documents from the prompt (`leave_one_out`, `context_cite`). All measures that score a
target by its layer alone share one forward pass, so the words and sentences of an answer cost as
much as the answer. A word, a sentence or the answer has the mean of its tokens' scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mixlens.answers.prompt_parts import PromptPart, PromptParts
from mixlens.capture.attention_capture import runnable_experts
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.maps.target_row import shares
from mixlens.measures import list_measures, refusal, spec_of
from mixlens.measuring.answer_odds import answer_odds
from mixlens.measuring.context_citing import drawn_masks, shortened, surrogate
from mixlens.measuring.measure import measure, measure_together
from mixlens.model.session import open_session
from mixlens.text.prompts import tokenised
from mixlens.text.suggestions import no_such

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording

DEFAULTS = ("flow_routes", "alti", "attention_norm", "attention")
"""The first one that the model supports is the default."""

REMOVAL = ("leave_one_out", "context_cite")
ABLATIONS = 64  # prompts that fit the weights of context_cite


@dataclass(frozen=True, eq=False)
class MethodScores:
    """Scores of one method."""

    name: str
    values: Float[np.ndarray, "target column"]  # a column is a source token, or a unit
    removes: bool  # whether the columns are removed units
    reading: str  # how layers were aggregated, or the computed quantity

    def of_tokens(self, first: int, stop: int) -> Float[np.ndarray, " column"]:
        """Return the scores of some tokens of the answer: the mean of their normalised scores, or
        the sum of their log-probability losses.
        """
        rows = self.values[first:stop]
        if self.removes:
            total: np.ndarray = rows.sum(0)
            return total
        mean: np.ndarray = rows.mean(0)
        return mean


def check_methods(methods: Any) -> tuple[str, ...] | None:
    """Return the names of methods; None for the default."""
    if methods is None:
        return None
    several = isinstance(methods, Iterable) and not isinstance(methods, str)
    names = tuple(methods) if several else (methods,)
    if not names:
        raise InvalidInput("methods is empty. Name at least one, or leave it out.")
    known = [*list_measures(), *REMOVAL]
    for number, name in enumerate(names):
        if name not in known:
            raise InvalidInput(no_such("method", name, known))
        if name in names[:number]:
            raise InvalidInput(f"Duplicate method {name!r}. Name each once.")
        if name not in REMOVAL and spec_of(name).gives == "graph":
            raise InvalidInput(f"{name!r} does not score sources. Choose another method.")
    return names


def default_method(recording: Recording, site: str | None) -> str:
    """Return the default method of a model."""
    for name in DEFAULTS:
        if refusal(name, recording.structure, site) is None:
            return name
    raise UnsupportedModel(
        f"None of {', '.join(DEFAULTS)} applies to this model. Choose one with methods=."
    )


def score_by_methods(
    lens: Lens,
    recording: Recording,
    site: str,
    names: Sequence[str],
    prompt: PromptParts,
    units: Sequence[PromptPart],
) -> dict[str, MethodScores]:
    """Return the scores of every method, in the order of their names. Removal methods remove one
    unit at a time, or several.
    """
    row_by_row = [name for name in names if name not in REMOVAL and spec_of(name).row_by_row]
    maps: dict[str, Any] = (
        dict(measure_together(row_by_row, recording, site=site)) if row_by_row else {}
    )
    scored: dict[str, MethodScores] = {}
    for name in names:
        if name == "leave_one_out":
            scored[name] = _leave_one_out(lens, recording, units)
        elif name == "context_cite":
            scored[name] = _context_cite(lens, recording, prompt, units)
        else:
            made: Any = maps.pop(name, None) or measure(name, recording, site=site)
            scored[name] = _of_maps(name, made, recording, site)
    return scored


def scores_of_maps(maps: MixingMaps) -> Float[np.ndarray, "target source"]:
    """Return aggregated layers, normalised to absolute sums of one.

    A measure that includes the residual stream assigns it to the position itself, which is the
    token before the produced one. That is not a source of the answer, so its score is dropped.
    """
    values = maps.reading.of(maps.scores).astype(np.float64)
    if maps.facts.residual_included and maps.facts.same_tokens:
        values[np.arange(len(values)), list(maps.target_positions)] = 0
    return shares(values).astype(np.float32)


def _of_maps(name: str, maps: MixingMaps, recording: Recording, site: str) -> MethodScores:
    assert recording.targets is not None
    values = scores_of_maps(maps)
    shape = (len(recording.targets[0]), len(recording.source_tokens(site, 0)))
    if values.shape != shape:
        raise InvalidInput(
            f"{name} gives scores of shape {values.shape}, not one for each of {shape[0]} tokens of"
            f" the answer and {shape[1]} sources. Choose another method."
        )
    return MethodScores(name, values, False, maps.reading.name)


# ------------------------------------------------------------------------------------------ removal


def _leave_one_out(lens: Lens, recording: Recording, units: Sequence[PromptPart]) -> MethodScores:
    scores = lens.leave_one_out(recording, segments=_spans(units))
    rows = dict(zip(scores.segments, scores.token_scores, strict=True))
    values = np.stack([rows[part.name] for part in units], 1)
    return MethodScores("leave_one_out", values, True, "log-probability lost without it")


def _context_cite(
    lens: Lens, recording: Recording, prompt: PromptParts, units: Sequence[PromptPart]
) -> MethodScores:
    """Fit the log-odds of the whole answer. Every token has an equal part of a unit's weight."""
    if len(units) < 2:
        raise InvalidInput(
            "context_cite needs at least 2 documents or sentences. Choose another method."
        )
    assert recording.produced is not None
    assert recording.targets is not None
    answer = [recording.produced[0].ids[place] for place in recording.targets[0]]
    begun = recording.inputs.get("decoder_input_ids")
    masks = drawn_masks(ABLATIONS, len(units), 0)
    different, again = np.unique(masks, axis=0, return_inverse=True)
    texts = [shortened(prompt.text, _spans(units), kept) for kept in different.tolist()]
    prompts = [tokenised(lens.tokenizer, text, specially=prompt.adds_special)[0] for text in texts]
    start = None if begun is None else int(begun[0, 0])
    model = lens.model
    with open_session(model, restores=False), runnable_experts(model):
        odds = answer_odds(model, lens.tokenizer, prompts, answer, None, start)
    weights, _ = surrogate(masks, odds[again.reshape(-1)], len(answer))
    values = np.repeat(weights[None] / len(answer), len(answer), 0)
    return MethodScores("context_cite", values, True, "weight in the log-odds of the answer")


def _spans(units: Sequence[PromptPart]) -> list[tuple[str, int, int]]:
    return [(part.name, part.start, part.stop) for part in units]
