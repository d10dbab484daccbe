"""Read prompts from the command line, with their continuations and segments."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import INPUT, MEASURE
from mixlens.cli.texts import read_input, read_text
from mixlens.errors import InvalidInput, no_such
from mixlens.maps.segment_sums import with_segments
from mixlens.model.json_values import parse_json
from mixlens.text.documents import Documents, place_documents, read_documents
from mixlens.text.segments import KINDS, By, Spans, read_marks

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording

PromptFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=INPUT,
        help="Prompt file. Lines such as === document 1 === start a named segment and are not part"
        " of the prompt. A .json file holds chat messages.",
    ),
]
GenerateOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Generate up to N tokens after the prompt and measure the positions that predict"
        " them.",
        min=1,
    ),
]
AnswerOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Measure this continuation of the prompt instead of a generated one.",
    ),
]
NoTemplateOption = Annotated[
    bool,
    typer.Option(
        "--no-chat-template",
        rich_help_panel=INPUT,
        help="Pass the prompt to the model as is. By default, --generate and --answer wrap it in"
        " the tokenizer's chat template, if there is one.",
    ),
]
ExplainEndOption = Annotated[
    bool,
    typer.Option(
        "--explain-end",
        rich_help_panel=INPUT,
        help="With --generate, also measure special tokens at the end of the answer.",
    ),
]
SegmentsOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        rich_help_panel=MEASURE,
        help=f"Sum sources by segment: {', '.join(KINDS)}, own (segments of the prompt file or"
        " chat, else prompt and answer) or none. Default: own for a prompt file with segments,"
        " else none.",
    ),
]
NoSinkOption = Annotated[
    bool,
    typer.Option(
        "--no-sink",
        rich_help_panel=MEASURE,
        help="Leave out the first token (the attention sink).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Prompting:
    """The input of a command, with its continuation and segments."""

    inputs: Any  # text, pair of texts, or chat messages
    marks: Spans = field(default_factory=list)  # segments of the formatted prompt
    documents: Documents = field(
        default_factory=dict
    )  # segments of messages before the template formats them
    chat_template: bool = (
        True  # whether a text is sent as a user message, if the model has a template
    )
    explain_end: bool = False
    generate: int | None
    answer: str | None
    segments: str | None
    sink: bool

    @property
    def continues(self) -> bool:
        """Return whether a continuation follows the prompt."""
        return self.generate is not None or self.answer is not None

    @property
    def bundled(self) -> str:
        """Return which bundled model to use for this input."""
        return "causal" if self.continues else "masked"

    @property
    def divides(self) -> bool:
        """Return whether sources are summed by segment."""
        return self.segments != "none" and bool(self.segments or self.marks or self.documents)

    @property
    def by(self) -> By:
        """Return the segments in the form that the `segments` method of maps expects."""
        is_own = self.segments in (None, "own", "none")
        return (self.marks or None) if is_own else self.segments

    def record(self, lens: Lens, site: str | None) -> Recording:
        """Record the prompt and its continuation."""
        if self.generate is None:
            return lens.generate(self.inputs, answer=self.answer, site=site)
        return lens.generate(
            self.inputs, max_new_tokens=self.generate, site=site, explain_end=self.explain_end
        )

    def group(self, maps: MixingMaps) -> MixingMaps:
        """Return the maps, with sources summed by segment and without the attention sink if
        requested.
        """
        return maps.segments(self.by, sink=self.sink) if self.divides else self.mark_segments(maps)

    def mark_segments(self, maps: MixingMaps) -> MixingMaps:
        """Return token-level maps with the segments that the HTML page uses to group tokens."""
        maps = maps if self.sink else maps.without_sink()
        has_segments = self.divides or (self.marks and maps.source_row.offsets is not None)
        return with_segments(maps, self.by) if has_segments else maps

    def print_answer(self, answer: str | None) -> None:
        """Print the generated answer. An answer from --answer is not repeated."""
        if self.generate is not None and answer is not None:
            from mixlens.views.labels import visible

            print(f"answer: {visible(answer.strip())}\n")

    def written_by(self, tokenizer: Any) -> Prompting:
        """Return the prompt, formatted with the tokenizer's chat template if it has one.

        Raises `InvalidInput` if the tokenizer does not support the options.
        """
        has_template = getattr(tokenizer, "chat_template", None) is not None
        if isinstance(self.inputs, list) and not has_template:
            raise InvalidInput(
                "The model's tokenizer has no chat template for the messages of --prompt-file."
                " Choose a chat model with --model, or pass the prompt in a plain text file."
            )
        needs_offsets = self.divides and (self.by is not None or bool(self.documents))
        if needs_offsets and not getattr(tokenizer, "is_fast", False):
            raise InvalidInput(
                f"{type(tokenizer).__name__} has no offset mapping, which segments need. Use a fast"
                " tokenizer (tokenizer.json), or pass --segments none."
            )
        documents, messages = self.documents, self.inputs
        if has_template and self.chat_template and self.continues and _has_words(self.inputs):
            print(
                "The prompt is sent as a user message with the model's chat template. Pass "
                "--no-chat-template to send it as is.",
                file=sys.stderr,
            )
            messages = [{"role": "user", "content": self.inputs}]
            documents = {0: self.marks} if self.marks else {}
        if not documents:
            return replace(self, inputs=messages)
        marks = place_documents(tokenizer, messages, documents)
        return replace(self, inputs=messages, marks=marks, documents={})


def _has_words(inputs: Any) -> bool:
    return isinstance(inputs, str) and bool(inputs.strip())


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
    chat_template: bool = True,
    explain_end: bool = False,
) -> Prompting:
    """Return the input that the options describe. Everything that needs no model is validated
    here.
    """
    if generate is not None and answer is not None:
        raise InvalidInput("--generate and --answer are mutually exclusive. Pass one of them.")
    if answer is not None and not answer:
        raise InvalidInput("--answer is empty. Pass the text that follows the prompt.")
    follows = generate is not None or answer is not None
    if follows and target_text is not None:
        raise InvalidInput("--target-text cannot follow a prompt. Pass --answer instead.")
    if explain_end and generate is None:
        raise InvalidInput("--explain-end needs --generate. Pass both.")
    _check_segments(segments)
    inputs: Any
    marks: Spans = []
    documents: Documents = {}
    if prompt_file is None:
        inputs = read_input(text, text_file, target_text)
    elif text is not None or text_file is not None:
        raise InvalidInput("--prompt-file and TEXT are mutually exclusive. Pass one of them.")
    else:
        inputs, marks, documents = _from_file(prompt_file)
    if isinstance(inputs, list) and not follows:
        raise InvalidInput(
            f"--prompt-file {prompt_file} is a chat without an answer. Pass --generate N or"
            " --answer TEXT."
        )
    if isinstance(inputs, list) and not chat_template:
        raise InvalidInput(
            f"--no-chat-template does not work for the chat in {prompt_file}. Pass the prompt in a"
            " plain text file."
        )
    _check_known(segments, inputs, has_marks=bool(marks or documents) or follows)
    return Prompting(
        inputs=inputs,
        marks=marks,
        documents=documents,
        generate=generate,
        answer=answer,
        segments=segments,
        sink=sink,
        chat_template=chat_template,
        explain_end=explain_end,
    )


def _check_segments(kind: str | None) -> None:
    """Raise `InvalidInput` if the kind of segments is unknown."""
    kinds = [*KINDS, "own", "none"]
    if kind is not None and kind not in kinds:
        raise InvalidInput(no_such("kind of segments", kind, kinds))


def _check_known(kind: str | None, inputs: Any, *, has_marks: bool) -> None:
    """Raise `InvalidInput` if the input does not have segments of this kind."""
    if kind == "turns" and not isinstance(inputs, list):
        raise InvalidInput(
            "--segments turns needs a chat. Pass its messages in a .json file with --prompt-file."
        )
    if kind == "own" and not has_marks:
        raise InvalidInput(
            "--segments own needs named segments. Add lines such as === document 1 === to a"
            " --prompt-file, or choose sentences or paragraphs."
        )


def _from_file(path: Path) -> tuple[Any, Spans, Documents]:
    """Read a prompt and its segments, or chat messages and their documents, from a file."""
    content = read_text(path, "--prompt-file")
    if path.suffix != ".json":
        return *read_marks(content), {}
    try:
        messages = parse_json(content)
    except ValueError as error:
        raise InvalidInput(
            f"--prompt-file {path} is not valid JSON ({error}). Fix the file, or use a plain "
            "text file."
        ) from None
    if not isinstance(messages, list):
        raise InvalidInput(
            f"--prompt-file {path} is not a list of messages. Each needs a role and a "
            f'content, such as {{"role": "user", "content": "…"}}.'
        )
    messages, documents = read_documents(messages)
    return messages, [], documents


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
    """Return the option --generate for a command that generates `default` tokens by default."""
    return typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help=f"Generate an answer of up to N tokens. Default: {default}.",
        min=1,
    )


def length_of(generate: int | None, answer: str | None) -> dict[str, int]:
    """Return the options of `model.generate`. Raise if --answer is set too."""
    if generate is not None and answer is not None:
        raise InvalidInput("--generate and --answer are mutually exclusive. Pass one of them.")
    return {} if generate is None else {"max_new_tokens": generate}
