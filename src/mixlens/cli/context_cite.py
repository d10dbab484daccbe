"""`mixlens context-cite`: find the parts of a context that support an answer."""

from __future__ import annotations

import math
from typing import Annotated, Any

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
from mixlens.cli.progress import heartbeat
from mixlens.cli.texts import TextArgument, TextFileOption, given_text
from mixlens.text.segments import read_marks

EXAMPLES = """
mixlens context-cite --text-file context.txt --query "Where are the keys?"
mixlens context-cite "The keys are here. The dog is old." --answer " The keys."
"""
_QueryOption = Annotated[
    str,
    typer.Option(metavar="TEXT", rich_help_panel=INPUT, help="Question about the context."),
]
_AnswerOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=INPUT,
        help="Answer to explain. Default: the model generates one.",
    ),
]
_GenerateOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Generate an answer of up to N tokens. Default: 20.",
        min=1,
    ),
]
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


def context_cite_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    query: _QueryOption = "",
    answer: _AnswerOption = None,
    generate: _GenerateOption = None,
    segments: _SegmentsOption = None,
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
    context, marks = read_marks(str(given_text(text, text_file)))
    options: dict[str, Any] = {} if generate is None else {"max_new_tokens": generate}
    options |= {} if template is None else {"template": template}
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled="causal")
    with heartbeat(f"running {ablations + held_out} ablated prompts"):
        made = lens.context_cite(
            context,
            query,
            answer,
            segments or marks or "sentences",
            ablations,
            seed,
            held_out=held_out,
            **options,
        )
    rows = made.to_dataframe().to_dict("records")
    if as_json:
        fit = None if math.isnan(made.correlation) else made.correlation
        about = {"answer": made.answer, "correlation": fit, "intercept": made.intercept}
        print_json({**about, "segments": rows})
        return
    from mixlens.views.labels import printable

    print(f"answer: {printable(made.answer)}")
    print(f"held-out correlation of the surrogate: {made.correlation:.2f}")
    for row in sorted(rows, key=lambda row: -row["score"]):
        print(f"{row['score']:+8.3f}  {row['segment']}: {printable(row['text'])}")
