"""Convert maps of generated text to an `Answer`, which the viewer shows next to the maps.

Documents, turns of a chat and the answer are read from the segments of the source tokens. A prompt
without segments is treated as one document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mixlens.answers.answer import Answer
from mixlens.answers.answer_parts import AnswerPart, first_character, split_sentences, split_words
from mixlens.answers.method_scores import MethodScores, scores_of_maps
from mixlens.answers.prompt_parts import (
    DOCUMENT,
    EARLIER,
    QUESTION,
    QUESTIONS,
    SYSTEM,
    TEMPLATE,
    PromptPart,
    split_documents,
)
from mixlens.text.segments import ANSWER, CHAT, OTHER, PROMPT
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

_TURNS = ("user", "assistant", "system", "tool")


def answer_of_maps(candidates: Sequence[MixingMaps]) -> Answer | None:
    """Return the answer whose tokens are the targets of the maps. Return None if the targets are
    not the tokens of one answer after a prompt.
    """
    maps = [each for each in candidates if not each.per_head]
    if not maps or not all(_explains_answer(each, maps[0]) for each in maps):
        return None
    target_tokens, positions = maps[0].target_row, maps[0].target_positions
    source_row = maps[0].source_row
    parts = _parts(source_row)
    assert target_tokens.text is not None
    assert target_tokens.offsets is not None
    shift = max([0, *(stop for _, stop in target_tokens.offsets[: positions[0]])])
    end = max(target_tokens.offsets[place][1] for place in positions)
    text = target_tokens.text[shift:end]
    if parts is None or not text.strip():
        return None
    assert source_row.text is not None
    last = positions[-1] + 1
    offsets = tuple((a - shift, b - shift) for a, b in target_tokens.offsets[positions[0] : last])
    target_row = TokenRow(target_tokens.labels[positions[0] : last], text, offsets)
    prompt = source_row.text[: max(part.stop for part in parts)]
    sentences = split_sentences(text, offsets)
    return Answer(
        text=text,
        prompt=prompt,
        parts=tuple(parts),
        passages=tuple(split_documents(prompt, parts)),
        sentences=sentences,
        words=split_words(target_tokens, positions, text, shift),
        methods={
            str(method_maps.provenance["measure"]): _scores(method_maps, sentences)
            for method_maps in maps
        },
        uses_template=False,
        source_row=source_row,
        target_row=target_row,
        has_sink=maps[0].facts.same_tokens,
        provenance={key: maps[0].provenance.get(key) for key in ("model", "name", "dtype", "site")},
    )


def _scores(maps: MixingMaps, sentences: Sequence[AnswerPart]) -> MethodScores:
    name, values = str(maps.provenance["measure"]), scores_of_maps(maps)
    return MethodScores.of_tokens(name, values, sentences, removes=False, reading=maps.reading.name)


def _explains_answer(maps: MixingMaps, first: MixingMaps) -> bool:
    places = list(maps.target_positions)
    token_rows = (maps.source_row, maps.target_row)
    return (
        maps.provenance.get("target_names") == "the token produced"
        and not maps.provenance.get("steps")
        and all(tokens.text is not None and tokens.offsets is not None for tokens in token_rows)
        and maps.source_row.segments is not None
        and bool(places)
        and places == list(range(places[0], places[-1] + 1))
        and (*token_rows, maps.target_positions)
        == (first.source_row, first.target_row, first.target_positions)
    )


def _parts(row: TokenRow) -> list[PromptPart] | None:
    """Return the parts of a prompt, one per segment, or None if two documents have the same
    name.
    """
    assert row.text is not None
    assert row.offsets is not None
    parts: list[PromptPart] = []
    names = {segment.name for segment in row.segments or ()}
    is_chat = any(_turn(name) for name in names)
    users = [segment.name for segment in row.segments or () if _turn(segment.name) == "user"]
    for segment in row.segments or ():
        ranges = [
            place for place in row.offsets[segment.start : segment.stop] if place[0] < place[1]
        ]
        if segment.name == ANSWER or not ranges:
            continue
        start = first_character(row.text, ranges[0])
        stop = max(end for _, end in ranges)
        kind = _kind(segment.name, users[-1:], is_chat=is_chat)
        name = kind if segment.name == OTHER else segment.name
        if not row.text[start:stop].strip():
            continue
        if parts and parts[-1].name == name and segment.name != OTHER:
            parts[-1] = parts[-1]._replace(stop=stop)
        elif start < stop:
            parts.append(PromptPart(name, kind, start, stop))
    if not any(part.kind == DOCUMENT for part in parts):
        parts = [
            part._replace(kind=DOCUMENT) if part.kind in (QUESTION, EARLIER) else part
            for part in parts
        ]
    documents = [part.name for part in parts if part.kind == DOCUMENT]
    return parts if documents and len(set(documents)) == len(documents) else None


def _turn(name: str) -> str | None:
    role = name.partition(" ")[0]
    return role if role in _TURNS else None


def _kind(name: str, last_user: list[str], *, is_chat: bool) -> str:
    if name == OTHER:
        return TEMPLATE if is_chat else QUESTION
    if name in (PROMPT, CHAT):
        return DOCUMENT
    if name in last_user or name.lower() in QUESTIONS:
        return QUESTION
    role = _turn(name)
    return DOCUMENT if role is None else SYSTEM if role == "system" else EARLIER
