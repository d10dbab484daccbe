"""Score the sources of an answer by one or several methods.

A method is either a measure, which scores every token of the prompt, or a removal method
(`leave_one_out`, `context_cite`), which removes documents from the prompt.

* Layer measures score every token of the answer, all in one forward pass. The score of a word, a
  sentence or the whole answer is the mean over its tokens. `flow_routes` and `alti` are an
  exception: for sentences and answers of more than 16 tokens, the vectors of the tokens are added
  before scoring (see `mixlens.contracts.span`).
* Measures of an output explain the log-probability (or the logits) of each sentence, and of the
  whole answer, as one number. A word gets the scores of its sentence.
* Removal methods return one score for every token of the answer. The score of a word, a sentence or
  the answer is the sum over its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mixlens.answers.answer_parts import AnswerPart
from mixlens.answers.answered_prompt import require_words_alone
from mixlens.answers.prompt_parts import PromptPart, PromptParts
from mixlens.contracts import Span
from mixlens.errors import InvalidInput, UnsupportedModel, no_such
from mixlens.maps.target_row import shares
from mixlens.measures import list_measures, refusal, scores_layers, span_definition, spec_of
from mixlens.measuring.answer_odds import answer_odds
from mixlens.measuring.context_citing import draw_masks, keep_segments, require_lasso, surrogate
from mixlens.measuring.measure import measure, measure_together
from mixlens.model.session import open_session
from mixlens.recording.passed_layers import PassedLayers
from mixlens.text.prompts import tokenise_prompt

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording

DEFAULTS = ("alti", "flow_routes", "attention_norm", "attention")
"""The first one that the model supports is the default."""

REMOVAL = ("leave_one_out", "context_cite")
ABLATIONS = 64  # prompts that fit the weights of context_cite


@dataclass(frozen=True, eq=False)
class MethodScores:
    """Scores of one method for the tokens, the sentences and the whole answer."""

    name: str
    values: Float[np.ndarray, "target column"]  # a column is a source token, or a unit
    parts: Float[np.ndarray, "part column"]  # of each sentence, then of the whole answer
    removes: bool  # whether the columns are removed units
    reading: str  # how layers were aggregated, or the computed quantity

    @classmethod
    def of_tokens(
        cls,
        name: str,
        values: np.ndarray,
        sentences: Sequence[AnswerPart],
        *,
        removes: bool,
        reading: str,
    ) -> MethodScores:
        """Combine token-level scores into the scores of sentences and of the whole answer.

        The score of a sentence is the mean over its tokens, or the sum for removal methods.
        """
        parts = [
            combine_tokens(values[first:stop], removes) for first, stop in _spans_of(sentences)
        ]
        parts.append(combine_tokens(values, removes))
        return cls(name, values, np.stack(parts), removes, reading)

    def of_word(self, first: int, stop: int) -> Float[np.ndarray, " column"]:
        """Return the scores of a word: for removal methods the sum over tokens, else the mean."""
        return combine_tokens(self.values[first:stop], self.removes)


def combine_tokens(scores: np.ndarray, removes: bool) -> Float[np.ndarray, " column"]:
    """Return the sum over tokens for removal methods, and the mean over tokens for measures."""
    combined: np.ndarray = scores.sum(0) if removes else scores.mean(0)
    return combined


def _spans_of(sentences: Sequence[AnswerPart]) -> list[tuple[int, int]]:
    return [(part.first, part.stop) for part in sentences]


def check_methods(methods: Any) -> tuple[str, ...] | None:
    """Check the names of methods and return them as a tuple, or None for the default method."""
    if methods is None:
        return None
    several = isinstance(methods, Iterable) and not isinstance(methods, str)
    names = tuple(methods) if several else (methods,)
    if not names:
        raise InvalidInput("methods is empty. Name at least one, or leave it out.")
    available = [*list_measures(), *REMOVAL]
    for number, name in enumerate(names):
        if name not in available:
            raise InvalidInput(no_such("method", name, available))
        if name in names[:number]:
            raise InvalidInput(f"Duplicate method {name!r}. Name each once.")
        needed = None if name in REMOVAL else spec_of(name).needs
        if needed is not None:
            raise InvalidInput(
                f"{name!r} needs {needed}=, which you cannot pass when you explain an answer."
                " Choose another method, or measure a recording of the answer with it."
            )
        if name not in REMOVAL and spec_of(name).gives == "graph":
            raise InvalidInput(f"{name!r} does not score sources. Choose another method.")
    if "context_cite" in names:
        require_lasso()
    return names


def default_method(recording: Recording, site: str | None) -> str:
    """Return the first method in `DEFAULTS` that the model supports."""
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
    sentences: Sequence[AnswerPart],
) -> dict[str, MethodScores]:
    """Return the scores of every method, in the order of `names`.

    `units` are the parts of the prompt that removal methods remove, one or several at a time.
    """
    removing = next((name for name in names if name in REMOVAL), None)
    if removing is not None:
        require_words_alone(recording, removing)
    of_layers = [name for name in names if name not in REMOVAL and not _explains(name)]
    results = _of_layers(of_layers, recording, site, sentences) if of_layers else {}
    for name in names:
        if name == "leave_one_out":
            values = _leave_one_out(lens, recording, units)
            reading = "log-probability lost without it"
        elif name == "context_cite":
            values = _context_cite(lens, recording, prompt, units)
            reading = "weight in the log-odds of the answer"
        else:
            if name not in results:
                results[name] = _of_output(name, recording, site, sentences)
            continue
        results[name] = MethodScores.of_tokens(
            name, values, sentences, removes=True, reading=reading
        )
    return {name: results[name] for name in names}


def scores_of_maps(maps: MixingMaps) -> Float[np.ndarray, "target source"]:
    """Return scores aggregated over layers, with absolute scores that sum to one for each target.

    If the measure includes the residual stream, the score of each target for itself is set to 0:
    the token at the target position, one before the produced token, does not count as a source of
    the answer.
    """
    values = maps.reading.of(maps.scores).astype(np.float64)
    if maps.facts.residual_included and maps.facts.same_tokens:
        values[np.arange(len(values)), list(maps.target_positions)] = 0
    return shares(values).astype(np.float32)


# --------------------------------------------------------------------------------------- measures


def _explains(name: str) -> bool:
    return spec_of(name).explains_output


def _of_layers(
    names: Sequence[str], recording: Recording, site: str, sentences: Sequence[AnswerPart]
) -> dict[str, MethodScores]:
    """Return the scores of layer measures, computed in one forward pass."""
    assert recording.targets is not None
    places = recording.targets[0]
    spans = [*_spans_of(sentences), (0, len(places))]
    measures_by_span = {
        span: [name for name in names if _is_added(name, span[1] - span[0])]
        for span in dict.fromkeys(spans)
    }
    if any(measures_by_span.values()) and not recording.is_kept:
        recording = replace(recording, passed=PassedLayers(places))
    single_target = [name for name in names if spec_of(name).row_by_row]
    maps: dict[str, Any] = (
        dict(measure_together(single_target, recording, site=site)) if single_target else {}
    )
    scores_of_span: dict[tuple[str, tuple[int, int]], np.ndarray] = {}
    for (first, stop), span_measures in measures_by_span.items():
        targets = places[first:stop]
        span_maps: Any = (
            measure_together(span_measures, recording, site=site, targets=targets, span="sum")
            if span_measures
            else {}
        )
        for name, span in span_maps.items():
            has_own = maps[name].facts.same_tokens  # a target is a source, too
            scores_of_span[name, (first, stop)] = _row_of_span(span, targets if has_own else ())
    results = {}
    for name in names:
        method_maps: Any = maps.get(name) or measure(name, recording, site=site)
        values = scores_of_maps(method_maps)
        _require_shape(name, values, recording, site)
        plain = MethodScores.of_tokens(
            name, values, sentences, removes=False, reading=method_maps.reading.name
        )
        parts = [
            scores_of_span.get((name, span), mean)
            for span, mean in zip(spans, plain.parts, strict=True)
        ]
        results[name] = replace(plain, parts=np.stack(parts))
    return results


def _is_added(name: str, tokens: int) -> bool:
    """Return whether the measure adds the vectors of a span of this length before scoring."""
    return scores_layers(name) and span_definition(name, Span(None, ((1.0,) * tokens,))) == "sum"


def _row_of_span(maps: MixingMaps, targets: Sequence[int]) -> Float[np.ndarray, " source"]:
    """Return the normalised scores of a span.

    If the measure includes the residual stream, the scores of the span's own targets are set to 0.
    """
    scores = maps.reading.of(maps.scores).astype(np.float64)[0]
    if maps.facts.residual_included:
        scores[list(targets)] = 0
    return shares(scores).astype(np.float32)


def _of_output(
    name: str, recording: Recording, site: str, sentences: Sequence[AnswerPart]
) -> MethodScores:
    """Return the scores of a measure that explains an output.

    Each sentence is explained as one output, and so is the whole answer.
    """
    assert recording.targets is not None
    places = recording.targets[0]
    spans = [*_spans_of(sentences), (0, len(places))]
    scores_of_span: dict[tuple[int, int], np.ndarray] = {}
    reading = ""
    for first, stop in dict.fromkeys(spans):
        targets = places[first:stop]
        answer = (targets[0] + 1, targets[-1] + 2)
        target_list = targets if spec_of(name).gives == "maps" else None
        maps: Any = measure(name, recording, site=site, targets=target_list, answer=answer)
        summed = maps.reading.of(maps.scores).astype(np.float64).sum(0)
        scores_of_span[first, stop] = shares(summed).astype(np.float32)
        reading = maps.reading.name
    parts = np.stack([scores_of_span[span] for span in spans])
    values = np.zeros((len(places), parts.shape[1]), dtype=np.float32)
    for number, (first, stop) in enumerate(_spans_of(sentences)):
        values[first:stop] = parts[number]
    _require_shape(name, values, recording, site)
    return MethodScores(name, values, parts, False, f"{reading}, of a sentence as one output")


def _require_shape(name: str, values: np.ndarray, recording: Recording, site: str) -> None:
    assert recording.targets is not None
    shape = (len(recording.targets[0]), len(recording.source_tokens(site, 0)))
    if values.shape != shape:
        raise InvalidInput(
            f"{name} returned scores of shape {values.shape}, not one score for each of {shape[0]}"
            f" answer tokens and {shape[1]} sources. Choose another method."
        )


# ------------------------------------------------------------------------------------------ removal


def _leave_one_out(lens: Lens, recording: Recording, units: Sequence[PromptPart]) -> np.ndarray:
    scores = lens.leave_one_out(recording, segments=_spans(units))
    scores_of_segment = dict(zip(scores.segments, scores.token_scores, strict=True))
    return np.stack([scores_of_segment[part.name] for part in units], 1)


def _context_cite(
    lens: Lens, recording: Recording, prompt: PromptParts, units: Sequence[PromptPart]
) -> np.ndarray:
    """Score the units by the weights that ContextCite fits to the log-odds of the whole answer.

    Each weight is divided equally among the tokens of the answer.
    """
    if len(units) < 2:
        raise InvalidInput(
            "context_cite needs at least 2 documents or sentences. Choose another method."
        )
    assert recording.produced is not None
    assert recording.targets is not None
    answer = [recording.produced[0].ids[place] for place in recording.targets[0]]
    begun = recording.inputs.get("decoder_input_ids")
    masks = draw_masks(ABLATIONS, len(units), 0)
    different, inverse = np.unique(masks, axis=0, return_inverse=True)
    texts = [keep_segments(prompt.text, _spans(units), mask) for mask in different.tolist()]
    prompts = [
        tokenise_prompt(lens.tokenizer, text, specially=prompt.adds_special)[0] for text in texts
    ]
    start = None if begun is None else int(begun[0, 0])
    model = lens.model
    with open_session(model, restores=False):
        odds = answer_odds(model, lens.tokenizer, prompts, answer, None, start)
    weights, _ = surrogate(masks, odds[inverse.reshape(-1)], len(answer))
    return np.repeat(weights[None] / len(answer), len(answer), 0)


def _spans(units: Sequence[PromptPart]) -> list[tuple[str, int, int]]:
    return [(part.name, part.start, part.stop) for part in units]
