"""Flow: the paths from the input tokens to one target through all layers.

An edge shows how much a token of one layer contributes to a token of the next layer, weighted by
how much of the latter reaches the target. M_l is the map of layer l as the rollout uses it, with
the residual of the measure and rows that sum to one (Abnar & Zuidema 2020). The figure starts from
r_L = e_target at the top and computes r_(l-1) = r_l M_l downwards. The edge from source j to token
i in layer l has the weight r_l[i] M_l[i, j]. The weights of all edges of a layer add up to one.
Edges with small weights are omitted, and the caption states which fraction of the weight is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.rollout import layer_transitions
from mixlens.views.canvas import finish, name_ticks, panels
from mixlens.views.labels import shorten_label, token_labels
from mixlens.views.plots.chosen import target_of, whole_layers
from mixlens.views.style import LIGHT, SMALL, SMALLEST, TARGET, WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps

_MOST_ROWS = 60
_LAYER_NAME = 0.7  # inches for the name of a layer


def draw(
    maps: MixingMaps,
    *,
    target: int | str | None = None,
    head: int | None = None,
    threshold: float = 0.01,
    width: float = WIDTH,
) -> tuple[Figure, str]:
    """Draw the edges whose weight is at least `threshold`. `width` is in inches."""
    maps, of_head = whole_layers(maps, head)
    if not 0 < threshold <= 1:
        raise InvalidInput(f"threshold={threshold} is out of range. Pass a fraction in (0, 1].")
    position = target_of(maps, target)
    maps = maps.normalised(absolute=True) if maps.facts.signed else maps
    steps = layer_transitions(maps, None, True).steps
    edges = contributions(steps, position)
    edge_weights = _keep_connected(np.where(edges >= threshold, edges, 0), position)
    shown_tokens = _rows(edge_weights, position)
    figure = _draw_edges(maps, edge_weights, shown_tokens, position, width)
    share_drawn = edge_weights.sum((1, 2)).min()
    name = token_labels(maps.target_row)[position]
    detail = [
        f"flow to {name} (token {position})",
        f"edges of at least {threshold:.0%}" if threshold >= 0.01 else f"edges ≥ {threshold:g}",
        f"at least {share_drawn:.0%} of each layer is drawn",
        of_head,
    ]
    return figure, ", ".join(filter(None, detail))


def contributions(steps: np.ndarray, target: int) -> np.ndarray:
    """Return the weight of each edge on the paths to the target, [layer, to, from]."""
    edges = np.zeros_like(steps)
    weights = np.zeros(steps.shape[-1])
    weights[target] = 1.0
    for layer in range(len(steps) - 1, -1, -1):
        edges[layer] = weights[:, None] * steps[layer]
        weights = edges[layer].sum(0)
    return edges


def _keep_connected(edges: np.ndarray, target: int) -> np.ndarray:
    """Set the weight of an edge to zero if no path of drawn edges leads from it to the target."""
    is_reached = np.arange(edges.shape[-1]) == target
    for layer in range(len(edges) - 1, -1, -1):
        edges[layer, ~is_reached] = 0
        is_reached = edges[layer].sum(0) > 0
    return edges


def _rows(edge_weights: np.ndarray, target: int) -> list[int]:
    """Return the tokens to draw, in reading order.

    All tokens of a short text are drawn. For a longer text, the tokens with the largest weights are
    drawn.
    """
    if edge_weights.shape[-1] <= _MOST_ROWS:
        return list(range(edge_weights.shape[-1]))
    through = edge_weights.sum(1).max(0)
    through[target] = np.inf
    largest = np.argsort(-through, kind="stable")[:_MOST_ROWS]
    return sorted(int(token) for token in largest if through[token] > 0)


def _draw_edges(
    maps: MixingMaps, edge_weights: np.ndarray, shown_tokens: list[int], target: int, width: float
) -> Figure:
    height_of = {token: number for number, token in enumerate(shown_tokens)}
    figure, (axes,) = panels(1, width=width, height=0.19 * len(shown_tokens) + 1.0)
    axes.add_collection(_edges(edge_weights, height_of))
    _nodes(axes, edge_weights, height_of, target)
    depth = len(edge_weights)
    axes.set_xlim(-0.15, depth + 0.15)
    axes.set_ylim(len(shown_tokens) - 0.4, -0.6)
    finish(axes)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(depth + 1), ["input", *(f"layer {n}" for n in maps.layers)])
    if (width - 1.2) / depth < _LAYER_NAME:
        axes.set_xticks(range(depth + 1), ["input", *map(str, maps.layers)])
        axes.set_xlabel("layer")
    labels = token_labels(maps.source_row)
    skips = len(shown_tokens) < edge_weights.shape[-1]
    tick_labels = [
        f"{shorten_label(labels[t])} {t}" if skips else shorten_label(labels[t])
        for t in shown_tokens
    ]
    points = SMALL if len(shown_tokens) <= 40 else max(SMALLEST, SMALL * 40 / len(shown_tokens))
    name_ticks(axes, "y", range(len(shown_tokens)), tick_labels, fontsize=points)
    axes.tick_params(length=0)
    reaches = edge_weights[0].sum(0)
    for tick, token in zip(axes.get_yticklabels(), shown_tokens, strict=True):
        tick.set_color(LIGHT["ink"] if reaches[token] > 0 else LIGHT["quiet"])
        tick.set_fontweight("bold" if token == target else "normal")
    return figure


def _edges(edge_weights: np.ndarray, height_of: dict[int, int]) -> Any:
    """Draw edges from left to right. The line width of an edge grows with its weight."""
    from matplotlib.collections import LineCollection

    steps = np.linspace(0, 1, 24)
    bend = steps**2 * (3 - 2 * steps)
    segments, widths, shades = [], [], []
    for layer, to, start in np.argwhere(edge_weights > 0):
        if to in height_of and start in height_of:
            share = float(edge_weights[layer, to, start])
            y = height_of[int(start)] + (height_of[int(to)] - height_of[int(start)]) * bend
            segments.append(np.stack([layer + steps, y], 1))
            widths.append(0.4 + 9 * share)
            shades.append(0.25 + 0.6 * share**0.5)
    return LineCollection(
        segments, linewidths=widths, colors=LIGHT["mark"], alpha=shades, capstyle="butt", zorder=1
    )


def _nodes(axes: Any, edge_weights: np.ndarray, height_of: dict[int, int], target: int) -> None:
    """Draw a dot for each token. Its area grows with the total weight of the edges at the token."""
    places, areas = [], []
    for layer, edges in enumerate(edge_weights):
        for token in np.flatnonzero(edges.sum(0)):
            if int(token) in height_of:
                places.append((layer, height_of[int(token)]))
                areas.append(6 + 60 * float(edges[:, token].sum()))
    places.append((len(edge_weights), height_of[target]))
    areas.append(66.0)
    colours = [LIGHT["mark"]] * (len(places) - 1) + [TARGET]
    axes.scatter(*np.array(places).T, s=areas, c=colours, linewidths=0, zorder=2)
