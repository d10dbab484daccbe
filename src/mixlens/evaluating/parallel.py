"""A sentence and its translation given to an encoder-decoder model word by word.

Each word is tokenised on its own, so that its pieces are known; the tokenizer's special tokens go
around them. The decoder is fed the gold translation (teacher forcing): its row 0 is the start
token, and the row of a piece is the step that consumes it. The row before produces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import torch

from mixlens.errors import InvalidInput, MissingTokenizer

if TYPE_CHECKING:
    from mixlens.datasets.examples import Aligned
    from mixlens.lens import Lens

Range = tuple[int, int]


@dataclass(frozen=True)
class WordInputs:
    """Tensors for the model, and the token range of each word on both sides (of the decoder's
    input).
    """

    tensors: dict[str, Any]
    source: tuple[Range, ...]
    target: tuple[Range, ...]
    produced: tuple[int, ...]  # the token that each row of the decoder is to produce


def word_inputs(lens: Lens, example: Aligned) -> WordInputs:
    """The inputs of a pair, and which tokens make up each of its words."""
    if lens.tokenizer is None:
        raise MissingTokenizer(
            "words need a tokenizer, and the model came without one: give it one"
        )
    if not getattr(lens.model.config, "is_encoder_decoder", False):
        raise InvalidInput(
            "word alignments are read from cross-attention: an encoder-decoder model is needed"
        )
    ids, source = _side(lens.tokenizer, example.source, "text")
    wanted, target = _side(lens.tokenizer, example.target, "text_target")
    last = target[-1][1]
    if len(wanted) == last:  # the end mark closes what is produced; it is never consumed
        wanted.append(_end_mark(lens.tokenizer))
    produced = wanted[: last + 1]
    tensors = {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        "labels": torch.tensor(
            [produced]
        ),  # the recording puts the start token before them and leaves the last one out
    }
    return WordInputs(tensors, source, tuple((a + 1, b + 1) for a, b in target), tuple(produced))


def _end_mark(tokenizer: Any) -> int:
    number = getattr(tokenizer, "eos_token_id", None)
    if not isinstance(number, int):
        raise InvalidInput(
            "the tokenizer puts nothing after the translation and names no eos_token"
        )
    return number


def _side(tokenizer: Any, words: Sequence[str], side: str) -> tuple[list[int], tuple[Range, ...]]:
    """Token ids with the special tokens around them, and the range of each word."""
    if not words:
        raise InvalidInput("a side of the pair has no word")
    before, after, blank = _frame(tokenizer, side)
    spelled = [words[0], *(blank + word for word in words[1:])]
    tokenised = tokenizer(**{side: spelled}, add_special_tokens=False)["input_ids"]
    for word, tokens in zip(words, tokenised, strict=True):
        if not tokens:
            raise InvalidInput(f"the tokenizer makes no token of the word {word!r}")
    bounds = accumulate(map(len, tokenised), initial=len(before))
    return [*before, *(piece for word in tokenised for piece in word), *after], tuple(
        pairwise(bounds)
    )


def _frame(tokenizer: Any, side: str) -> tuple[list[int], list[int], str]:
    """The special tokens before and after a text, and what comes before a word inside a text (a
    blank, if it is part of the word).
    """
    whole = tokenizer(**{side: "a"})["input_ids"]
    bare = tokenizer(**{side: "a"}, add_special_tokens=False)["input_ids"]
    starts = [i for i in range(len(whole) - len(bare) + 1) if whole[i : i + len(bare)] == bare]
    if not bare or not starts:
        raise InvalidInput(
            "the tokenizer cannot be asked for its special tokens: it makes other pieces of a text"
            " without them"
        )
    start = starts[0]
    inside = tokenizer(**{side: " a"}, add_special_tokens=False)["input_ids"]
    byte_level = str(tokenizer.convert_ids_to_tokens(inside)[0]).startswith("Ġ")
    return whole[:start], whole[start + len(bare) :], " " if byte_level else ""
