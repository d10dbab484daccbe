"""`--option name=value`: a measure's own options on the command line, read by the type that its
function declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.suggestions import no_such


def measure_options(name: str, given: Sequence[str]) -> dict[str, Any]:
    """The options of one measure from `name=value` words."""
    if not given:
        return {}
    from mixlens.measures import list_measures

    specs = list_measures()
    if name not in specs:
        raise InvalidInput(no_such("measure", name, specs))
    known = {option.name: option for option in specs[name].options}
    found = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"--option {word}: write name=value")
        if key not in known:
            raise InvalidInput(
                f"{name} has no option {key!r}; it has: {', '.join(known) or 'none'}"
            )
        found[key] = read_value(key, value, known[key].kind)
    return found


def read_value(name: str, value: str, kind: str) -> Any:
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
    raise InvalidInput(f"--option {name}={value}: expected {kind}")
