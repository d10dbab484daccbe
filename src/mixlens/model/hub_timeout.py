"""Detect a hub that does not answer.

The hub's client sends six requests per file with pauses, which takes half a minute per file if the
network is down, and minutes if packets are lost. One short request before loading detects this.
mixlens then reads only the cache.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from mixlens.model.hub_errors import hub_refusal, unreachable

PATIENCE = 4  # seconds


def hub_is_silent() -> bool:
    """Return whether the hub does not answer at all. The timeout is that of file requests
    (`HF_HUB_ETAG_TIMEOUT`, in seconds).
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False  # it is not used
    wanted = constants.HF_HUB_ETAG_TIMEOUT
    patience = PATIENCE if wanted == constants.DEFAULT_ETAG_TIMEOUT else wanted
    try:
        get_session().head(constants.ENDPOINT, timeout=patience)
    except Exception as error:  # loading explains all other errors
        return unreachable(error)
    return False


@contextlib.contextmanager
def cache_alone(silent: bool) -> Iterator[None]:
    """If the hub does not answer, send no more requests inside. A file that is missing in the cache
    is then a failed connection.
    """
    if not silent:
        yield
        return
    from huggingface_hub import constants

    with contextlib.ExitStack() as undone:
        for settings in (constants, getattr(sys.modules.get("datasets"), "config", None)):
            if settings is not None:
                undone.enter_context(_offline(settings))
        try:
            yield
        except Exception as error:
            if hub_refusal(error) is None:
                raise
            raise ConnectionError(f"{constants.ENDPOINT} does not answer") from error


@contextlib.contextmanager
def _offline(settings: Any) -> Iterator[None]:
    before, settings.HF_HUB_OFFLINE = settings.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE = before
