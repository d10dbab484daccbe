"""Prompts on the command line: where they come from, what follows them, and their segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.texts import given_text, read_text
from mixlens.errors import InvalidInput
from mixlens.json_values import parse_json
from mixlens.segments import KINDS, By, Spans, divided, read_marks
from mixlens.suggestions import no_such

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps import MixingMaps
    from mixlens.recording.recording import Recording

PromptFileOption = Annotated[
    Path | None,
    typer.Option(
        help="Read a prompt from this file. Lines such as === document 1 === name its segments and"
        " are left out. A .json file holds the messages of a chat."
    ),
]
GenerateOption = Annotated[
    int | None,
    typer.Option(
        help="Generate up to this many tokens after the prompt, and measure the positions that"
        " produced them.",
        min=1,
    ),
]
AnswerOption = Annotated[
    str | None, typer.Option(help="The same for a given continuation of the prompt.")
]
SegmentsOption = Annotated[
    str | None,
    typer.Option(
        help=f"Sum sources by segment: {', '.join(KINDS)}, or own (those of a prompt file or a"
        " chat, else prompt and answer)."
    ),
]
NoSinkOption = Annotated[
    bool,
    typer.Option(
        "--no-sink",
        help="Leave out the first token as a source; it often gets much attention.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Prompting:
    """What a command was given, and what is to be done with it."""

    given: Any  # a text, a pair of texts, or the messages of a chat
    marks: Spans  # segments that a prompt file named
    generate: int | None
    answer: str | None
    segments: str | None
    sink: bool

    @property
    def continues(self) -> bool:
        """Does something follow the prompt?"""
        return self.generate is not None or self.answer is not None

    def recorded(self, lens: Lens, site: str | None) -> Recording:
        """The prompt with what follows it."""
        if self.generate is None:
            return lens.generate(self.given, answer=self.answer, site=site)
        return lens.generate(self.given, max_new_tokens=self.generate, site=site)

    def grouped(self, maps: MixingMaps) -> MixingMaps:
        """Sources summed by segment, with the first token or without, as it was asked for."""
        if self.segments is None and not self.marks:
            return maps if self.sink else maps.without_sink()
        return maps.segments(self._by, sink=self.sink)

    def marked(self, maps: MixingMaps) -> MixingMaps:
        """Tokens as they are, with the segments by which a page groups them."""
        maps = maps if self.sink else maps.without_sink()
        if self.segments is None and not self.marks:
            return maps
        row = replace(maps.source_row, segments=divided(maps.source_row, self._by))
        same = maps.target_row == maps.source_row
        return replace(maps, source_row=row, target_row=row if same else maps.target_row)

    @property
    def _by(self) -> By:
        own = self.segments in (None, "own")
        return (self.marks or None) if own else self.segments


def read_prompting(
    text: str | None,
    text_file: Path | None,
    prompt_file: Path | None,
    target_text: str | None,
    *,
    generate: int | None,
    answer: str | None,
    segments: str | None,
    sink: bool,
) -> Prompting:
    """What the options say, checked as far as it can be without a model."""
    if generate is not None and answer is not None:
        raise InvalidInput("--generate and --answer: what follows the prompt is either one")
    if answer is not None and not answer:
        raise InvalidInput("--answer is empty: give what follows the prompt")
    follows = generate is not None or answer is not None
    if follows and target_text is not None:
        raise InvalidInput("--target-text is what the decoder is given: use --answer instead of it")
    check_segments(segments)
    given: Any
    marks: Spans = []
    if prompt_file is None:
        given = given_text(text, text_file, target_text)
    elif text is not None or text_file is not None:
        raise InvalidInput("--prompt-file and a text: give one of them")
    else:
        given, marks = _from_file(prompt_file)
    if not isinstance(given, (str, tuple)) and not follows:
        raise InvalidInput(
            f"--prompt-file {prompt_file}: a chat is measured at its answer: use --generate N, or"
            " --answer TEXT"
        )
    return Prompting(
        given=given, marks=marks, generate=generate, answer=answer, segments=segments, sink=sink
    )


def check_segments(kind: str | None) -> None:
    """Raises `InvalidInput` for a kind of segments that does not exist."""
    if kind is not None and kind not in (*KINDS, "own"):
        raise InvalidInput(f"--segments: {no_such('kind of segments', kind, [*KINDS, 'own'])}")


def _from_file(path: Path) -> tuple[Any, Spans]:
    """A prompt with the segments that its file names, or the messages of a chat."""
    content = read_text(path, "--prompt-file")
    if path.suffix != ".json":
        return read_marks(content)
    try:
        messages = parse_json(content)
    except ValueError as error:
        raise InvalidInput(f"--prompt-file {path}: it is not JSON ({error})") from None
    if not isinstance(messages, list):
        raise InvalidInput(
            f"--prompt-file {path}: a chat is a list of messages such as"
            ' {"role": "user", "content": "…"}'
        )
    return messages, []
