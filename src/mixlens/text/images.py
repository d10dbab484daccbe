"""Open the images of a prompt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mixlens.errors import InvalidInput

_SOURCES = ("image", "path")
_HOW = "Pass {'type': 'image', 'image': …} with a PIL image, an array or the path of a file."


def open_image(part: Mapping[str, Any]) -> Any:
    """Return the image of a part of a message. Files are opened; nothing is downloaded."""
    given = next((part[name] for name in _SOURCES if part.get(name) is not None), None)
    if given is None:
        other = ", ".join(name for name in part if name != "type") or "nothing"
        raise InvalidInput(f"A part of type 'image' has {other}, but no image. {_HOW}")
    if not isinstance(given, (str, os.PathLike)):
        return given
    try:
        from PIL import Image

        with Image.open(given) as file:
            return file.convert("RGB")
    except ImportError:
        raise InvalidInput(f"Pillow is not installed, so {given!r} cannot be opened.") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{str(given)!r:.80} is not an image file ({error}). {_HOW}") from error
