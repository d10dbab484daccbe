"""`mixlens measures`: list the measures with their citation, cost and purpose."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MEASURE, wrap
from mixlens.cli.loading import JsonOption
from mixlens.cli.options import require_spec
from mixlens.cli.output import print_json

if TYPE_CHECKING:
    from mixlens.contracts import Spec


_FIELDS = 13  # width of the names of fields, with their indent
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

    specs = list_measures() if name is None else {name: require_spec(name)}
    if as_json:
        print_json({key: _as_dict(spec) for key, spec in specs.items()})
        return
    from rich.console import Console

    console = Console(highlight=False)
    for key, spec in specs.items():
        console.print(key, style="bold")
        for line in _fields(spec, console.width):
            console.print(line, markup=False)


def _fields(spec: Spec, width: int) -> list[str]:
    """Format the name and the text of each field as two columns."""
    kinds = " and ".join(spec.sites) + "-attention"
    fields = {
        "scores": spec.summary,
        "use it": spec.use_when,
        "cost": spec.cost,
        "scope": kinds + (", per head too" if spec.per_head else ""),
        "options": ", ".join(f"{option.name}={option.default}" for option in spec.options),
        "paper": spec.citation,
    }
    lines = []
    for field, text in fields.items():
        for number, part in enumerate(wrap(text, width - _FIELDS)):
            lines.append(f"    {'' if number else field:<{_FIELDS - 4}}{part}")
    return lines


def _as_dict(spec: Spec) -> dict[str, Any]:
    """Return a spec as JSON values, with the limitations also under their former name."""
    fields = dataclasses.asdict(spec) | {"blind_spots": spec.limitations}
    return {key: value for key, value in fields.items() if not callable(value)}
