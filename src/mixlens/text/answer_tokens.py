"""Find the answer tokens to explain: the whole answer, some of its words, or a range of tokens.

In a causal model or a decoder, position t predicts the token at position t + 1. The token at
position k is therefore explained at position k - 1. The first token of a text cannot be explained,
because no position predicts it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.errors import EmptyInput, InvalidInput
from mixlens.text.tokens import Produced, TokenRow

Answer = bool | str | tuple[int, int]
_SHOWN = 40  # characters of an answer in a label
_HOW = "Pass answer=(first, end), the positions of its tokens."


@dataclass(frozen=True)
class AnswerTokens:
    """Stores the tokens to explain in one text."""

    positions: tuple[int, ...]  # that produced them
    ids: tuple[int, ...]
    prompt: int  # how many tokens are in front of the answer
    name: str


def following_tokens(row: TokenRow, ids: Sequence[int]) -> Produced:
    """Return, for each position of a text, the next token, which the model should predict there."""
    offsets = None if row.offsets is None else row.offsets[1:]
    return Produced(TokenRow(row.labels[1:], row.text, offsets), tuple(ids[1:]))


def is_chosen(value: Any) -> bool:
    """Return whether an answer or a position to explain was passed.

    A comparison with `in (None, False)` would drop position 0, and fail for arrays and tensors.
    """
    return value is not None and value is not False


def answer_for_each(answer: Any, texts: int) -> list[Answer]:
    """Return one answer per text.

    A list must have one entry per text; any other value applies to all texts.
    """
    answers = list(answer) if isinstance(answer, list) else [answer] * texts
    if len(answers) != texts:
        raise InvalidInput(
            f"answer has {len(answers)} entries for {texts} texts. Pass one for each text, or a"
            " tuple (first, end) for all of them."
        )
    return answers


def find_answer(answer: Answer, produced: Produced, *, is_continued: bool) -> AnswerTokens:
    """Return the tokens of one text that `answer` selects.

    Parameters
    ----------
    answer
        True for the whole answer of a continued prompt, words of the answer, or the positions
        (first, end) of tokens of the text.
    produced
        The token that each position of the text produced.
    is_continued
        Whether the text is a prompt with its continuation. If not, words are searched in the whole
        text, and True is not allowed.

    Raises
    ------
    InvalidInput
        If the requested answer is not in the text.
    """
    count = len(produced.ids)
    if isinstance(answer, str):
        positions = _positions_of_words(answer, produced, is_continued)
    elif answer is True:
        if not is_continued:
            raise InvalidInput(
                "answer=True needs a prompt with an answer. Record it with"
                f" lens.generate(prompt, answer=…), or choose a part of this text. {_HOW}"
            )
        positions = range(produced.first, count)
    else:
        first, end = _range(answer, count + 1)
        positions = range(first - 1, end - 1)
    if is_continued:
        _require_own_first_token(produced, positions)
    before = min(positions[0], produced.first) if is_continued else positions[0]
    ids = tuple(produced.ids[position] for position in positions)
    return AnswerTokens(tuple(positions), ids, before + 1, _name(produced, positions))


def _range(answer: Any, tokens: int) -> tuple[int, int]:
    """Return the first position of an answer and the position after its last token. Raise an error
    if they are invalid.
    """
    try:
        if isinstance(answer, (str, bool, set, frozenset)) or len(answer) != 2:
            raise TypeError
        if any(isinstance(place, bool) for place in answer):
            raise TypeError
        first, end = (operator.index(place) for place in answer)
    except TypeError:
        raise InvalidInput(
            f"answer={answer!r} is not an answer. Pass True, words of the answer, or (first, end)."
        ) from None
    if end == first:
        raise EmptyInput(f"answer=({first}, {end}) is empty. Pass at least one token.")
    if first < 1 or end > tokens or end < first:
        reason = " No position predicts the first token." if first == 0 else ""
        raise InvalidInput(
            f"answer=({first}, {end}) is out of range.{reason} The text has {tokens} tokens, so"
            f" 1 ≤ first < end ≤ {tokens}."
        )
    return first, end


def _positions_of_words(words: str, produced: Produced, is_continued: bool) -> range:
    """Return the positions that predict these words. The words must occur exactly once."""
    if not words.strip():
        raise EmptyInput(f"answer={words!r} is empty. Pass at least one word.")
    text, offsets = produced.tokens.text, produced.tokens.offsets
    if text is None or offsets is None:
        raise InvalidInput(
            f"answer={words!r}: the tokenizer does not report which characters a token covers."
            f" {_HOW}"
        )
    first = produced.first if is_continued else 0
    begins = min((start for start, stop in offsets[first:] if stop > start), default=len(text))
    places = _occurrences(words, text, begins)
    where = "the answer" if is_continued else "the text"
    if not places:
        answer_text = text[begins:].strip()
        raise InvalidInput(f"{words!r} does not occur in {where} ({_short(answer_text)!r}). {_HOW}")
    if len(places) > 1:
        raise InvalidInput(
            f"{words!r} occurs {len(places)} times in {where}. Include more of the surrounding"
            f" words, or pass '{words}#2' for the second occurrence."
        )
    start, stop = places[0]
    inside = [
        position
        for position in range(first, len(offsets))
        if offsets[position][0] < stop and offsets[position][1] > start
    ]
    if not inside:
        raise InvalidInput(
            f"{words!r} is the first token of the text, which no position predicts. Choose a"
            " later word."
        )
    return range(inside[0], inside[-1] + 1)


def _occurrences(words: str, text: str, begins: int) -> list[tuple[int, int]]:
    """Return the character span of each occurrence of `words`.

    Matches inside longer words count only if no whole word matches. For `words#2`, return the
    second occurrence.
    """
    exact = re.escape(words.strip())
    for pattern in (rf"(?<!\w){exact}(?!\w)", exact):
        places = [match.span() for match in re.compile(pattern).finditer(text, begins)]
        if places:
            return places
    numbered = re.fullmatch(r"(.+)#([1-9]\d{0,8})", words, re.DOTALL)
    if numbered is None:
        return []
    number = int(numbered[2])
    return _occurrences(numbered[1], text, begins)[number - 1 : number]


def _require_own_first_token(produced: Produced, positions: Sequence[int]) -> None:
    if produced.merges and produced.first in positions:
        label = produced.tokens.labels[produced.first]
        raise InvalidInput(
            f"{label!r} covers the end of the prompt and the beginning of the answer, so its score"
            " would mix both. Begin the answer at a token boundary, for example with a space."
        )


def _name(produced: Produced, positions: Sequence[int]) -> str:
    """Return a label for these tokens in results: their text, or their positions if the text is
    unknown.
    """
    text, offsets = produced.tokens.text, produced.tokens.offsets
    if text is not None and offsets is not None:
        spans = [offsets[position] for position in positions]
        spans = [span for span in spans if span[1] > span[0]]
        if spans:
            return f"answer {_short(text[spans[0][0] : spans[-1][1]].strip())!r}"
    first, last = positions[0] + 1, positions[-1] + 1
    return f"answer {first}" if first == last else f"answer {first}–{last}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
