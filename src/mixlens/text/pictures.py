"""Create images for the viewer: a small copy of the user's image, or of the pixels that the model
saw.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from torch import Tensor

_LONGEST = 640  # pixels per side


def image_uri(image: Any) -> str | None:
    """Convert an image that the user passed to a data URI.

    Return None if it is neither a PIL image nor an array of pixels.
    """
    try:
        from PIL import Image

        if not hasattr(image, "convert"):
            image = Image.fromarray(np.asarray(image))
        return _uri(image.convert("RGB"))
    except (ImportError, TypeError, ValueError, AttributeError, KeyError):
        return None


def image_size(image: Any) -> tuple[int, int] | None:
    """Return the height and width of an image that the user passed, or None if they are unknown."""
    if hasattr(image, "convert"):
        return int(image.height), int(image.width)
    shape: tuple[int, ...] = tuple(getattr(image, "shape", ()))
    if len(shape) == 3 and shape[-1] in (1, 3, 4):
        return int(shape[0]), int(shape[1])
    return None


def pixels_uri(pixels: Tensor, processor: Any) -> str | None:
    """Convert pixels [channel, row, column] to a data URI.

    Return None if they do not have one or three channels, or if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    if pixels.dim() != 3 or pixels.shape[0] not in (1, 3):
        return None
    values = (_brightness(pixels.detach().float().cpu().numpy(), processor) * 255).round()
    bands = values.astype(np.uint8).transpose(1, 2, 0)
    return _uri(Image.fromarray(bands[..., 0] if bands.shape[-1] == 1 else bands))


def unpack_pixels(pixels: Tensor, grid: Tensor, index: int, vision: Any) -> Tensor | None:
    """Return one image [channel, row, column] from packed patches (Qwen-VL).

    Return None if the patches are packed in a different way.
    """
    merged = getattr(vision, "spatial_merge_size", None)
    size, frames = (getattr(vision, name, None) for name in ("patch_size", "temporal_patch_size"))
    if not merged or not size or not frames or pixels.dim() != 2:
        return None
    counts = grid.prod(-1).tolist()
    start = sum(counts[:index])
    _, tall, wide = grid[index].tolist()
    part = pixels[start : start + tall * wide]
    if part.numel() != tall * wide * 3 * frames * size * size or tall % merged or wide % merged:
        return None
    shape = (tall // merged, wide // merged, merged, merged, 3, frames, size, size)
    first = part.view(*shape)[..., 0, :, :]
    return first.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, tall * size, wide * size)


def _uri(image: Any) -> str:
    image.thumbnail((_LONGEST, _LONGEST))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _brightness(pixels: np.ndarray, processor: Any) -> np.ndarray:
    """Scale pixels to values between 0 and 1 by undoing the processor's normalisation.

    If the normalisation is unknown, the range of the values is mapped linearly to [0, 1].
    """
    image_processor: Any = getattr(processor, "image_processor", processor)
    means, deviations = (
        np.reshape(getattr(image_processor, name, None) or (), (-1, 1, 1))
        for name in ("image_mean", "image_std")
    )
    if getattr(image_processor, "do_normalize", False) and len(means) == len(deviations) in (
        1,
        len(pixels),
    ):
        undone: np.ndarray = np.clip(pixels * deviations + means, 0, 1)
        return undone
    low, high = float(pixels.min()), float(pixels.max())
    stretched: np.ndarray = (pixels - low) / max(high - low, 1e-12)
    return stretched
