"""Commands of `mixlens`, one per file. Only commands that run a model import torch."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from mixlens import __version__
from mixlens.cli import (
    answer,
    benchmark,
    compare,
    context_cite,
    demo,
    doctor,
    finetune,
    fit_heads,
    map,
    measures,
    reproduce,
    routes,
    run,
    serve,
)
from mixlens.cli.exit_codes import (
    INTERRUPTED,
    WRONG_USAGE,
    exit_code,
    explain_error,
    is_usage_error,
)
from mixlens.cli.help import HelpCommand, HelpGroup
from mixlens.cli.output import write_anywhere
from mixlens.cli.torchrun import one_voice

app = typer.Typer(
    name="mixlens",
    cls=HelpGroup,
    help="Measure how much each token of a text contributes to every other one.",
    epilog="Run `mixlens COMMAND --help` for the options and examples of a command.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(is_set: bool) -> None:
    if is_set:
        print(__version__)
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error. Can also follow the command."
        ),
    ] = False,
) -> None:
    pass


_COMMANDS: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "One text": (
        ("map", map.map_command, map.EXAMPLES),
        ("compare", compare.compare, compare.EXAMPLES),
        ("routes", routes.routes_command, routes.EXAMPLES),
        ("answer", answer.answer_command, answer.EXAMPLES),
        ("context-cite", context_cite.context_cite_command, context_cite.EXAMPLES),
    ),
    "Many texts": (
        ("run", run.run_command, run.EXAMPLES),
        ("benchmark", benchmark.benchmark, benchmark.EXAMPLES),
        ("reproduce", reproduce.reproduce_command, reproduce.EXAMPLES),
        ("finetune", finetune.finetune, finetune.EXAMPLES),
        ("fit-heads", fit_heads.fit_heads_command, fit_heads.EXAMPLES),
    ),
    "Get started": (
        ("demo", demo.demo, demo.EXAMPLES),
        ("measures", measures.measures_command, measures.EXAMPLES),
        ("doctor", doctor.doctor, doctor.EXAMPLES),
        ("serve", serve.serve, serve.EXAMPLES),
    ),
}
for _panel, _commands in _COMMANDS.items():
    for _name, _command, _examples in _commands:
        app.command(_name, cls=HelpCommand, epilog=_examples, rich_help_panel=_panel)(_command)


def main() -> None:
    """Run a command; print an error as one line, or as a traceback with --debug."""
    write_anywhere()
    with one_voice():
        _run()


def _run() -> None:
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in options
    if debug:
        arguments.remove("--debug")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        # torch 2.15 calls this function itself when it first computes a forward-mode derivative
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
        try:
            status = app(arguments or ["--help"], prog_name="mixlens", standalone_mode=False)
        except (KeyboardInterrupt, typer.Abort):
            print("interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)
        except Exception as error:
            if debug and not is_usage_error(error):
                raise
            print(explain_error(error), file=sys.stderr)
            sys.exit(exit_code(error))
    if not arguments or (isinstance(status, int) and status):
        sys.exit(status or WRONG_USAGE)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
