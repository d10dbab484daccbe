"""`mixlens map`: one measure of one text, as a heat map and a ranked list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.options import described, measure_options, number_or_name
from mixlens.cli.output import print_json
from mixlens.cli.pictures import FigureOption, check_figure, write_figure
from mixlens.cli.prompting import (
    AnswerOption,
    GenerateOption,
    NoSinkOption,
    PromptFileOption,
    Prompting,
    SegmentsOption,
    read_prompting,
)
from mixlens.cli.texts import TargetTextOption, TextArgument, TextFileOption
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.lens import Lens
    from mixlens.maps import MixingMaps
    from mixlens.recording.inputs import Text


def map_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    prompt_file: PromptFileOption = None,
    generate: GenerateOption = None,
    answer: AnswerOption = None,
    segments: SegmentsOption = None,
    no_sink: NoSinkOption = False,
    measure: Annotated[str, typer.Option(help="See `mixlens measures`.")] = "value_zeroing",
    target: Annotated[
        str | None,
        typer.Option(
            help="One target: a token such as '[MASK]' (dogs#2 is the second of two), or its"
            " position."
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            help="One layer, from 0; negative counts from the last. Default: all, the last ranked."
        ),
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="One head, if the measure is defined per head.")
    ] = None,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Cumulate over layers, as the measure's paper does.")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Merge sub-words into words.")] = False,
    site: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross, for encoder-decoder models.")
    ] = None,
    target_text: TargetTextOption = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="name=value, an option of the measure."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many sources to rank.", min=1)] = 5,
    save: Annotated[
        Path | None, typer.Option(help="Write the maps to this file; mixlens.load reads it.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page that shows the maps.")
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--with", help="A measure that the page shows too; repeatable."),
    ] = None,
    figure: FigureOption = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="The kind of picture: map, target, layers, heads, text, curves, alignment or flow."
        ),
    ] = None,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment", help="Print word links (Pharaoh format) from cross-attention maps."
        ),
    ] = False,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show how much of each source token is in each target token, by one measure."""
    from mixlens.alignments import align_words
    from mixlens.storage import writable

    options = measure_options(measure, option or [])
    spec = described(measure)
    _check_choices(measure, spec, rollout=rollout, layer=layer, head=head)
    prompt = read_prompting(
        text,
        text_file,
        prompt_file,
        target_text,
        generate=generate,
        answer=answer,
        segments=segments,
        sink=not no_sink,
    )
    given = prompt.given
    if kind is not None and figure is None:
        raise InvalidInput(f"--kind {kind} is the kind of a picture: name its file with --figure")
    check_figure(figure)
    for file in (save, html):
        if file is not None:
            writable(file)
    bundled = "causal" if prompt.continues else "masked"
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled=bundled)
    one = target is not None and spec.gives == "maps"
    if spec.explains_output and target is not None and not prompt.continues:
        # they explain what the model says there
        options.setdefault("position", _position(lens, given, target))
    options["site"] = "cross" if alignment and site is None else site
    options["layers"] = None if layer is None or rollout else [layer]
    options["per_head"] = head is not None
    every_target = bool(save or html or figure or alignment)
    if target is not None and not every_target and (one or prompt.continues):
        options["targets"] = [number_or_name(target)]  # its row alone
    measured = _measure_by(lens, prompt, options["site"])
    by_rows = rollout and head is None and ("targets" in options or prompt.continues)
    maps = measured(measure, options, rollout=by_rows)
    maps = maps if head is None else maps.head(head)
    maps = maps.rollout() if rollout and not by_rows else maps
    maps = maps.at(layers=[layer]) if layer is not None and rollout else maps
    if save is not None:
        prompt.grouped(maps.words() if words else maps).save(save)
        typer.echo(f"saved to {save}", err=True)
    if alignment:
        print(align_words(maps).pharaoh())
        return
    if html is not None:
        shown_too = [measured(name, {"site": options["site"]}) for name in others or []]
        first = number_or_name(target) if target is not None and one else None
        maps.to_html(html, *shown_too, target=None if first is None else maps.row(first).target)
        typer.echo(f"page: {html}", err=True)
    every = maps
    if target is not None and one and "targets" not in options:
        # before words: a position is a token's
        maps = maps.at(targets=[number_or_name(target)])
    maps = prompt.grouped(maps.words() if words else maps)
    if figure is not None:
        if kind == "heads":
            every = measured(measure, {**options, "per_head": True})
        every = prompt.grouped(every.words() if words else every)
        shown_target = maps.target_positions[0] if one else None
        write_figure(figure, lambda: every.plot(kind, target=shown_target))
    if as_json:
        print_json(_as_dict(maps))
    else:
        _show(maps, spec, top, elsewhere=any((save, figure, html)))


class _Measure(Protocol):
    """How a measure is taken of what was given."""

    def __call__(
        self, name: str, options: Mapping[str, Any], *, rollout: bool = False
    ) -> MixingMaps: ...


def _measure_by(lens: Lens, prompt: Prompting, site: str | None) -> _Measure:
    """What follows a prompt is generated once for all measures."""
    from mixlens.measuring import measure

    recording = prompt.recorded(lens, site) if prompt.continues else None

    def measured(name: str, options: Mapping[str, Any], *, rollout: bool = False) -> MixingMaps:
        if rollout:
            own = {k: v for k, v in options.items() if k not in ("layers", "per_head")}
            if recording is not None:
                own.pop("site")
            return lens.rollout(name, prompt.given if recording is None else recording, **own)
        maps: MixingMaps | list[MixingMaps] = (
            lens.measure(name, prompt.given, **options)
            if recording is None
            else measure(name, recording, **options)
        )
        assert not isinstance(maps, list)
        return maps

    return measured


def _check_choices(
    measure: str, spec: Spec, *, rollout: bool, layer: int | None, head: int | None
) -> None:
    """What can be seen to be wrong before a model is loaded."""
    if head is not None and not spec.per_head:
        raise InvalidInput(f"{measure} is defined for whole layers only, not per head: drop --head")
    if rollout and spec.gives != "maps":
        raise InvalidInput(
            f"{measure} explains an output and has no layers to join: drop --rollout"
        )
    if rollout and spec.facts.signed:
        raise InvalidInput(
            f"scores of {measure} have both signs, and a product of such layers means nothing:"
            " drop --rollout, or choose a measure without signs"
        )


def _position(lens: Lens, given: Text, target: str) -> int:
    """Where the target is in the text that the model predicts words for."""
    from mixlens.row import position_of

    recording = lens.record(given)
    row = recording.tokens[recording.structure.stacks[-1].name][0]
    return position_of(number_or_name(target), row, range(len(row)))


def _as_dict(maps: MixingMaps) -> dict[str, Any]:
    return {
        "provenance": maps.provenance,
        "layers": list(maps.layers),
        "targets": [
            {"position": p, "token": t}
            for p, t in zip(maps.target_positions, maps.tokens, strict=True)
        ],
        "sources": list(maps.source_tokens),
        "scores": maps.scores.tolist(),
    }


def _show(maps: MixingMaps, spec: Spec, top: int, elsewhere: bool) -> None:
    from rich.console import Console

    from mixlens.render.terminal import WIDEST

    console = Console(highlight=False)
    steps = " → ".join([str(maps.provenance.get("measure")), *maps.provenance.get("steps", [])])
    if len(maps.target_positions) == 1:
        _show_row(console, maps, spec, steps, top)
    elif any(step.startswith("segments(") for step in maps.provenance.get("steps", [])):
        _show_segments(console, maps, steps)
    elif len(maps.source_tokens) <= WIDEST:
        _show_matrix(console, maps, steps)
    elif len(maps.target_positions) < len(maps.target_row):
        _show_largest(console, maps, steps, top)
    elif not elsewhere:
        raise InvalidInput(
            f"{len(maps.source_tokens)} sources are too many for a terminal: name one row with"
            " --target, sum them with --segments, or use --figure, --json or --save"
        )


def _show_row(console: Any, maps: MixingMaps, spec: Spec, steps: str, top: int) -> None:
    from mixlens.render import terminal
    from mixlens.render.labels import printable

    label = printable(maps.tokens[0])
    opening = f"What speaks for {label}" if spec.explains_output else f"What is inside {label}"
    across = "layers across, each " if len(maps.layers) > 1 else ""
    console.print(f"{opening}: {steps}, {across}shaded by its largest score", markup=False)
    console.print(terminal.by_layer(maps.scores[:, 0], maps.layers, maps.source_tokens))
    console.print(f"\nlargest in layer {maps.layers[-1]}")
    console.print(terminal.ranked(maps.row(maps.target_positions[0]).top(top)))


def _show_segments(console: Any, maps: MixingMaps, steps: str) -> None:
    from mixlens.render import terminal

    console.print(f"{steps}, layer {maps.layers[-1]}: sums of each segment", markup=False)
    console.print(terminal.numbers(maps.scores[-1], maps.tokens, maps.source_tokens))
    share = maps.measured["sink_share"].values[-1]
    console.print(
        f"the first token has a share of {terminal.number(float(share.mean()))} on average",
        style="dim",
    )


def _show_largest(console: Any, maps: MixingMaps, steps: str, top: int) -> None:
    from mixlens.render import terminal
    from mixlens.render.labels import printable

    console.print(f"{steps}, layer {maps.layers[-1]}: the largest sources of each target")
    for position in maps.target_positions:
        row = maps.row(position)
        sources = "  ".join(
            f"{printable(source.token)} {source.position} {terminal.number(source.score)}"
            for source in row.top(top)
        )
        console.print(f"{printable(row.token)} ← {sources}", markup=False)


def _show_matrix(console: Any, maps: MixingMaps, steps: str) -> None:
    from mixlens.render import terminal
    from mixlens.render.labels import printable

    console.print(
        f"{steps}, layer {maps.layers[-1]}: targets down, sources across by number, shaded by row",
        markup=False,
    )
    labels = [
        f"{printable(t)} {p:>2}" for p, t in zip(maps.target_positions, maps.tokens, strict=True)
    ]
    console.print(terminal.matrix(maps.scores[-1], labels, maps.source_tokens))
    if maps.source_tokens != maps.tokens:
        legend = "  ".join(
            f"{number} {printable(token)}" for number, token in enumerate(maps.source_tokens)
        )
        console.print(f"sources: {legend}", markup=False)
    console.print(
        f"--target {maps.target_positions[-1]} (or a token) shows one row through all layers",
        style="dim",
    )
