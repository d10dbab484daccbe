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
        help=f"Sum sources by segment: {', '.join(KINDS)}, own (those of a prompt file or a chat,"
        " else prompt and answer), or none. Default: those of a prompt file, else none."
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

    @property
    def bundled(self) -> str:
        """The bundled model that can read it."""
        return "causal" if self.continues else "masked"

    @property
    def divides(self) -> bool:
        """Are sources summed by segment?"""
        return self.segments != "none" and bool(self.segments or self.marks)

    @property
    def by(self) -> By:
        """The segments that are meant, as `segments` of maps takes them."""
        own = self.segments in (None, "own", "none")
        return (self.marks or None) if own else self.segments

    def recorded(self, lens: Lens, site: str | None) -> Recording:
        """The prompt with what follows it."""
        if self.generate is None:
            return lens.generate(self.given, answer=self.answer, site=site)
        return lens.generate(self.given, max_new_tokens=self.generate, site=site)

    def grouped(self, maps: MixingMaps) -> MixingMaps:
        """Sources summed by segment, with the first token or without, as it was asked for."""
        return maps.segments(self.by, sink=self.sink) if self.divides else self.marked(maps)

    def marked(self, maps: MixingMaps) -> MixingMaps:
        """Tokens as they are, with the segments by which a page groups them."""
        maps = maps if self.sink else maps.without_sink()
        named = self.divides or (self.marks and maps.source_row.offsets is not None)
        if not named:
            return maps
        row = replace(maps.source_row, segments=divided(maps.source_row, self.by))
        same = maps.target_row == maps.source_row
        return replace(maps, source_row=row, target_row=row if same else maps.target_row)

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raises `InvalidInput` if it cannot do what the options ask for."""
        if isinstance(self.given, list) and getattr(tokenizer, "chat_template", None) is None:
            raise InvalidInput(
                "--prompt-file: the model's tokenizer has no chat template, so the messages of a"
                " chat cannot be written out: choose a chat model with --model, or give the prompt"
                " in a plain text file"
            )
        placed = self.divides and self.by is not None
        if placed and not getattr(tokenizer, "is_fast", False):
            raise InvalidInput(
                "segments need to know where each token is in the text, and the model's tokenizer"
                f" ({type(tokenizer).__name__}) does not say so: put a fast one (tokenizer.json)"
                " into its folder if there is one, or see the tokens with --segments none"
            )


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
    _check_segments(segments)
    given: Any
    marks: Spans = []
    if prompt_file is None:
        given = given_text(text, text_file, target_text)
    elif text is not None or text_file is not None:
        raise InvalidInput("--prompt-file and a text: give one of them")
    else:
        given, marks = _from_file(prompt_file)
    if isinstance(given, list) and not follows:
        raise InvalidInput(
            f"--prompt-file {prompt_file}: a chat is measured at its answer: use --generate N, or"
            " --answer TEXT"
        )
    _check_known(segments, given, known=bool(marks) or follows)
    return Prompting(
        given=given, marks=marks, generate=generate, answer=answer, segments=segments, sink=sink
    )


def _check_segments(kind: str | None) -> None:
    """Raises `InvalidInput` for a kind of segments that does not exist."""
    known = [*KINDS, "own", "none"]
    if kind is not None and kind not in known:
        raise InvalidInput(f"--segments: {no_such('kind of segments', kind, known)}")


def _check_known(kind: str | None, given: Any, *, known: bool) -> None:
    """Raises `InvalidInput` for segments that what was given does not have."""
    if kind == "turns" and not isinstance(given, list):
        raise InvalidInput(
            "--segments turns: a text has no turns, give the messages of a chat in a .json file by"
            " --prompt-file"
        )
    if kind == "own" and not known:
        raise InvalidInput(
            "--segments own: this text has no segments of its own: name them by lines such as"
            " === document 1 === in a --prompt-file, or choose sentences or paragraphs"
        )


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
