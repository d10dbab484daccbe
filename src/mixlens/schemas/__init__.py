"""JSON Schemas for all JSON output of mixlens, for programs that read it.

    shared.json    Definitions that several formats use.
    commands.json  The output of each command with `--json`.
    payload.json   The payload of the viewer.
    files.json     Result files, and the descriptions inside Parquet and safetensors files.

The schemas list every field. Within a version, fields may be added, but no field is removed or
renamed, and no type changes.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from mixlens.errors import InvalidInput

VERSION = 1
_FILES = ("shared", "commands", "payload", "files")


def list_schemas() -> dict[str, str]:
    """Return the description of each schema, by name.

    Returns
    -------
    dict
        The name of each schema, which you can pass to `load_schema`, and a description of the
        output or file.

    Examples
    --------
    >>> from mixlens.schemas import list_schemas
    >>> list_schemas()["run_plan"]
    '`plan.json` of a corpus run.'
    """
    return {name: schema["description"] for name, schema in _definitions().items()}


def load_schema(name: str) -> dict[str, Any]:
    """Return a self-contained JSON Schema (draft 2020-12).

    Parameters
    ----------
    name
        A name from `list_schemas`: a command such as `map`, `payload`, or a kind of file.

    Returns
    -------
    dict
        The schema, for any validator.

    Raises
    ------
    InvalidInput
        If there is no schema of this name.

    Examples
    --------
    >>> from mixlens.schemas import load_schema
    >>> load_schema("map")["$id"]
    'urn:mixlens:schema:1:map'
    """
    definitions = _definitions()
    if name not in definitions:
        raise InvalidInput(f"Unknown schema {name!r}. Choose one of: {', '.join(definitions)}.")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:mixlens:schema:{VERSION}:{name}",
        "$ref": f"#/$defs/{name}",
        "$defs": json.loads(json.dumps(definitions)),
    }


@cache
def _definitions() -> dict[str, Any]:
    """Return the definitions of all schema files. Their names are unique."""
    definitions: dict[str, Any] = {}
    for name in _FILES:
        file = resources.files(__name__) / f"{name}.json"
        definitions |= json.loads(file.read_text(encoding="utf-8"))["$defs"]
    return definitions
