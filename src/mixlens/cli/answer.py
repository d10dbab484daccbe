"""`mixlens answer`: find the passages of a prompt that support an answer."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import INPUT, MEASURE, OUTPUT
from mixlens.cli.loading import (
    CausalModelOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.options import split_names
from mixlens.cli.output import check_writable, print_json
from mixlens.cli.progress import heartbeat
from mixlens.cli.prompting import ExplainedAnswerOption, length_of, length_option
from mixlens.cli.texts import read_input, read_text
from mixlens.errors import EmptyInput, InvalidInput
from mixlens.model.json_values import parse_json

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer, RankedPassage

EXAMPLES = """
mixlens answer prompt.txt --model HuggingFaceTB/SmolLM2-135M-Instruct
mixlens answer chat.json --model MODEL --method alti,context_cite
mixlens answer "Who built the lighthouse?" --documents folder --html answer.html
"""
_SUFFIXES = (".txt", ".md")
_WIDEST = 100

_PromptArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROMPT",
        rich_help_panel=INPUT,
        help="Prompt file, a question, or - for standard input. Lines such as === document 1 ==="
        " start a document, and === question === ends the last one. A .json file holds chat"
        " messages.",
    ),
]
_DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=INPUT,
        help="Folder of .txt and .md files. They replace {documents} in the prompt, or are put in "
        "front of it if it has no {documents}.",
    ),
]
_GenerateOption = Annotated[int | None, length_option(64)]
_NoTemplateOption = Annotated[
    bool,
    typer.Option(
        "--no-chat-template",
        rich_help_panel=INPUT,
        help="Pass a plain text to the model as is. Default: apply the tokenizer's chat template,"
        " if there is one.",
    ),
]
_MethodOption = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "--methods",
        metavar="NAMES",
        rich_help_panel=MEASURE,
        help="Measures, leave_one_out or context_cite, separated by commas. The citations come "
        "from the first one. Default: alti, or flow_routes if the model does not support it.",
    ),
]
_HtmlOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Save an interactive page with the answer next to the documents.",
    ),
]
_SaveOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=OUTPUT, help="Save the answer for `mixlens.load` in Python."
    ),
]


def answer_command(
    prompt: _PromptArgument,
    documents: _DocumentsOption = None,
    answer: ExplainedAnswerOption = None,
    generate: _GenerateOption = None,
    no_chat_template: _NoTemplateOption = False,
    method: _MethodOption = None,
    html: _HtmlOption = None,
    save: _SaveOption = None,
    model: CausalModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Find the passages of a prompt that an answer rests on."""
    options = length_of(generate, answer)
    question = _read_prompt(prompt)
    texts = None if documents is None else _read_folder(documents)
    if texts is not None:
        question = _with_place(question, texts)
    check_writable(html, save)
    from mixlens.answers.method_scores import check_methods

    methods = check_methods(split_names(method) or method)
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled="causal")
    with heartbeat("explaining the answer"):
        explained = lens.answer(
            question,
            documents=texts,
            answer=answer,
            methods=methods,
            chat_template=not no_chat_template,
            **options,
        )
    if html is not None:
        explained.to_html(html)
        typer.echo(f"page: {html}", err=True)
    if save is not None:
        explained.save(save)
        typer.echo(f"saved to {save}", err=True)
    if as_json:
        print_json(_as_dict(explained))
    else:
        from mixlens.answers.printing import format_answer

        width = min(_WIDEST, shutil.get_terminal_size().columns)
        print(format_answer(explained, width))


# -------------------------------------------------------------------------------------------- input


def _read_prompt(prompt: str) -> Any:
    """Return the text of a prompt, or the messages of a chat."""
    if not prompt.strip():
        raise EmptyInput("PROMPT is empty. Pass a file, or a question of several words.")
    path = Path(prompt)
    is_file = len(prompt) < 4096 and "\n" not in prompt and path.is_file()
    if prompt == "-" or (not is_file and len(prompt.split()) > 1):
        return read_input(prompt, None)
    if not path.exists():
        raise InvalidInput(f"{path} does not exist. Pass a file, or a question of several words.")
    content = read_text(path, "PROMPT")
    if path.suffix != ".json":
        return content
    try:
        messages = parse_json(content)
    except ValueError as error:
        raise InvalidInput(f"{path} is not valid JSON ({error}). Fix it.") from None
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise InvalidInput(
            f'{path} is not a list of messages such as {{"role": "user", "content": "…"}}.'
        )
    return messages


def _read_folder(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise InvalidInput(
            f"--documents {folder} is not a folder. Pass one with a file for each document."
        )
    files = sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise InvalidInput(
            f"--documents {folder} has no {' or '.join(_SUFFIXES)} file. Add one for each document."
        )
    return {file.name: read_text(file, "--documents") for file in files}


def _with_place(inputs: Any, texts: dict[str, str]) -> Any:
    """Return the prompt with a placeholder for the documents. Add one if the prompt has none."""
    from mixlens.answers.prompt_parts import with_place

    prompt = with_place(inputs, list(texts.values()))
    if prompt is not inputs:
        print("The documents are put in front of the prompt.", file=sys.stderr)
    return prompt


# ------------------------------------------------------------------------------------------- output


def _as_dict(answer: Answer) -> dict[str, Any]:
    def rank_documents(**which: Any) -> dict[str, list[dict[str, Any]]]:
        return {
            name: [
                {"document": each.document, "score": each.score, "share": each.share}
                for each in answer.top(method=name, **which)
            ]
            for name in answer.methods
        }

    agreement = answer.agreement()
    return {
        "answer": answer.text,
        "prompt": answer.prompt,
        "uses_template": answer.uses_template,
        "provenance": answer.provenance,
        "methods": {
            name: {
                "reading": scores.reading,
                "shares": None if scores.removes else answer.shares(method=name),
            }
            for name, scores in answer.methods.items()
        },
        "documents": rank_documents(),
        "sentences": [
            {
                "text": part.text,
                "citations": [_passage(each) for each in answer.citations(number)],
                "documents": rank_documents(sentence=number),
                "methods_agree": agreement[number].agree,
            }
            for number, part in enumerate(answer.sentences)
        ],
        "words": [
            {"text": part.text, "start": part.start, "documents": rank_documents(word=number)}
            for number, part in enumerate(answer.words)
        ],
    }


def _passage(passage: RankedPassage) -> dict[str, Any]:
    return dict(passage._asdict())
