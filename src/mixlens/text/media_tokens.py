"""Find the tokens that stand for images, videos and audio in a text, from the configuration."""

from __future__ import annotations

from typing import Any

_IMAGE = ("image_token_id", "image_token_index")
_VIDEO = ("video_token_id", "video_token_index")
_AUDIO = ("audio_token_id", "audio_token_index")


def image_token(config: Any) -> int | None:
    """Return the token that stands for each patch of an image."""
    return _first(config, _IMAGE)


def video_token(config: Any) -> int | None:
    """Return the token that stands for each patch of a video."""
    return _first(config, _VIDEO)


def audio_token(config: Any) -> int | None:
    """Return the token that stands for each frame of audio."""
    return _first(config, _AUDIO)


def media_tokens(config: Any) -> frozenset[int]:
    """Return the tokens that stand for anything but words."""
    known = (image_token(config), video_token(config), audio_token(config))
    return frozenset(token for token in known if token is not None)


def _first(config: Any, names: tuple[str, ...]) -> int | None:
    known = (getattr(config, name, None) for name in names)
    return next((token for token in known if isinstance(token, int)), None)
