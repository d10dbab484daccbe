"""Check values against the published schemas."""

from __future__ import annotations

import functools
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from mixlens.schemas import load_schema


@functools.cache
def _validator(name: str) -> Any:
    return Draft202012Validator(load_schema(name))


def assert_valid(name: str, value: Any) -> None:
    """Fail with the place and the reason if a value does not follow its schema."""
    error = best_match(_validator(name).iter_errors(value))
    assert error is None, f"{name}, {error.json_path}: {error.message:.300}"
