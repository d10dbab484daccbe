"""The published schemas describe what mixlens writes, field by field."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from safetensors import safe_open

import mixlens
from mixlens.cli import app
from mixlens.errors import InvalidInput
from mixlens.runs.corpus_run import run_corpus
from mixlens.runs.job import Job, ModelSource
from mixlens.schemas import list_schemas, load_schema
from mixlens.text.tokens import PatchGrid, Picture, TokenRow
from mixlens.views.viewer.payload import comparison_payload, payload_of, ranking_payload
from tests.cli.conftest import SCHEMAS
from tests.schemas.validation import assert_valid

ROOT = Path(__file__).resolve().parents[2]
OPEN = ("provenance", "versions")  # objects that may have further fields
TEXT = "The keys to the cabinet [MASK] here."


def test_schemas_are_valid_and_closed() -> None:
    schema = load_schema("map")  # with all definitions
    Draft202012Validator.check_schema(schema)
    assert schema["$defs"].keys() == list_schemas().keys()
    for node in _nodes(schema):
        if "$ref" in node:
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        if "properties" in node and node not in (schema["$defs"][name] for name in OPEN):
            assert node["additionalProperties"] is False, node


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, (dict, list)):
            yield from _nodes(part)


def test_every_command_with_json_has_a_schema() -> None:
    commands = {str(each.name): each.callback for each in app.registered_commands}
    printing = {
        name
        for name, run in commands.items()
        if run is not None and "as_json" in inspect.signature(run).parameters
    }
    assert printing == set(SCHEMAS.values()) - {"reproduce_list"}
    assert printing <= set(list_schemas())


def test_an_unknown_or_missing_field_is_found() -> None:
    counts = dict.fromkeys(("shards", "shards_done", "rows", "texts", "errors", "tokens"), 1)
    valid = {**counts, "seconds": 0.5, "complete": True}
    assert_valid("run", valid)
    for wrong in ({**valid, "more": 1}, counts, {**valid, "rows": "1"}):
        with pytest.raises(AssertionError, match="run, "):
            assert_valid("run", wrong)
    with pytest.raises(InvalidInput, match="Unknown schema 'rn'"):
        load_schema("rn")


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_payloads() -> None:
    lens = mixlens.Lens.bundled()
    maps = [lens.measure(name, TEXT) for name in ("attention", "gradient_x_input")]
    heads = lens.measure("attention", TEXT, per_head=True)
    picture = Picture(src="data:,", grids=(PatchGrid(1, 1, 2, 2),))
    row = TokenRow(("[CLS]", "1", "2"), pictures=(picture,))
    scores = {"attention": np.ones(3)}
    compared = comparison_payload(scores, row, "it", own_source=None, aggregate="mean")
    for payload in (payload_of([*maps, heads]), payload_of(maps[0], room=1000), compared):
        assert_valid("payload", _plain(payload))
    assert compared["image"] is not None
    with pytest.raises(AssertionError, match="ranking"):
        assert_valid("payload", _plain(ranking_payload({"verdict": "none"})))


def test_entries_of_the_leaderboard() -> None:
    entries = sorted((ROOT / "docs" / "leaderboard" / "rows").glob("*.json"))
    assert entries
    for path in entries:
        assert_valid("leaderboard_entry", json.loads(path.read_text(encoding="utf-8")))


def test_files(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    corpus, out = tmp_path / "texts.txt", tmp_path / "out"
    corpus.write_text("The dogs bark.\nThe cat sleeps.\n")
    job = Job(corpus=str(corpus), out=str(out), measures=("attention", "alti"), by_head=True)
    run_corpus(job, ModelSource())
    for name in ("settings", "plan", "manifest", "aggregates"):
        assert_valid(f"run_{name}", json.loads((out / f"{name}.json").read_text(encoding="utf-8")))
    metadata = pq.read_schema(out / "data" / "part-000000.parquet").metadata
    assert_valid("run_metadata", json.loads(metadata[b"mixlens"]))

    causal = mixlens.Lens.from_pretrained("src/mixlens/bundled/causal")
    prompt = "Tom likes his red ball.\nLily likes her blue car.\n\nLily likes her"
    causal.measure("attention", TEXT).save(tmp_path / "maps_file")
    causal.answer(prompt, answer=" blue car.").save(tmp_path / "answer_file")
    for name in ("maps_file", "answer_file"):
        with safe_open(tmp_path / name, framework="np") as file:
            assert_valid(name, json.loads(file.metadata()["mixlens_content"]))
