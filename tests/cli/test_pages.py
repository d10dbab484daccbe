"""`--html` of `map` and `compare`: one page with the requested measures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from mixlens.cli import app
from mixlens.errors import InvalidInput

TEXT = "The keys [MASK] old."
run = CliRunner().invoke


def _payload(path: Path) -> dict[str, Any]:
    inside = re.search(r'id="payload">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    assert inside is not None
    payload: dict[str, Any] = json.loads(inside[1])
    return payload


def test_map_and_compare_write_pages(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    chosen = ["--measure", "attention", "--with", "random", "--target", "keys"]
    result = run(app, ["map", TEXT, "--html", str(path), *chosen])
    assert result.exit_code == 0, result.output
    payload = _payload(path)
    assert [entry["measure"] for entry in payload["maps"]] == ["attention", "random"]
    assert payload["start"]["target"] == 2
    assert run(app, ["compare", TEXT, "--html", str(path)]).exit_code == 0
    assert len(_payload(path)["maps"]) > 5


def test_a_page_has_a_folder(tmp_path: Path) -> None:
    result = run(app, ["map", TEXT, "--html", str(tmp_path / "no" / "out.html")])
    assert isinstance(result.exception, InvalidInput)
