"""Scores of one target with its top sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mixlens.errors import InvalidInput, format_count
from mixlens.text.tokens import resolve_positions, whole_number


class Source(NamedTuple):
    """A source token with its score for one target."""

    token: str
    position: int
    score: float


def shares(values: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows source"]:
    """Divide scores by the sum of their absolute values. Signs are kept, and all-zero scores stay
    zero.
    """
    wide = values.astype(np.float64)
    sums = np.abs(wide).sum(-1, keepdims=True)
    parts: np.ndarray = np.divide(wide, sums, out=np.zeros_like(wide), where=sums > 0)
    return parts


@dataclass(frozen=True)
class Reading:
    """A method to aggregate the scores of several layers, with its name."""

    how: str  # the "mean" of the normalised layers, the "first", the "last", or their "sum"
    name: str  # in words: "mean of 6 layers"

    def of(
        self, scores: Float[np.ndarray, "layer *rows source"]
    ) -> Float[np.ndarray, "*rows source"]:
        """Return the aggregated scores of all layers."""
        if self.how == "mean":
            mean: np.ndarray = shares(scores).mean(0)
            return mean
        aggregated: np.ndarray = (
            scores.sum(0) if self.how == "sum" else scores[0 if self.how == "first" else -1]
        )
        return aggregated


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """Scores of one target: [layer, source], or [layer, head, source].

    Attributes
    ----------
    target : int
        The position of the target.
    token : str
        The label of the target.
    scores : numpy.ndarray
        The scores of all sources in all layers.
    layers : tuple of int
        Numbers of the layers.
    source_tokens : tuple of str
        Labels of the sources.
    reading : Reading
        How `top` aggregates layers if you do not select one.

    Examples
    --------
    >>> from mixlens import Lens
    >>> row = Lens.bundled().measure("attention", "The keys [MASK] here.").row("[MASK]")
    >>> row.token, row.scores.shape
    ('[MASK]', (6, 7))
    """

    target: int
    token: str
    scores: np.ndarray
    layers: tuple[int, ...]
    source_tokens: tuple[str, ...]
    reading: Reading

    def __repr__(self) -> str:
        heads = f", {format_count(self.scores.shape[1], 'head')}" if self.scores.ndim == 3 else ""
        sources = format_count(len(self.source_tokens), "source")
        sizes = f"{format_count(len(self.layers), 'layer')}{heads}, {sources}"
        values = self.reading.of(self.scores)
        values = values if values.ndim == 1 else values.mean(0)
        best = ", ".join(
            f"{self.source_tokens[i]} {values[i]:.3g}"
            for i in np.argsort(-np.abs(values), kind="stable")[:3]
        )
        largest = f"largest ({self.reading.name}): {best}"
        return f"<Row of {self.token!r} (token {self.target}): {sizes}; {largest}>"

    def top(self, k: int = 5, *, layer: int | None = None, head: int | None = None) -> list[Source]:
        """Return the sources with the largest scores, largest first.

        If two scores are equal, the earlier source comes first.

        Parameters
        ----------
        k
            The number of sources.
        layer
            The number of a layer. By default, the layers are aggregated, usually by the mean of the
            normalised layers. Pass -1 for the last layer.
        head
            The number of a head, if the scores have heads.

        Returns
        -------
        list of Source
            Tuples (token, position, score).

        Raises
        ------
        InvalidInput
            If `k`, `layer` or `head` is out of range, or if the scores have heads and you do not
            select one.

        Examples
        --------
        >>> len(row.top(3)), row.top(1, layer=-1)[0].position
        (3, 4)
        """
        if not hasattr(k, "__index__") or k < 1:
            raise InvalidInput(f"top({k!r}) is out of range. Pass an integer of at least 1.")
        if layer is None:
            values = self.reading.of(self.scores)
        else:
            values = self.scores[layer_index(layer, self.layers)]
        if values.ndim == 2 and head is None:
            raise InvalidInput(
                f"These scores have {len(values)} heads. Select one with head=…, or merge "
                "them first with maps.heads()."
            )
        if values.ndim == 1 and head is not None:
            raise InvalidInput("These scores have no heads. Measure with per_head=True.")
        if head is not None:
            values = values[head_index(head, len(values))]
        order = np.argsort(-values, kind="stable")[:k]
        return [Source(self.source_tokens[i], int(i), float(values[i])) for i in order]


def layer_index(layer: int, layers: Sequence[int]) -> int:
    """Return the index of a layer in the maps. Negative numbers count from the last layer."""
    layer = whole_number(layer, "layer")
    if layer in layers:
        return list(layers).index(layer)
    if -len(layers) <= layer < 0:
        return layer + len(layers)
    raise InvalidInput(
        f"Layer {layer} is not in these maps. Choose one of: {', '.join(map(str, layers))}."
    )


def head_index(head: int, count: int) -> int:
    """Return the index of a head. Negative numbers count from the last head."""
    head = whole_number(head, "head")
    try:
        return resolve_positions([head], count)[0]
    except IndexError as error:
        raise InvalidInput(
            f"Head {head} is out of range (0–{count - 1}). Pass a number in this range."
        ) from error
