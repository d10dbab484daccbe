"""Commands of one process share the bundled models, and all JSON follows the published schemas."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from mixlens import Lens
from mixlens.cli import output
from tests.cli.running import bundled_once
from tests.schemas.validation import assert_valid

SCHEMAS = {
    **{name: name for name in ("answer", "benchmark", "compare", "doctor", "finetune", "map")},
    **{name: name for name in ("measures", "reproduce", "routes", "run")},
    "context_cite": "context-cite",
    "fit_heads": "fit-heads",
}


@pytest.fixture(autouse=True)
def _one_bundled_lens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lens, "bundled", bundled_once)


@pytest.fixture(autouse=True)
def _valid_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check everything that a command prints as JSON, in every test of a command."""
    for module, schema in SCHEMAS.items():

        def print_valid_json(value: Any, schema: str = schema) -> None:
            is_list = schema == "reproduce" and "results" not in value
            name = "reproduce_list" if is_list else schema
            assert_valid(name, json.loads(json.dumps(value, default=str)))
            output.print_json(value)

        command = importlib.import_module(f"mixlens.cli.{module}")
        monkeypatch.setattr(command, "print_json", print_valid_json)
