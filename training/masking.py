"""Choose the tokens to mask.

Running text hides about a fifth of its tokens, words that carry number (is, these, himself, verbs
in either form) three times as readily as others. Sentences, generated ones above all, often hide
one word that agreement fixes and nothing else: what a reader of the model will ask of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .vocabulary import MASK_ID

FIRST_WORD_ID = MASK_ID + 1
IGNORED = -100


@dataclass
class MaskedBatch:
    """Model inputs, the positions to predict in each row, and what was there (IGNORED if
    nothing is asked).
    """

    inputs: Tensor
    positions: Tensor
    labels: Tensor


def _hide(
    ids: Tensor, keys: Tensor, limit: Tensor, count: int, sure: Tensor, vocabulary: int
) -> MaskedBatch:
    """Hides in each row the `limit` tokens with the highest keys (below zero: never)."""
    count = min(count, ids.shape[1])
    top, positions = keys.topk(count, dim=1)
    is_hidden = (top > 0) & (torch.arange(count, device=ids.device)[None] < limit[:, None])
    labels = torch.where(is_hidden, ids.gather(1, positions), IGNORED)
    draw = torch.rand(positions.shape, device=ids.device)
    certain = sure.gather(1, positions)
    originals = ids.gather(1, positions)
    random_ids = torch.randint(FIRST_WORD_ID, vocabulary, positions.shape, device=ids.device)
    hidden = torch.where(
        (draw < 0.85) | certain, MASK_ID, torch.where(draw < 0.90, random_ids, originals)
    )
    inputs = ids.scatter(1, positions, torch.where(is_hidden, hidden, originals))
    return MaskedBatch(inputs, positions, labels)


def mask_text(ids: Tensor, weights: Tensor, rate: float = 0.2) -> MaskedBatch:
    """Hides a share of each row, drawn without replacement by the weight of each token of the
    vocabulary.
    """
    ids = ids.long()
    words = ids >= FIRST_WORD_ID
    keys = torch.rand(ids.shape, device=ids.device).pow(1 / weights[ids])
    keys = torch.where(words, keys, -1.0)
    limit = (words.sum(1) * rate).ceil()
    count = int(ids.shape[1] * rate) + 1
    return _hide(ids, keys, limit, count, torch.zeros_like(words), len(weights))


def mask_aimed(
    ids: Tensor, targets: Tensor, weights: Tensor, *, alone: float, with_target: float
) -> MaskedBatch:
    """Hides one target alone (a share `alone` of the rows), one target and a few others (up to
    `with_target`), or else a fifth of the words as in running text.
    """
    ids = ids.long()
    words = ids >= FIRST_WORD_ID
    length = words.sum(1)
    keys = torch.where(words, torch.rand(ids.shape, device=ids.device).pow(1 / weights[ids]), -1.0)
    draw = torch.rand(len(ids), device=ids.device)
    pick = (torch.rand(ids.shape, device=ids.device) * targets).argmax(1, keepdim=True)
    aimed = targets.any(1) & (draw < with_target)
    sure = torch.zeros_like(words).scatter(1, pick, aimed[:, None])
    keys = keys + 10.0 * sure
    limit = torch.where(
        aimed & (draw < alone),
        1.0,
        torch.where(aimed, 1 + (length * 0.12).ceil(), (length * 0.2).ceil()),
    )
    return _hide(ids, keys, limit, int(ids.shape[1] * 0.2) + 1, sure, len(weights))
