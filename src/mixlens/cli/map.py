"""`mixlens map`: show one measure of one text as a heat map and a ranked list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MEASURE, OUTPUT
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    PromptedModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.map_measuring import (
    MapChoice,
    explaining_ranges,
    measure_arguments,
    measure_by,
    measure_wanted,
)
from mixlens.cli.map_printing import show_maps
from mixlens.cli.options import measure_options, number_or_name, require_spec
from mixlens.cli.output import check_writable, print_json
from mixlens.cli.pictures import FigureOption, HtmlOption, check_figure, write_figure
from mixlens.cli.progress import heartbeat
from mixlens.cli.prompting import (
    AnswerOption,
    ExplainEndOption,
    GenerateOption,
    NoSinkOption,
    NoTemplateOption,
    PromptFileOption,
    SegmentsOption,
    read_prompting,
)
from mixlens.cli.span_targets import (
    SpanOption,
    WeightsOption,
    answer_arguments,
    check_span,
    span_arguments,
)
from mixlens.cli.texts import (
    SiteOption,
    TargetTextOption,
    TextArgument,
    TextFileOption,
    WordsOption,
)
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording


DEFAULT_MEASURE = "value_zeroing"  # for single layers
AGGREGATED_MEASURE = "alti"  # for --rollout
ANSWER_MEASURE = "alti"  # for --generate and --answer, as in `mixlens answer`
EXAMPLES = """
mixlens map "The keys to the cabinet [MASK] old." --target "[MASK]"
mixlens map "The dogs are old." --measure alti --layer 2 --figure dogs.png
mixlens map --prompt-file prompt.txt --generate 20 --model gpt2 --html page.html
"""
_MeasureOption = Annotated[
    str | None,
    typer.Option(
        "--measure",
        "--measures",
        metavar="NAME",
        rich_help_panel=MEASURE,
        help=f"Name of the measure; `mixlens measures` lists them. Default:"
        f" {DEFAULT_MEASURE}, {AGGREGATED_MEASURE} with --rollout, or {ANSWER_MEASURE} with"
        " --generate or --answer.",
    ),
]
_TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        rich_help_panel=MEASURE,
        help="Show one target only: a token such as [MASK] (dogs#2 is the second dogs) or its"
        " position.",
    ),
]
_LayerOption = Annotated[
    int | None,
    typer.Option(
        "--layer",
        "--layers",
        metavar="N",
        rich_help_panel=MEASURE,
        help="Show one layer, counted from 0; -1 is the last. Default: all layers, ranked by their"
        " mean.",
    ),
]
_HeadOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MEASURE,
        help="Show one head, if the measure is defined per head.",
    ),
]
_RolloutOption = Annotated[
    bool,
    typer.Option("--rollout", rich_help_panel=MEASURE, help="Aggregate layers by rollout."),
]
_OwnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        rich_help_panel=MEASURE,
        help="Set an option of the measure. Can be repeated.",
    ),
]
_TopOption = Annotated[
    int,
    typer.Option(
        metavar="N", rich_help_panel=OUTPUT, help="Number of sources to rank. Default: 10.", min=1
    ),
]
_SaveOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Save the maps for `mixlens.load` in Python.",
    ),
]
_OthersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        rich_help_panel=OUTPUT,
        help="Another measure to add to the --html page. Can be repeated.",
    ),
]
_KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        rich_help_panel=OUTPUT,
        help="Kind of figure: map, target, layers, heads, text, curves, alignment or flow.",
    ),
]
_AlignmentOption = Annotated[
    bool,
    typer.Option(
        "--alignment",
        rich_help_panel=OUTPUT,
        help="Print word alignments from cross-attention.",
    ),
]


def map_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    prompt_file: PromptFileOption = None,
    generate: GenerateOption = None,
    answer: AnswerOption = None,
    no_chat_template: NoTemplateOption = False,
    explain_end: ExplainEndOption = False,
    segments: SegmentsOption = None,
    no_sink: NoSinkOption = False,
    measure: _MeasureOption = None,
    target: _TargetOption = None,
    layer: _LayerOption = None,
    head: _HeadOption = None,
    span: SpanOption = None,
    weights: WeightsOption = None,
    rollout: _RolloutOption = False,
    words: WordsOption = False,
    site: SiteOption = None,
    target_text: TargetTextOption = None,
    option: _OwnOption = None,
    top: _TopOption = 10,
    save: _SaveOption = None,
    html: HtmlOption = None,
    others: _OthersOption = None,
    figure: FigureOption = None,
    kind: _KindOption = None,
    alignment: _AlignmentOption = False,
    model: PromptedModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show how much each token contributes to each other token."""
    is_named, reason = measure is not None, ""
    if measure is None:
        answers = generate is not None or answer is not None
        measure, reason = _default_measure(rollout and head is None, answers)
    own_options = measure_options(measure, option or [])
    choice = MapChoice(
        measure=measure,
        spec=require_spec(measure),
        target=None if target is None or span is not None else number_or_name(target),
        layer=layer,
        head=head,
        rollout=rollout,
        words=words,
        site="cross" if alignment and site is None else site,
        every_target=bool(save or html or figure or alignment),
    )
    prompt = read_prompting(
        text,
        text_file,
        prompt_file,
        target_text,
        generate=generate,
        answer=answer,
        segments=segments,
        sink=not no_sink,
        chat_template=not no_chat_template,
        explain_end=explain_end,
    )
    if weights is not None and span is None:
        raise InvalidInput("--weights needs --span. Pass --span sum, joint, mean or auto.")
    check_span(span)
    check_figure(figure, kind, _kinds)
    if kind == "flow" and rollout:
        raise InvalidInput("--kind flow already aggregates the layers. Drop --rollout.")
    check_writable(save, html)
    if not is_named:
        typer.echo(f"no --measure given: using {measure}, {reason}", err=True)
    lens = lens_from(
        model, device, dtype, trust_remote_code, reads_text=True, bundled=prompt.bundled
    )
    prompt = prompt.written_by(lens.tokenizer)
    with heartbeat(f"measuring {measure}"), explaining_ranges(choice.target):
        options = measure_arguments(choice, own_options, lens, prompt)
        recording = prompt.record(lens, choice.site) if prompt.continues else None
        if recording is not None and not is_named:
            choice = _choose_supported(choice, recording)
        if span is not None and choice.spec.explains_output:
            options |= answer_arguments(span, weights, target, recording)
        elif span is not None:
            options |= span_arguments(
                span, weights, target, lens, prompt.inputs, recording, choice.site
            )
        take_measure = measure_by(lens, prompt.inputs, recording)
        maps = measure_wanted(
            choice, options, take_measure, is_single_target="targets" in options or prompt.continues
        )
        target_maps = maps if "targets" in options else choice.at_target(maps)
    if save is not None:
        choice.group(maps, prompt).save(save)
        typer.echo(f"saved to {save}", err=True)
    if alignment:
        _print_links(maps)
        return
    if html is not None:
        next_to = [take_measure(name, {"site": choice.site}) for name in others or []]
        _write_page(
            html, [prompt.mark_segments(each) for each in (maps, *next_to)], choice.row_of(maps)
        )
    grouped_maps = choice.group(target_maps, prompt)
    if figure is not None:
        heads = {**options, "per_head": True}
        every = take_measure(choice.measure, heads) if kind == "heads" else maps
        only_target = grouped_maps.target_positions[0] if choice.one_row else None
        plot = partial(choice.group(every, prompt).plot, kind, target=only_target)
        write_figure(figure, plot)
    answer_text = None if recording is None else recording.answer
    if as_json:
        print_json({**_as_dict(grouped_maps), "answer": answer_text})
    else:
        prompt.print_answer(answer_text)
        show_maps(grouped_maps, choice.spec, top, elsewhere=any((save, figure, html)))


def _default_measure(aggregates: bool, answers: bool) -> tuple[str, str]:
    """Return the measure that the leaderboard recommends, and the reason."""
    if aggregates:
        return AGGREGATED_MEASURE, "the best measure for aggregated layers on the leaderboard"
    if answers:
        return ANSWER_MEASURE, "the default of `mixlens answer`"
    return DEFAULT_MEASURE, "the best measure for single layers on the leaderboard"


def _choose_supported(choice: MapChoice, recording: Recording) -> MapChoice:
    """Return the chosen measure, or a different default if the model does not support it."""
    from mixlens.answers.method_scores import default_method
    from mixlens.measures import refusal
    from mixlens.measuring.compared_target import site_of

    site = site_of(recording, choice.site)
    reason = refusal(choice.measure, recording.structure, site)
    if reason is None:
        return choice
    name = default_method(recording, site)
    typer.echo(f"using {name} instead: {reason}", err=True)
    return replace(choice, measure=name, spec=require_spec(name))


def _kinds() -> Collection[str]:
    from mixlens.views.plots import kinds

    return kinds()


def _write_page(path: Path, maps: list[MixingMaps], target: int | None) -> None:
    maps[0].to_html(path, *maps[1:], target=target)
    typer.echo(f"page: {path}", err=True)


def _print_links(maps: MixingMaps) -> None:
    from mixlens.maps.alignments import align_words

    print(align_words(maps).pharaoh())


def _as_dict(maps: MixingMaps) -> dict[str, Any]:
    return {
        "provenance": maps.provenance,
        "layers": list(maps.layers),
        "targets": [
            {"position": p, "token": t}
            for p, t in zip(maps.target_positions, maps.tokens, strict=True)
        ],
        "sources": list(maps.source_tokens),
        "source_segments": maps.source_row.segment_names,
        "scores": maps.scores.tolist(),
        "reading": maps.reading.name,
        "read_scores": maps.reading.of(maps.scores).tolist(),
    }
