"""Run measures over a corpus. The corpus is split into shards, and an engine measures and writes
one shard after another.

The folder of a run contains these files:

* `settings.json`: the settings (a run with different settings in the same folder raises an error);
* `plan.json`: the shards of the corpus with hashes of their records;
* `journal*.jsonl`: a line for each finished shard;
* `data/part-*.parquet`: the results, see `mixlens.runs.store`;
* after completion, `manifest.json` (files with their hashes, counts), `errors.parquet` (records
  that could not be measured) and `aggregates.json`.

A run may be killed at any time. Run the same command again to resume it. Finished shards are kept,
and the shard in progress is repeated. The tasks of a job array may share a folder if each of them
has its own range of shards.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from mixlens.datasets.object_storage import AnyPath, ObjectPath, parquet_source, path_of
from mixlens.datasets.shards import Shard, cut_into_shards
from mixlens.errors import InvalidInput, format_count
from mixlens.maps.storage import remove_drafts
from mixlens.model.json_values import parse_json, require_form
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates
from mixlens.runs.engines import Engine, do_tasks, running
from mixlens.runs.job import Job, ModelSource
from mixlens.runs.journal import Journal, encode_line
from mixlens.runs.lease import Lease, acquire_lease
from mixlens.runs.settings import SETTINGS, describe_model, guard, lock_folder
from mixlens.runs.shard import AT_ONCE, Report, file_name, worker_for
from mixlens.runs.store import AGGREGATES, ERRORS, MANIFEST

PLAN = "plan.json"
_SHARD = {
    **dict.fromkeys(("number", "start", "stop", "first_line", "rows"), int),
    **dict.fromkeys(("path", "format", "digest", "prefix"), str),
}

Event = Callable[[dict[str, Any]], None]
"""Called with events: `start`, `shard` and `end`, each a dict of plain values."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts that describe the progress of a run."""

    shards: int
    shards_done: int
    rows: int  # of the corpus
    texts: int  # measured
    errors: int
    tokens: int
    seconds: float  # summed over workers
    complete: bool


def run_corpus(
    job: Job,
    source: ModelSource,
    *,
    engine: str = "local",
    workers: int = 1,
    gpus_per_worker: float | None = None,
    shards: tuple[int, int] | None = None,
    fresh: bool = False,
    on_event: Event | None = None,
) -> Counts:
    """Measure every text of a corpus, or resume an interrupted run.

    `shards` is a half-open range (start, end) of shards. Other tasks can measure the rest. With
    Ray, a model may be spread over the processes of each worker (`ModelSource.processes`), or
    several workers may share a GPU (`gpus_per_worker`).
    """
    store.require_parquet()
    if fresh and shards is not None:
        raise InvalidInput(
            "--fresh does not work with --shards, because it clears the folder that all tasks"
            " share. Delete the folder before the tasks start."
        )
    out, captured = path_of(job.out), on_event or (lambda event: None)
    chosen_engine = Engine(
        kind=engine,
        workers=workers,
        threads=source.threads,
        device=source.device,
        at_once=1 if source.device == "cpu" or source.processes > 1 else AT_ONCE,
        group_size=source.processes,
        gpus_per_worker=gpus_per_worker,
    )
    with (
        running(chosen_engine),
        _open_run(job, source, chosen_engine, shards, fresh) as (plan, add),
    ):
        first, last = shards or (0, len(plan))
        finished_shards = _reports(out)
        open_shards = [shard for shard in plan[first:last] if shard.number not in finished_shards]
        remove_drafts(*(out / file_name(shard) for shard in open_shards))
        captured({"event": "start", **asdict(_counts(out, plan, finished_shards))})
        for _, report in do_tasks(chosen_engine, partial(worker_for, source, job), open_shards):
            add(report)
            captured(_event(report))
        counts = _finish(out, plan)
        captured({"event": "end", **asdict(counts)})
    return counts


def _event(report: Report) -> dict[str, Any]:
    fields = ("shard", "file", "texts", "tokens", "halved", "seconds", "processor_seconds")
    short = {key: report[key] for key in fields}
    errors = len(report["errors"])
    return {"event": "shard", **short, "errors": errors, "rows": report["texts"] + errors}


@contextlib.contextmanager
def _open_run(
    job: Job, source: ModelSource, engine: Engine, shards: tuple[int, int] | None, fresh: bool
) -> Iterator[tuple[list[Shard], Callable[[Report], None]]]:
    """Yield the shards of a run, and a function that stores the report of a finished shard.

    Raise an error if the folder belongs to a run with different settings.
    """
    out = path_of(job.out)
    suffix = "" if shards is None else f"-{shards[0]}-{shards[1]}"
    with _lock_folder(out, suffix) as lease:
        if fresh:
            _clear(out)
        if shards is None:  # otherwise other tasks may be writing these
            remove_drafts(*(out / name for name in (SETTINGS, PLAN, MANIFEST, ERRORS, AGGREGATES)))
        (out / store.DATA).mkdir(exist_ok=True)
        plan = cut_into_shards(job.corpus, job.shard_rows)
        if shards is not None and not 0 <= shards[0] < shards[1] <= len(plan):
            raise InvalidInput(
                f"Shards {shards[0]}:{shards[1]} are out of range. The corpus has "
                f"{format_count(len(plan), 'shard')}."
            )
        settings = {**job.settings(), "model source": asdict(source), **_model(source, engine)}
        begun = (out / SETTINGS).exists()
        guard(out, settings, begun=begun)
        if begun and (out / PLAN).exists():
            _compare_plans(out, plan)
        store.write_safely(out / PLAN, json.dumps([shard.to_dict() for shard in plan], indent=1))
        with _open_journal(out, suffix, lease) as add:
            yield plan, add


def _lock_folder(out: AnyPath, suffix: str) -> contextlib.AbstractContextManager[object]:
    """Lock a folder, so that a second run in the same folder raises an error."""
    if isinstance(out, ObjectPath):
        return acquire_lease(out, f".lease{suffix}")
    return lock_folder(out, f".lock{suffix}")


@contextlib.contextmanager
def _open_journal(out: AnyPath, suffix: str, lease: object) -> Iterator[Callable[[Report], None]]:
    """Yield a function that stores the report of a shard.

    In a local folder, the report is a line of the journal. An object store does not support
    appending, so each report becomes a journal with a single line.
    """
    if isinstance(out, ObjectPath):
        assert isinstance(lease, Lease)

        def add(report: Report) -> None:
            lease.require_held()
            line = encode_line(str(report["shard"]), report) + b"\n"
            store.write_safely(out / f"journal-{report['shard']:06d}.jsonl", line)

        yield add
        return
    with Journal.resume(out / f"journal{suffix}.jsonl") as journal:
        yield lambda report: journal.add(str(report["shard"]), report)


def _model(source: ModelSource, engine: Engine) -> dict[str, str]:
    """Return values that identify the model.

    A model that is spread over processes may not fit into this process, so a worker loads it
    instead.
    """
    if source.processes == 1:
        return describe_model(source.load())
    one = replace(engine, workers=1)
    ((_, description),) = do_tasks(one, partial(_describer_for, source), [None])
    return description


def _describer_for(source: ModelSource) -> Callable[[None], dict[str, str]]:
    lens = source.load()
    return lambda _: describe_model(lens)


def _clear(out: AnyPath) -> None:
    for path in [out / SETTINGS, out / PLAN, out / MANIFEST, out / ERRORS, out / AGGREGATES]:
        path.unlink(missing_ok=True)
    for path in [*out.glob("journal*.jsonl"), *(out / store.DATA).glob("part-*.parquet")]:
        path.unlink()


def _compare_plans(out: AnyPath, plan: Sequence[Shard]) -> None:
    """Raise an error if the corpus has changed since the start of the run."""
    before = [Shard(**shard) for shard in _read_plan(out)]
    counts = sum(shard.rows for shard in before), sum(shard.rows for shard in plan)
    changed = [
        old
        for old, new in zip(before, plan, strict=False)
        if (old.digest, old.rows) != (new.digest, new.rows)
    ]
    if changed or counts[0] != counts[1]:
        where = (
            (
                f"the records from line {changed[0].first_line} of {Path(changed[0].path).name} "
                "differ"
            )
            if changed
            else "records were added or removed at the end"
        )
        raise InvalidInput(
            f"The corpus is not the one that {out} was started with: it had {counts[0]:,} "
            f"records and now has {counts[1]:,}; {where}. Choose a different --out, or start "
            "over with --fresh."
        )


def _read_plan(out: AnyPath) -> list[dict[str, Any]]:
    """Return the shards of an existing run."""
    try:
        plan: list[dict[str, Any]] = parse_json((out / PLAN).read_text(encoding="utf-8"))
        require_form(plan, [_SHARD], PLAN)
    except (OSError, ValueError) as error:
        reason = f"no {PLAN}" if isinstance(error, FileNotFoundError) else error
        raise InvalidInput(
            f"{out} is not the folder of a corpus run ({reason}). Pass the --out folder of a run."
        ) from error
    return plan


def _reports(out: AnyPath) -> dict[int, Report]:
    """Return the report of every finished shard whose results file exists, by shard number."""
    reports: dict[int, Report] = {}
    file_names = {path.name for path in (out / store.DATA).glob("part-*.parquet")}
    journals: list[AnyPath] = [*out.glob("journal*.jsonl")]
    for path in sorted(journals, key=str):
        for report in Journal.read(path):
            if PurePosixPath(report["file"]).name in file_names:
                reports[report["shard"]] = report
    return dict(sorted(reports.items()))


def read_status(out: AnyPath) -> Counts:
    """Return the progress of the run in a folder."""
    return _counts(out, [Shard(**shard) for shard in _read_plan(out)], _reports(out))


def _counts(out: AnyPath, plan: Sequence[Shard], finished_shards: Mapping[int, Report]) -> Counts:
    reports = finished_shards.values()
    return Counts(
        shards=len(plan),
        shards_done=len(reports),
        rows=sum(shard.rows for shard in plan),
        texts=sum(report["texts"] for report in reports),
        errors=sum(len(report["errors"]) for report in reports),
        tokens=sum(report["tokens"] for report in reports),
        seconds=sum(report["seconds"] for report in reports),
        complete=(out / MANIFEST).exists(),
    )


def read_errors(out: AnyPath) -> list[dict[str, Any]]:
    """Return the records of a finished run that could not be measured.

    Each record is a dict with file, line, id and reason.
    """
    import pyarrow.parquet as pq

    errors: list[dict[str, Any]] = pq.read_table(parquet_source(out / ERRORS)).to_pylist()  # type: ignore[no-untyped-call]
    return errors


def _finish(out: AnyPath, plan: Sequence[Shard]) -> Counts:
    """Write the files that summarise all shards, if all shards are done."""
    reports = _reports(out)
    if len(reports) < len(plan):
        return _counts(out, plan, reports)
    aggregates = Aggregates()
    for report in reports.values():
        aggregates.merge(report["aggregates"])
    errors = [error for report in reports.values() for error in report["errors"]]
    store.write_errors(out / ERRORS, errors)
    concluded = json.dumps(aggregates.conclude(), ensure_ascii=False)
    store.write_safely(out / AGGREGATES, concluded)
    files = [
        {
            **{key: report[key] for key in ("file", "sha256", "texts", "halved")},
            "errors": len(report["errors"]),
            "corpus": shard.to_dict(),
        }
        for report, shard in zip(reports.values(), plan, strict=True)
    ]
    manifest = {
        "result schema": store.SCHEMA_VERSION,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": json.loads((out / SETTINGS).read_text(encoding="utf-8")),
        "files": files,
    }
    store.write_safely(out / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))
    return _counts(out, plan, reports)
