"""`mixlens measures`: list the measures with their citation, cost and use."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MEASURE
from mixlens.cli.loading import JsonOption
from mixlens.cli.options import described
from mixlens.cli.output import print_json

if TYPE_CHECKING:
    from mixlens.contracts import Spec


EXAMPLES = """
mixlens measures
mixlens measures value_zeroing
"""
_NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", rich_help_panel=MEASURE, help="One measure. Default: all."),
]


def measures_command(
    name: _NameArgument = None,
    as_json: JsonOption = False,
) -> None:
    """List the measures with their cost, options and citation."""
    from mixlens.measures import list_measures

    chosen = list_measures() if name is None else {name: described(name)}
    if as_json:
        print_json({key: _as_dict(spec) for key, spec in chosen.items()})
        return
    from rich.console import Console

    console = Console(highlight=False)
    for key, spec in chosen.items():
        scope = (
            " and ".join(spec.sites) + "-attention" + (", per head too" if spec.per_head else "")
        )
        console.print(f"[bold]{key}[/bold]  {spec.summary}")
        console.print(f"    use it when  {spec.use_when}", markup=False)
        console.print(f"    cost         {spec.cost}", markup=False)
        console.print(f"    scope        {scope}", markup=False)
        if spec.options:
            console.print(
                "    options      " + ", ".join(f"{o.name}={o.default}" for o in spec.options),
                markup=False,
            )
        console.print(f"    {spec.citation}", markup=False, style="dim")


def _as_dict(spec: Spec) -> dict[str, Any]:
    """Return a spec as JSON values."""
    return {key: value for key, value in dataclasses.asdict(spec).items() if not callable(value)}
