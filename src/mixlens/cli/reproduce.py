"""`mixlens reproduce`: reproduce figures and tables of papers on your model and data."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import INPUT, MEASURE, OUTPUT
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    EngineOption,
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
from mixlens.cli.options import read_options
from mixlens.cli.output import print_json
from mixlens.cli.progress import progress_bar
from mixlens.errors import InvalidInput, MixlensError

if TYPE_CHECKING:
    from rich.console import Console

    from mixlens.datasets import Dataset
    from mixlens.lens import Lens
    from mixlens.papers import ExperimentSpec


EXAMPLES = """
mixlens reproduce --list
mixlens reproduce brunner2020/fig1a --sample 20
mixlens reproduce kobayashi2020 --all --model bert-base-uncased --data data/
"""
_WantedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PAPER/ID...",
        rich_help_panel=INPUT,
        help="Experiments such as brunner2020/fig3a, or a paper together with --all.",
    ),
]
_ShowListOption = Annotated[
    bool,
    typer.Option(
        "--list", rich_help_panel=OUTPUT, help="List the experiments with their data and cost."
    ),
]
_EverythingOption = Annotated[
    bool,
    typer.Option("--all", rich_help_panel=INPUT, help="Run every experiment of the paper."),
]
_DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        rich_help_panel=INPUT,
        help="Data set or folder of data sets. Default: the bundled agreement sentences, or"
        " generated ones for experiments on audio.",
    ),
]
_OutOption = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Folder for tables, figures and result.json. Default: reproduced.",
    ),
]
_SampleOption = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=INPUT, help="Maximum number of texts. Default: all."),
]
_SeedOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Seed of samples, splits and probes. Default: 0.",
        min=0,
    ),
]
_OwnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        rich_help_panel=MEASURE,
        help="Set an option of the experiment. Can be repeated.",
    ),
]


def reproduce_command(
    wanted: _WantedArgument = None,
    show_list: _ShowListOption = False,
    everything: _EverythingOption = False,
    model: ModelOption = None,
    other_model: OtherModelOption = None,
    data: _DataOption = None,
    out: _OutOption = Path("reproduced"),
    sample: _SampleOption = None,
    seed: _SeedOption = 0,
    option: _OwnOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Reproduce a figure or table of a paper on your model."""
    from mixlens.papers import experiments
    from mixlens.papers.questions import Memory

    if show_list:
        show_experiments(experiments(), as_json)
        return
    selection = _choose_experiments(wanted, everything)
    batch = _Batch(
        lens=lens_from(model, device, dtype, trust_remote_code),
        data=data,
        read=cache(dataset_from),
        option=option or [],
        how={
            "out": out,
            "sample": sample,
            "seed": seed,
            "other": second_lens_from(other_model, device, dtype, trust_remote_code),
            "memory": Memory(),
            "workers": workers_from(
                engine, workers, threads, model, other_model, device, dtype, trust_remote_code
            ),
        },
        quiet=as_json,
    )
    results, failures = _run_all(selection, batch)
    if as_json:
        print_json({"results": results, "not_run": failures})
    if not results:
        raise InvalidInput("No experiment could run on this model and data. The reasons are above.")


def _choose_experiments(requests: list[str] | None, everything: bool) -> list[str]:
    """Return the names of the requested experiments, without duplicates."""
    from mixlens.papers import names, papers, resolve_experiment

    if not requests:
        raise InvalidInput(
            "PAPER/ID is missing. Run `mixlens reproduce --list` for the experiments."
        )
    experiments: list[str] = []
    for name in requests:
        if name not in papers():
            experiments.append(resolve_experiment(name))
        elif everything:
            experiments += [other for other in names() if other.startswith(f"{name}/")]
        else:
            raise InvalidInput(
                f"{name} is a paper. Pass --all to run all its experiments, or name one ({name}/…)."
            )
    return list(dict.fromkeys(experiments))


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Arguments that all experiments of one command share."""

    lens: Lens
    data: Path | None
    read: Callable[[str | None], Dataset]  # each data set once, even if several experiments use it
    option: list[str]
    how: Mapping[str, Any]  # further arguments of `reproduce`
    quiet: bool


def _run_all(experiments: list[str], batch: _Batch) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Run the experiments. Return the results, and the errors of the experiments that could not
    run.

    If there is only one experiment, its error is raised.
    """
    results: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for name in experiments:
        try:
            results.append(_run_one(name, batch))
        except (MixlensError, ImportError) as error:
            if len(experiments) == 1:
                raise
            failures[name] = str(error)
            print(f"{name} did not run: {error}", file=sys.stderr)
    return results, failures


def _run_one(name: str, batch: _Batch) -> dict[str, Any]:
    """Run one experiment, print its findings and return its result."""
    from mixlens.papers import module
    from mixlens.papers.reproduction import data_path, reproduce, require_model

    spec = module(name).SPEC
    require_model(spec, batch.lens)
    path = str(data_path(spec, batch.data)) if batch.data else spec.generated or None
    dataset = batch.read(path) if spec.kinds else None
    options = _options(module(name).run, batch.option)
    with progress_bar(batch.how["out"]) as progress:
        reproduction = reproduce(
            name,
            batch.lens,
            dataset,
            progress=progress,
            context={"data_folder": batch.data} if batch.data is not None else {},
            **batch.how,
            **options,
        )
    if not batch.quiet:
        show_result(
            name, spec, reproduction.result, reproduction.folder, again=reproduction.outcome is None
        )
    return {"folder": str(reproduction.folder), **reproduction.result}


def _options(run: Any, words: list[str]) -> dict[str, Any]:
    """Parse `name=value` words into options of an experiment, with their declared types."""
    kinds = {
        name: str(p.annotation)
        for name, p in inspect.signature(run).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    return read_options(words, kinds, owner="This experiment")


_VERDICTS = {
    True: "[green]holds[/]",
    False: "[red]does not hold[/]",
    None: "[dim]cannot be decided[/]",
}


def show_experiments(specs: dict[str, ExperimentSpec], as_json: bool) -> None:
    """Print all experiments with their data and cost."""
    if as_json:
        listed = {
            name: {
                "title": spec.title,
                "finding": spec.finding,
                "data": spec.data,
                "kinds": spec.kinds,
                "needs": spec.needs,
                "models": spec.models,
                "cost": spec.cost,
                "also": spec.also,
                "published": {model: dict(numbers) for model, numbers in spec.published.items()},
            }
            for name, spec in specs.items()
        }
        print_json(listed)
        return
    from rich.console import Console

    console = Console(highlight=False)
    for name, spec in specs.items():
        also = f" (also {', '.join(spec.also)})" if spec.also else ""
        console.print(f"[bold]{name}[/bold]{also}  {spec.title}")
        console.print(f"    paper    {spec.finding}", markup=False)
        needs = "" if spec.needs == "any" else f"; needs a {spec.needs} model"
        console.print(f"    data     {spec.data}{needs}", markup=False)
        console.print(f"    cost     {spec.cost}", markup=False)


def show_result(
    name: str, spec: ExperimentSpec, result: Any, folder: Path | None, *, again: bool
) -> None:
    """Print the numbers of an experiment, and whether each finding of the paper holds."""
    from rich.console import Console

    console = Console(highlight=False)
    settings = result["settings"]
    about = settings["model"] + (
        f", {settings['texts']} texts of {settings['data']}" if settings["data"] else ""
    )
    console.print(f"\n[bold]{name}[/bold]  {spec.title}")
    console.print(about + (" (finished before)" if again else ""), markup=False, style="dim")
    if result["numbers"]:
        _show_numbers(console, spec, result["numbers"], result["papers_own_model_and_data"])
    for finding in result["findings"]:
        console.print(f"{_VERDICTS[finding['holds']]}  ", end="")
        console.print(
            finding["statement"] + (f": {finding['numbers']}" if finding["numbers"] else ""),
            markup=False,
        )
    if result["skipped"]:
        first = result["skipped"][0]
        console.print(
            f"{len(result['skipped'])} texts were skipped. First reason: {first[0]}: {first[1]}",
            markup=False,
            style="dim",
        )
    console.print(f"saved in {folder}", markup=False, style="dim")


def _show_numbers(console: Console, spec: ExperimentSpec, numbers: Any, is_own: bool) -> None:
    """Print the measured numbers.

    `is_own` means that the model and the data are the same as in the paper. The published numbers
    are then shown too.
    """
    from rich.table import Table

    sides = ("measured", "published") if is_own else ("measured",)
    table = Table("", *sides, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key, pair in numbers.items():
        table.add_row(key, *("" if pair[side] is None else f"{pair[side]:.4g}" for side in sides))
    console.print(table)
    if not is_own:
        console.print(
            "not comparable with the paper's numbers, which are for "
            f"{', '.join(spec.models) or 'its own models'} (data: {spec.data})",
            style="dim",
            markup=False,
        )
