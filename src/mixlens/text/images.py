"""The image that a model received, cropped and scaled by its processor.

The patches belong to this image, not to the original file, which may have had margins.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from torch import Tensor

from mixlens.text.tokens import Picture

_LONGEST = 640  # pixels per side


def picture_of(
    pixels: Tensor, processor: Any, *, rows: int, columns: int, first: int
) -> Picture | None:
    """Return pixels [channel, row, column] as an image of rows × columns patches.

    Return None if they are not an image of one or three channels, or if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    if pixels.dim() != 3 or pixels.shape[0] not in (1, 3):
        return None
    values = (_brightness(pixels.detach().float().cpu().numpy(), processor) * 255).round()
    bands = values.astype(np.uint8).transpose(1, 2, 0)
    image = Image.fromarray(bands[..., 0] if bands.shape[-1] == 1 else bands)
    image.thumbnail((_LONGEST, _LONGEST))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=88)
    src = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return Picture(src=src, rows=rows, columns=columns, first=first)


def _brightness(pixels: np.ndarray, processor: Any) -> np.ndarray:
    """Return brightness from 0 to 1: undo the processor's normalisation, or stretch the range if it
    is unknown.
    """
    own: Any = getattr(processor, "image_processor", processor)
    means, deviations = (
        np.reshape(getattr(own, name, None) or (), (-1, 1, 1))
        for name in ("image_mean", "image_std")
    )
    if getattr(own, "do_normalize", False) and len(means) == len(deviations) in (1, len(pixels)):
        undone: np.ndarray = np.clip(pixels * deviations + means, 0, 1)
        return undone
    low, high = float(pixels.min()), float(pixels.max())
    stretched: np.ndarray = (pixels - low) / max(high - low, 1e-12)
    return stretched
