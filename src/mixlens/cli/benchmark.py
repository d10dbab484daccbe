"""`mixlens benchmark`: rank measures on a model and its data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.help import INPUT, MEASURE, OUTPUT
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    EngineOption,
    FreshOption,
    JsonOption,
    ModelOption,
    OtherModelOption,
    RemoteCodeOption,
    ThreadsOption,
    WorkersOption,
    dataset_from,
    lens_from,
    second_lens_from,
    workers_from,
)
from mixlens.cli.options import split_names
from mixlens.cli.output import print_json
from mixlens.cli.progress import progress_bar
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.benchmark import Ranking

BUNDLED_SAMPLE = 30  # under two minutes on two cores with the bundled model


EXAMPLES = """
mixlens benchmark --sample 16 --measure alti,attention,value_zeroing
mixlens benchmark --model bert-base-uncased --data blimp/ --out trust-bert
mixlens benchmark --model my-classifier --data sst2/dev.tsv --json
"""
_DataOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        rich_help_panel=INPUT,
        help="File, folder or hf:NAME. Default: the bundled agreement sentences.",
    ),
]
_KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        rich_help_panel=INPUT,
        help="Read the data as agreement, classification, tagged, alignment, evidence, speech or"
        " text. Default: inferred from the data.",
    ),
]
_MeasuresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "--measures",
        metavar="NAMES",
        rich_help_panel=MEASURE,
        help="Measures to rank, separated by commas. Default: all.",
    ),
]
_EvaluationsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluation",
        "--evaluations",
        metavar="NAMES",
        rich_help_panel=MEASURE,
        help="Evaluations to rank them by, separated by commas. Default: all that fit the data.",
    ),
]
_OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Folder for results and report. The same command resumes an interrupted run.",
    ),
]
_SampleOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Number of texts to draw. Default: all, or 30 bundled sentences.",
        min=1,
    ),
]
_SeedOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Seed of the sample, the tests and the intervals. Default: 0.",
        min=0,
    ),
]
_SubmitOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Save a leaderboard entry as JSON, without texts.",
    ),
]


def benchmark(
    data: _DataOption = None,
    kind: _KindOption = None,
    measures: _MeasuresOption = None,
    evaluations: _EvaluationsOption = None,
    out: _OutOption = None,
    sample: _SampleOption = None,
    seed: _SeedOption = 0,
    other_model: OtherModelOption = None,
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
    """Rank measures on your model and data."""
    if kind is not None and data is None:
        raise InvalidInput(f"--kind {kind} needs --data. Pass the file to read.")
    if submit is not None:
        from mixlens.maps.storage import writable

        writable(submit)  # Check this before hours of work, not after.
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
            split_names(measures),
            split_names(evaluations),
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

    entry = json.dumps(submission(ranking), indent=1, ensure_ascii=False)
    write_whole(path, entry + "\n")
    print(f"saved the leaderboard entry in {path}", file=sys.stderr)
