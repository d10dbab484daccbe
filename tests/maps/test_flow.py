from __future__ import annotations

import sys
from collections import deque

import numpy as np
import pytest

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput, MixlensError
from mixlens.maps.flow import max_flow
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.rollout import row_normalised
from tests import reference

pytest.importorskip("igraph")


def edmonds_karp(capacity: np.ndarray, start: int, end: int) -> float:
    """Shortest augmenting paths on a dense matrix of residual capacities."""
    left, total = capacity.copy(), 0.0
    while True:
        before = {start: start}
        queue = deque([start])
        while queue and end not in before:
            node = queue.popleft()
            for other in np.flatnonzero(left[node] > 1e-12).tolist():
                if other not in before:
                    before[other] = node
                    queue.append(other)
        if end not in before:
            return total
        path, node = [], end
        while node != start:
            path.append((before[node], node))
            node = before[node]
        width = min(left[edge] for edge in path)
        for a, b in path:
            left[a, b] -= width
            left[b, a] += width
        total += width


def dense(maps: np.ndarray) -> np.ndarray:
    layers, tokens, _ = maps.shape
    widths = np.zeros(((layers + 1) * tokens,) * 2)
    for layer in range(layers):
        for i in range(tokens):
            for j in range(tokens):
                widths[(layer + 1) * tokens + i, layer * tokens + j] = maps[layer, i, j]
    return widths


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_against_edmonds_karp(seed: int, causal: bool) -> None:
    raw = np.random.default_rng(seed).random((3, 4, 4)) ** 3
    maps = row_normalised(np.tril(raw) if causal else raw)
    flow = max_flow(maps, layers=[0, 1, 2], targets=[0, 1, 2, 3])
    for layer in range(3):
        graph = dense(maps[: layer + 1])
        expected = [
            [edmonds_karp(graph, (layer + 1) * 4 + i, j) for j in range(4)] for i in range(4)
        ]
        np.testing.assert_allclose(flow[layer], expected, atol=1e-9)


def test_one_layer_is_the_map_itself() -> None:
    maps = row_normalised(np.random.default_rng(0).random((1, 3, 3)))
    np.testing.assert_allclose(max_flow(maps, layers=[0], targets=[0, 1, 2]), maps)


def test_two_layers_by_hand() -> None:
    """From token 0: 0.7 and 0.3 reach the middle.

    To input 0, these nodes let through 0.2 and 0.9: min(0.7, 0.2) + min(0.3, 0.9).
    """
    first = np.array([[0.2, 0.8], [0.9, 0.1]])
    second = np.array([[0.7, 0.3], [0.5, 0.5]])
    flow = max_flow(np.stack([first, second]), layers=[1], targets=[0])
    np.testing.assert_allclose(flow, [[[0.2 + 0.3, 0.7 + 0.1]]])  # rollout would give 0.41 and 0.59


def test_a_target_that_takes_nothing_keeps_what_it_had() -> None:
    scores = np.array([[[0.0, 0.0], [0.4, 0.6]], [[0.2, 0.8], [0.0, 0.0]]])
    flow = MixingMaps.of(scores).flow(layers="all").scores
    np.testing.assert_allclose(flow[0], [[1.0, 0.0], [0.4, 0.6]])
    np.testing.assert_allclose(flow[1], [[0.2 + 0.4, 0.6], [0.4, 0.6]])


def test_attention_has_half_the_identity_in_its_pipes() -> None:
    attention = np.array([[[0.2, 0.8], [1.0, 0.0]]])
    maps = MixingMaps.of(attention, measure="attention", rollout_residual=0.5).flow()
    np.testing.assert_allclose(maps.scores, [[[0.6, 0.4], [0.5, 0.5]]])
    np.testing.assert_allclose(
        MixingMaps.of(attention, rollout_residual=0.5).flow(residual=0).scores, attention
    )


def test_layers_and_targets() -> None:
    maps = MixingMaps.of(np.random.default_rng(0).random((3, 4, 4)), tokens=list("abcd"))
    whole = maps.flow(layers="all")
    assert whole.scores.shape == (3, 4, 4)
    assert maps.flow().layers == (2,)
    np.testing.assert_array_equal(maps.flow().scores[0], whole.scores[2])
    part = maps.flow(targets=["c", 0], layers=[1])
    assert (part.layers, part.target_positions, part.tokens) == ((1,), (2, 0), ("c", "a"))
    np.testing.assert_array_equal(part.scores, whole.scores[1:2, [2, 0]])
    assert not whole.facts.rows_sum_to_one
    np.testing.assert_allclose(whole.normalised().scores.sum(-1), 1)
    with pytest.raises(InvalidInput, match="'all'"):
        maps.flow(layers="last")
    with pytest.raises(InvalidInput, match="already aggregated"):
        maps.flow().rollout()


def test_signed_maps_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"normalised\(absolute=True\)"):
        MixingMaps.of(-np.ones((2, 2, 2)), facts=Facts(signed=True)).flow()
    with pytest.raises(InvalidInput, match="negative"):
        MixingMaps.of(-np.eye(2)[None]).flow(normalise=False)


def test_without_igraph_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(MixlensError, match=r"pip install 'mixlens\[eval\]'"):
        MixingMaps.of(np.eye(2)[None]).flow()


def test_against_the_authors_code() -> None:
    numbers = reference.arrays("four_papers/numbers.npz")
    maps = MixingMaps.of(numbers["attention"], measure="attention").heads("mean").flow(layers="all")
    np.testing.assert_allclose(maps.normalised().scores, numbers["abnar.flow_residual"], atol=1e-10)
