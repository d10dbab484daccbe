"""`mixlens run`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import mixlens
from mixlens import Lens
from tests.cli.running import run
from tests.runs.patience import LONGEST, wait_for_lines
from tests.runs.sentences import write_corpus


def rows_of(out: Path) -> list[dict[str, Any]]:
    frame = mixlens.load(out).to_dataframe()
    return list(frame.to_dict("records"))


def test_a_run_its_status_and_its_log(tmp_path: Path) -> None:
    corpus, out = write_corpus(tmp_path / "corpus.txt", 6), str(tmp_path / "out")
    ran = run(
        *("run", str(corpus), "--measure", "attention", "--out", out, "--shard-rows", "2"),
        *("--json-log", "--json", "--targets", "first"),
    )
    assert ran.status == 0, ran.err
    events = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    assert [event["event"] for event in events] == ["start", "shard", "shard", "shard", "end"]
    assert events[-1]["complete"]
    assert all(event["time"] > 1e9 and "seconds" in event for event in events)
    assert json.loads(ran.out)["texts"] == 6
    shown = run("run", "--status", out)
    assert "complete, 3 of 3 shards" in shown.out
    assert "6 of 6 records measured" in shown.out
    assert "tokens per second" in shown.out
    assert json.loads(run("run", "--status", out, "--json").out)["shards_done"] == 3
    assert run("run", "--status", str(tmp_path)).status == 2
    refused = run("run", str(corpus), "--measure", "alti", "--out", out, "--targets", "first")
    assert "now also alti" in refused.err
    wrong = ("--measure", "attention", "--targets", "first", "--shard-rows", "2", "--out")
    refused = run("run", str(corpus), *wrong, out, "--text-column", "body")
    assert "columns: text was None, now body)" in refused.err


def test_a_run_that_measures_nothing_fails(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.csv", str(tmp_path / "out")
    corpus.write_text("number,body\n1,The dogs bark.\n")
    ran = run("run", str(corpus), "--measure", "attention", "--out", out)
    assert ran.status == 2
    assert "No text could be measured. First reason: no column 'text'" in ran.err
    assert "no column 'text' among number, body" in ran.err
    assert run("run", "--status", out).status == 0
    named = ("--text-column", "body", "--id-column", "number", "--fresh")
    ran = run("run", str(corpus), "--measure", "attention", "--out", out, *named)
    assert ran.status == 0, ran.err
    assert mixlens.load(out).ids == ("1",)


def test_half_precision_is_near_single_and_part_of_the_settings(tmp_path: Path) -> None:
    corpus = str(write_corpus(tmp_path / "corpus.txt", 6))
    scores = {}
    for dtype in ("float32", "float16"):
        out = str(tmp_path / dtype)
        measures = ("--measure", "attention", "--measure", "value_zeroing", "--keep", "scores")
        ran = run("run", corpus, *measures, "--out", out, "--dtype", dtype)
        assert ran.status == 0, ran.err
        results = mixlens.load(out)
        assert results.maps("1", "attention").provenance["dtype"] == dtype
        scores[dtype] = [
            results.maps(name, measure).scores
            for name in results.ids
            for measure in results.measures
        ]
    assert len(scores["float16"]) == 12
    for half, single in zip(scores["float16"], scores["float32"], strict=True):
        assert half.dtype == np.float32
        assert 0 < np.abs(half - single).max() < 2e-2 * np.abs(single).max()
    refused = run("run", corpus, *measures, "--out", str(tmp_path / "float16"))
    assert refused.status == 2
    assert "float16" in refused.err


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    corpus, out = write_corpus(tmp_path / "corpus.txt", 400), tmp_path / "out"
    command = [
        *(sys.executable, "-m", "mixlens", "run", str(corpus), "--measure", "attention"),
        *("--out", str(out), "--shard-rows", "2", "--targets", "first", "--threads", "1"),
    ]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            wait_for_lines(out / "journal.jsonl", process)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=LONGEST)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Run the same command to resume in" in error
    assert "Traceback" not in error
    status = json.loads(run("run", "--status", str(out), "--json").out)
    assert 0 < status["shards_done"] < 200
    assert "not complete" in run("run", "--status", str(out)).out


def test_a_column_of_targets_and_one_of_parts_of_speech(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    rows: list[dict[str, Any]] = [
        {"text": "The old dog ran .", "at": 3, "pos": ["DET", "ADJ", "NOUN", "VERB", "PUNCT"]},
        {"text": "A cat slept .", "at": "cat", "pos": "DET NOUN VERB PUNCT"},
        {"text": "A cat ran .", "at": "dog", "pos": "DET NOUN VERB PUNCT"},
        {"text": "Too few tags .", "at": 1, "pos": "DET"},
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run(
        *("run", str(corpus), "--measure", "attention", "--out", str(out), "--by-head"),
        *("--target-column", "at", "--tags-column", "pos"),
    )
    assert ran.status == 0, ran.err
    assert "2 of 4 records measured" in ran.out
    assert "2 records could not be measured" in ran.out
    targets = {row["id"]: row["target_tokens"].tolist() for row in rows_of(out)}
    assert targets == {"1": ["dog"], "2": ["cat"]}
    aggregates = json.loads((out / "aggregates.json").read_text())
    assert set(aggregates) == {"attention", "attention by head"}
    by_head, lens = aggregates["attention by head"], Lens.bundled()
    assert (by_head["layers"][:2], by_head["heads"][:2]) == ([0, 0], [0, 1])
    texts = [rows[0]["text"], rows[1]["text"]]
    heads = [lens.measure("attention", text, per_head=True).scores for text in texts]
    expected = np.mean([heads[0][0, 1, 3, 4], heads[1][0, 1, 2, 3]])  # noun to verb, head 1
    assert by_head["mean_share_by_part_of_speech"]["NOUN"]["VERB"][1] == pytest.approx(
        expected, rel=1e-3
    )


def test_columns_select_the_explained_output(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    rows: list[dict[str, Any]] = [
        {"text": "The dogs [MASK] in the park.", "right": "are", "wrong": "is"},
        {"text": "Nobody near the old houses [MASK] a bird.", "right": "has", "wrong": "have"},
        {"text": "The [MASK] ran.", "right": None, "wrong": "has"},
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run(
        *("run", str(corpus), "--measure", "gradient_x_input", "--measure", "attention"),
        *("--word-column", "right", "--foil-column", "wrong", "--out", str(out)),
        *("--keep", "scores"),
    )
    assert ran.status == 0, ran.err
    assert "1 record could not be measured" in ran.out
    results, lens = mixlens.load(out), Lens.bundled()
    for name, row in zip(("1", "2"), rows, strict=False):
        expected = lens.measure(
            "gradient_x_input", row["text"], word=row["right"], foil=row["wrong"]
        )
        maps = results.maps(name, "gradient_x_input")
        assert maps.target_row.labels == expected.target_row.labels
        np.testing.assert_allclose(maps.scores, expected.scores, rtol=1e-3, atol=1e-6)


def test_generated_tokens_are_targets(tmp_path: Path) -> None:
    from mixlens.measuring.measure import measure
    from mixlens.runs.corpus_run import run_corpus
    from mixlens.runs.job import Job, ModelSource

    lens = Lens.bundled("causal")
    folder, model = tmp_path / "model", cast("Any", lens.model)
    model.save_pretrained(folder)
    lens.tokenizer.save_pretrained(folder)
    corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
    corpus.write_text("The old dog saw\nNobody has\n")
    job = Job(
        corpus=str(corpus),
        out=str(out),
        measures=("attention", "alti"),
        targets="generated",
        keep="scores",
    )
    counts = run_corpus(job, ModelSource(name=str(folder)))
    assert (counts.texts, counts.errors) == (2, 0)
    recording = lens.generate("The old dog saw")
    for name in ("attention", "alti"):
        expected: Any = measure(name, recording)
        maps = mixlens.load(out).maps("1", name)
        assert maps.tokens == expected.tokens
        assert maps.target_positions == expected.target_positions
        np.testing.assert_allclose(maps.scores, expected.scores, atol=1e-5)
