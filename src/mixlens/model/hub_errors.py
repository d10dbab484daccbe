"""Explain why the hub did not return a model or a data set."""

from __future__ import annotations

from collections.abc import Iterator


def hub_refusal(error: BaseException) -> str | None:
    """The reason in words, or None if the hub is not the reason.

    transformers and datasets raise errors of their own. What the hub said is their cause.
    """
    from huggingface_hub import constants, errors

    causes = list(_causes(error))
    if any(isinstance(cause, errors.GatedRepoError) for cause in causes) or _is_gated_data(causes):
        return (
            "it is gated: ask for access on its page of the hub, then log in with `hf auth login`"
            " or set HF_TOKEN"
        )
    if any(isinstance(cause, errors.RevisionNotFoundError) for cause in causes):
        return "it has no such revision: its page of the hub shows branches, tags and commits"
    if any(isinstance(cause, errors.RepositoryNotFoundError) for cause in causes):
        return (
            "the hub has nothing of that name that you may read: check the spelling (owner/name)."
            " If it is private, log in with `hf auth login` or set HF_TOKEN"
        )
    if unreachable(error) and not constants.HF_HUB_OFFLINE:
        return (
            "the hub cannot be reached, and not all of it is in the cache: check the network. To"
            " use the cache alone, set HF_HUB_OFFLINE=1"
        )
    offline = (ConnectionError, errors.LocalEntryNotFoundError)
    if any(isinstance(cause, offline) for cause in causes):
        return (
            "it is not in the cache, and the hub is not asked (HF_HUB_OFFLINE=1 or"
            " local_files_only=True): load it once with the network, or name a folder"
        )
    return None


def unreachable(error: BaseException) -> bool:
    """Did the network fail? Otherwise the hub has answered, or was not asked."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    # httpx's base class of such errors, whichever version of httpx the client of the hub brings.
    return any(
        (isinstance(cause, ConnectionError) and not isinstance(cause, OfflineModeIsEnabled))
        or any(parent.__name__ == "TransportError" for parent in type(cause).__mro__)
        for cause in _causes(error)
    )


def _is_gated_data(causes: list[BaseException]) -> bool:
    """The datasets library drops the hub's answer and keeps its words."""
    return any("is a gated dataset" in str(cause) for cause in causes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, then what it was raised from or during, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
