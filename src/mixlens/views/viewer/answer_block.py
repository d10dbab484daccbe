"""Describe an answer for the viewer: its words, the documents, and the scores of words, sentences
and documents by each method.

A word of a document is a run of non-blank characters, and JavaScript finds words by the same rule.
For words, only the largest scores are stored, so that a page with many documents stays small. For
documents, all scores are stored. The rows of a table are the tokens of the answer, then its
sentences, then the whole answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.maps.tables import well_formed
from mixlens.measures import list_measures
from mixlens.views.viewer import packing
from mixlens.views.viewer.text import patch_tokens

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer
    from mixlens.answers.answer_parts import AnswerPart
    from mixlens.answers.method_scores import MethodScores

WORD = re.compile(r"[^ \t\n\r]+")  # web/src/answered.ts has the same rule
ROOM = 4_800_000  # characters of the scores of all methods
COMPARISON = "compared in the leaderboard, Which passages does an answer rest on?"
KINDS = (
    "document",
    "question",
    "system prompt",
    "earlier turns",
    "template",
    "own words",
    "first token",
)


def answer_block(answer: Answer, room: int = ROOM) -> dict[str, Any]:
    """Return the part of a payload that describes an answer.

    Without the texts, the part has about `room` characters.
    """
    owner = _word_of_tokens(answer)
    patches = sorted(patch_tokens(answer.source_row))
    each = room // ((3 if patches else 2) * len(answer.methods))
    return {
        "words": [_part(part) for part in answer.words],
        "sentences": [_part(part) for part in answer.sentences],
        "pieces": _pieces(answer),
        "blocks": _blocks(answer),
        "kinds": [kind for kind in KINDS if kind in answer.kinds],
        "uses_template": answer.uses_template,
        "citations": {name: _citations(answer, name) for name in answer.methods},
        "patches": patches,
        "methods": [
            _method(answer, scores, owner, patches, each) for scores in answer.methods.values()
        ],
        "provenance": answer.provenance,
    }


def _part(part: AnswerPart) -> dict[str, Any]:
    return {"text": well_formed(part.text), "first": part.first, "stop": part.stop}


def _pieces(answer: Answer) -> list[list[Any]]:
    """Return the text of the answer as pieces in order.

    Each piece is [text, number of the word or -1, number of the sentence or -1].
    """
    fragments: list[list[Any]] = []
    end = 0
    for number, word in enumerate(answer.words):
        if word.start > end:
            fragments.append([well_formed(answer.text[end : word.start]), -1, -1])
        sentence = next(
            (i for i, part in enumerate(answer.sentences) if part.first <= word.first < part.stop),
            -1,
        )
        fragments.append(
            [well_formed(answer.text[max(word.start, end) : word.end]), number, sentence]
        )
        end = max(end, word.end)
    if answer.text[end:]:
        fragments.append([well_formed(answer.text[end:]), -1, -1])
    return fragments


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    """Return the parts of the prompt in order.

    Each part has pieces [text, number of the passage or -1]. Only documents have passages.
    """
    documents = list(answer.documents)
    blocks = []
    for part in answer.parts:
        text = answer.prompt[part.start : part.stop]
        fragments: list[list[Any]] = [[well_formed(text), -1]]
        if part.kind == "document":
            fragments, end = [], part.start
            for number, passage in enumerate(answer.passages):
                if not part.start <= passage.start < part.stop:
                    continue
                if passage.start > end:
                    fragments.append([well_formed(answer.prompt[end : passage.start]), -1])
                fragments.append([well_formed(answer.prompt[passage.start : passage.stop]), number])
                end = passage.stop
        number = documents.index(part.name) if part.kind == "document" else -1
        name = well_formed(part.name)
        blocks.append({"name": name, "kind": part.kind, "document": number, "pieces": fragments})
    return blocks


def _citations(answer: Answer, method: str) -> list[list[int]]:
    """Return the passages that each sentence cites.

    If the method removes whole documents, the first passage of each cited document is returned.
    """
    starts = {part.start: number for number, part in enumerate(answer.passages)}
    cited = []
    for number in range(len(answer.sentences)):
        ranked = answer.citations(number, method)
        cited.append([_first_passage(starts, each.start, each.stop) for each in ranked])
    return cited


def _first_passage(starts: dict[int, int], start: int, stop: int) -> int:
    return next(starts[place] for place in sorted(starts) if start <= place < stop)


# ------------------------------------------------------------------------------------------- scores


def _word_of_tokens(answer: Answer) -> np.ndarray:
    """Return the index of the document word to which each source token belongs, or -1.

    Words are numbered across all passages. The last entry of the result is the number of words.
    """
    owner = answer.owners["sentences"]
    words, count = [], 0
    for part in answer.passages:
        starts = [match.start() for match in WORD.finditer(answer.prompt[part.start : part.stop])]
        words.append((count, part.start, starts))
        count += len(starts)
    assert answer.source_row.offsets is not None
    of_token = np.full(len(owner), -1)
    for token, passage in enumerate(owner):
        if passage >= 0:
            first, start, starts = words[passage]
            start_of, stop = answer.source_row.offsets[token]
            piece = answer.prompt[start_of:stop]
            place = start_of + len(piece) - len(piece.lstrip()) - start
            number = bisect_right(starts, place) - 1
            of_token[token] = first + max(number, 0)
    return np.append(of_token, count)  # the last entry is the number of words


def _method(
    answer: Answer, scores: MethodScores, owner: np.ndarray, patches: list[int], room: int
) -> dict[str, Any]:
    spec = list_measures().get(scores.name)
    about = {
        "name": scores.name,
        "reading": scores.reading,
        "removes": scores.removes,
        "citation": "; ".join(["" if spec is None else spec.citation, COMPARISON]).strip("; "),
        "passages": None,
        "words": None,
        "kinds": None,
        "patches": None,
    }
    documents, passages = len(answer.documents), len(answer.passages)
    values = np.concatenate([scores.values, scores.parts]).astype(np.float64)
    if scores.removes:
        is_whole = documents > 1
        merged = values if is_whole else values.sum(1, keepdims=True)
        about["documents"] = table_of(merged, None)
        about["passages"] = None if is_whole else table_of(values, None)
        return about
    about["documents"] = table_of(_sum_groups(values, answer.owners["documents"], documents), None)
    about["passages"] = table_of(_sum_groups(values, answer.owners["sentences"], passages), room)
    about["words"] = table_of(_sum_groups(values, owner[:-1], int(owner[-1])), room)
    if patches:
        about["patches"] = table_of(values[:, patches], room)
    kinds = [kind for kind in KINDS if kind in answer.kinds]
    places = np.array([kinds.index(kind) for kind in answer.kinds])
    about["kinds"] = table_of(_sum_groups(np.abs(values), places, len(kinds)), None)
    return about


def _sum_groups(values: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """Sum columns by group. Columns of group -1 are left out."""
    inside = owner >= 0
    return np.stack([np.bincount(owner[inside], row[inside], count) for row in values])


def table_of(values: np.ndarray, room: int | None) -> dict[str, Any]:
    """Encode a table [target, column] as normalised scores and row sums.

    If the table has more than about `room` characters, only the largest scores of each row are
    stored.
    """
    is_small = room is None or packing.written_size(values.shape) <= room
    packed = packing.whole(values[None]) if is_small else packing.largest_of_rows(values, room or 0)
    return {"shares": packed, "totals": packing.totals(values[None])}
