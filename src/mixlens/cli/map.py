"""`mixlens map`: one measure of one text, as a heat map and a ranked list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.options import measure_options
from mixlens.cli.pictures import FigureOption, check_figure, write_figure
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps import MixingMaps
    from mixlens.recording.inputs import Text


def map_command(
    text: Annotated[str, typer.Argument(help="The text to look at.")],
    measure: Annotated[str, typer.Option(help="See `mixlens measures`.")] = "value_zeroing",
    target: Annotated[
        str | None, typer.Option(help="One target: a token such as '[MASK]', or its position.")
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            help="One layer; negative counts from the last. Default: all, the last ranked."
        ),
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="One head, where the measure is defined per head.")
    ] = None,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Cumulate over layers, as the measure's paper does.")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Merge sub-words into words.")] = False,
    site: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross, for encoder-decoder models.")
    ] = None,
    target_text: Annotated[
        str | None, typer.Option(help="Encoder-decoder models: what the decoder is given.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="name=value, an option of the measure."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many sources to rank.")] = 5,
    save: Annotated[
        Path | None, typer.Option(help="Write the maps to this file; mixlens.load reads it.")
    ] = None,
    figure: FigureOption = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="The kind of picture: map, target, layers, heads, text, curves, alignment or flow."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page that shows the maps.")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(help="With --html: a measure that the page shows next to it; repeatable."),
    ] = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show how much of each source token is in each target token, by one measure."""
    from mixlens.measures import list_measures

    options = measure_options(measure, option or [])
    if kind is not None and figure is None:
        raise InvalidInput(f"--kind {kind} is the kind of a picture: name its file with --figure")
    check_figure(figure)
    for flag, file in (("--save", save), ("--html", html)):
        if file is not None and (not file.parent.is_dir() or file.is_dir()):
            reason = "that is a folder" if file.is_dir() else f"there is no folder {file.parent}"
            raise InvalidInput(f"{flag} {file}: {reason}")
    lens = lens_from(model, device, dtype, trust_remote_code)
    given = text if target_text is None else (text, target_text)
    chosen = None if layer is None or rollout else [layer]
    spec = list_measures().get(measure)
    explains = spec is not None and spec.explains_output
    if explains and target is not None:
        options.setdefault(
            "position", _position(lens, given, target)
        )  # they explain what the model says there
    maps = lens.measure(
        measure, given, site=site, per_head=head is not None, layers=chosen, **options
    )
    if head is not None:
        maps = maps.head(head)
    maps = maps.rollout() if rollout else maps
    if layer is not None and rollout:
        maps = maps.at(layers=[layer])
    if save is not None:
        (maps.words() if words else maps).save(save)
    every = maps
    if html is not None:
        others = [lens.measure(name, given, site=site) for name in beside or []]
        first = None if target is None or explains else maps.row(_target(target)).target
        maps.to_html(html, *others, target=first)
    if target is not None and not explains:
        maps = maps.at(targets=[_target(target)])  # before words: a position is a token's
    maps = maps.words() if words else maps
    if figure is not None:
        if kind == "heads":
            every = lens.measure(measure, given, site=site, per_head=True, layers=chosen, **options)
        only = maps.target_positions[0] if target is not None and not explains else None
        _draw(figure, every, kind, only, words)
    if as_json:
        print(json.dumps(_as_dict(maps), indent=2, ensure_ascii=False))
        return
    _show(maps, top, elsewhere=any((save, figure, html)))
    if save is not None:
        typer.echo(f"saved to {save}", err=True)
    if html is not None:
        typer.echo(f"page: {html}", err=True)


def _draw(path: Path, maps: MixingMaps, kind: str | None, target: int | None, words: bool) -> None:
    """The picture of all targets, or of one that `target` names among the tokens or words shown."""
    maps = maps.words() if words else maps
    write_figure(path, lambda: maps.plot(kind, target=target))


def _target(target: str) -> int | str:
    return int(target) if target.lstrip("-").isdigit() else target


def _position(lens: Lens, given: Text, target: str) -> int:
    """Where the target stands in the text that the model predicts words for."""
    from mixlens.row import position_of

    recording = lens.record(given)
    row = recording.tokens[recording.structure.stacks[-1].name][0]
    return position_of(_target(target), row, range(len(row)))


def _as_dict(maps: MixingMaps) -> dict[str, object]:
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


def _show(maps: MixingMaps, top: int, elsewhere: bool) -> None:
    from rich.console import Console

    from mixlens.render import terminal
    from mixlens.render.labels import printable

    console = Console(highlight=False)
    steps = " → ".join([str(maps.provenance.get("measure")), *maps.provenance.get("steps", [])])
    if len(maps.target_positions) == 1:
        console.print(
            f"What is inside {printable(maps.tokens[0])}: {steps}, layers across, each"
            " shaded by its largest score",
            markup=False,
        )
        console.print(terminal.by_layer(maps.scores[:, 0], maps.layers, maps.source_tokens))
        console.print(f"\nlargest in layer {maps.layers[-1]}")
        console.print(terminal.ranked(maps.row(maps.target_positions[0]).top(top)))
        return
    if len(maps.source_tokens) > terminal.WIDEST:
        if elsewhere:
            return
        raise InvalidInput(
            f"{len(maps.source_tokens)} sources are too many for a terminal: name one row with"
            " --target, or use --figure, --json or --save"
        )
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
