"""Speak sentences whose target word is a homophone. An earlier word, the cue, determines the
spelling of the target.

`generated:homophones` speaks the sentences below with eSpeak NG. Options: `language=en` (default)
or `fr`, `count=` and `seed=` (a random choice of sentences), `speed=` (words per minute).

Every sentence template has two cues, each a separate word, and a list of target pairs such as
hear/here. A pair results in two sentences, one for each cue. The two spellings in a pair have the
same phonemes, so only the cue tells them apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from mixlens.datasets import speech
from mixlens.datasets.espeak import Utterance, speak
from mixlens.datasets.examples import Span, Spoken
from mixlens.errors import InvalidInput

_ADDRESS = "generated:homophones"
SPEED = 140
VOICES = {"en": "en-us", "fr": "fr"}


@dataclass(frozen=True)
class Frame:
    """A sentence template, its two cues, and pairs of target spellings. The first spelling in a
    pair belongs to the first cue, the second one to the second cue.
    """

    name: str
    text: str
    cues: tuple[str, str]
    targets: tuple[tuple[str, str], ...]


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (pair.split("/") for pair in text.split())
    return tuple((one, other) for one, other in pairs)


FRAMES = {
    "en": (
        Frame(
            "will_are",
            "They {cue} always {target}.",
            ("will", "are"),
            _pairs(
                "hear/here write/right board/bored find/fined mind/mined build/billed grate/great"
                " fare/fair trust/trussed paste/paced wade/weighed band/banned meet/meat pray/prey"
                " tide/tied bust/bussed"
            ),
        ),
        Frame(
            "to_the",
            "They have {cue} {target}.",
            ("to", "the"),
            _pairs(
                "see/sea sell/cell wait/weight steal/steel flee/flea stare/stair heal/heel"
                " wear/ware beat/beet shoot/chute write/rite meet/meat pray/prey bury/berry"
                " peek/peak sew/sow"
            ),
        ),
    ),
    "fr": (
        Frame(
            "le_les",
            "Je regarde {cue} {target}.",
            ("le", "les"),
            _pairs(
                "livre/livres jardin/jardins chien/chiens chat/chats garçon/garçons train/trains"
                " lac/lacs mur/murs pont/ponts village/villages vase/vases marché/marchés"
                " musée/musées"
            ),
        ),
        Frame(
            "il_ils",
            "Ici {cue} {target} beaucoup.",
            ("il", "ils"),
            _pairs(
                "chante/chantent parle/parlent danse/dansent marche/marchent mange/mangent"
                " cherche/cherchent travaille/travaillent porte/portent pleure/pleurent"
                " dessine/dessinent compte/comptent passe/passent"
            ),
        ),
    ),
}


def recognises(address: str) -> bool:
    """Return whether an address refers to spoken homophones."""
    return address.partition("?")[0] == _ADDRESS


def read(address: str) -> list[Spoken]:
    """Generate the sentences that an address such as `generated:homophones?language=fr&count=10`
    describes.
    """
    options = {"language": "en", "count": "", "seed": "0", "speed": str(SPEED)}
    for key, value in parse_qsl(address.partition("?")[2], keep_blank_values=True):
        valid = value in VOICES if key == "language" else value.isdecimal()
        if key not in options or not valid:
            raise InvalidInput(
                f"{key}={value} in {address!r} is not an option of spoken homophones. Use count=,"
                f" seed=, speed= (whole numbers) and language= ({', '.join(VOICES)})."
            )
        options[key] = value
    speed = int(options["speed"])
    if not 80 <= speed <= 450:
        raise InvalidInput(f"speed={speed} is out of range (80–450 words per minute).")
    drafts = list(_sentences(options["language"]))
    if options["count"]:
        random.Random(int(options["seed"])).shuffle(drafts)
        drafts = drafts[: int(options["count"])]
    texts = [
        frame.text.format(cue=frame.cues[number], target=pair[number])
        for frame, pair, cue in drafts
        for number in (cue, 1 - cue)
    ]
    spoken = speak(texts, VOICES[options["language"]], speed)
    return [
        _example(*sentence, text, one, other)
        for sentence, text, one, other in zip(
            drafts, texts[::2], spoken[::2], spoken[1::2], strict=True
        )
    ]


def _sentences(language: str) -> Iterator[tuple[Frame, tuple[str, str], int]]:
    for frame in FRAMES[language]:
        for pair in frame.targets:
            yield from ((frame, pair, cue) for cue in (0, 1))


def _example(
    frame: Frame,
    pair: tuple[str, str],
    cue: int,
    text: str,
    utterance: Utterance,
    other: Utterance,
) -> Spoken:
    spans, parts = _spans(text), frame.text.split()
    return Spoken(
        name=f"{frame.name}:{frame.cues[cue]} {pair[cue]}",
        text=text,
        group=frame.name,
        audio=speech.to_bytes(utterance.samples, utterance.rate),
        words=spans,
        times=_times(utterance, spans),
        cue=(parts.index("{cue}"),),
        target=tuple(number for number, part in enumerate(parts) if "{target}" in part),
        foil=pair[1 - cue],
        other_cue=frame.cues[1 - cue],
        other_audio=speech.to_bytes(other.samples, other.rate),
    )


def _spans(text: str) -> tuple[Span, ...]:
    """Return the character span of each word, without the full stop."""
    spans, end = [], 0
    for word in text.rstrip(".").split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return tuple(spans)


def _times(utterance: Utterance, spans: tuple[Span, ...]) -> tuple[tuple[float, float], ...]:
    """Return the start and end time of each word. A word ends where the next one begins."""
    starts = dict(utterance.starts)
    if set(starts) != {first for first, _ in spans}:
        raise InvalidInput(
            "The words that eSpeak NG reports differ from the text. Update eSpeak NG."
        )
    times = [starts[first] for first, _ in spans]
    return tuple(zip(times, [*times[1:], utterance.end], strict=True))
