"""Where a command's text comes from (the command line, a file, standard input), and which part of
it is looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixlens.errors import InvalidInput

TextArgument = Annotated[
    str | None, typer.Argument(help="The text to look at; - reads it from standard input.")
]
TextFileOption = Annotated[
    Path | None, typer.Option(help="Read the text from this file (UTF-8) instead.")
]
TargetTextOption = Annotated[
    str | None, typer.Option(help="Encoder-decoder models: what the decoder is given.")
]
WordsOption = Annotated[bool, typer.Option("--words", help="Merge sub-words into words.")]
SiteOption = Annotated[
    str | None, typer.Option(help="encoder, decoder or cross, for encoder-decoder models.")
]


def given_text(
    text: str | None, text_file: Path | None, target_text: str | None = None
) -> str | tuple[str, str]:
    """The text that was named, or the pair of it and the decoder's."""
    if (text is None) == (text_file is None):
        problem = "Missing argument 'TEXT'" if text is None else "Both TEXT and --text-file"
        raise typer.BadParameter(f"{problem}: give a text, - for standard input, or --text-file.")
    if text_file is not None:
        content = read_text(text_file, "--text-file")
    else:
        content = _decoded(sys.stdin.buffer.read(), "standard input") if text == "-" else text or ""
    return content if target_text is None else (content, target_text)


def read_text(path: Path, option: str) -> str:
    """The text of a file that an option names."""
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(f"{option} {path}: {error.strerror or error}") from error


def _decoded(content: bytes, origin: str) -> str:
    try:
        return content.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{origin} is not UTF-8 text (byte {error.start}): if it is text, convert it, for"
            " example by iconv -t UTF-8"
        ) from None
