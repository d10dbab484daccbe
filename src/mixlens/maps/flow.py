"""Flow: the maximum flow from a token of a layer to each input token, with map entries as
capacities.

Abnar & Zuidema (2020), "Quantifying Attention Flow in Transformers", ACL, section 3. The nodes of
the graph are the tokens of each layer. The edge from token i of layer l to token j of the layer
below has the capacity M_l[i, j]. The score is the maximum flow from the target to an input token,
which is computed separately for each pair. The paper's score is the flow itself. The authors' code
then divides it by the sum over sources; call `normalised()` to do the same. One target requires n
maximum-flow problems on a graph of layers x n^2 edges, so computing all targets of all layers is
slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mixlens.errors import InvalidInput, MissingExtra
from mixlens.maps.rollout import layer_transitions
from mixlens.maps.target_row import layer_index
from mixlens.text.tokens import position_of, to_list, whole_numbers

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


def max_flow(
    capacities: Float[np.ndarray, "layer token token"],
    *,
    layers: Sequence[int],
    targets: Sequence[int],
) -> Float[np.ndarray, "chosen target token"]:
    """Return the maximum flow from each target in the output of each layer to every input token."""
    if (capacities < 0).any():
        raise InvalidInput(
            "These maps have negative scores, which cannot be capacities. Use absolute scores."
        )
    count = capacities.shape[-1]
    flows = np.zeros((len(layers), len(targets), count))
    for number, layer in enumerate(layers):
        graph, pipes = _graph(capacities[: layer + 1])
        for index, target in enumerate(targets):
            start = (layer + 1) * count + target
            flows[number, index] = [
                graph.maxflow_value(start, token, capacity=pipes) for token in range(count)
            ]
    return flows


def _graph(capacities: Float[np.ndarray, "layer token token"]) -> tuple[Any, list[float]]:
    """Return the graph and the capacities of its edges.

    With n tokens, node i is input token i, and node (l + 1) n + i is token i in the output of layer
    l. Edges with zero capacity are omitted (half of the edges in a causal model).
    """
    try:
        from igraph import Graph
    except ImportError as error:
        raise MissingExtra("igraph") from error
    count = capacities.shape[-1]
    layer, target, source = np.nonzero(capacities)
    edges = np.stack([(layer + 1) * count + target, layer * count + source], 1)
    make: Any = Graph
    graph = make((len(capacities) + 1) * count, edges.tolist(), directed=True)
    return graph, capacities[layer, target, source].tolist()


def flow_through(
    maps: MixingMaps,
    targets: Sequence[int | str] | None = None,
    layers: Sequence[int] | str | None = None,
    residual: float | int | None = None,
    normalise: bool | None = None,
) -> MixingMaps:
    """Compute `MixingMaps.flow`."""
    if maps.facts.signed:
        raise InvalidInput(
            "These scores are signed, but capacities cannot be negative. Use "
            "maps.normalised(absolute=True).flow()."
        )
    if isinstance(layers, str) and layers != "all":
        raise InvalidInput(
            f"layers={layers!r} is not a list of layers. Pass layer numbers, or 'all'."
        )
    passed = layer_transitions(maps, residual, normalise)
    every_layer = isinstance(layers, str)
    numbers = maps.layers if every_layer else whole_numbers(layers, "layers") or [-1]
    places = [layer_index(layer, maps.layers) for layer in numbers]
    positions, named = maps.target_positions, to_list(targets, "targets")
    target_list = (
        positions
        if named is None
        else tuple(position_of(target, maps.target_row, positions) for target in named)
    )
    flows = max_flow(passed.steps, layers=places, targets=target_list)
    step = f"flow({passed.rule})"
    facts = replace(
        maps.facts,
        rows_sum_to_one=False,
        sums_vary=False,
        residual_included=maps.facts.residual_included or passed.with_identity,
        joined_by=step,
    )
    return maps.derived(
        flows,
        step,
        facts,
        layers=tuple(maps.layers[i] for i in places),
        target_positions=target_list,
    )
