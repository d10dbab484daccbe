"""`mixlens benchmark`: which measure to trust on a model and its data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    EngineOption,
    FreshOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    ThreadsOption,
    WorkersOption,
    dataset_from,
    lens_from,
    second_lens_from,
    workers_from,
)
from mixlens.cli.output import print_json
from mixlens.cli.progress import progress_bar
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.benchmark import Ranking

BUNDLED_SAMPLE = 30  # with the bundled model: under two minutes on two cores


_DataOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "A file, a folder or hf:NAME, see docs/data.md. Default: the bundled agreement"
            " sentences."
        )
    ),
]
_KindOption = Annotated[
    str | None,
    typer.Option(help="Read the data as agreement, classification, tagged, alignment or text."),
]
_MeasuresOption = Annotated[str, typer.Option(help="Names separated by commas, or all.")]
_EvaluationsOption = Annotated[str, typer.Option(help="Names separated by commas, or all.")]
_OutOption = Annotated[
    Path | None,
    typer.Option(help="The folder for results and report. A run that stopped resumes there."),
]
_SampleOption = Annotated[
    int | None,
    typer.Option(help="How many texts. Default: all; 30 of the bundled ones.", min=1),
]
_SeedOption = Annotated[
    int, typer.Option(help="Of the sample, the tests and the intervals.", min=0)
]
_OtherModelOption = Annotated[
    str | None, typer.Option(help="A second model, for evaluations that compare two.")
]
_SubmitOption = Annotated[
    Path | None,
    typer.Option(help="Write a row for the leaderboard into this file: JSON, without texts."),
]


def benchmark(
    data: _DataOption = None,
    kind: _KindOption = None,
    measures: _MeasuresOption = "all",
    evaluations: _EvaluationsOption = "all",
    out: _OutOption = None,
    sample: _SampleOption = None,
    seed: _SeedOption = 0,
    other_model: _OtherModelOption = None,
    submit: _SubmitOption = None,
    fresh: FreshOption = False,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    threads: ThreadsOption = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Rank every measure on a model by every evaluation that fits the data, with intervals."""
    if kind is not None and data is None:
        raise InvalidInput(f"--kind {kind} says how --data is read: name a file by --data")
    if submit is not None:
        from mixlens.maps.storage import writable

        writable(submit)  # before the hours of work, not after
    dataset = dataset_from(
        data, kind, sample=sample or (BUNDLED_SAMPLE if data is None else None), seed=seed
    )
    lens = lens_from(model, device, dtype, trust_remote_code)
    other = second_lens_from(other_model, device, dtype, trust_remote_code)
    crew = workers_from(
        engine, workers, threads, model, other_model, device, dtype, trust_remote_code
    )
    from mixlens import benchmark as trust

    with progress_bar(out) as progress:
        ranking = trust.benchmark(
            lens,
            dataset,
            _names(measures),
            _names(evaluations),
            out,
            other=other,
            seed=seed,
            fresh=fresh,
            progress=progress,
            workers=crew,
        )
    if submit is not None:
        _write_row(ranking, submit)
    if as_json:
        print_json(ranking.to_dict())
    else:
        from rich.console import Console

        from mixlens.benchmark.report.terminal import show

        show(ranking, Console(highlight=False))
    if out is not None:
        print(f"report: {out / 'report.html'}", file=sys.stderr)


def _write_row(ranking: Ranking, path: Path) -> None:
    from mixlens.benchmark.submission import submission
    from mixlens.maps.storage import write_whole

    row = json.dumps(submission(ranking), indent=1, ensure_ascii=False)
    write_whole(path, row + "\n")
    print(f"row for the leaderboard: {path}", file=sys.stderr)


def _names(given: str) -> list[str] | None:
    return None if given == "all" else [name.strip() for name in given.split(",") if name.strip()]
