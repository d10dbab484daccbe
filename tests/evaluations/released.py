"""The attributions that Ferrando et al. released for 500 sentences of SST-2."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest


@functools.cache
def released(shared: Path, model: str) -> list[dict[str, Any]]:
    path = shared / "data" / "alti_released" / f"{model}.jsonl"
    if not path.exists():
        pytest.skip(f"NOT RUN: needs {path.name}, the released attributions")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
