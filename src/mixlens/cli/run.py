"""`mixlens run`: measure every text of a corpus; runs can be resumed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.exit_codes import INTERRUPTED
from mixlens.cli.help import INPUT, MEASURE, MODEL, OUTPUT
from mixlens.cli.loading import (
    DTYPES,
    DeviceOption,
    DtypeOption,
    EngineOption,
    FreshOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    ThreadsOption,
    WorkersOption,
)
from mixlens.cli.options import measure_options, split_names
from mixlens.cli.output import print_json
from mixlens.cli.progress import progress_bar
from mixlens.cli.texts import SiteOption
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.datasets.object_storage import AnyPath
    from mixlens.runs.corpus_run import Counts


EXAMPLES = """
mixlens run corpus.txt --measure attention --targets last --out results
mixlens run texts.parquet --measure alti --text-column body --out results
mixlens run s3://bucket/texts --measure attention --out s3://bucket/results
mixlens run --status results
"""
_CorpusArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CORPUS",
        rich_help_panel=INPUT,
        help="Text, JSONL, CSV, TSV, Parquet or CoNLL-U file, folder, s3://NAME or hf:NAME.",
    ),
]
_MeasureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "--measures",
        metavar="NAMES",
        rich_help_panel=MEASURE,
        help="Measures, separated by commas. Required.",
    ),
]
_OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Folder or s3://NAME for results. Required. The same command resumes a run.",
    ),
]
_TargetsOption = Annotated[
    str,
    typer.Option(
        "--targets",
        "--target",
        metavar="KIND",
        rich_help_panel=MEASURE,
        help="Targets to keep: all, mask, first, last or generated. Default: all.",
    ),
]
_KeepOption = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        rich_help_panel=OUTPUT,
        help="Results to keep: a summary, or maps (rollout or scores). Default: summary.",
    ),
]


def _column(help_text: str) -> Any:
    return typer.Option(metavar="COLUMN", rich_help_panel=INPUT, help=help_text)


_TextColumnOption = Annotated[
    str | None, _column("Column with the text. Default: text, sentence or content.")
]
_IdColumnOption = Annotated[
    str | None, _column("Column with an identifier. Default: the line number.")
]
_WordColumnOption = Annotated[str | None, _column("Column with the output word to explain.")]
_FoilColumnOption = Annotated[str | None, _column("Column with the contrast word.")]
_LabelColumnOption = Annotated[str | None, _column("Column with the output class to explain.")]
_TargetColumnOption = Annotated[
    str | None, _column("Column with the target, a token or its position.")
]
_TagsColumnOption = Annotated[
    str | None, _column("Column with part-of-speech tags, one for each word.")
]
_ByHeadOption = Annotated[
    bool,
    typer.Option("--by-head", rich_help_panel=OUTPUT, help="Also aggregate each head separately."),
]
_OwnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        rich_help_panel=MEASURE,
        help="Set an option of a measure: measure.name=value. Can be repeated.",
    ),
]
_ShardRowsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=OUTPUT,
        help="Number of texts per shard. Default: 512, or 2048 on a GPU.",
        min=1,
    ),
]
_ShardsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FIRST:LAST",
        rich_help_panel=INPUT,
        help="Measure only these shards (for job arrays).",
    ),
]
_MemoryOption = Annotated[
    float | None,
    typer.Option(
        metavar="GIB",
        rich_help_panel=MODEL,
        help="Maximum memory of a batch, in GiB. Default: 1, or 8 on a GPU.",
        min=0.001,
    ),
]
_BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        help="Number of texts per batch. Overrides --memory.",
        min=1,
    ),
]
_GroupSizeOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        help="Number of processes per worker that share its model (Ray only). Default: 1.",
        min=1,
    ),
]
_GpusPerWorkerOption = Annotated[
    float | None,
    typer.Option(
        metavar="F",
        rich_help_panel=MODEL,
        help="Fraction of a GPU per worker, such as 0.5 for two workers per GPU (Ray only).",
    ),
]
_StatusOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Show the progress of the run in this folder and exit.",
    ),
]
_JsonLogOption = Annotated[
    bool,
    typer.Option("--json-log", rich_help_panel=OUTPUT, help="Log events to stderr as JSON lines."),
]


def run_command(
    corpus: _CorpusArgument = None,
    measure: _MeasureOption = None,
    out: _OutOption = None,
    model: ModelOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    threads: ThreadsOption = None,
    group_size: _GroupSizeOption = 1,
    gpus_per_worker: _GpusPerWorkerOption = None,
    targets: _TargetsOption = "all",
    keep: _KeepOption = "summary",
    site: SiteOption = None,
    text_column: _TextColumnOption = None,
    id_column: _IdColumnOption = None,
    word_column: _WordColumnOption = None,
    foil_column: _FoilColumnOption = None,
    label_column: _LabelColumnOption = None,
    target_column: _TargetColumnOption = None,
    tags_column: _TagsColumnOption = None,
    by_head: _ByHeadOption = False,
    option: _OwnOption = None,
    shard_rows: _ShardRowsOption = None,
    shards: _ShardsOption = None,
    memory: _MemoryOption = None,
    batch_size: _BatchSizeOption = None,
    fresh: FreshOption = False,
    status: _StatusOption = None,
    json_log: _JsonLogOption = False,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Measure every text of a corpus; runs can be resumed."""
    from mixlens.datasets.object_storage import path_of
    from mixlens.datasets.rows import Columns
    from mixlens.runs.corpus_run import read_errors, read_status, run_corpus
    from mixlens.runs.job import SHARD_ROWS, SHARD_ROWS_ELSEWHERE, Job, ModelSource

    if status is not None:
        _show(read_status(path_of(status)), path_of(status), as_json)
        return
    names = split_names(measure)
    if corpus is None or not names or out is None:
        raise InvalidInput("CORPUS, --measure and --out are required. Run `mixlens run --help`.")
    if dtype not in DTYPES:
        raise InvalidInput(f"Unknown --dtype {dtype!r}. Choose one of {', '.join(DTYPES)}.")
    columns = {"text": text_column, "id": id_column, "target": target_column, "tags": tags_column}
    explain = {"word": word_column, "foil": foil_column, "label": label_column}
    job = Job(
        corpus=corpus,
        out=out,
        measures=tuple(names),
        options=_options(names, option or []),
        columns=Columns(
            explain={key: column for key, column in explain.items() if column is not None},
            **columns,
        ),
        targets=targets if target_column is None else "column",
        site=site,
        keep=keep,
        by_head=by_head,
        shard_rows=shard_rows or (SHARD_ROWS if device == "cpu" else SHARD_ROWS_ELSEWHERE),
        memory=None if memory is None else int(memory * 2**30),
        batch_size=batch_size,
    )
    source = ModelSource(
        name=model,
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        threads=threads,
        processes=group_size,
    )
    how: dict[str, Any] = {
        "engine": engine,
        "workers": workers,
        "gpus_per_worker": gpus_per_worker,
        "shards": None if shards is None else _range(shards),
        "fresh": fresh,
    }
    start = partial(run_corpus, job, source, **how)
    place = path_of(out)
    counts = (_log_run if json_log else _with_bar)(start, place)
    _show(counts, place, as_json)
    if counts.complete and not counts.texts:
        raise InvalidInput(
            f"No text could be measured. First reason: {read_errors(place)[0]['reason']}"
        )


def _log_run(start: Callable[..., Counts], out: AnyPath) -> Counts:
    def write(event: dict[str, Any]) -> None:
        print(json.dumps({"time": time.time(), **event}), file=sys.stderr, flush=True)

    try:
        return start(on_event=write)
    except KeyboardInterrupt:
        write({"event": "interrupted", "out": str(out)})
        raise typer.Exit(INTERRUPTED) from None


def _with_bar(start: Callable[..., Counts], out: AnyPath) -> Counts:
    with progress_bar(out, "rows") as progress:
        counts = {"done": 0, "total": 0, "before": 0}

        def update(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                finished = event["texts"] + event["errors"]
                counts.update(done=finished, total=event["rows"], before=finished)
            elif event["event"] == "shard":
                counts["done"] += event["rows"]
            progress(counts["done"], counts["total"], counts["before"])

        return start(on_event=update)


def _options(measures: list[str], assignments: list[str]) -> dict[str, dict[str, Any]]:
    """Parse `measure.name=value` words into options by measure.

    If there is only one measure, its name can be left out.
    """
    by_measure: dict[str, list[str]] = {}
    for word in assignments:
        name, dot, option = word.partition(".")
        if not dot or name not in measures:
            if len(measures) > 1:
                raise InvalidInput(
                    f"--option {word} does not name a measure. Pass measure.name=value."
                )
            name, option = measures[0], word
        by_measure.setdefault(name, []).append(option)
    return {name: measure_options(name, words) for name, words in by_measure.items()}


def _range(value: str) -> tuple[int, int]:
    first, colon, last = value.partition(":")
    if not (colon and first.isdigit() and last.isdigit()):
        raise InvalidInput(f"--shards {value} is not a range. Pass FIRST:LAST, such as 0:100.")
    return int(first), int(last)


def _show(counts: Counts, out: AnyPath, as_json: bool) -> None:
    if as_json:
        print_json(asdict(counts))
        return
    state = "complete" if counts.complete else "not complete"
    print(f"{out}: {state}, {counts.shards_done} of {counts.shards} shards")
    print(f"{counts.texts:,} of {counts.rows:,} records measured ({counts.tokens:,} tokens)")
    if counts.errors:
        where = f": see {out / 'errors.parquet'}" if counts.complete else ""
        records = "1 record" if counts.errors == 1 else f"{counts.errors:,} records"
        print(f"{records} could not be measured{where}")
    if counts.seconds > 0:
        rate = counts.tokens / counts.seconds
        finished = counts.texts + counts.errors
        seconds_left = (counts.rows - finished) * counts.seconds / finished
        ending = "" if counts.complete else f"; about {seconds_left:.0f} s of work left"
        print(f"{rate:.0f} tokens per second and worker{ending}")
