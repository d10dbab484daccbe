"""The command line. Commands live one to a file; torch is loaded only by those that need it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mixlens import __version__
from mixlens.cli import benchmark, compare, demo, doctor, finetune, map, measures, reproduce
from mixlens.errors import MixlensError

app = typer.Typer(
    name="mixlens",
    help="How much of each token is inside every other token of a transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for name, command in (
    ("map", map.map_command),
    ("compare", compare.compare),
    ("benchmark", benchmark.benchmark),
    ("measures", measures.measures_command),
    ("doctor", doctor.doctor),
    ("demo", demo.demo),
    ("finetune", finetune.finetune),
    ("reproduce", reproduce.reproduce_command),
):
    app.command(name)(command)


def main() -> None:
    """Entry point: errors that mixlens raises on purpose are one clear line, not a traceback."""
    try:
        app()
    except MixlensError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
