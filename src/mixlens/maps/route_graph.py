"""A route as a graph: its edges, the shares behind them, and how it is written down."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

PARTS = {"X": "input", "A": "attention", "M": "feed_forward", "I": "output"}


class Edge(NamedTuple):
    """From one node to the one above it, with its share of the sum there."""

    start: str
    end: str
    weight: float


class HeadShare(NamedTuple):
    """A head's share of one attention block; active if one of its edges is above the threshold."""

    layer: int
    target: int
    head: int
    share: float
    active: bool


class BlockShare(NamedTuple):
    """What part of one sum the attention, its residual stream or the feed-forward part has."""

    layer: int
    target: int
    part: str
    share: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Routes:
    """The route of one target. `rows`: how many rows of attention were computed for it."""

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
            f" {self.layers * len(self.tokens)} rows computed>"
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, from the target down."""
        ends = [f"I{self.layers - 1}_{self.target}"]
        return tuple(dict.fromkeys(ends + [name for edge in self.edges for name in edge[1::-1]]))

    @property
    def sources(self) -> tuple[int, ...]:
        """Positions of the input tokens that the route reaches."""
        starts = {edge.start for edge in self.edges if edge.start.startswith("X0_")}
        return tuple(sorted(int(name.removeprefix("X0_")) for name in starts))

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each edge, with the tokens at its ends."""
        import pandas as pd

        rows = [(*edge, self._token(edge.start), self._token(edge.end)) for edge in self.edges]
        return pd.DataFrame(rows, columns=["start", "end", "weight", "start_token", "end_token"])

    def save(self, path: str | Path) -> None:
        """To a `.graphml` or a `.csv` file."""
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
            raise InvalidInput(f"{path}: a route is written to a .graphml or a .csv file")

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
            made = ElementTree.SubElement(graph, "node", id=node)
            values = (PARTS[place[0]], place[1:], position, self._token(node))
            for name, value in zip(kinds, values, strict=True):
                ElementTree.SubElement(made, "data", key=name).text = value
        for edge in self.edges:
            made = ElementTree.SubElement(graph, "edge", source=edge.start, target=edge.end)
            ElementTree.SubElement(made, "data", key="weight").text = repr(edge.weight)
        return ElementTree.ElementTree(root)
