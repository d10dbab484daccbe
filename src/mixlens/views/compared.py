"""Draw figures of a comparison: the scores of every measure for one target, and their agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.text.tokens import TokenRow, whole_number
from mixlens.views.canvas import apply_style, caption, panels
from mixlens.views.labels import printable, token_labels
from mixlens.views.matrix import heat_map, side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.comparison import Comparison

KINDS = ("sources", "agreement")


@apply_style
def plot(comparison: Comparison, kind: str | None = None, *, most: int = 40) -> Figure:
    """Draw `Comparison.plot`."""
    kind = kind or KINDS[0]
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"Unknown kind of figure {kind!r}. Choose one of: {', '.join(KINDS)}.")
    most = whole_number(most, "most")
    if most < 1:
        raise InvalidInput(f"most={most} is out of range. Pass at least 1.")
    figure, detail = _sources(comparison, most) if kind == "sources" else _agreement(comparison)
    what = f"target {printable(comparison.target_token)} (token {comparison.target})"
    explained = f"output: {comparison.explained}" if comparison.explained else ""
    parts = [what, f"layers: {comparison.aggregate}", explained, detail, comparison.model]
    return caption(figure, " · ".join(part for part in parts if part))


def _sources(comparison: Comparison, most: int) -> tuple[Figure, str]:
    """Draw a heat map with one row per measure and one column per source.

    Each row is scaled by its largest score.
    """
    scores = np.stack(list(comparison.scores.values()))
    is_other = np.isin(np.arange(scores.shape[1]), comparison.others)
    sizes = np.abs(np.where(is_other, scores, 0))
    relative = scores / np.maximum(sizes.max(1, keepdims=True), 1e-30)
    relative[:, ~is_other] = np.nan  # the target itself would dominate the rest
    source_places = np.sort(
        np.argsort(-np.nan_to_num(np.abs(relative)).max(0), kind="stable")[:most]
    )
    labels = token_labels(comparison.row or TokenRow(comparison.sources))
    left_out = len(labels) > len(source_places)
    across, down = side(len(source_places), 0.22), side(len(scores), 0.2)
    figure, (axes,) = panels(1, width=across + 3.0, height=down + 1.7)
    signed = bool((scores < 0).any())
    heat_map(
        relative[:, source_places],
        list(comparison.scores),
        [f"{i} {labels[i]}" if left_out else labels[i] for i in source_places],
        x_label="source token",
        y_label="",
        scale=(-1 if signed else 0, 1),
        signed=signed,
        colour_bar="score / largest of its row",
        axes=axes,
    )
    ending = f", {len(source_places)} of {len(labels)} sources" if left_out else ""
    without_target = "" if comparison.own_source is None else ", without the target itself"
    return figure, f"each row by its largest score{without_target}{ending}"


def _agreement(comparison: Comparison) -> tuple[Figure, str]:
    """Draw a heat map of the rank correlations between each pair of measures."""
    agreement = comparison.agreement()
    names = [str(name) for name in agreement.columns]
    size = side(len(names), 0.24) + 2.4
    figure, (axes,) = panels(1, width=size + 0.4, height=size)
    heat_map(
        agreement.to_numpy(),
        names,
        names,
        x_label="",
        y_label="",
        scale=(-1, 1),
        signed=True,
        colour_bar="Spearman's rank correlation",
        axes=axes,
    )
    return figure, "rank correlation over all sources except the target itself"
