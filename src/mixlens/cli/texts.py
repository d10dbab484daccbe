"""Read the input text of a command from its arguments, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixlens.cli.help import INPUT, MEASURE
from mixlens.errors import InvalidInput

TextArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Text to measure; - reads it from standard input.",
    ),
]
TextFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=INPUT, help="Read the text from this UTF-8 file."),
]
TargetTextOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Decoder input of an encoder-decoder model, or the second segment for an encoder.",
    ),
]
WordsOption = Annotated[
    bool,
    typer.Option("--words", rich_help_panel=MEASURE, help="Merge sub-word tokens into words."),
]
SiteOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=MEASURE,
        help="Attention of an encoder-decoder model: encoder, decoder or cross.",
    ),
]


def read_input(
    text: str | None, text_file: Path | None, target_text: str | None = None
) -> str | tuple[str, str]:
    """Return the text, or a pair (text, target text) if --target-text is set."""
    if text is None and text_file is None:
        raise InvalidInput("TEXT is missing. Pass a text, - for standard input, or --text-file.")
    if text is not None and text_file is not None:
        raise InvalidInput("TEXT and --text-file are mutually exclusive. Pass one of them.")
    if text is not None and _names_file(text):
        raise InvalidInput(
            f"TEXT {text} is the name of a file. Pass --text-file {text} to read it, or send the"
            " name itself through standard input (-)."
        )
    if text_file is not None:
        content = read_text(text_file, "--text-file")
    else:
        content = _decode(sys.stdin.buffer.read(), "standard input") if text == "-" else text or ""
    return content if target_text is None else (content, target_text)


def _names_file(text: str) -> bool:
    """Return whether a text is the name of an existing file with an extension, such as
    prompt.txt.
    """
    try:
        return bool(Path(text).suffix) and not text.endswith(".") and Path(text).is_file()
    except (OSError, ValueError):  # a long text, or a null character
        return False


def read_text(path: Path, option: str) -> str:
    """Read the text file that was passed with an option."""
    try:
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(
            f"{option} {path}: {error.strerror or error}. Pass a readable file."
        ) from error


def _decode(content: bytes, origin: str) -> str:
    try:
        return content.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{origin} is not UTF-8 text (byte {error.start}). Convert it, for example with"
            " iconv -t UTF-8."
        ) from None
