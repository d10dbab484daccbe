"""What a language model would say: its likeliest words at the mask, or after the last token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.errors import InvalidInput
from mixlens.explained import explained, logits_of

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


def predicted_words(recording: Recording, top: int = 5) -> list[tuple[str, float]]:
    """Words and their probabilities, likeliest first, for a recording of one text."""
    where = explained(recording).positions
    if where is None or recording.tokenizer is None:
        raise InvalidInput("words are predicted by a language model with a tokenizer")
    probabilities = torch.softmax(logits_of(recording.output)[0, int(where[0])].float(), -1)
    best = probabilities.topk(min(top, len(probabilities)))
    words = recording.tokenizer.convert_ids_to_tokens(best.indices.tolist())
    return [
        (word.lstrip("Ġ▁"), float(share)) for word, share in zip(words, best.values, strict=True)
    ]
