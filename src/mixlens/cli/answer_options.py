"""Options of the commands that explain an answer: `answer` and `context-cite`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mixlens.cli.help import INPUT
from mixlens.errors import InvalidInput

ExplainedAnswerOption = Annotated[
    str | None,
    typer.Option(
        "--answer",
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Answer to explain. Default: the model generates one.",
    ),
]


def length_option(default: int) -> Any:
    """Return the option --generate of a command that generates `default` tokens without it."""
    return typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help=f"Generate an answer of up to N tokens. Default: {default}.",
        min=1,
    )


def length_of(generate: int | None, answer: str | None) -> dict[str, int]:
    """Return the options of `model.generate`, or raise if there is an answer, too."""
    if generate is not None and answer is not None:
        raise InvalidInput("--generate and --answer are mutually exclusive. Pass one of them.")
    return {} if generate is None else {"max_new_tokens": generate}
