"""Tokenise a sentence and its translation word by word for an encoder-decoder model.

Each word is tokenised separately, which shows which pieces belong to which word. The tokenizer's
special tokens are added around the sentence. The decoder reads the gold translation (teacher
forcing). Position 0 of the decoder is the start token. If the decoder reads a piece at position i,
it predicts this piece at position i - 1.
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
    """Tensors for the model, and the token range of each word in the inputs of encoder and
    decoder.
    """

    tensors: dict[str, Any]
    source: tuple[Range, ...]
    target: tuple[Range, ...]
    produced: tuple[int, ...]  # the token that each decoder position should produce


def word_inputs(lens: Lens, example: Aligned) -> WordInputs:
    """Return the model inputs of a sentence pair, with the token range of each word."""
    if lens.tokenizer is None:
        raise MissingTokenizer("Word alignments need a tokenizer. Add one to the model.")
    if not getattr(lens.model.config, "is_encoder_decoder", False):
        raise InvalidInput(
            "The model has no cross-attention, which word alignments need. Use an "
            "encoder-decoder model."
        )
    ids, source = _side(lens.tokenizer, example.source, "text")
    target_ids, target = _side(lens.tokenizer, example.target, "text_target")
    last = target[-1][1]
    if len(target_ids) == last:  # the end token is produced, but never consumed
        target_ids.append(_end_mark(lens.tokenizer))
    produced = target_ids[: last + 1]
    tensors = {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        "labels": torch.tensor(
            [produced]
        ),  # the recording adds the start token and drops the last one
    }
    return WordInputs(tensors, source, tuple((a + 1, b + 1) for a, b in target), tuple(produced))


def _end_mark(tokenizer: Any) -> int:
    number = getattr(tokenizer, "eos_token_id", None)
    if not isinstance(number, int):
        raise InvalidInput(
            "The tokenizer adds no token after the translation and has no eos_token. Set its "
            "eos_token."
        )
    return number


def _side(tokenizer: Any, words: Sequence[str], side: str) -> tuple[list[int], tuple[Range, ...]]:
    """Return the token ids of a sentence with special tokens, and the token range of each word."""
    if not words:
        raise InvalidInput("One side of the pair has no word. Use pairs of non-empty sentences.")
    before, after, blank = _frame(tokenizer, side)
    words_with_blanks = [words[0], *(blank + word for word in words[1:])]
    tokenised = tokenizer(**{side: words_with_blanks}, add_special_tokens=False)["input_ids"]
    for word, tokens in zip(words, tokenised, strict=True):
        if not tokens:
            raise InvalidInput(
                f"The tokenizer returns no token for the word {word!r}. Remove it from the pair."
            )
    bounds = accumulate(map(len, tokenised), initial=len(before))
    return [*before, *(piece for word in tokenised for piece in word), *after], tuple(
        pairwise(bounds)
    )


def _frame(tokenizer: Any, side: str) -> tuple[list[int], list[int], str]:
    """Return the special tokens before and after a text, and the prefix of a word inside a text.

    The prefix is a space if the tokenizer is byte-level, and empty otherwise.
    """
    whole = tokenizer(**{side: "a"})["input_ids"]
    bare = tokenizer(**{side: "a"}, add_special_tokens=False)["input_ids"]
    starts = [i for i in range(len(whole) - len(bare) + 1) if whole[i : i + len(bare)] == bare]
    if not bare or not starts:
        raise InvalidInput(
            "The special tokens of this tokenizer are unknown, because it splits a text "
            "differently without them. Use a different tokenizer."
        )
    start = starts[0]
    inside = tokenizer(**{side: " a"}, add_special_tokens=False)["input_ids"]
    byte_level = str(tokenizer.convert_ids_to_tokens(inside)[0]).startswith("Ġ")
    return whole[:start], whole[start + len(bare) :], " " if byte_level else ""
