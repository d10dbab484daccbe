"""Define the types of examples.

Positions in a text are character spans (first, one after the last), valid for every tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A text, or a pair of texts.

    `name` is the source of the text (file:line), and `group` is the part of the data that the text
    belongs to, such as a paradigm.
    """

    kind: ClassVar[str] = "text"

    name: str
    text: str
    pair: str | None = None
    group: str | None = None

    @property
    def given(self) -> str | tuple[str, str]:
        """Return the input for a lens: the text, or the pair of texts."""
        return self.text if self.pair is None else (self.text, self.pair)


@dataclass(frozen=True, kw_only=True)
class Agreement(Example):
    """A sentence in which one word, the target, must agree with other words. The model chooses
    between the target and a foil.
    """

    kind: ClassVar[str] = "agreement"

    place: Span  # span of the target in `text`
    foil: str
    cues: tuple[Span, ...] = ()  # spans of the words that decide between target and foil
    label: str | None = None  # such as singular or plural

    @property
    def target(self) -> str:
        """Return the target as it is written in the text."""
        return self.text[slice(*self.place)]


@dataclass(frozen=True, kw_only=True)
class Labelled(Example):
    """A text with the class that a classifier should predict."""

    kind: ClassVar[str] = "classification"

    label: str


@dataclass(frozen=True, kw_only=True)
class Tagged(Example):
    """A text with one tag for each word, such as its part of speech."""

    kind: ClassVar[str] = "tagged"

    words: tuple[Span, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Aligned(Example):
    """A sentence (`source`) and its translation (`target`) as words, with word links (source,
    target; from 0).

    Possible links include the sure ones.
    """

    kind: ClassVar[str] = "alignment"

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class EvidencePrompt(Example):
    """A prompt with several documents and a question, in which some of the documents are known to
    contain the evidence for the answer.
    """

    kind: ClassVar[str] = "evidence"

    documents: tuple[Span, ...]  # of each document in `text`
    evidence: tuple[int, ...]  # numbers of the documents that hold the evidence, from 0
    needles: tuple[Span, ...]  # of the sentences that are the evidence
    answer: str  # as it continues the text, with its leading space
    language: str = "en"


@dataclass(frozen=True, kw_only=True)
class Spoken(Example):
    """A sentence as audio, with the time of every word. An earlier word, the cue, determines the
    spelling of the target.
    """

    kind: ClassVar[str] = "speech"

    audio: bytes = field(repr=False)  # see `speech.waveform`
    words: tuple[Span, ...]  # of each word in `text`
    times: tuple[tuple[float, float], ...]  # of each word, in seconds: start and end
    cue: tuple[int, ...]  # numbers of words, from 0
    target: tuple[int, ...]
    foil: str | None = None  # a different spelling of the target that sounds the same
    other_cue: str | None = None  # the word in place of the cue that asks for the foil
    other_audio: bytes | None = field(default=None, repr=False)  # of the sentence with that word
