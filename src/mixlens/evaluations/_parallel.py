"""A sentence and its translation given to an encoder-decoder model word by word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixlens.corpus.examples import Aligned
    from mixlens.lens import Lens


@dataclass(frozen=True)
class WordInputs:
    """Tensors for the model, and the token range of each word on both sides (of the decoder's input)."""

    tensors: dict[str, Any]
    source: tuple[tuple[int, int], ...]
    target: tuple[tuple[int, int], ...]


def word_inputs(lens: Lens, example: Aligned) -> WordInputs:
    raise NotImplementedError
