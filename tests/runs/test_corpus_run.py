"""Runs over a corpus have the same results as `lens.measure`, with every engine and after
interruptions.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedModel

import mixlens
from mixlens import Lens
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.runs.batch import start_measuring
from mixlens.runs.corpus_run import read_status, run_corpus
from mixlens.runs.store import MANIFEST, METADATA
from tests.runs.sentences import SOURCE, contents, job_for, run, write_corpus

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("MIXLENS_KILLS", "2"))  # 20 before a release


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt")


@pytest.fixture(scope="module")
def whole(corpus: Path) -> Path:
    """An uninterrupted run."""
    out = corpus.parent / "whole"
    run(corpus, out)
    return out


def test_maps_are_those_of_the_library(corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text().splitlines()
    counts = run(corpus, tmp_path, keep="scores", targets="last")
    assert (counts.texts, counts.errors, counts.complete) == (24, 0, True)
    results, lens = mixlens.load(tmp_path), Lens.bundled()
    assert results.ids == tuple(str(n) for n in range(1, 25))
    for name in ("3", "17"):
        text = lines[int(name) - 1]
        for measure in ("attention", "alti"):
            maps = results.maps(name, measure)
            expected = lens.measure(measure, text, targets=[-1])
            np.testing.assert_allclose(maps.scores, expected.scores, atol=1e-5)
            assert maps.source_tokens == expected.source_tokens
            assert maps.target_positions == expected.target_positions
            assert maps.facts == expected.facts
    rolled = tmp_path / "rolled"
    run(corpus, rolled, keep="rollout", targets="last", measures=("alti",), shard_rows=100)
    expected = lens.measure("alti", lines[2]).rollout().at(targets=[-1])
    np.testing.assert_allclose(mixlens.load(rolled).maps("3").scores, expected.scores, atol=1e-5)


def test_two_workers_give_the_same_bytes(corpus: Path, whole: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path, workers=2)
    assert contents(tmp_path) == contents(whole)
    for entry in json.loads((tmp_path / MANIFEST).read_text())["files"]:
        content = (tmp_path / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]


def test_killed_at_random_moments_it_goes_on(tmp_path: Path) -> None:
    """Half of the kills fall anywhere, half into the midst of measuring and writing."""
    corpus, out = write_corpus(tmp_path / "long.txt", 96), tmp_path / "killed"
    run(corpus, tmp_path / "whole")
    draw = random.Random(os.environ.get("MIXLENS_SEED", "0"))
    command = [sys.executable, "-m", "tests.runs.sentences", str(corpus), str(out)]
    start, journal = time.monotonic(), out / "journal.jsonl"
    for number in range(KILLS):
        before = journal.stat().st_size if journal.exists() else 0
        with subprocess.Popen(command, cwd=ROOT) as process:
            while number % 2 and process.poll() is None:
                if journal.exists() and journal.stat().st_size > before:
                    break
                time.sleep(0.01)
            try:
                process.wait(draw.uniform(0.0, 0.3 if number % 2 else 8.0))
            except subprocess.TimeoutExpired:
                process.send_signal(draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT)))
        assert time.monotonic() - start < 600
    if KILLS > 1:
        assert journal.exists()
    run(corpus, out)
    assert contents(out) == contents(tmp_path / "whole")
    assert not list(out.rglob("*.part"))


def test_a_task_of_a_job_array_does_its_own_shards(
    corpus: Path, whole: Path, tmp_path: Path
) -> None:
    half = run(corpus, tmp_path, shards=(2, 4))
    assert (half.shards_done, half.complete) == (2, False)
    results = mixlens.load(tmp_path)
    assert "not complete" in repr(results)
    with pytest.raises(InvalidInput, match=r"incomplete run\. Resume it"):
        _ = results.aggregates
    assert run(corpus, tmp_path, shards=(0, 2)).complete
    assert set(results.aggregates) == {"attention", "alti"}
    assert contents(tmp_path) == contents(whole)
    with pytest.raises(InvalidInput, match="clears the folder"):
        run(corpus, tmp_path, shards=(0, 2), fresh=True)
    with pytest.raises(InvalidInput, match="The corpus has 4"):
        run(corpus, tmp_path, shards=(3, 9))


def test_a_finished_run_is_left_alone_and_a_lost_file_is_made_again(
    corpus: Path, whole: Path
) -> None:
    events: list[dict[str, Any]] = []
    before = contents(whole)
    (whole / "data" / "part-000001.parquet").unlink()
    run(corpus, whole, on_event=events.append)
    assert [event["shard"] for event in events if event["event"] == "shard"] == [1]
    assert contents(whole) == before


def test_different_settings_or_texts_are_refused(corpus: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"measures: no longer alti.*--fresh"):
        run(corpus, whole, measures=("attention",))
    with pytest.raises(InvalidInput, match="targets was all, now last"):
        run(corpus, whole, targets="last")
    with pytest.raises(InvalidInput, match=r"options: alti was None, now .*released"):
        run(corpus, whole, options={"alti": {"variant": "released"}})
    lens, model = Lens.bundled(), tmp_path / "model"
    next(lens.model.parameters()).data[0, 0] += 1
    assert isinstance(lens.model, PreTrainedModel)
    lens.model.save_pretrained(model)
    lens.tokenizer.save_pretrained(model)
    with pytest.raises(InvalidInput, match=r"model weights was \w+, now \w+"):
        run_corpus(job_for(corpus, whole), replace(SOURCE, name=str(model)))
    changed = tmp_path / "corpus.txt"
    changed.write_text(corpus.read_text().replace("cabinet", "cupboard"))
    with pytest.raises(InvalidInput, match=r"not the one.*now has 24; the records from line"):
        run(changed, whole)
    changed.write_text(corpus.read_text() + "One more .\n")
    with pytest.raises(InvalidInput, match=r"24 records and now has 25"):
        run(changed, whole)


def test_two_runs_in_one_folder(corpus: Path, tmp_path: Path) -> None:
    refused: list[Exception] = []

    def second(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            try:
                run(corpus, tmp_path)
            except InvalidInput as error:
                refused.append(error)

    thread = threading.Thread(
        target=run,
        args=(corpus, tmp_path),
        kwargs={"on_event": second, "measures": ("attention",), "shard_rows": 24},
    )
    thread.start()
    thread.join()
    assert "in use by another run" in str(refused[0])
    assert read_status(tmp_path).complete


def test_bad_rows_are_counted_and_listed(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    corpus = tmp_path / "corpus.txt"
    lines = ["A dog [MASK] .", "", "No mask here .", "word " * 400 + "[MASK]", "The [MASK] ran ."]
    corpus.write_text("\n".join(lines))
    counts = run(corpus, tmp_path / "out", targets="mask", measures=("attention",))
    assert (counts.rows, counts.texts, counts.errors) == (5, 2, 3)
    table = pq.read_table(tmp_path / "out" / "errors.parquet").to_pylist()
    assert [row["line"] for row in table] == [2, 3, 4]
    assert table[0]["reason"] == "empty"
    assert "[MASK]" in table[1]["reason"]
    assert "tokens" in table[2]["reason"]


def test_a_batch_that_does_not_fit_is_halved_and_recorded(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    def small(lens: Any, job: Any, texts: Any, places: list[int], *rest: Any) -> Any:
        if len(places) > 3:
            raise MemoryError
        return start_measuring(lens, job, texts, places, *rest)

    monkeypatch.setattr("mixlens.runs.shard.start_measuring", small)
    assert run(corpus, tmp_path, measures=("attention",)).texts == 24
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [entry["halved"] for entry in manifest["files"]] == [[6]] * 4


def test_a_text_that_fits_no_memory_is_an_error_of_its_own(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(lens: Any, job: Any, texts: Any, places: list[int], *rest: Any) -> Any:
        if any(texts[place].id == "5" for place in places):
            raise MemoryError
        return start_measuring(lens, job, texts, places, *rest)

    monkeypatch.setattr("mixlens.runs.shard.start_measuring", small)
    counts = run(corpus, tmp_path, measures=("attention",), targets="first")
    assert (counts.texts, counts.errors, counts.complete) == (23, 1, True)


def test_a_text_that_does_not_fit_raises_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(["A dog ran .", "A dog ran and " * 20, "The dog ran ."]))
    size = "mixlens.model.placement.available_memory"
    monkeypatch.setattr(size, lambda device: 500_000)  # bytes: for one short text
    counts = run(corpus, tmp_path / "out", measures=("attention",))
    assert (counts.texts, counts.errors, counts.complete) == (2, 1, True)
    (error,) = pq.read_table(tmp_path / "out" / "errors.parquet").to_pylist()
    assert error["line"] == 2
    assert "488 KiB are free" in error["reason"]


def test_a_full_disk_is_reported_and_the_run_resumes(
    corpus: Path, whole: Path, tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with pytest.raises(InvalidInput, match="same command to resume"):
            run(corpus, place / "out")
        subprocess.run(["mount", "-o", "remount,size=4m", str(place)], check=True)
        run(corpus, place / "out")
        assert contents(place / "out") == contents(whole)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def read_by_pandas(files: list[str]) -> dict[str, int]:
    pandas = pytest.importorskip("pandas")
    counts = pandas.concat([pandas.read_parquet(file) for file in files])["measure"].value_counts()
    return {str(name): int(count) for name, count in counts.items()}


def read_by_polars(files: list[str]) -> dict[str, int]:
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(files)
    assert table["entropy"].list.mean().sum() > 0
    return dict(table["measure"].value_counts().iter_rows())


def read_by_duckdb(files: list[str]) -> dict[str, int]:
    duckdb = pytest.importorskip("duckdb")
    query = f"select measure, count(*) from read_parquet({files}) group by measure"
    return dict(duckdb.sql(query).fetchall())


def read_by_datasets(files: list[str]) -> dict[str, int]:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_parquet(files, keep_in_memory=True)
    return {name: table["measure"].count(name) for name in sorted(set(table["measure"]))}


@pytest.mark.parametrize("read", [read_by_pandas, read_by_polars, read_by_duckdb, read_by_datasets])
def test_others_read_the_results(whole: Path, read: Callable[[list[str]], dict[str, int]]) -> None:
    files = [str(path) for path in sorted((whole / "data").iterdir())]
    assert read(files) == {"alti": 144, "attention": 144}


def test_results_are_read_on_demand(whole: Path) -> None:
    results = mixlens.load(whole)
    assert "_places" not in vars(results)
    assert "description" not in vars(results)
    assert len(results.to_dataframe()) == 24 * 2 * 6
    with pytest.raises(InvalidInput, match="summaries, not maps"):
        results.maps("1", "alti")
    with pytest.raises(InvalidInput, match="Pass one of: attention, alti"):
        results.maps("1")
    with pytest.raises(InvalidInput, match="Unknown text '99' or measure 'alti'"):
        results.maps("99", "alti")


def test_a_fresh_run_clears_what_was_there(corpus: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    (out / "data" / "part-99999.parquet").write_bytes(b"of an older run")
    draft = out / "data" / f".{next((out / 'data').glob('part-*')).name}.1.part"
    draft.write_bytes(b"of a killed run")
    assert run(corpus, out, fresh=True).complete
    assert contents(out) == contents(whole)


def test_a_kill_at_the_end_leaves_no_draft(corpus: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    (out / MANIFEST).rename(out / f".{MANIFEST}.12345.part")
    (out / ".aggregates.json.9.part").write_text("{")
    assert run(corpus, out).complete
    assert contents(out) == contents(whole)
    assert not list(out.rglob("*.part"))


def test_a_weight_that_the_checkpoint_lacks_does_not_stop_a_run_from_resuming(
    corpus: Path, tmp_path: Path
) -> None:
    lens = Lens.bundled()
    body: Any = lens.model.base_model  # it has no pooler
    body.save_pretrained(tmp_path / "model")
    body.config.__class__.from_dict(
        {**body.config.to_dict(), "architectures": ["BertModel"]}
    ).save_pretrained(tmp_path / "model")
    lens.tokenizer.save_pretrained(tmp_path / "model")
    source = replace(SOURCE, name=str(tmp_path / "model"))
    job = job_for(corpus, tmp_path / "out")
    assert not run_corpus(job, source, shards=(0, 1)).complete
    assert run_corpus(job, source).complete


def test_results_of_a_newer_mixlens_are_refused(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    import pyarrow.parquet as pq

    path = sorted((out / "data").glob("part-*.parquet"))[0]
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[METADATA])
    newer = {METADATA: json.dumps({**about, "schema": 99}).encode()}
    pq.write_table(table.replace_schema_metadata(newer), path)
    with pytest.raises(InvalidInput, match="has schema 99, but this version of mixlens reads"):
        _ = mixlens.load(out).description


def test_impossible_runs_raise_immediately(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Unknown measure"):
        run(corpus, tmp_path, measures=("attenshun",))
    with pytest.raises(InvalidInput, match="keep='everything'"):
        run(corpus, tmp_path, keep="everything")
    with pytest.raises(InvalidInput, match="engine"):
        run(corpus, tmp_path / "a", engine="spark")
    with pytest.raises((InvalidInput, UnsupportedModel)):
        run(corpus, tmp_path / "b", site="cross")
