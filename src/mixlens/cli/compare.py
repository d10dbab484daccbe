"""`mixlens compare`: every measure side by side for one target, and how far they agree."""

from __future__ import annotations

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
from mixlens.cli.output import print_json
from mixlens.cli.pictures import FigureOption, check_figure, write_figure
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from mixlens.comparison import Comparison


def compare(
    text: Annotated[str, typer.Argument(help="The text to look at.")],
    target: Annotated[
        str | None,
        typer.Option(
            help="The target: a token or its position. Default: the [MASK], else the last."
        ),
    ] = None,
    cue: Annotated[
        str | None, typer.Option(help="The word that the target must depend on: its rank is shown.")
    ] = None,
    word: Annotated[
        str | None,
        typer.Option(
            help="The output word that gradients and erasure explain. Default: the likeliest."
        ),
    ] = None,
    foil: Annotated[
        str | None, typer.Option(help="The word that it is set against, such as is for are.")
    ] = None,
    layers: Annotated[
        str, typer.Option("--layers", help="mean, rollout, last, or a layer's number.")
    ] = "mean",
    words: Annotated[bool, typer.Option("--words", help="Merge sub-words into words.")] = False,
    site: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross, for encoder-decoder models.")
    ] = None,
    target_text: Annotated[
        str | None, typer.Option(help="Encoder-decoder models: what the decoder is given.")
    ] = None,
    figure: FigureOption = None,
    kind: Annotated[
        str | None, typer.Option(help="The kind of picture: sources or agreement.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page that shows the comparison.")
    ] = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Put every measure side by side for one target, with their rank agreement."""
    if kind is not None and figure is None:
        raise InvalidInput(f"--kind {kind} is the kind of a picture: name its file with --figure")
    check_figure(figure)
    lens = lens_from(model, device, dtype, trust_remote_code)
    explain = {name: value for name, value in (("word", word), ("foil", foil)) if value is not None}
    aggregate = _number(layers)
    given = text if target_text is None else (text, target_text)
    found = lens.compare(
        given,
        _number(target),
        site=site,
        aggregate="mean" if aggregate is None else aggregate,
        words=words,
        explain=explain,
    )
    if figure is not None:
        write_figure(figure, lambda: found.plot(kind))
    if html is not None:
        found.to_html(html)
        typer.echo(f"page: {html}", err=True)
    if as_json:
        print_json(found.to_dict())
        return
    show(found, cue)


def _number(word: str | None) -> int | str | None:
    return int(word) if word is not None and word.lstrip("-").isdigit() else word


def show(found: Comparison, cue: str | None, console: Console | None = None) -> None:
    """The table, the agreement, and the cue's rank where one is named."""
    from rich.console import Console
    from rich.table import Table

    from mixlens.render import terminal
    from mixlens.render.labels import printable

    console = console or Console(highlight=False)
    names = list(found.scores)
    place = cue_position(found, cue) if cue is not None else None
    label = printable(found.target_token)
    console.print(
        f"What is inside {label} (token {found.target}): a column for each measure, shaded by its"
        " largest score",
        markup=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", justify="right", style="dim")
    table.add_column("source", style="bold", no_wrap=True)
    for number in range(len(names)):
        table.add_column(chr(ord("a") + number), no_wrap=True)
    for position, source in enumerate(found.sources):
        mark = "→" if position == place else "·" if position == found.target else ""
        cells = []
        for name in names:
            others = [abs(v) for i, v in enumerate(found.scores[name]) if i != found.target]
            largest = max(others, default=0.0)
            value = float(found.scores[name][position])
            cells.append("" if position == found.target else terminal.shade(value, largest))
        table.add_row(f"{mark}{position}", terminal.escaped(printable(source)), *cells)
    console.print(table)
    _show_ranks(console, found, names, place)
    for name, reason in found.left_out.items():
        console.print(f"left out: {name}: {reason}", markup=False, style="dim")


def cue_position(found: Comparison, cue: str) -> int:
    """The place of a cue that is named by its word or its number."""
    number = _number(cue)
    plain = [source.lstrip("Ġ▁").lower() for source in found.sources]
    if isinstance(number, int):
        if not 0 <= number < len(found.sources):
            raise InvalidInput(
                f"--cue {cue}: there are {len(found.sources)} sources, 0 to"
                f" {len(found.sources) - 1}"
            )
        return number
    if cue.lower() not in plain:
        raise InvalidInput(
            f"--cue {cue}: no token of the text is written so; the tokens are:"
            f" {' '.join(found.sources)}"
        )
    return plain.index(cue.lower())


def _show_ranks(console: Console, found: Comparison, names: list[str], place: int | None) -> None:
    from rich.table import Table

    agreement = found.agreement()
    ranks = found.rank_of(place) if place is not None else {}
    count = len(found.sources) - 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in (
        "",
        "measure",
        "agrees most with",
        "least with",
        *(["rank of the cue"] if place is not None else []),
    ):
        table.add_column(column, no_wrap=True)
    letters = {name: chr(ord("a") + number) for number, name in enumerate(names)}
    for name in names:
        others = agreement[name].drop(name).dropna()
        best = f"{letters[str(others.idxmax())]} {others.max():+.2f}" if len(others) else ""
        worst = f"{letters[str(others.idxmin())]} {others.min():+.2f}" if len(others) else ""
        row = [letters[name], name, best, worst]
        if place is not None:
            verdict = "  by luck" if name == "random" else "  [green]finds it[/]"
            row.append(f"{ranks[name]} of {count}" + (verdict if ranks[name] == 1 else ""))
        table.add_row(*row)
    console.print()
    console.print(table)
    console.print(
        "agreement: Spearman's rank correlation over all sources but the target itself", style="dim"
    )
