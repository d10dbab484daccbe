"""A small corpus, and a run over it that tests can start and kill."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from mixlens.datasets.object_storage import AnyPath
from mixlens.runs.corpus_run import Counts, run_corpus
from mixlens.runs.job import Job, ModelSource

WORDS = """the old dog saw a small bird near river house and nobody has touched them since morning
children keys cabinet .""".split()  # noqa: SIM905
SOURCE = ModelSource(threads=1)


def write_corpus(path: Path, texts: int = 24) -> Path:
    """Sentences of 3 to 14 words."""
    draw = random.Random(0)
    lines = (" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) for _ in range(texts))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def job_for(corpus: AnyPath, out: AnyPath, **changed: Any) -> Job:
    usual: dict[str, Any] = {"measures": ("attention", "alti"), "shard_rows": 6}
    return Job(corpus=str(corpus), out=str(out), **{**usual, **changed})


def run(corpus: AnyPath, out: AnyPath, **changed: Any) -> Counts:
    """With `engine`, `workers`, `shards`, `fresh`, `on_event` for the run, the rest for the job."""
    how = {
        key: changed.pop(key)
        for key in ("engine", "workers", "shards", "fresh", "on_event")
        if key in changed
    }
    return run_corpus(job_for(corpus, out, **changed), SOURCE, **how)


def contents(out: AnyPath) -> dict[str, Any]:
    """The hash of every data file, what could not be measured, and the aggregates."""
    manifest = json.loads((out / "manifest.json").read_text())
    return {
        "files": {entry["file"]: entry["sha256"] for entry in manifest["files"]},
        "aggregates": (out / "aggregates.json").read_text(),
        "errors": (out / "errors.parquet").read_bytes(),
    }


if __name__ == "__main__":  # CORPUS OUT [ENGINE WORKERS]
    corpus, out = map(Path, sys.argv[1:3])
    engine, workers = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else ("local", 1)
    run(corpus, out, engine=engine, workers=workers)
