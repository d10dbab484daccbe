"""Errors of the hub become readable reasons. `hub/test_hub.py` tests a real server on loopback."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import errors

from mixlens.model.hub_access import hub_refusal, unreachable


def _answered(kind: Any) -> BaseException:
    """An error of the hub's client as transformers passes it on: as the cause of its own."""
    on_top = OSError("cannot load it")
    on_top.__cause__ = kind("no", response=SimpleNamespace(headers={}, request=None))
    return on_top


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (_answered(errors.GatedRepoError), "it is gated"),
        (ValueError("this is a gated dataset on the hub"), "it is gated"),
        (_answered(errors.RevisionNotFoundError), "no such revision"),
        (_answered(errors.RepositoryNotFoundError), "no such name"),
        (ConnectionError("no route"), "the hub cannot be reached"),
        (errors.OfflineModeIsEnabled("offline"), "it is not in the cache"),
        (errors.LocalEntryNotFoundError("not there"), "it is not in the cache"),
    ],
)
def test_each_error_of_the_hub_has_a_reason(
    error: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert words in str(hub_refusal(error))


def test_other_errors_are_not_the_hub_s() -> None:
    assert hub_refusal(ValueError("a wrong number")) is None
    assert not unreachable(ValueError("a wrong number"))
