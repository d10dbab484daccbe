"""`mixlens routes`: the part of a network that one token's state is made of."""

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
from mixlens.cli.options import number_or_name
from mixlens.cli.output import print_json
from mixlens.cli.texts import TextArgument, TextFileOption, given_text

if TYPE_CHECKING:
    from mixlens.maps.route_graph import Routes


def routes_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    target: Annotated[
        str, typer.Option(help="A token such as '[MASK]', or its position; default: the last.")
    ] = "-1",
    threshold: Annotated[
        float, typer.Option(help="Shares up to this one are dropped.", min=0, max=1)
    ] = 0.04,
    plain: Annotated[
        bool, typer.Option("--plain", help="Raw shares, heads added up, not renormalised.")
    ] = False,
    value_bias: Annotated[
        bool, typer.Option("--value-bias", help="Count the bias of the values with their source.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Write the graph to a .graphml or a .csv file.")
    ] = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show the route of one token: the edges above a threshold that its last state is made of."""
    given = given_text(text, text_file)
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True)
    graph = lens.routes(
        given,
        number_or_name(target),
        threshold=threshold,
        renormalise=not plain,
        value_bias=value_bias,
    )
    if save is not None:
        graph.save(save)
        typer.echo(f"saved to {save}", err=True)
    if as_json:
        edges = [edge._asdict() for edge in graph.edges]
        about = {"tokens": graph.tokens, "target": graph.target, "rows": graph.rows}
        print_json({**about, "edges": edges})
    else:
        _show(graph)


def _show(graph: Routes) -> None:
    from mixlens.views.labels import printable

    print(repr(graph)[1:-1])
    names = [f"{printable(token)} {number}" for number, token in enumerate(graph.tokens)]
    lines: dict[str, list[str]] = {}
    for start, end, weight in graph.edges:
        place, _, position = end.partition("_")
        source = names[int(start.partition("_")[2])]
        if start.startswith("M"):
            source = "feed-forward"
        elif not place.startswith("A"):
            continue
        title = f"layer {place[1:]}: {names[int(position)]}"
        lines.setdefault(title, []).append(f"{source} {weight:.2f}")
    for title, parts in lines.items():
        print(f"{title} ← {', '.join(parts)}")
