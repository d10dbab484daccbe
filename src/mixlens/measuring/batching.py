"""Group texts of similar length into batches that fit into memory.

The memory of a batch is estimated from the model and the lengths of the texts alone. With the same
limit, the same texts are therefore always batched in the same way, and the scores are bitwise
identical. A batch that runs out of memory is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from mixlens.errors import InvalidInput
from mixlens.measuring.estimates import Shape
from mixlens.model.placement import entry_device, is_out_of_memory
from mixlens.text.encoding import tokenise_batch, tokenise_checked

if TYPE_CHECKING:
    from torch import nn

Item = TypeVar("Item")

BATCH_BYTES = {"cpu": 2**30}
BATCH_BYTES_ELSEWHERE = 2**33  # a GPU is slow on small batches
MOST_TOKENS = {"cpu": 4096}  # larger batches are not faster on a CPU
MOST_TOKENS_ELSEWHERE = 65_536
ENOUGH_TOKENS = {"cpu": 1024}  # a batch of this size takes no text that would need much padding
ENOUGH_TOKENS_ELSEWHERE = 32_768  # launching a batch takes a GPU's host longer than some padding
MOST_PADDING = 0.1


def token_counts(tokenizer: Any, texts: Sequence[Any]) -> list[int]:
    """Return the number of tokens of each text or pair.

    Other inputs count as one token; the recording rejects them later.
    """
    parts = [part for text in texts for part in _parts(text)]
    try:
        encodings = tokenise_batch(tokenizer, len(parts), text=parts)[1] if parts else []
        sizes = [len(encoding["input_ids"]) for encoding in encodings]
    except (TypeError, ValueError):  # no tokenizer, or not a text
        sizes = [_count(tokenizer, part) for part in parts]
    remaining_sizes = iter(sizes)
    return [max(1, sum(next(remaining_sizes) for _ in _parts(text))) for text in texts]


def _parts(text: Any) -> Sequence[Any]:
    return text if isinstance(text, tuple) else (text,)


def _count(tokenizer: Any, part: Any) -> int:
    try:
        return len(tokenise_checked(tokenizer, part)["input_ids"]) if isinstance(part, str) else 1
    except (TypeError, ValueError):  # a lone surrogate: the recording reports it
        return 1


def text_bytes(shape: Shape, length: int, *, logits: bool = True) -> int:
    """Return the approximate memory, in bytes, of one text of `length` tokens, including its
    maps.
    """
    words, size = shape.words if logits else 0, shape.number
    states = length * (6 * shape.d_model * shape.layers + 2 * words)
    return size * states + (size * (shape.heads + 2) + 8) * shape.layers * length**2


def batch_bytes(model: nn.Module) -> int:
    """Return the default memory limit of a batch in bytes. It depends only on the device type."""
    return BATCH_BYTES.get(entry_device(model).type, BATCH_BYTES_ELSEWHERE)


def plan_batches(
    lengths: Sequence[int],
    model: nn.Module,
    *,
    memory: int | None = None,
    batch_size: int | None = None,
    logits: bool = True,
) -> list[list[int]]:
    """Return the indices of the texts of each batch, short texts first.

    Each batch fits into `memory` bytes, or has `batch_size` texts if that is set. Set `logits` if
    the measure needs the model's logits, so that their memory is included.
    """
    if batch_size is not None and (not isinstance(batch_size, Integral) or batch_size < 1):
        raise InvalidInput(f"batch_size={batch_size!r} is out of range. Pass at least 1.")
    memory = batch_bytes(model) if memory is None else memory
    shape, device = Shape.of(model), entry_device(model).type
    most_tokens = MOST_TOKENS.get(device, MOST_TOKENS_ELSEWHERE)
    enough_tokens = ENOUGH_TOKENS.get(device, ENOUGH_TOKENS_ELSEWHERE)
    batches: list[list[int]] = []
    tokens = 0  # of the last batch
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, now = lengths[place], batches[-1] if batches else []
        count = len(now) + 1
        if batch_size is not None:
            fits = count <= batch_size
        else:
            size = text_bytes(shape, length, logits=logits)
            padding = 1 - (tokens + length) / (count * length)
            fits = count * length <= most_tokens and count * size <= memory
            fits = fits and (tokens < enough_tokens or padding <= MOST_PADDING)
        if now and fits:
            now.append(place)
            tokens += length
        else:
            batches.append([place])
            tokens = length
    return batches


def halve_until_it_fits(
    measure: Callable[[list[int]], list[Item]],
    places: list[int],
    halved: Callable[[list[int]], None] | None = None,
) -> list[Item]:
    """Measure a batch. If memory runs out, call `halved` and measure the two halves one after the
    other.
    """
    try:
        return measure(places)
    except Exception as error:
        if len(places) == 1 or not is_out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if halved is not None:
        halved(places)
    middle = len(places) // 2
    return [
        *halve_until_it_fits(measure, places[:middle], halved),
        *halve_until_it_fits(measure, places[middle:], halved),
    ]
