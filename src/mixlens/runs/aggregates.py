"""Aggregates over a corpus that need no maps on the disk.

For each measure and layer: how shares fall with distance, how much goes to special tokens,
punctuation and words, how shares, entropies and own shares are distributed, and the texts in which
a layer moves most from a single source.

Everything is a sum of whole numbers, or the largest of things that have a strict order. Shares are
counted in units of 2^-32. Merging the parts of a corpus in any order therefore gives the same
answer, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixlens.maps import MixingMaps
from mixlens.runs.summaries import shares_of

UNIT = 2.0**32
DISTANCES = 64  # farther sources share the last place
BINS = 50  # of the histograms
CONTEXTS = 10  # texts that are kept for each layer
CATEGORIES = ("special", "punctuation", "word")
LARGEST_ENTROPY = 10.0  # nats, of some 22,000 even sources; more counts in the last bin

State = dict[str, Any]
"""Measure -> name -> whole numbers by layer. Plain lists, so that it can be kept as JSON."""


def empty() -> State:
    """The aggregate of no text."""
    return {}


def aggregate(maps: MixingMaps, name: str) -> State:
    """One text."""
    shares = np.nan_to_num(shares_of(maps.scores))
    units = np.rint(shares * UNIT).astype(np.int64)
    layers = len(shares)
    found: dict[str, Any] = {
        "layers": [int(layer) for layer in maps.layers],
        "rows": [shares.shape[1]] * layers,
        "category": _by(units, _categories(maps), len(CATEGORIES)),
        "share_histogram": _histogram(shares, 1.0),
        "entropy_histogram": _histogram(_entropies(shares), LARGEST_ENTROPY),
        "contexts": [_largest(maps, shares[layer], name) for layer in range(layers)],
    }
    if maps.facts.same_tokens:
        gaps = np.abs(np.arange(shares.shape[2])[None] - np.array(maps.target_positions)[:, None])
        places = np.minimum(gaps, DISTANCES - 1)
        found["distance"] = _by(units, places, DISTANCES)
        pairs = np.bincount(places.reshape(-1), minlength=DISTANCES).tolist()
        found["pairs"] = [pairs] * layers
    return {maps.provenance["measure"]: found}


def merge(one: State, other: State) -> State:
    """Both together; the order does not matter."""
    merged = dict(one)
    for measure, found in other.items():
        before = merged.get(measure)
        merged[measure] = found if before is None else _merge_measure(before, found)
    return merged


def _merge_measure(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = {}
    for key in sorted({*one, *other}):
        if key not in one or key not in other or key == "layers":
            merged[key] = one.get(key, other.get(key))
        elif key == "contexts":
            merged[key] = [_top([*a, *b]) for a, b in zip(one[key], other[key], strict=True)]
        else:
            merged[key] = (np.array(one[key]) + np.array(other[key])).tolist()
    return merged


def conclude(state: State) -> dict[str, Any]:
    """Means and quantiles from the sums, by measure; each list has one entry for each layer."""
    return {measure: _conclude_measure(found) for measure, found in state.items()}


def _conclude_measure(found: Mapping[str, Any]) -> dict[str, Any]:
    rows = np.array(found["rows"], np.float64)
    concluded: dict[str, Any] = {
        "layers": found["layers"],
        "rows": found["rows"],
        "share_by_category": {
            name: (np.array(found["category"])[:, place] / UNIT / rows).tolist()
            for place, name in enumerate(CATEGORIES)
        },
        "share_quantiles": _quantiles(found["share_histogram"], 1.0),
        "entropy_quantiles": _quantiles(found["entropy_histogram"], LARGEST_ENTROPY),
        "contexts": found["contexts"],
    }
    if "distance" in found:
        pairs = np.array(found["pairs"], np.float64)
        means = np.divide(
            np.array(found["distance"]) / UNIT, pairs, out=np.zeros(pairs.shape), where=pairs > 0
        )
        concluded["mean_share_by_distance"] = means.tolist()
    return concluded


def _quantiles(histograms: list[list[int]], largest: float) -> list[dict[str, float]]:
    """The upper edge of the bin that each quantile lies in."""
    found = []
    for counts in histograms:
        running = np.cumsum(counts)
        total = int(running[-1])
        edges = {
            f"{q:g}": (int(np.searchsorted(running, q * total)) + 1) * largest / BINS
            for q in (0.05, 0.25, 0.5, 0.75, 0.95)
        }
        found.append({key: min(edge, largest) for key, edge in edges.items()})
    return found


def _by(units: np.ndarray, places: np.ndarray, count: int) -> list[list[int]]:
    """Sums of [layer, target, source] by the place of each source, [target, source] or [source]."""
    flat = np.broadcast_to(places, units.shape[1:]).reshape(-1)
    sums = np.zeros((len(units), count), np.int64)
    for layer, values in enumerate(units):
        np.add.at(sums[layer], flat, values.reshape(-1))
    listed: list[list[int]] = sums.tolist()
    return listed


def _categories(maps: MixingMaps) -> np.ndarray:
    special = maps.source_row.special or (False,) * len(maps.source_row)
    bare = [label.strip("▁Ġ·# ") for label in maps.source_tokens]
    return np.array(
        [
            0 if mark else 2 if any(sign.isalnum() for sign in word) else 1
            for mark, word in zip(special, bare, strict=True)
        ]
    )


def _entropies(shares: np.ndarray) -> np.ndarray:
    logs = np.log(shares, out=np.zeros(shares.shape), where=shares > 0)
    entropies: np.ndarray = -(shares * logs).sum(-1)
    return entropies


def _histogram(values: np.ndarray, largest: float) -> list[list[int]]:
    bins = np.clip((values * (BINS / largest)).astype(np.int64), 0, BINS - 1)
    return [np.bincount(layer.reshape(-1), minlength=BINS).tolist() for layer in bins]


def _largest(maps: MixingMaps, shares: np.ndarray, name: str) -> list[list[Any]]:
    """The largest share of one layer that a target takes from a token other than itself."""
    others = shares.copy()
    if maps.facts.same_tokens:
        others[np.arange(len(others)), list(maps.target_positions)] = -1.0
    row, source = np.unravel_index(int(others.argmax()), others.shape)
    share = int(np.rint(others[row, source] * UNIT))
    if share <= 0:
        return []
    return [[share, name, maps.target_positions[row], int(source)]]


def _top(contexts: list[list[Any]]) -> list[list[Any]]:
    """The largest shares; equal ones by name and place, each text and place once."""
    distinct = {tuple(context) for context in contexts}
    return [list(c) for c in sorted(distinct, key=lambda c: (-c[0], *c[1:]))[:CONTEXTS]]
