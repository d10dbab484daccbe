"""Print the list of experiments, and the findings of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from mixlens.papers import ExperimentSpec

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
    """Print the numbers of an experiment and which findings of the paper hold."""
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


def _show_numbers(console: Console, spec: ExperimentSpec, numbers: Any, own: bool) -> None:
    """Print the measured numbers, next to the published ones if `own` (model and data are the
    paper's).
    """
    from rich.table import Table

    sides = ("measured", "published") if own else ("measured",)
    table = Table("", *sides, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key, pair in numbers.items():
        table.add_row(key, *("" if pair[side] is None else f"{pair[side]:.4g}" for side in sides))
    console.print(table)
    if not own:
        console.print(
            "not comparable with the paper's numbers, which are for "
            f"{', '.join(spec.models) or 'its own models'} (data: {spec.data})",
            style="dim",
            markup=False,
        )
