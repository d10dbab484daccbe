"""Print maps in the terminal: one target across layers, sums over segments, or a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput, format_count

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.maps.mixing_maps import MixingMaps


def show_maps(maps: MixingMaps, spec: Spec, top: int, *, elsewhere: bool) -> None:
    """Print one target across layers, the sums over segments, or the aggregated layers as a matrix.

    Set `elsewhere` if the maps are also written to a file. Otherwise, a matrix that is too wide for
    a terminal raises `InvalidInput`.
    """
    from rich.console import Console

    from mixlens.views.terminal import WIDEST

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
            f"{len(maps.source_tokens)} sources do not fit a terminal. Pass --target for one"
            " target, --segments for sums, or --figure, --html, --json or --save."
        )
    if maps.provenance.get("target_names"):
        console.print(f"targets are named by {maps.provenance['target_names']}", style="dim")


def _show_row(console: Any, maps: MixingMaps, spec: Spec, steps: str, top: int) -> None:
    from mixlens.views import terminal
    from mixlens.views.labels import printable

    label = printable(maps.tokens[0])
    opening = f"Sources that support {label}" if spec.explains_output else f"Sources of {label}"
    reading, scores = maps.reading, maps.scores[:, 0]
    console.print(f"{opening}: {steps}", markup=False)
    console.print(f"largest, {reading.name}")
    count = len(maps.source_tokens)
    ranked = maps.row(maps.target_positions[0]).top(top)
    console.print(terminal.build_ranking(ranked))
    if count > len(ranked):
        console.print(f"and {format_count(count - len(ranked), 'more source')}", style="dim")
    every = count <= terminal.WIDEST
    places = None if every else sorted(source.position for source in ranked)
    which = "all sources" if every else "these sources"
    shading = "shaded by the largest score"
    if len(maps.layers) > 1:
        shading = "layers across, each shaded by its largest score"
    console.print(f"\n{which} in order, {shading}")
    column = reading.how if reading.how in ("mean", "sum") else "score"
    tables = terminal.by_layer(
        scores, maps.layers, maps.source_tokens, reading.of(scores), column, console.width, places
    )
    terminal.show(console, tables)


def _show_segments(console: Any, maps: MixingMaps, steps: str) -> None:
    from mixlens.views import terminal

    reading = maps.reading
    console.print(f"{steps}, {reading.name}: sums of each segment", markup=False)
    tables = terminal.numbers(
        reading.of(maps.scores), maps.tokens, maps.source_tokens, console.width
    )
    terminal.show(console, tables)
    share = maps.measured["sink_share"].values
    share = share.mean(0) if reading.how == "mean" else share[-1]
    console.print(
        f"the first token has a share of {terminal.number(float(share.mean()))} on average",
        style="dim",
    )


def _show_largest(console: Any, maps: MixingMaps, steps: str, top: int) -> None:
    from mixlens.views import terminal
    from mixlens.views.labels import printable

    console.print(f"{steps}, {maps.reading.name}: the largest sources of each target", markup=False)
    for position in maps.target_positions:
        target_scores = maps.row(position)
        sources = "  ".join(
            f"{printable(source.token)} {source.position} {terminal.number(source.score)}"
            for source in target_scores.top(top)
        )
        console.print(f"{printable(target_scores.token)} ← {sources}", markup=False)


def _show_matrix(console: Any, maps: MixingMaps, steps: str) -> None:
    from mixlens.views import terminal
    from mixlens.views.labels import printable

    console.print(
        f"{steps}, {maps.reading.name}: targets down, sources across by number, shaded by row",
        markup=False,
    )
    labels = [
        f"{printable(t)} {p:>2}" for p, t in zip(maps.target_positions, maps.tokens, strict=True)
    ]
    tables = terminal.matrix(
        maps.reading.of(maps.scores), labels, maps.source_tokens, console.width
    )
    terminal.show(console, tables)
    if maps.source_tokens != maps.tokens:
        legend = "  ".join(
            f"{number} {printable(token)}" for number, token in enumerate(maps.source_tokens)
        )
        console.print(f"sources: {legend}", markup=False)
    console.print(
        f"Pass --target {maps.target_positions[-1]} (or a token) for one target in all layers.",
        style="dim",
    )
