"""Cut one text out of a batch of scores, without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mixlens.contracts import Request, Scores
from mixlens.maps.target_row import frozen
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


def target_tokens(
    recording: Recording, request: Request, scores: Scores, row: int
) -> tuple[TokenRow, tuple[int, ...]]:
    """All targets of a row, and the positions of those that were measured.

    Explained outputs are not tokens of the text. They count as special, so that they never merge
    into a word.
    """
    if scores.target_labels is not None:
        count = int(scores.values.shape[-2])
        labels = list(scores.target_labels)
        if count == 1:  # one explained output for each row of the batch
            labels = [labels[row if len(labels) > 1 else 0]]
        return TokenRow(tuple(labels), special=(True,) * count), tuple(range(count))
    targets = recording.named_targets(request.site, row)
    return targets, (
        tuple(range(len(targets))) if request.targets is None else tuple(request.targets[row])
    )


def without_padding(
    tensor: Tensor, row: int, dims: Sequence[str], sizes: Mapping[str, int]
) -> np.ndarray:
    """One row of [layer, batch, *dims]: axes with a size are cut to it, half precision is widened
    to float32.
    """
    index = (slice(None), row, *(slice(sizes.get(dim)) for dim in dims))
    values = tensor[index].detach()
    half = values.is_floating_point() and values.element_size() < 4
    kind = torch.empty(0, dtype=torch.float32 if half else values.dtype).numpy().dtype
    own = np.empty(values.shape, kind)  # a view would keep the whole batch alive
    torch.from_numpy(own).copy_(values)
    return frozen(own)
