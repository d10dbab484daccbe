"""`mixlens context-cite`: find the parts of a context that support an answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import INPUT, MEASURE
from mixlens.cli.loading import (
    CausalModelOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.output import print_json
from mixlens.cli.progress import PlainLines, heartbeat
from mixlens.cli.prompting import ExplainedAnswerOption, length_of, length_option
from mixlens.cli.texts import TextArgument, TextFileOption, read_input
from mixlens.errors import InvalidInput, no_such
from mixlens.text.segments import Spans, read_marks, spans_of

if TYPE_CHECKING:
    from mixlens.lens import Lens

EXAMPLES = """
mixlens context-cite --text-file context.txt --query "Where are the keys?"
mixlens context-cite "The keys are here. The dog is old." --answer " The keys."
mixlens context-cite --text-file a.txt --query "Where?" --method leave_one_out
"""
METHODS = ("context_cite", "leave_one_out", "arc_jsd", "knockout")
_QueryOption = Annotated[
    str,
    typer.Option(metavar="TEXT", rich_help_panel=INPUT, help="Question about the context."),
]
_GenerateOption = Annotated[int | None, length_option(20)]
_SegmentsOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        rich_help_panel=MEASURE,
        help="Split the context into sentences or paragraphs. Default: at lines such as"
        " === document 1 ===, else into sentences.",
    ),
]
_AblationsOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=MEASURE,
        help="Number of ablated prompts used to fit the surrogate. Default: 64.",
        min=2,
    ),
]
_HeldOutOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=MEASURE,
        help="Number of ablated prompts used to test the surrogate. Default: 32.",
        min=2,
    ),
]
_SeedOption = Annotated[
    int,
    typer.Option(
        metavar="N", rich_help_panel=MEASURE, help="Seed of the ablations. Default: 0.", min=0
    ),
]
_TemplateOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Prompt template that contains {context} and {query}.",
    ),
]

_MethodOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=MEASURE,
        help="context_cite (fit a linear model to random removals), leave_one_out or arc_jsd"
        " (remove one part at a time), or knockout (block attention in windows of layers).",
    ),
]
_WithinOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        rich_help_panel=MEASURE,
        help="Score these larger parts first (paragraphs), then the segments of the best 3. Does "
        "not apply to knockout.",
    ),
]
_WindowOption = Annotated[
    str,
    typer.Option(
        metavar="N",
        rich_help_panel=MEASURE,
        help="Number of layers in each window of knockout, or all. Default: 9.",
    ),
]
_MaxPassesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MEASURE,
        help="Maximum number of forward passes.",
        min=1,
    ),
]


def context_cite_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    query: _QueryOption = "",
    answer: ExplainedAnswerOption = None,
    generate: _GenerateOption = None,
    segments: _SegmentsOption = None,
    method: _MethodOption = "context_cite",
    within: _WithinOption = None,
    window: _WindowOption = "9",
    max_passes: _MaxPassesOption = None,
    ablations: _AblationsOption = 64,
    held_out: _HeldOutOption = 32,
    seed: _SeedOption = 0,
    template: _TemplateOption = None,
    model: CausalModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Find the parts of a context that support an answer."""
    if method not in METHODS:
        raise InvalidInput(no_such("method", method, METHODS))
    options: dict[str, Any] = {**length_of(generate, answer)}
    context, marks = read_marks(str(read_input(text, text_file)))
    context, marks, query = _with_question(context, marks, query)
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled="causal")
    if method != "context_cite":
        prompt, spans = _place_context(
            lens, context, query, segments or marks or "sentences", template
        )
        limits = {"max_passes": max_passes, "answer": answer, **options}
        if method == "knockout":
            _print_knockout(lens, prompt, spans, window, limits, as_json)
        else:
            larger = (
                None
                if within is None
                else _place_context(lens, context, query, within, template)[1]
            )
            _print_removal(lens, prompt, spans, method, larger, limits, as_json)
        return
    options |= {} if template is None else {"template": template}
    with heartbeat(f"running {ablations + held_out} ablated prompts"):
        citation = lens.context_cite(
            context,
            query,
            answer,
            segments or marks or "sentences",
            ablations,
            seed,
            held_out=held_out,
            within=within,
            max_passes=max_passes,
            **options,
        )
    records = citation.to_dataframe().to_dict("records")
    if as_json:
        fit = None if math.isnan(citation.correlation) else citation.correlation
        about = {"answer": citation.answer, "correlation": fit, "intercept": citation.intercept}
        print_json({**about, "segments": records})
        return
    from mixlens.views.labels import printable

    print(f"answer: {printable(citation.answer)}")
    print(f"held-out correlation of the surrogate: {citation.correlation:.2f}")
    for record in sorted(records, key=lambda record: -record["score"]):
        print(f"{record['score']:+8.3f}  {record['segment']}: {printable(record['text'].strip())}")


def _with_question(context: str, marks: Spans, query: str) -> tuple[str, Spans, str]:
    """Return the context, its documents and the query.

    If the last part is named === question === or similar, it is the query. A part with this name at
    any other position stays in the context, but does not count as a document.
    """
    from mixlens.answers.prompt_parts import QUESTIONS

    documents = [mark for mark in marks if mark[0].lower() not in QUESTIONS]
    if not marks or marks[-1] in documents:
        return context, documents, query
    name, start, _ = marks[-1]
    if query:
        raise InvalidInput(
            f"The text contains a question (=== {name} ===), but --query is set too. Pass only "
            "one of them."
        )
    before = context[:start].rstrip()
    documents = [(title, first, min(stop, len(before))) for title, first, stop in documents]
    return before, documents, context[start:].strip()


def _place_context(
    lens: Lens, context: str, query: str, segments: str | Spans, template: str | None
) -> tuple[Any, Spans]:
    """Return the prompt for a context and a query, and the parts of the context.

    The parts are given as character ranges of the formatted prompt.
    """
    from mixlens.measuring.context_citing import TEMPLATE, fill_template
    from mixlens.text.prompts import prompt_of

    text = fill_template(TEMPLATE if template is None else template, context, query)
    chat = getattr(lens.tokenizer, "chat_template", None) is not None
    prompt: Any = [{"role": "user", "content": text}] if chat else text
    shift = str(prompt_of(lens.tokenizer, prompt).row.text).find(context)
    if shift < 0:
        raise InvalidInput(
            "The chat template changes the context, so its parts cannot be found in the prompt. Use"
            " --method context_cite."
        )
    spans = spans_of(context, segments)
    return prompt, [(name, start + shift, stop + shift) for name, start, stop in spans]


def _print_removal(
    lens: Lens,
    prompt: Any,
    spans: Spans,
    method: str,
    within: Spans | None,
    limits: dict[str, Any],
    as_json: bool,
) -> None:
    lines = PlainLines()
    result = lens.leave_one_out(
        prompt,
        spans,
        score="arc_jsd" if method == "arc_jsd" else "log_probability",
        within=within,
        progress=lambda done, total: lines.show("forward passes", done, total),
        **limits,
    )
    records = result.to_dataframe().to_dict("records")
    if as_json:
        about = {"answer": result.answer, "log_probability": result.log_probability}
        print_json({**about, "method": method, "passes": result.passes, "segments": records})
        return
    from mixlens.views.labels import printable

    print(f"answer: {printable(result.answer)}")
    print(f"log-probability {result.log_probability:.3f}, {result.passes} forward passes")
    for record in sorted(records, key=lambda record: -record["score"]):
        print(f"{record['score']:+8.3f}  {record['segment']}: {printable(record['text'].strip())}")


def _print_knockout(
    lens: Lens, prompt: Any, spans: Spans, window: str, limits: dict[str, Any], as_json: bool
) -> None:
    if window != "all" and not window.isdecimal():
        raise InvalidInput(f"--window {window} is not a number of layers. Pass a number, or all.")
    lines = PlainLines()
    result = lens.knockout(
        prompt,
        spans,
        windows=window if window == "all" else int(window),
        progress=lambda done, total: lines.show("blocked edges", done, total),
        **limits,
    )
    if as_json:
        about = {"answer": result.answer, "log_probability": result.log_probability}
        records = result.to_dataframe().to_dict("records")
        print_json({**about, "method": "knockout", "segments": records})
        return
    from mixlens.views.labels import printable

    print(f"answer: {printable(result.answer)}")
    print(f"log-probability {result.log_probability:.3f}; fall in the window where it is largest")
    highest, texts = result.scores.argmax(1), dict(zip(result.segments, result.texts, strict=True))
    layers = {name: result.windows[place] for name, place in zip(texts, highest, strict=True)}
    for name, score in result.top():
        first, last = layers[name][0], layers[name][-1]
        place = f"layer {first}" if first == last else f"layers {first}–{last}"
        print(f"{score:+8.3f}  {place}  {name}: {printable(texts[name])}")
