"""`mixlens context-cite`: which parts of a context an answer rests on."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.output import print_json
from mixlens.cli.texts import TextArgument, TextFileOption, given_text
from mixlens.text.segments import read_marks


def context_cite_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    query: Annotated[str, typer.Option(help="What is asked about the context.")] = "",
    answer: Annotated[
        str | None, typer.Option(help="The answer to explain. Default: the model's own.")
    ] = None,
    generate: Annotated[
        int | None, typer.Option(help="Generate up to this many tokens; 20 by default.", min=1)
    ] = None,
    segments: Annotated[
        str | None,
        typer.Option(
            help="sentences or paragraphs. Default: those that lines such as === document 1 ==="
            " name, else sentences."
        ),
    ] = None,
    ablations: Annotated[int, typer.Option(help="Prompts that are fitted.", min=2)] = 64,
    held_out: Annotated[int, typer.Option(help="Prompts that judge the fit.", min=2)] = 32,
    seed: Annotated[int, typer.Option(help="Draws what is left out.", min=0)] = 0,
    template: Annotated[
        str | None, typer.Option(help="The prompt, with {context} and {query} in it.")
    ] = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show which parts of a context an answer rests on, by leaving parts out (ContextCite)."""
    context, marks = read_marks(str(given_text(text, text_file)))
    options: dict[str, Any] = {} if generate is None else {"max_new_tokens": generate}
    options |= {} if template is None else {"template": template}
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled="causal")
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
