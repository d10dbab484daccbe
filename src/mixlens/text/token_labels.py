"""Label tokens that are not text: image patches by row and column, audio frames by time.

Patches are labelled only if the number of tokens matches the image, and frames only if the
processor has a sampling rate. Otherwise, the tokens are numbered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from mixlens.errors import InvalidInput
from mixlens.text.padding import row_lengths
from mixlens.text.pictures import pixels_uri
from mixlens.text.tokens import PatchGrid, Picture, Segment, TokenRow

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording
    from mixlens.structure.model_structure import StackStructure
    from mixlens.text.inputs import Prepared

_SECOND_STREAMS = {"entity": "entity_ids", "box": "visual_feats"}  # after words: LUKE, LXMERT
AUDIO, PADDING = "audio", "padding"
_MOST_SPECIAL = 9  # class, distillation and register tokens come before the patches


def token_rows(
    recording: Recording, ready: Prepared, processor: Any = None
) -> dict[str, list[TokenRow]]:
    """Return the tokens of every stack, by the stack's name. If a stack has as many positions as
    the text has tokens, these are the tokens of the text, unless the stack reads a different input.
    Otherwise, the tokens are labelled as patches or frames, or numbered.
    """
    by_stack = {}
    for stack in recording.structure.stacks:
        text_tokens = _text_rows(recording, ready, stack)
        by_stack[stack.name] = text_tokens or _other_rows(recording, ready, stack, processor)
    return by_stack


def _text_rows(
    recording: Recording, ready: Prepared, stack: StackStructure
) -> list[TokenRow] | None:
    if stack.name in recording.ids_read:
        name = recording.ids_read[stack.name]
        tokens_by_input = {"input_ids": ready.rows, "decoder_input_ids": ready.decoder_rows}
        text_rows = None if name is None else tokens_by_input[name]
        return None if text_rows is None else list(text_rows)
    shape = recording.stack_layers[stack.name][0].native_input.shape[:2]
    alone = len(recording.structure.stacks) == 1
    for prefix, text_tokens in (("decoder_", ready.decoder_rows), ("", ready.rows)):
        ids = ready.tensors.get(prefix + "input_ids")
        for kind, second in _SECOND_STREAMS.items() if prefix == "" else ():
            second_ids = ready.tensors.get(second)
            if text_tokens is not None and ids is not None and second_ids is not None:
                if ids.shape[1] + second_ids.shape[1] == shape[1]:
                    return _with_second(kind, second, ready.tensors, text_tokens, int(ids.shape[1]))
        if text_tokens is None or ids is None or ids.shape != shape:
            continue
        if prefix == "" or stack.has_cross or alone:
            return list(text_tokens)
    return None


def _with_second(
    kind: str, second: str, tensors: Mapping[str, Any], texts: Sequence[TokenRow], words: int
) -> list[TokenRow]:
    """Append the tokens of a second stream, such as image boxes, to the words."""
    if any(len(tokens) < words for tokens in texts):
        raise InvalidInput(
            f"The texts have different lengths and a second stream ({kind}), so padding would "
            "separate the two streams. Record the texts one at a time."
        )
    everyone = [int(tensors[second].shape[1])] * len(texts)
    counts = row_lengths(tensors, f"{second.partition('_')[0]}_") or everyone
    return [
        replace(
            tokens,
            labels=tokens.labels + tuple(f"{kind} {number}" for number in range(count)),
            offsets=None if tokens.offsets is None else tokens.offsets + ((0, 0),) * count,
            special=None if tokens.special is None else tokens.special + (False,) * count,
        )
        for tokens, count in zip(texts, counts, strict=True)
    ]


def _other_rows(
    recording: Recording, ready: Prepared, stack: StackStructure, processor: Any
) -> list[TokenRow]:
    batch, width = recording.stack_layers[stack.name][0].native_input.shape[:2]
    lengths, mask = row_lengths(ready.tensors), ready.tensors.get("attention_mask")
    is_text = recording.ids_read.get(stack.name, "") is not None
    if is_text and lengths is not None and mask is not None and mask.shape == (batch, width):
        return [TokenRow.numbered(count) for count in lengths]
    grid = patch_grid(recording.model.config, ready.tensors, width)
    if grid is not None:
        pixels = ready.tensors["pixel_values"]
        return [patch_row(grid, pixels[text % len(pixels)], processor) for text in range(batch)]
    seconds: Sequence[float | None] = ready.seconds or ()
    durations = seconds if len(seconds) == batch else [None] * batch
    return [
        frame_row(processor, ready.tensors, width, length) or TokenRow.numbered(width)
        for length in durations
    ]


class Grid(NamedTuple):
    """Describes a grid of image patches and the special tokens before the first patch."""

    rows: int
    columns: int
    first: int


def patch_grid(config: Any, tensors: Mapping[str, Any], width: int) -> Grid | None:
    """Return the patch grid of an image, or None if it does not match the number of tokens.

    A few special tokens may come before the patches.
    """
    image = tensors.get("pixel_values")
    if not isinstance(image, Tensor) or image.dim() < 4:
        return None
    for part in (getattr(config, "vision_config", None), getattr(config, "encoder", None), config):
        size = getattr(part, "patch_size", None)
        if size is None:
            continue
        tall, wide = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        rows, columns = image.shape[-2] // tall, image.shape[-1] // wide
        special = width - rows * columns
        if 0 <= special <= _MOST_SPECIAL:
            return Grid(rows, columns, special)
    return None


def patch_row(grid: Grid, pixels: Tensor, processor: Any) -> TokenRow:
    """Return the patches of one image as tokens labelled "patch (row, column)".

    Special tokens before them are numbered.
    """
    places = [f"patch ({r}, {c})" for r in range(grid.rows) for c in range(grid.columns)]
    marks = (True,) * grid.first + (False,) * len(places)
    names = tuple(f"special {i}" for i in range(grid.first))
    src = pixels_uri(pixels, processor)
    patches = PatchGrid(grid.first, grid.rows, grid.columns, grid.columns)
    pictures = () if src is None else (Picture(src=src, grids=(patches,)),)
    return TokenRow((*names, *places), special=marks, pictures=pictures)


def frame_row(
    processor: Any, tensors: Mapping[str, Any], width: int, length: float | None = None
) -> TokenRow | None:
    """Return the frames of one audio clip as tokens labelled with their start time in seconds.

    Frames that begin after `length` (in seconds) are padding and form a separate segment.
    """
    extractor = getattr(processor, "feature_extractor", processor)
    rate = getattr(extractor, "sampling_rate", None)
    if not isinstance(rate, (int, float)) or not rate:
        return None
    if isinstance(tensors.get("input_values"), Tensor):
        seconds = tensors["input_values"].shape[-1] / rate
    elif isinstance(tensors.get("input_features"), Tensor) and hasattr(extractor, "hop_length"):
        seconds = tensors["input_features"].shape[-1] * extractor.hop_length / rate
    else:
        return None
    each = seconds / width
    times = [f"{number * each:.2f} s" for number in range(width)]
    count = width if length is None else min(width, math.ceil(round(length / each, 6)))
    if count == width:
        return TokenRow(tuple(times), seconds=each)
    labels = (*times[:count], *(f"{PADDING} {time}" for time in times[count:]))
    marks = (False,) * count + (True,) * (width - count)
    segments = (Segment(AUDIO, 0, count), Segment(PADDING, count, width))
    return TokenRow(labels, special=marks, segments=segments, seconds=each)
