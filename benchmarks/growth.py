"""Growth of time and memory with the number of tokens, layers and texts, next to theory. Part of
`make bench`.

A small BERT, so that all of it takes a minute or two. Exponents are slopes of straight lines
through the logarithms. Two theories are next to them: the slope of the number of multiplications
over the very same sizes, and the power of n that wins in the end. Memory is the most that tensors
held during the call, beyond the model and the input; chunks of at most `BUDGET` bytes are part of
it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mixlens
from benchmarks import models
from benchmarks.allocation import peak_bytes
from benchmarks.cases import CASES, Case, Shape
from benchmarks.report import (
    RESULTS,
    ROOT,
    Figure,
    change,
    circumstances,
    committed,
    described,
    save,
    say,
    table,
    write_section,
)
from benchmarks.timing import spelled, threads, timed

BUDGET = 64 * 2**20
BASE = Shape(tokens=128, layers=2, batch=1, width=128, heads=4, inner=512)
AXES: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "tokens": (BASE, (32, 64, 128, 256, 512)),
    "layers": (BASE, (1, 2, 4, 8)),
    "batch": (replace(BASE, tokens=64), (1, 2, 4, 8)),
}
FITTED = 3  # the largest sizes: below them fixed costs hide the growth
PLOT = ROOT / "docs" / "performance" / "growth.svg"


@dataclass(frozen=True)
class Curve:
    """One measure along one axis."""

    case: Case
    axis: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes: tuple[int, ...]
    operations: tuple[float, ...]

    def exponent(self, values: Sequence[float]) -> float:
        return slope(self.sizes[-FITTED:], values[-FITTED:])


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the least-squares line through the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(max(value, 1e-12)) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def measured(
    case: Case, axis: str, shapes: Sequence[Shape], *, repeats: int, seconds: float
) -> Curve:
    times, peaks = [], []
    for shape in shapes:
        model = models.bert(
            "BertForSequenceClassification",
            vocab_size=1000,
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.inner,
        )
        lens, inputs = (
            mixlens.Lens(model, memory_budget=BUDGET),
            models.tokens(model, shape.tokens, batch=shape.batch),
        )

        def run(lens: mixlens.Lens = lens, inputs: models.Inputs = inputs) -> None:
            lens.measure(case.measure, inputs, **case.options)

        run()  # the model is taken apart on the first call
        times.append(timed(run, repeats=repeats, seconds=seconds, warm_up=False).best)
        peaks.append(peak_bytes(run))
    sizes = tuple(int(getattr(shape, axis)) for shape in shapes)
    say(f"  {case.label}, {axis} {sizes}: " + ", ".join(spelled(second) for second in times))
    return Curve(
        case,
        axis,
        sizes,
        tuple(times),
        tuple(peaks),
        tuple(case.operations(shape) for shape in shapes),
    )


def curves(
    axes: Mapping[str, tuple[Shape, tuple[int, ...]]], *, repeats: int, seconds: float
) -> list[Curve]:
    all_curves = []
    for axis, (base, sizes) in axes.items():
        say(f"growth with {axis}")
        shapes = [replace(base, **{axis: size}) for size in sizes]
        all_curves += [
            measured(case, axis, shapes, repeats=repeats, seconds=seconds) for case in CASES
        ]
    return all_curves


def tables(curves: Sequence[Curve]) -> str:
    """One table for each axis: the numbers at every size, and the exponents."""
    parts = []
    for axis in dict.fromkeys(curve.axis for curve in curves):
        of_axis = [curve for curve in curves if curve.axis == axis]
        header = [
            f"growth with {axis}",
            *(str(size) for size in of_axis[0].sizes),
            "exponent",
            "of multiplications",
            "in the end",
            "memory (largest)",
            "exponent of memory",
            "in the end",
        ]
        lines = [
            [
                curve.case.label,
                *(spelled(second) for second in curve.seconds),
                f"{curve.exponent(curve.seconds):.2f}",
                f"{curve.exponent(curve.operations):.2f}",
                curve.case.power if axis == "tokens" else "1",
                f"{curve.bytes[-1] / 2**20:,.0f} MiB",
                f"{curve.exponent(curve.bytes):.2f}",
                "2" if axis == "tokens" else "1",
            ]
            for curve in of_axis
        ]
        parts.append(table(header, lines))
    return "\n\n".join(parts)


def figures(curves: Sequence[Curve]) -> list[Figure]:
    """What the next run is compared with: seconds at the largest size."""
    return [
        Figure(f"{curve.case.label}, {curve.axis} {curve.sizes[-1]}", curve.seconds[-1], unit=" s")
        for curve in curves
        if curve.axis == "tokens"
    ]


def as_data(curve: Curve) -> dict[str, Any]:
    return {
        "measure": curve.case.label,
        "axis": curve.axis,
        "sizes": curve.sizes,
        "seconds": [float(f"{value:.4g}") for value in curve.seconds],
        "bytes": curve.bytes,
        "exponent of time": round(curve.exponent(curve.seconds), 3),
        "exponent of memory": round(curve.exponent(curve.bytes), 3),
        "exponent of multiplications": round(curve.exponent(curve.operations), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="a few small sizes: tests the benchmark, says nothing about growth",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where results and plot go (default: benchmarks/results/growth.json and the docs)",
    )
    chosen = parser.parse_args(arguments)
    tiny = {
        axis: (replace(base, tokens=8, width=16, inner=32), sizes[:2])
        for axis, (base, sizes) in AXES.items()
    }
    with threads(1 if chosen.tiny else 2):
        all_curves = curves(
            tiny if chosen.tiny else AXES, repeats=1 if chosen.tiny else 5, seconds=2.0
        )
    facts = circumstances(
        "make bench" if not chosen.tiny else "growth --tiny",
        threads=2,
        width=BASE.width,
        heads=BASE.heads,
    )
    last = None if chosen.tiny else committed("growth.json")
    say("\n" + tables(all_curves) + "\n")
    if last is not None:
        say(
            table(
                ["seconds at the largest size", "measured", "against the last"],
                [[f.key, f.shown, change(f, last)] for f in figures(all_curves)],
            )
        )
    if chosen.out is not None or not chosen.tiny:
        save(
            chosen.out or RESULTS / "growth.json",
            facts,
            figures(all_curves),
            curves=[as_data(curve) for curve in all_curves],
        )
        _draw(all_curves, chosen.out.with_suffix(".svg") if chosen.out else PLOT)
    if chosen.out is None and not chosen.tiny:
        write_section("growth", f"{described(facts)}\n\n{tables(all_curves)}")
    return 0


def _draw(curves: Sequence[Curve], path: Path) -> None:
    try:
        from benchmarks.growth_plot import draw
    except ImportError as error:
        say(f"no plot is drawn: {error}. `pip install 'mixlens[bench]'` brings what it needs.")
        return
    draw(curves, path)
    say(f"plot: {path.name}")


if __name__ == "__main__":
    sys.exit(main())
