"""Mohebbi et al. (2023b): align the words of a spoken sentence with frames of the encoder and
tokens of the decoder.

The frames of a word are rounded as in the authors' code: from ceil(start / seconds) up to, but not
including, ceil(end / seconds). The authors' code also includes this last frame, so that it belongs
to two words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from mixlens.datasets.examples import Spoken
from mixlens.datasets.speech import waveform
from mixlens.errors import InvalidInput
from mixlens.evaluating.statistics import difference_p, interval_of
from mixlens.measuring.measure import measure as measured

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.recording.recording import Recording

DATA = "French sentences of Common Voice with a homophone (hosein-m/french_homophones)"
GENERATED = "generated:homophones"  # spoken by eSpeak NG, if no data are passed
SITES = ("encoder", "cross", "decoder")


class Speech:
    """A spoken sentence of a case, recorded with its model. It has a transcript if there is a
    decoder.
    """

    def __init__(self, case: Case) -> None:
        example = case.example
        if not isinstance(example, Spoken):
            raise InvalidInput(f"{example.kind} examples have no audio. Use spoken sentences.")
        self.lens, self.example = case.lens, example
        self.rate = _rate_of(self.lens.processor)
        self.has_decoder = bool(getattr(self.lens.model.config, "is_encoder_decoder", False))
        self.ids: list[int] = []  # of the whole transcript, with special tokens
        self.tokens: list[list[int]] = []  # of each word, as positions in `ids`
        if self.has_decoder:
            self._read_transcript()

    def _read_transcript(self) -> None:
        text = f" {self.example.text}"
        encoding = self.lens.tokenizer(text, return_offsets_mapping=True)
        self.ids = list(encoding.input_ids)
        for first, last in self.example.words:  # the text has a space more, in front
            begin = first if text[first] == " " else first + 1  # a space belongs to its word
            spans = enumerate(encoding.offset_mapping)
            places = [place for place, (a, b) in spans if a < last + 1 and begin < b]
            if not places:
                raise InvalidInput(
                    f"No token covers {self.example.text[first:last]!r}. Remove the example."
                )
            self.tokens.append(places)

    def hear(self, audio: bytes) -> dict[str, Any]:
        """Return audio in the form that the model's processor accepts."""
        return {"audio": waveform(audio, self.rate), "sampling_rate": self.rate}

    @cached_property
    def recording(self) -> Recording:
        """Record the audio, with its transcript if the model has a decoder.

        The recording is cached.
        """
        inputs = self.hear(self.example.audio)
        if not self.has_decoder:
            return self.lens.record(inputs)
        recording = self.lens.generate(inputs, answer=f" {self.example.text}")
        if recording.inputs["decoder_input_ids"][0].tolist() != self.ids[:-1]:
            raise InvalidInput(
                "The tokenizer splits the transcript differently in a prompt. Remove the example."
            )
        return recording

    @cached_property
    def frames(self) -> list[list[int]]:
        """Return the indices of the frames of each word."""
        tokens = self.recording.tokens[self.recording.structure.stacks[0].name][0]
        if tokens.seconds is None:
            raise InvalidInput(
                "The model's encoder has no frames of a known duration. Pass a speech model."
            )
        return frames_of(self.example.times, tokens.seconds, len(tokens))

    def word_scores(self, name: str, site: str) -> np.ndarray:
        """Return the target's scores for each word, [layer, word].

        The scores of a layer sum to one. In the decoder, the target and later words are not
        visible, so their scores are zero.
        """
        words = self.example.words
        if site == "decoder":
            count = min(self.example.target)
            sources = self.tokens[:count]
        else:
            count, sources = len(words), self.frames
        if site == "encoder":
            targets = [place for word in self.example.target for place in self.frames[word]]
        else:  # the positions that produce these tokens
            targets = [place - 1 for word in self.example.target for place in self.tokens[word]]
        segments: dict[str, Any] = {"segments": sources} if name == "value_zeroing" else {}
        which: dict[str, Any] = {"site": site} if self.has_decoder else {}
        maps: Any = measured(name, self.recording, targets=targets, **which, **segments)
        scores = np.asarray(maps.scores, np.float64)
        if scores.ndim == 4:  # heads
            scores = scores.mean(1)
        if not segments:
            scores = np.stack([scores[..., places].sum(-1) for places in sources], -1)
        sums = scores.sum(-1, keepdims=True)
        shares = np.divide(scores, sums, out=np.full_like(scores, math.nan), where=sums > 0)
        padded = np.zeros((len(scores), len(words)))
        padded[:, :count] = shares.mean(1)
        return padded


_SPEECH: WeakKeyDictionary[Case, Speech] = WeakKeyDictionary()


def speech_of(case: Case) -> Speech:
    """Return the sentence of a case, with its recording. Each case is recorded once."""
    if case not in _SPEECH:
        _SPEECH[case] = Speech(case)
    return _SPEECH[case]


def frames_of(times: Sequence[tuple[float, float]], seconds: float, count: int) -> list[list[int]]:
    """Return the indices of the frames of each word. Every word has at least one frame."""
    frames = []
    for start, end in times:
        first = math.ceil(round(start / seconds, 6))
        last = max(first + 1, math.ceil(round(end / seconds, 6)))
        if last > count:
            raise InvalidInput(
                f"The audio is longer than the {count} frames of the encoder. Use shorter audio."
            )
        frames.append(list(range(first, last)))
    return frames


def _rate_of(processor: Any) -> int:
    rate = getattr(getattr(processor, "feature_extractor", processor), "sampling_rate", None)
    if not isinstance(rate, int):
        raise InvalidInput("The model has no processor for audio. Pass a speech model.")
    return rate


def effect(values: np.ndarray) -> dict[str, Any]:
    """Summarise effects by mean, interval, p-value and number of positive effects.

    By chance, half of the effects would be positive.
    """
    numbers = values[~np.isnan(values)]
    low, high = interval_of(numbers)
    return {
        "texts": len(numbers),
        "mean": float(numbers.mean()) if len(numbers) else math.nan,
        "low": low,
        "high": high,
        "positive": int((numbers > 0).sum()),
        "p": difference_p(numbers, np.zeros_like(numbers)),
    }


def is_positive(summary: Mapping[str, Any]) -> bool | None:
    """Return whether the mean effect is positive.

    The result is None if the effect is not significant in a sign-flip test.
    """
    return None if not summary["p"] < 0.05 else bool(summary["mean"] > 0)


def in_words(summary: Mapping[str, Any]) -> str:
    """Describe an effect in words."""
    p = "p < 0.001" if summary["p"] < 0.0005 else f"p = {summary['p']:.3f}"
    return (
        f"mean {summary['mean']:.3g} ({summary['low']:.3g} to {summary['high']:.3g}); positive for"
        f" {summary['positive']} of {summary['texts']} texts (chance: {summary['texts'] / 2:g});"
        f" {p}"
    )
