"""`mixlens routes`: show the information flow routes to one token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.help import MEASURE, OUTPUT
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
from mixlens.cli.progress import heartbeat
from mixlens.cli.texts import TextArgument, TextFileOption, read_input

if TYPE_CHECKING:
    from mixlens.maps.route_graph import Routes


EXAMPLES = """
mixlens routes "The keys to the cabinet [MASK] old." --target "[MASK]"
mixlens routes "The dogs near the river are old." --save routes.graphml
"""
_TargetOption = Annotated[
    str,
    typer.Option(
        metavar="TOKEN",
        rich_help_panel=MEASURE,
        help="Target token such as [MASK], or its position. Default: the last token.",
    ),
]
_ThresholdOption = Annotated[
    float,
    typer.Option(
        metavar="SCORE",
        rich_help_panel=MEASURE,
        help="Drop edges with a score of at most this value. Default: 0.04.",
        min=0,
        max=1,
    ),
]
_PlainOption = Annotated[
    bool,
    typer.Option(
        "--plain",
        rich_help_panel=MEASURE,
        help="Sum the raw scores of all heads instead of renormalising them.",
    ),
]
_ValueBiasOption = Annotated[
    bool,
    typer.Option(
        "--value-bias",
        rich_help_panel=MEASURE,
        help="Add the bias of the value vectors to their source.",
    ),
]
_SaveOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=OUTPUT, help="Save the graph as .graphml or .csv."
    ),
]


def routes_command(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    target: _TargetOption = "-1",
    threshold: _ThresholdOption = 0.04,
    plain: _PlainOption = False,
    value_bias: _ValueBiasOption = False,
    save: _SaveOption = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show the information flow routes to one token."""
    inputs = read_input(text, text_file)
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True)
    with heartbeat("measuring flow_routes"):
        graph = lens.routes(
            inputs,
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
            source = "MLP"
        elif not place.startswith("A"):
            continue
        title = f"layer {place[1:]}: {names[int(position)]}"
        lines.setdefault(title, []).append(f"{source} {weight:.2f}")
    for title, parts in lines.items():
        print(f"{title} ← {', '.join(parts)}")
