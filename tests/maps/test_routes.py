"""Routes against the authors' graphs, and against a search of the whole graph."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.maps.route_graph import Routes
from mixlens.maps.routes import routes
from mixlens.recording.recording import Recording
from tests import reference
from tests.measures import models

CASES = [(True, 0.04), (True, 0.1), (False, 0.04), (False, 0.1)]


@pytest.fixture(scope="module")
def recorded() -> Recording:
    numbers = reference.arrays("alti_logit/ifr.npz")
    return Lens(reference.alti_logit()).record({"input_ids": reference.tokens(numbers["ids"])})


def _stored(name: str) -> dict[str, object]:
    saved: dict[str, object] = json.loads((reference.FOLDER / "alti_logit" / name).read_text())
    return saved


def _weights(edges: object) -> dict[tuple[str, str], float]:
    return {(start, end): weight for start, end, weight in edges}  # type: ignore[attr-defined]


@pytest.mark.smoke
@pytest.mark.parametrize(("renormalise", "threshold"), CASES)
def test_routes_are_the_authors(recorded: Recording, renormalise: bool, threshold: float) -> None:
    """Edges of both starts are those of their code, weights too except for the feed-forward part's
    after renormalising, where its sum is over all tokens. Weights are those of our slow oracle.
    """
    mode = f"{'renorm' if renormalise else 'plain'}_tau{threshold}"
    theirs = _stored("ifr_graphs.json")[mode]
    for target, key in ((-1, "route_last"), (3, "route_mid")):
        graph = routes(recorded, target, threshold=threshold, renormalise=renormalise)
        made, expected = _weights(graph.edges), _weights(theirs[key])  # type: ignore[index]
        assert made.keys() == expected.keys()
        for (start, end), weight in made.items():
            if not renormalise or end.startswith("A"):
                assert weight == pytest.approx(expected[start, end], abs=1e-4)
        if target == -1:
            ours = _weights(_stored("ours_clean_variant_routes.json")[mode])
            assert made == pytest.approx(ours, abs=1e-10)


def _searched(recording: Recording, threshold: float, target: int) -> set[tuple[str, str]]:
    """Plain routes by a search of the graph of all rows, that the measure gives."""
    made = models.scores("flow_routes", recording)
    maps = made.values[:, 0].numpy()
    parts = [
        made.extras[key][:, 0].numpy()
        for key in ("feed_forward_share", "feed_forward_residual_share")
    ]
    weights: dict[tuple[str, str], float] = {}
    parallel = recording.layers()[0].structure.sites[0].parallel
    for layer, rows in enumerate(maps):
        low = f"I{layer - 1}" if layer else "X0"
        for t, row in enumerate(rows):
            here = f"A{layer}_{t}"
            weights |= {(f"{low}_{j}", here): float(share) for j, share in enumerate(row)}
            added = float(parts[0][layer, t])
            weights[f"{low}_{t}" if parallel else here, f"M{layer}_{t}"] = added
            weights[f"M{layer}_{t}", f"I{layer}_{t}"] = added
            weights[here, f"I{layer}_{t}"] = float(parts[1][layer, t])
    kept = {edge for edge, weight in weights.items() if weight > threshold}
    edges, open_nodes = set(), [f"I{len(maps) - 1}_{target}"]
    while open_nodes:
        node = open_nodes.pop()
        for edge in [edge for edge in kept if edge[1] == node and edge not in edges]:
            edges.add(edge)
            open_nodes.append(edge[0])
    return edges


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_neox"])
def test_lazy_search_finds_what_the_whole_graph_has(name: str) -> None:
    recording = models.recording(name, 9)
    for target, threshold in ((8, 0.04), (4, 0.15)):
        graph = routes(recording, target, threshold=threshold, renormalise=False)
        assert {edge[:2] for edge in graph.edges} == _searched(recording, threshold, target)
        reached = {node for node in graph.nodes if node.startswith("A")}
        assert graph.rows == len(reached)


def test_only_reached_rows_are_computed_and_described(recorded: Recording) -> None:
    graph = routes(recorded, threshold=0.1)
    assert graph.rows == len({(head.layer, head.target) for head in graph.heads}) < 21
    assert len(graph.heads) == 3 * graph.rows
    active = {(head.layer, head.target, head.head) for head in graph.heads if head.active}
    assert 0 < len(active) < len(graph.heads)
    parts = {(block.layer, block.target, block.part): block.share for block in graph.blocks}
    for layer, target in {(block.layer, block.target) for block in graph.blocks}:
        if (layer, target, "attention") in parts:
            both = parts[layer, target, "attention"] + parts[layer, target, "residual"]
            assert both == pytest.approx(1)


def test_a_route_is_written_and_read(recorded: Recording, tmp_path: Path) -> None:
    igraph = pytest.importorskip("igraph")
    routed = routes(recorded)
    routed.save(tmp_path / "route.graphml")
    graph = igraph.Graph.Read_GraphML(str(tmp_path / "route.graphml"))
    assert graph.vs["id"] == list(routed.nodes)
    edges = {
        (graph.vs[edge.source]["id"], graph.vs[edge.target]["id"], edge["weight"])
        for edge in graph.es
    }
    assert edges == set(routed.edges)
    routed.save(tmp_path / "route.csv")
    lines = (tmp_path / "route.csv").read_text().splitlines()
    assert len(lines) == 1 + len(routed.edges) == 1 + len(routed.to_dataframe())
    with pytest.raises(InvalidInput, match="graphml"):
        routed.save(tmp_path / "route.png")


@torch.no_grad()
def test_parts_that_cancel_out_end_a_route(tmp_path: Path) -> None:
    """Neither brings the sum nearer, so no edge leads on; the graph is one node."""
    igraph = pytest.importorskip("igraph")
    model: Any = copy.deepcopy(models.build("gpt2"))
    block = model.h[-1]
    seen: list[torch.Tensor] = []
    with block.ln_2.register_forward_pre_hook(lambda _, given: seen.append(given[0])):
        model(**models.padded_inputs("gpt2", [1]))
    block.mlp.c_proj.weight.zero_()
    block.mlp.c_proj.bias.copy_(-0.9 * seen[0][0, 0])
    recording = Lens(model).record(models.padded_inputs("gpt2", [1]))
    extras = models.scores("flow_routes", recording).extras
    assert extras["feed_forward_share"][-1] == extras["feed_forward_residual_share"][-1] == 0
    ended = routes(recording)
    assert (ended.edges, len(ended.nodes), ended.rows) == ((), 1, 0)
    ended.save(tmp_path / "route.graphml")
    assert igraph.Graph.Read_GraphML(str(tmp_path / "route.graphml")).vs["id"] == list(ended.nodes)


def test_inputs_without_a_route_raise(recorded: Recording) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        routes(recorded, threshold=1.5)
    with pytest.raises(InvalidInput, match="one token"):
        routes(Lens(models.build("gpt2")).record(models.padded_inputs("gpt2", [3, 4])))
    with pytest.raises(UnsupportedModel, match="two stacks"):
        routes(models.recording("bart", 5), site="decoder")
    nothing = routes(recorded, threshold=0.99)
    assert isinstance(nothing, Routes)
    assert nothing.edges == ()
    assert nothing.rows == 0
