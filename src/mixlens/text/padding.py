"""Find the real tokens of a batch, and move them to the front.

Padding changes scores by no more than rounding. Left padding is moved to the right, because many
models count positions from the first column. Columns that contain only padding are removed on the
right, and the remaining padding gets the padding id of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from mixlens.errors import EmptyInput, InvalidInput

PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds")


def row_lengths(tensors: Mapping[str, Any], prefix: str = "") -> list[int] | None:
    """Return the number of real tokens of each text.

    Return None if there is no token mask, or if padding comes before real tokens.
    """
    mask = tensors.get(prefix + "attention_mask")
    if not isinstance(mask, Tensor) or mask.dim() != 2:
        return None
    real = mask.cpu().bool()  # read once from a GPU
    lengths = real.sum(1)
    in_front = torch.arange(mask.shape[1]) < lengths[:, None]
    return lengths.tolist() if torch.equal(in_front, real) else None


def masks_more_than_padding(tensors: Mapping[str, Any]) -> bool:
    """Return whether any attention mask has one value per pair of tokens, or has zeros between
    ones.
    """
    return any(
        isinstance(tensors.get(f"{prefix}attention_mask"), Tensor)
        and row_lengths(tensors, prefix) is None
        for prefix in ("", "decoder_", "encoder_")
    )


def is_padded_sound(tensors: Mapping[str, Any]) -> bool:
    """Return whether this is a padded batch of audio clips of different lengths.

    Layers below the first attention would mix this padding into real frames.
    """
    mask = tensors.get("attention_mask")
    if (
        not isinstance(mask, Tensor)
        or mask.dim() != 2
        or {"input_ids", "inputs_embeds", "pixel_values"} & set(tensors)
    ):
        return False
    return not bool(mask.bool().all())


def unpad_clip(tensors: Mapping[str, Any], clip: int) -> dict[str, Any]:
    """Return one audio clip of a padded batch, trimmed to its real samples."""
    mask = tensors["attention_mask"][clip].bool()
    trimmed = {
        name: value[clip : clip + 1] if value.dim() else value
        for name, value in tensors.items()
        if isinstance(value, Tensor)
    }
    return {
        name: value[..., mask] if value.shape[-1:] == mask.shape else value
        for name, value in trimmed.items()
        if name != "attention_mask"
    }


def unpad_text(tensors: Mapping[str, Any], number: int, texts: int) -> dict[str, Any]:
    """Return one text of a batch, trimmed to its real tokens."""
    text_tensors = {
        name: value[number : number + 1]
        if isinstance(value, Tensor) and value.shape[:1] == (texts,)
        else value[..., number : number + 1, :]
        if isinstance(value, Tensor) and value.dim() > 2 and name.endswith("position_ids")
        else value
        for name, value in tensors.items()
    }
    for prefix in ("", "decoder_"):
        mask = text_tensors.get(prefix + "attention_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2 or not _is_padding(mask):
            continue
        real = mask[0].bool()
        for name in (prefix + each for each in PER_TOKEN):
            value = text_tensors.get(name)
            if isinstance(value, Tensor) and value.dim() > 1:
                axis = 1 if value.shape[1] == len(real) else -1
                text_tensors[name] = value.index_select(axis, real.nonzero()[:, 0].to(value.device))
    return text_tensors


def real_tokens_first(
    tensors: dict[str, Any], padding: Callable[[str], int | None]
) -> dict[str, Any]:
    """Move the padding of a batch to the right, and trim the batch to its longest text.

    `padding` returns the model's padding id for inputs whose names start with a prefix ("" or
    "decoder_"). Classifiers use this id to find the last token before the padding.
    """
    new_tensors = dict(tensors)
    for prefix in ("", "decoder_"):
        mask = tensors.get(prefix + "attention_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            continue
        if not bool(mask.bool().any(1).all()):
            raise EmptyInput(
                "A text of the batch has no real token (its attention_mask is all zero). Remove it."
            )
        if prefix + "input_ids" in tensors or prefix + "inputs_embeds" in tensors:
            new_tensors |= _move_padding(tensors, prefix, mask, padding)
        elif not bool(mask.bool().all()):
            raise InvalidInput(
                "Padded audio or images are not supported, because the layers below the "
                "first attention mix padding into real frames. Record them one at a time, "
                "without padding (`Lens.measure` does this for a list)."
            )
    return new_tensors


def _move_padding(
    tensors: Mapping[str, Any],
    prefix: str,
    mask: Tensor,
    padding: Callable[[str], int | None],
) -> dict[str, Tensor]:
    if not _is_padding(mask):
        return {}
    order = torch.argsort(mask.bool().logical_not().long(), dim=1, stable=True)
    width = int(mask.bool().sum(1).max())
    new_tensors = {}
    for name in PER_TOKEN:
        value = tensors.get(prefix + name)
        if not isinstance(value, Tensor):
            continue
        if name == "position_ids" and value.shape[0] == 1:  # the same for every text
            value = value.expand(len(mask), *value.shape[1:])
        if value.shape[:2] == mask.shape:
            places = order if value.dim() == 2 else order[..., None].expand(value.shape)
            new_tensors[prefix + name] = value.gather(1, places)[:, :width]
        elif value.shape[-2:] == mask.shape:  # several positions per token
            new_tensors[prefix + name] = value.gather(-1, order.expand(value.shape))[..., :width]
    ids, real = new_tensors.get(prefix + "input_ids"), new_tensors[prefix + "attention_mask"].bool()
    fill = padding(prefix) if ids is not None and not bool(real.all()) else None
    if ids is not None and fill is not None:
        new_tensors[prefix + "input_ids"] = ids.masked_fill(~real, fill)
    return new_tensors


def _is_padding(mask: Tensor) -> bool:
    """Return whether all zeros of each mask are at one end.

    A mask with zeros between ones was set by the user and is not padding.
    """
    changes = (mask.bool()[:, 1:] != mask.bool()[:, :-1]).sum(1)
    return bool((changes <= 1).all())
