"""Parse `--option name=value`. The type comes from the signature of the measure's function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput, no_such

if TYPE_CHECKING:
    from mixlens.contracts import Spec


def require_spec(name: str) -> Spec:
    """Return the spec of a measure, or raise an error that lists similar names."""
    from mixlens.measures import find_spec, list_measures

    spec = find_spec(name)
    if spec is None:
        raise InvalidInput(no_such("measure", name, list_measures()))
    return spec


def measure_options(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` words into options of one measure."""
    kinds = {option.name: option.kind for option in require_spec(name).options}
    return read_options(words, kinds, owner=name)


def read_options(words: Sequence[str], kinds: Mapping[str, str], *, owner: str) -> dict[str, Any]:
    """Parse `name=value` words into options, and convert each value to its declared type."""
    options = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"--option {word} has no value. Pass name=value.")
        if key not in kinds:
            raise InvalidInput(no_such("option", key, kinds, f"{owner} has"))
        options[key] = read_value(key, value, kinds[key])
    return options


def split_names(values: Sequence[str] | None) -> list[str] | None:
    """Split repeated or comma-separated names into a list. Return None for "all" or no names."""
    if values is None or list(values) == ["all"]:
        return None
    names = (name.strip() for part in values for name in part.split(","))
    return list(dict.fromkeys(name for name in names if name)) or [""]


def number_or_name(value: str) -> int | str:
    """Return a position as an integer, or any other token unchanged."""
    return int(value) if re.fullmatch(r"-?\d{1,18}", value) else value


def read_value(name: str, value: str, kind: str) -> Any:
    """Return a value converted to the declared type of the option."""
    if kind.startswith("Sequence"):
        return tuple(value.split(","))
    kinds = [part.strip() for part in kind.split("|")]
    if value.lower() == "none" and "None" in kinds:
        return None
    if "bool" in kinds and value.lower() in ("true", "false", "yes", "no"):
        return value.lower() in ("true", "yes")
    for word, reader in (("int", int), ("float", float)):
        if word in kinds:
            try:
                return reader(value)
            except ValueError:
                continue
    if "str" in kinds:
        return value
    raise InvalidInput(f"--option {name}={value} is not of type {kind}. Pass a value of this type.")
