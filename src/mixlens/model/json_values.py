"""Parse JSON from untrusted files and check its structure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Form = Any
"""The expected structure of a JSON value: a type (`int` rejects booleans, `float` accepts
integers), None, [form of each item], a mapping from required keys to forms (the key `str` stands
for all keys), or a tuple of alternative forms. `object` matches any value.
"""


def parse_json(text: str | bytes, object_hook: Callable[..., Any] | None = None) -> Any:
    """Parse JSON and raise `ValueError` for any problem, including deep nesting."""
    try:
        return json.loads(text, object_hook=object_hook)
    except RecursionError:
        raise ValueError("too many nested brackets") from None


def require_form(value: Any, form: Form, name: str) -> None:
    """Raise `ValueError` if a value does not match its `Form`, and report the first mismatch."""
    reason = _misfit(value, form, name)
    if reason is not None:
        raise ValueError(reason)


def _misfit(value: Any, form: Form, name: str) -> str | None:
    """Return the reason why a parsed value does not match its `Form`, or None if it matches."""
    if isinstance(form, tuple):
        reasons = [_misfit(value, each, name) for each in form]
        return None if None in reasons else reasons[0]
    if isinstance(form, list):
        if not isinstance(value, list):
            return f"{name} is not a list"
        reasons = [_misfit(each, form[0], f"{name}[{i}]") for i, each in enumerate(value)]
        return next(filter(None, reasons), None)
    if isinstance(form, Mapping):
        return _misfit_of_mapping(value, form, name)
    if form is None:
        return None if value is None else f"{name} is not null"
    kinds = (int, float) if form is float else form
    if isinstance(value, kinds) and (form in (bool, object) or not isinstance(value, bool)):
        return None
    return f"{name} is not {form.__name__}"


def _misfit_of_mapping(value: Any, form: Mapping[Any, Form], name: str) -> str | None:
    if not isinstance(value, dict):
        return f"{name} is not an object"
    for key, each in form.items():
        if key is not str and key not in value:
            return f"{name} has no {key!r}"
        for item in value if key is str else [key]:
            reason = _misfit(value[item], each, f"{name}[{item!r}]")
            if reason is not None:
                return reason
    return None
