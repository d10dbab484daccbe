"""Detect a hub that does not answer.

The hub's client asks six times for each file and waits between, which is half a minute for each if
the network is down, and minutes if the network swallows what is sent. One short question before a
load finds that out. The load then reads the cache alone.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from mixlens.model.hub_errors import hub_refusal, unreachable

PATIENCE = 4  # seconds


def hub_is_silent() -> bool:
    """Does the hub give no answer at all? Whoever waits longer for files waits longer here too
    (`HF_HUB_ETAG_TIMEOUT`, in seconds).
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False  # it is not asked
    wanted = constants.HF_HUB_ETAG_TIMEOUT
    patience = PATIENCE if wanted == constants.DEFAULT_ETAG_TIMEOUT else wanted
    try:
        get_session().head(constants.ENDPOINT, timeout=patience)
    except Exception as error:  # any other than a failed connection is the load's to explain
        return unreachable(error)
    return False


@contextlib.contextmanager
def cache_alone(silent: bool) -> Iterator[None]:
    """If the hub is silent, nothing more is asked of it inside. What is then missing in the cache
    is a failed connection.
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
