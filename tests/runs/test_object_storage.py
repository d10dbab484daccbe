"""Runs on object storage: a real server on loopback that speaks S3, and runs that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.datasets import object_storage
from mixlens.datasets.object_storage import ObjectPath, path_of
from mixlens.datasets.shards import cut_into_shards
from mixlens.errors import CannotWrite, InvalidInput
from mixlens.runs import lease
from mixlens.runs.corpus_run import read_status
from tests.cli.running import run as command
from tests.runs.sentences import contents, run, write_corpus

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("MIXLENS_KILLS", "1"))  # 20 before a release


@pytest.fixture(scope="module")
def bucket() -> Iterator[ObjectPath]:
    """An empty bucket of a server in a process of its own."""
    pytest.importorskip("moto.server", reason="NOT RUN: needs moto[server]")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with pytest.MonkeyPatch.context() as patch, subprocess.Popen(server, **quiet) as process:
        for name, value in settings.items():
            patch.setenv(name, value)
        object_storage._filesystem.cache_clear()
        try:
            _wait_for(port, process)
            yield ObjectPath(_made_bucket(f"http://127.0.0.1:{port}"))
        finally:
            process.kill()
            object_storage._filesystem.cache_clear()


def _wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)


def _made_bucket(address: str) -> str:
    import boto3

    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="texts")
    return "texts"


def _uploaded(path: Path, place: ObjectPath) -> ObjectPath:
    place.write_bytes(path.read_bytes())
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A corpus, and a run over it on the disk."""
    folder = tmp_path_factory.mktemp("local")
    corpus = write_corpus(folder / "corpus.txt")
    run(corpus, folder / "out", keep="scores")
    return corpus, folder / "out"


def test_objects_are_deleted(bucket: ObjectPath) -> None:
    place = bucket / "deleted.txt"
    for missing_ok in (True, False):
        place.write_bytes(b"text")
        place.unlink(missing_ok=missing_ok)
        assert not place.exists()
    place.unlink(missing_ok=True)
    with pytest.raises(InvalidInput, match=r"deleted\.txt"):
        place.unlink()


def test_a_killed_run_resumes_with_the_bytes_of_a_local_one(
    bucket: ObjectPath, whole: tuple[Path, Path]
) -> None:
    corpus, out = _uploaded(whole[0], bucket / "killed.txt"), bucket / "killed"
    words = [sys.executable, "-m", "mixlens", "run", str(corpus), "--out", str(out)]
    words += ["--measure", "attention,alti", "--keep", "scores", "--shard-rows", "6"]
    words += ["--threads", "1", "--json"]
    draw = random.Random(os.environ.get("MIXLENS_SEED", "0"))
    for _ in range(KILLS):
        before = len(list(out.glob("journal*.jsonl")))
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and len(list(out.glob("journal*.jsonl"))) <= before:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
    status = command("run", "--status", str(out), "--json")
    assert 0 < json.loads(status.out)["shards_done"] < 4 or KILLS > 2
    assert command(*words[3:]).status == 0
    assert contents(out) == contents(whole[1])
    assert not list(out.glob(".*"))


def test_a_second_run_is_rejected_while_the_first_one_writes(
    bucket: ObjectPath, whole: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.2)
    corpus, out = _uploaded(whole[0], bucket / "twice.txt"), bucket / "twice"
    with lease.acquire_lease(out, ".lease"):
        with pytest.raises(
            InvalidInput, match=rf"in use by another run \(process {os.getpid()} on"
        ):
            run(corpus, out)
        assert run(corpus, out, shards=(0, 1)).shards_done == 1  # tasks have leases of their own
    assert run(corpus, out).complete
    assert not list(out.glob(".lease*"))


def test_one_of_two_commands_runs_and_a_killed_one_is_continued(
    bucket: ObjectPath, whole: tuple[Path, Path]
) -> None:
    corpus, out = _uploaded(whole[0], bucket / "both.txt"), bucket / "both"
    words = [sys.executable, "-m", "mixlens", "run", str(corpus), "--out", str(out)]
    words += ["--measure", "attention,alti", "--keep", "scores", "--shard-rows", "6"]
    words += ["--threads", "1", "--json"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as first:
        while first.poll() is None and not list(out.glob("journal*.jsonl")):
            time.sleep(0.01)
        try:
            first.send_signal(signal.SIGSTOP)  # alive, but its lease is not renewed
            (path,) = out.glob(".lease.*")
            held = json.loads(path.read_bytes())
            assert held["process"] == first.pid
            with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as second:
                for beat in range(99, 999):  # as if another machine renewed it
                    elsewhere = {**held, "machine": "other 1 2", "beat": beat}
                    path.write_bytes(json.dumps(elsewhere).encode())
                    if second.poll() is not None:
                        break
                    time.sleep(0.3)
                _, said = second.communicate(timeout=120)
            assert second.returncode == 2
            assert f"in use by another run (process {first.pid} on other" in " ".join(said.split())
            path.write_bytes(json.dumps(held).encode())
        finally:
            first.send_signal(signal.SIGKILL)
    assert command(*words[3:]).status == 0  # at once, because its process has ended
    assert contents(out) == contents(whole[1])


def test_a_lease_of_another_machine_expires(
    bucket: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EXPIRY", 1.0)
    out = bucket / "expired"
    old = {"machine": "other 1 2", "process": os.getpid(), "began": "long ago", "beat": 3}
    (out / ".lease.old.json").write_bytes(json.dumps(old).encode())
    (out / ".lease.bad.json").write_bytes(b"{")
    with lease.acquire_lease(out, ".lease") as held:
        assert [path.name for path in out.glob(".lease*")] == [held.path.name]
        held.require_held()
        held._last -= 2.0  # suspended for longer than the expiry
        with pytest.raises(CannotWrite, match="no longer owns its folder"):
            held.require_held()


def test_a_run_whose_lease_was_taken_ends(
    bucket: ObjectPath, whole: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.05)
    out = bucket / "taken"
    with lease.acquire_lease(out, ".lease") as held:
        held.path.unlink()
        deadline = time.monotonic() + 60
        while not held._lost:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(CannotWrite, match="was deleted"):
            held.require_held()


def test_of_runs_that_begin_at_once_one_goes_first(bucket: ObjectPath) -> None:
    from concurrent.futures import ThreadPoolExecutor

    out, inside, most = bucket / "race", [0], [0]

    def work(_: int) -> str:
        try:
            with lease.acquire_lease(out, ".lease"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.3)
                inside[0] -= 1
        except InvalidInput as error:
            return str(error)
        return "ran"

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(lease, "BEAT", 0.1)
        said = list(pool.map(work, range(4)))
    assert most[0] == 1
    assert "ran" in said
    assert all(text == "ran" or "another run" in text or "Several" in text for text in said)


def test_results_are_read_where_they_are(bucket: ObjectPath, whole: tuple[Path, Path]) -> None:
    out = bucket / "read"
    run(_uploaded(whole[0], bucket / "read.txt"), out, keep="scores")
    assert contents(out) == contents(whole[1])
    results, expected = mixlens.load(str(out)), mixlens.load(whole[1])
    assert results.complete
    assert results.ids == expected.ids
    assert results.aggregates == expected.aggregates
    for measure in ("attention", "alti"):
        mine, theirs = results.maps("7", measure), expected.maps("7", measure)
        np.testing.assert_array_equal(mine.scores, theirs.scores)
    assert results.to_dataframe().equals(expected.to_dataframe())


def test_settings_corpus_and_fresh_are_checked(
    bucket: ObjectPath, whole: tuple[Path, Path]
) -> None:
    corpus, out = _uploaded(whole[0], bucket / "small.txt"), bucket / "small"
    assert run(corpus, out, shards=(0, 2)).shards_done == 2
    with pytest.raises(InvalidInput, match="different settings"):
        run(corpus, out, shards=(2, 3), keep="scores")
    (bucket / "small.txt").write_bytes(b"Another text.\n")
    with pytest.raises(InvalidInput, match="corpus is not the one"):
        run(corpus, out)
    counts = run(corpus, out, fresh=True)
    assert (counts.texts, counts.complete, read_status(out).texts) == (1, True, 1)
    assert [path.name for path in (out / "data").iterdir()] == ["part-000000.parquet"]


def test_every_format_is_cut_as_on_the_disk(bucket: ObjectPath, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = bucket / "formats"
    files = {
        "a.csv": b'text,id\n"one\nline",1\ntwo,2\n',
        "b.jsonl": b'{"text": "three"}\n{"text": "four"}\r\n',
        "c.conllu": b"1\tdogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
    }
    pq.write_table(pa.table({"text": ["five", "six"]}), tmp_path / "d.parquet")
    files["d.parquet"] = (tmp_path / "d.parquet").read_bytes()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        (folder / name).write_bytes(content)
    theirs = [{**shard.to_dict(), "path": ""} for shard in cut_into_shards(str(tmp_path), 1)]
    mine = cut_into_shards(str(folder), 1)
    assert [{**shard.to_dict(), "path": ""} for shard in mine] == theirs
    assert mine[0].path == str(folder / "a.csv")


def test_errors_name_the_address(bucket: ObjectPath) -> None:
    with pytest.raises(InvalidInput, match=r"s3://texts/none\.txt does not exist"):
        cut_into_shards("s3://texts/none.txt", 1)
    with pytest.raises(InvalidInput, match=r"s3:///x has no bucket name"):
        path_of("s3:///x")
    with pytest.raises(CannotWrite, match=r"s3://nobody/x cannot be written"):
        ObjectPath("nobody/x").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"s3://texts/none has no results"):
        mixlens.load("s3://texts/none")
