"""Group texts of similar length into batches that fit into memory.

The bound is on an estimate of what a batch holds at once, and the estimate depends on the model and
the lengths alone. The same texts under the same bound are therefore always cut the same way, and
give the same bits. A batch that does not fit after all is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from mixlens.errors import InvalidInput
from mixlens.measuring.estimates import Shape
from mixlens.model.placement import entry_device, is_out_of_memory
from mixlens.text.encoding import tokenized, tokenized_batch

if TYPE_CHECKING:
    from torch import nn

Item = TypeVar("Item")

BATCH_BYTES = {"cpu": 2**30}
BATCH_BYTES_ELSEWHERE = 2**33  # a GPU is slow on small batches
MOST_TOKENS = {"cpu": 4096}  # more at once is not faster on a CPU
MOST_TOKENS_ELSEWHERE = 65_536
ENOUGH_TOKENS = {"cpu": 1024}  # a batch of so many takes no text that would pad it too much
ENOUGH_TOKENS_ELSEWHERE = 32_768  # to start a batch takes a GPU's host longer than some padding
MOST_PADDING = 0.1


def token_counts(tokenizer: Any, texts: Sequence[Any]) -> list[int]:
    """Tokens of each text or pair; one for what is not a text, which the recording will refuse."""
    parts = [part for text in texts for part in _parts(text)]
    try:
        rows = tokenized_batch(tokenizer, len(parts), text=parts)[1] if parts else []
        sizes = [len(row["input_ids"]) for row in rows]
    except (TypeError, ValueError):  # no tokenizer, or something that is not a text
        sizes = [_count(tokenizer, part) for part in parts]
    taken = iter(sizes)
    return [max(1, sum(next(taken) for _ in _parts(text))) for text in texts]


def _parts(text: Any) -> Sequence[Any]:
    return text if isinstance(text, tuple) else (text,)


def _count(tokenizer: Any, part: Any) -> int:
    try:
        return len(tokenized(tokenizer, part)["input_ids"]) if isinstance(part, str) else 1
    except (TypeError, ValueError):  # half of a character: the recording says what is wrong
        return 1


def text_bytes(shape: Shape, length: int, *, logits: bool = True) -> int:
    """About what one text of this many tokens holds at once, its maps included."""
    words, size = shape.words if logits else 0, shape.number
    states = length * (6 * shape.d_model * shape.layers + 2 * words)
    return size * states + (size * (shape.heads + 2) + 8) * shape.layers * length**2


def batch_bytes(model: nn.Module) -> int:
    """What a batch may hold by default; the same on every machine."""
    return BATCH_BYTES.get(entry_device(model).type, BATCH_BYTES_ELSEWHERE)


def plan_batches(
    lengths: Sequence[int],
    model: nn.Module,
    *,
    memory: int | None = None,
    batch_size: int | None = None,
    logits: bool = True,
) -> list[list[int]]:
    """Places of texts, batch by batch, short texts first; each batch fits `memory` bytes, or has
    `batch_size` texts. `logits`: does anything need them?
    """
    if batch_size is not None and batch_size < 1:
        raise InvalidInput(f"batch_size={batch_size}: a batch has at least one text")
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
    """Measures a batch; if memory runs out, each half of it in turn. `halved` hears of it."""
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
