"""Detect an unreachable hub, and explain why a model or data set could not be downloaded. The hub
client sends six requests per file with pauses between them. This takes half a minute per file if
the network is down, and minutes if packets are lost. mixlens therefore sends one short request
first. If this request fails, only the cache is used.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

PATIENCE = 4  # seconds


def hub_is_silent() -> bool:
    """Return whether the Hugging Face Hub is unreachable.

    The timeout of the single request is `HF_HUB_ETAG_TIMEOUT` seconds if this variable is set, and
    `PATIENCE` seconds otherwise.
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False  # it is not used
    timeout = constants.HF_HUB_ETAG_TIMEOUT
    patience = PATIENCE if timeout == constants.DEFAULT_ETAG_TIMEOUT else timeout
    try:
        get_session().head(constants.ENDPOINT, timeout=patience)
    except Exception as error:  # loading explains all other errors
        return unreachable(error)
    return False


@contextlib.contextmanager
def cache_alone(silent: bool) -> Iterator[None]:
    """Read only from the cache while the context is open, if the hub is unreachable (`silent`).

    A file that is missing from the cache raises `ConnectionError`.
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


def hub_refusal(error: BaseException) -> str | None:
    """Return an explanation of an error caused by the hub, or None if the error has another cause.

    transformers and datasets raise their own errors, with the hub's response as the cause.
    """
    from huggingface_hub import constants, errors

    causes = list(_causes(error))
    if any(isinstance(cause, errors.GatedRepoError) for cause in causes) or _is_gated_data(causes):
        return (
            "it is gated. Request access on its page of the hub, then log in with `hf auth "
            "login` or set HF_TOKEN"
        )
    if any(isinstance(cause, errors.RevisionNotFoundError) for cause in causes):
        return "it has no such revision. Its page of the hub lists branches, tags and commits"
    if any(isinstance(cause, errors.RepositoryNotFoundError) for cause in causes):
        return (
            "the hub has no such name, or you may not read it. Check the spelling "
            "(owner/name). If it is private, log in with `hf auth login` or set HF_TOKEN"
        )
    if unreachable(error) and not constants.HF_HUB_OFFLINE:
        return (
            "the hub cannot be reached, and the cache is incomplete. Check the network. To "
            "use only the cache, set HF_HUB_OFFLINE=1"
        )
    offline = (ConnectionError, errors.LocalEntryNotFoundError)
    if any(isinstance(cause, offline) for cause in causes):
        return (
            "it is not in the cache, and the hub is not used (HF_HUB_OFFLINE=1 or "
            "local_files_only=True). Load it once with the network, or pass a folder"
        )
    return None


def unreachable(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, means that the network failed."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    # The base class of such errors in httpx, for any version of the hub's client.
    return any(
        (isinstance(cause, ConnectionError) and not isinstance(cause, OfflineModeIsEnabled))
        or any(parent.__name__ == "TransportError" for parent in type(cause).__mro__)
        for cause in _causes(error)
    )


def _is_gated_data(causes: list[BaseException]) -> bool:
    """Return whether these errors come from a gated data set.

    The datasets library drops the response of the hub and keeps only its text.
    """
    return any("is a gated dataset" in str(cause) for cause in causes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then the errors that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
