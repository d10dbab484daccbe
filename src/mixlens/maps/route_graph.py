"""Represent a route as a graph, and write it to a file."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

PARTS = {"X": "input", "A": "attention", "M": "feed_forward", "I": "output"}


class Edge(NamedTuple):
    """An edge of a route, from a node to a node closer to the output.

    `weight` is the fraction that the edge contributes to the sum at its end node.
    """

    start: str
    end: str
    weight: float


class HeadShare(NamedTuple):
    """The fraction that a head contributes to the output of one attention block.

    A head is active if the weight of one of its edges is above the threshold.
    """

    layer: int
    target: int
    head: int
    share: float
    active: bool


class BlockShare(NamedTuple):
    """The fraction that attention, the residual stream or the MLP contributes to a token state."""

    layer: int
    target: int
    part: str
    share: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Routes:
    """Information flow route of one target, as a graph.

    Nodes are tokens at four places in the model: `X0_t` is token t in the input, `A3_t` after the
    attention of layer 3, `M3_t` in the MLP of layer 3, and `I3_t` in the output of layer 3.

    Attributes
    ----------
    edges : tuple of Edge
        The edges (start, end, weight), starting from the target.
    heads : tuple of HeadShare
        The normalised score of each head in an attention block.
    blocks : tuple of BlockShare
        The normalised scores of attention, residual stream and MLP.
    target : int
        The position of the target.
    tokens : tuple of str
        Labels of the tokens.
    layers : int
        The number of layers.
    threshold : float
        Edges with a smaller score were left out.
    renormalised : bool
        True if the scores of the remaining edges were divided by their sum.
    rows : int
        The number of (layer, target) pairs whose attention was computed.

    Examples
    --------
    >>> from mixlens import Lens
    >>> routes = Lens.bundled().routes("The keys [MASK] here.", "[MASK]", threshold=0.1)
    >>> routes.nodes[0]
    'I5_3'
    """

    edges: tuple[Edge, ...]
    heads: tuple[HeadShare, ...]
    blocks: tuple[BlockShare, ...]
    target: int
    tokens: tuple[str, ...]
    layers: int
    threshold: float
    renormalised: bool
    rows: int

    def __repr__(self) -> str:
        return (
            f"<Routes to {self.tokens[self.target]!r} (token {self.target}): {len(self.edges)}"
            f" edges above {self.threshold:g}, {len(self.nodes)} nodes; {self.rows} of"
            f" {self.layers * len(self.tokens)} targets computed>"
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of all nodes, starting from the target."""
        ends = [f"I{self.layers - 1}_{self.target}"]
        return tuple(dict.fromkeys(ends + [name for edge in self.edges for name in edge[1::-1]]))

    @property
    def sources(self) -> tuple[int, ...]:
        """Return the positions of the input tokens that the route reaches."""
        starts = {edge.start for edge in self.edges if edge.start.startswith("X0_")}
        return tuple(sorted(int(name.removeprefix("X0_")) for name in starts))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table of the edges.

        Returns
        -------
        pandas.DataFrame
            Columns: start, end, weight, start_token, end_token.

        Examples
        --------
        >>> len(routes.to_dataframe()) == len(routes.edges)
        True
        """
        from mixlens.maps.tables import make_table

        rows = [(*edge, self._token(edge.start), self._token(edge.end)) for edge in self.edges]
        return make_table(rows, columns=["start", "end", "weight", "start_token", "end_token"])

    def save(self, path: str | Path) -> None:
        """Write the graph to a `.graphml` or `.csv` file.

        Parameters
        ----------
        path
            The path of the file.

        Raises
        ------
        InvalidInput
            If the file has a different suffix.

        Examples
        --------
        >>> routes.save("route.graphml")
        """
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidInput(f"{path!r} is not a path. Pass a path as a string.")
        path = Path(path)
        if path.suffix == ".graphml":
            self._graphml().write(path, encoding="utf-8", xml_declaration=True)
        elif path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["start", "end", "weight", "start_token", "end_token"])
                for edge in self.edges:
                    writer.writerow([*edge, self._token(edge.start), self._token(edge.end)])
        else:
            raise InvalidInput(f"Unsupported format {path.suffix!r}. Use .graphml or .csv.")

    def _token(self, node: str) -> str:
        return self.tokens[int(node.partition("_")[2])]

    def _graphml(self) -> ElementTree.ElementTree[ElementTree.Element]:
        root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
        kinds = {"part": "string", "layer": "int", "position": "int", "token": "string"}
        for name, kind in kinds.items():
            fields = {"id": name, "for": "node", "attr.name": name, "attr.type": kind}
            ElementTree.SubElement(root, "key", fields)
        fields = {"id": "weight", "for": "edge", "attr.name": "weight", "attr.type": "double"}
        ElementTree.SubElement(root, "key", fields)
        graph = ElementTree.SubElement(root, "graph", id="route", edgedefault="directed")
        for node in self.nodes:
            place, _, position = node.partition("_")
            element = ElementTree.SubElement(graph, "node", id=node)
            values = (PARTS[place[0]], place[1:], position, self._token(node))
            for name, value in zip(kinds, values, strict=True):
                ElementTree.SubElement(element, "data", key=name).text = value
        for edge in self.edges:
            element = ElementTree.SubElement(graph, "edge", source=edge.start, target=edge.end)
            ElementTree.SubElement(element, "data", key="weight").text = repr(edge.weight)
        return ElementTree.ElementTree(root)
