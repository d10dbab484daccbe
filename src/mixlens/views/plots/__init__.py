"""Figures of mixing maps, which `maps.plot(kind)` draws.

Each module of this package draws one kind of figure, with the function `draw(maps, *, target,
layer, head, **options)`. The first paragraph of its docstring describes the figure.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.views.canvas import apply_style, caption, check_width
from mixlens.views.plots.chosen import format_caption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps


@cache
def kinds() -> dict[str, str]:
    """Return the description of each kind of figure."""
    kinds_by_name = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        if hasattr(module, "draw"):
            kinds_by_name[info.name] = str(module.__doc__).split("\n\n")[0].replace("\n", " ")
    return kinds_by_name


@apply_style
def plot(
    maps: MixingMaps,
    kind: str | None = None,
    *,
    target: int | str | None = None,
    layer: int | None = None,
    head: int | None = None,
    **options: Any,
) -> Figure:
    """Draw `MixingMaps.plot`."""
    kind = kind or _usual(maps, target, layer, head)
    if not isinstance(kind, str) or kind not in kinds():
        raise InvalidInput(f"Unknown kind of figure {kind!r}. Choose one of: {', '.join(kinds())}.")
    draw = importlib.import_module(f"{__name__}.{kind}").draw
    accepted = {
        name
        for name, parameter in inspect.signature(draw).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    selection = {"target": target, "layer": layer, "head": head}
    arguments = {name: value for name, value in selection.items() if value is not None} | options
    unknown = sorted(set(arguments) - accepted)
    if unknown:
        raise InvalidInput(
            f"Unknown option {unknown[0]!r} of the figure {kind!r}. Choose one of:"
            f" {', '.join(sorted(accepted))}."
        )
    check_width(options.get("width"))
    figure, detail = draw(maps, **arguments)
    return caption(figure, format_caption(maps, detail))


def _usual(maps: MixingMaps, target: int | str | None, layer: int | None, head: int | None) -> str:
    """Return the default kind of figure for the selected target, layer and head."""
    if target is not None or len(maps.target_positions) == 1:
        return "text" if layer is not None or len(maps.layers) == 1 else "target"
    if maps.per_head and head is None:
        return "heads"
    return "map" if layer is not None or len(maps.layers) == 1 else "layers"
