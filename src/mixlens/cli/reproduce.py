"""`mixlens reproduce`: the figures and tables of the papers, on your model and data."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    EngineOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    ThreadsOption,
    WorkersOption,
    dataset_from,
    lens_from,
    workers_from,
)
from mixlens.cli.options import read_value
from mixlens.cli.output import print_json
from mixlens.cli.progress import progress_bar
from mixlens.errors import InvalidInput, MixlensError

if TYPE_CHECKING:
    from mixlens.corpus import Dataset
    from mixlens.experiments import ExperimentSpec


def reproduce_command(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER/ID...", help="Such as brunner2020/fig3a; or a paper, with --all."
        ),
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show all experiments with their data and cost.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Run every experiment of the paper.")
    ] = False,
    model: ModelOption = None,
    other_model: Annotated[
        str | None, typer.Option(help="A second model, for experiments that compare two.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A data set, or a folder of data sets. Default: the agreement set of the package."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Where tables, figures and result.json go, a folder for each experiment."
        ),
    ] = Path("reproduced"),
    sample: Annotated[
        int | None, typer.Option(help="So many texts at most, drawn by the seed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws samples, splits and probes.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An experiment's own option, name=value."),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Run the protocol of a paper's figure or table: numbers, figure, and which of its findings
    hold on this model.
    """
    from mixlens.experiments import experiments, names, papers, resolved

    if show_list:
        _list(experiments(), as_json)
        return
    if not wanted:
        raise InvalidInput(
            "name an experiment (mixlens reproduce --list shows them), or a paper with --all"
        )
    chosen: list[str] = []
    for name in wanted:
        if name in papers() and not everything:
            raise InvalidInput(
                f"{name} is a whole paper: add --all to run every experiment of it, or name one"
                f" ({name}/…)"
            )
        chosen += (
            [other for other in names() if other.startswith(f"{name}/")]
            if name in papers()
            else [resolved(name)]
        )
    lens = lens_from(model, device, dtype, trust_remote_code)
    other = (
        lens_from(other_model, device, dtype, trust_remote_code)
        if other_model is not None
        else None
    )
    crew = workers_from(
        engine, workers, threads, model, other_model, device, dtype, trust_remote_code
    )
    from mixlens.experiments.memory import Memory

    memory, read = (
        Memory(),
        cache(dataset_from),
    )  # each data set once, however many experiments take it
    results, failures = [], []
    for experiment in dict.fromkeys(chosen):
        try:
            results.append(
                _one(
                    experiment,
                    lens,
                    other,
                    data,
                    read,
                    out,
                    sample,
                    seed,
                    option or [],
                    memory,
                    crew,
                    quiet=as_json,
                )
            )
        except (MixlensError, ImportError) as error:
            if len(chosen) == 1:
                raise
            failures.append((experiment, str(error)))
            print(f"{experiment}: not run: {error}", file=sys.stderr)
    if as_json:
        print_json({"results": results, "not_run": dict(failures)})
    if not results:
        raise InvalidInput(
            "no experiment could be run on this model and data; the reasons are above"
        )


def _one(
    name: str,
    lens: Any,
    other: Any,
    data: Path | None,
    read: Callable[[str | None], Dataset],
    out: Path,
    sample: int | None,
    seed: int,
    option: list[str],
    memory: Any,
    workers: Any,
    *,
    quiet: bool,
) -> Any:
    from mixlens.experiments import module
    from mixlens.experiments.reproduction import data_path, reproduce, require_model

    spec = module(name).SPEC
    require_model(spec, lens)
    path = None if data is None else str(data_path(spec, data))
    dataset = read(path) if spec.kinds else None
    context = {"data_folder": data} if data is not None else {}
    options = _options(module(name).run, option)
    with progress_bar(out) as progress:
        done = reproduce(
            name,
            lens,
            dataset,
            out=out,
            sample=sample,
            seed=seed,
            other=other,
            progress=progress,
            context=context,
            memory=memory,
            workers=workers,
            **options,
        )
    if not quiet:
        _show(name, spec, done.result, done.folder, again=done.outcome is None)
    return {"folder": str(done.folder), **done.result}


def _options(run: Any, given: list[str]) -> dict[str, Any]:
    """The options of an experiment from `name=value` words, by the types that its function
    declares.
    """
    known = {
        name: str(p.annotation)
        for name, p in inspect.signature(run).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    options: dict[str, Any] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise InvalidInput(
                f"--option {word}: write name=value; this experiment has:"
                f" {', '.join(known) or 'no options'}"
            )
        options[key] = (
            tuple(value.split(","))
            if known[key].startswith("Sequence")
            else read_value(key, value, known[key])
        )
    return options


def _list(specs: dict[str, ExperimentSpec], as_json: bool) -> None:
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


def _show(
    name: str, spec: ExperimentSpec, result: Any, folder: Path | None, *, again: bool
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    settings = result["settings"]
    about = settings["model"] + (
        f", {settings['texts']} texts of {settings['data']}" if settings["data"] else ""
    )
    console.print(f"\n[bold]{name}[/bold]  {spec.title}")
    console.print(about + (" (finished before)" if again else ""), markup=False, style="dim")
    if result["numbers"]:
        own = result["papers_own_model_and_data"]
        table = Table(
            "",
            "measured",
            *(["published"] if own else []),
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
        )
        for key, pair in result["numbers"].items():
            shown = [
                "" if pair[side] is None else f"{pair[side]:.4g}"
                for side in ("measured", *(["published"] if own else []))
            ]
            table.add_row(key, *shown)
        console.print(table)
        if not own:
            console.print(
                f"the paper's numbers are of {', '.join(spec.models) or 'its own models'} (data:"
                f" {spec.data}) and not compared with these",
                style="dim",
                markup=False,
            )
    verdicts = {
        True: "[green]holds[/]",
        False: "[red]does not hold[/]",
        None: "[dim]cannot be decided[/]",
    }
    for finding in result["findings"]:
        console.print(f"{verdicts[finding['holds']]}  ", end="")
        console.print(
            finding["statement"] + (f": {finding['numbers']}" if finding["numbers"] else ""),
            markup=False,
        )
    if result["skipped"]:
        first = result["skipped"][0]
        console.print(
            f"{len(result['skipped'])} texts left out; the first: {first[0]}: {first[1]}",
            markup=False,
            style="dim",
        )
    console.print(f"kept in {folder}", markup=False, style="dim")
