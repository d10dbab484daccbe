"""Aggregates over a corpus that need no maps on the disk.

For each measure and layer: how shares fall with distance, how much goes to special tokens,
punctuation and words, how shares and entropies are distributed, and the texts in which a layer
takes most from a single other token.

Everything is a sum of whole numbers, or the largest of things that have a strict order. Shares are
counted in units of 2^-32. Merging the parts of a corpus in any order therefore gives the same
answer, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixlens.maps import MixingMaps
from mixlens.runs.summaries import distances, entropies_of

UNIT = 2.0**32
DISTANCES = 64  # farther sources share the last place
BINS = 50  # of the histograms
CONTEXTS = 10  # texts that are kept for each layer
CATEGORIES = ("special", "punctuation", "word")
LARGEST_ENTROPY = 10.0  # nats, of some 22,000 even sources; more counts in the last bin

SUMS = {
    "rows": (),
    "category": (len(CATEGORIES),),
    "distance": (DISTANCES,),
    "pairs": (DISTANCES,),
    "shares": (BINS,),
    "entropies": (BINS,),
}


class MeasureAggregate:
    """Sums over the texts of one measure; each has a first axis of layers."""

    def __init__(self, layers: list[int]) -> None:
        self.layers = layers
        self.sums = {key: np.zeros((len(layers), *shape), np.int64) for key, shape in SUMS.items()}
        self.contexts: list[set[tuple[int, str, int, int]]] = [set() for _ in layers]

    def add(self, maps: Sequence[MixingMaps], shares: np.ndarray, names: Sequence[str]) -> None:
        """Texts whose maps have one shape, with their shares [text, layer, target, source]."""
        shares = np.nan_to_num(shares).swapaxes(0, 1)  # layer, text, target, source
        units = np.rint(shares * UNIT)
        sums = self.sums
        sums["rows"] += shares.shape[1] * shares.shape[2]
        categories = np.stack([_categories(one) for one in maps])[:, None]
        sums["category"] += _sums_by(units, categories, len(CATEGORIES))
        sums["shares"] += _histogram(shares, 1.0)
        sums["entropies"] += _histogram(entropies_of(shares), LARGEST_ENTROPY)
        if maps[0].facts.same_tokens:
            gaps = np.minimum(distances(maps), DISTANCES - 1)
            sums["distance"] += _sums_by(units, gaps, DISTANCES)
            sums["pairs"] += np.bincount(gaps.reshape(-1), minlength=DISTANCES)
        self._add_contexts(maps, units, names)

    def _add_contexts(
        self, maps: Sequence[MixingMaps], units: np.ndarray, names: Sequence[str]
    ) -> None:
        """The largest share that a target takes from a token other than itself, in each layer."""
        flat = units.copy()
        if maps[0].facts.same_tokens:
            targets = np.array([one.target_positions for one in maps])[None, ..., None]
            np.put_along_axis(
                flat, np.broadcast_to(targets, (len(flat), *targets.shape[1:])), 0, -1
            )
        flat = flat.reshape(*units.shape[:2], -1)
        largest = flat.argmax(-1)
        for layer, places in enumerate(largest.tolist()):
            contexts = self.contexts[layer]
            for text, place in enumerate(places):
                row, source = divmod(place, units.shape[-1])
                share = int(flat[layer, text, place])
                if share > 0:
                    contexts.add((share, names[text], maps[text].target_positions[row], source))
            self.contexts[layer] = set(_top(contexts))

    def merge(self, other: MeasureAggregate) -> None:
        """Adds the texts of another; the order does not matter."""
        for key, values in other.sums.items():
            self.sums[key] += values
        self.contexts = [
            set(_top(one | two)) for one, two in zip(self.contexts, other.contexts, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the same texts give the same dict."""
        return {
            "layers": self.layers,
            "contexts": [[list(c) for c in _top(contexts)] for contexts in self.contexts],
            **{key: values.tolist() for key, values in self.sums.items()},
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> MeasureAggregate:
        """What `to_dict` gave."""
        aggregate = cls(saved["layers"])
        aggregate.sums = {key: np.array(saved[key], np.int64) for key in SUMS}
        aggregate.contexts = [
            {(c[0], c[1], c[2], c[3]) for c in layer} for layer in saved["contexts"]
        ]
        return aggregate

    def conclude(self) -> dict[str, Any]:
        """Means and quantiles; each list has one entry for each layer."""
        rows = np.maximum(self.sums["rows"], 1).astype(np.float64)
        pairs = self.sums["pairs"]
        means = np.divide(
            self.sums["distance"] / UNIT, pairs, out=np.zeros(pairs.shape), where=pairs > 0
        )
        return {
            "layers": self.layers,
            "rows": self.sums["rows"].tolist(),
            "share_by_category": {
                name: (self.sums["category"][:, place] / UNIT / rows).tolist()
                for place, name in enumerate(CATEGORIES)
            },
            "mean_share_by_distance": means.tolist(),
            "share_quantiles": _quantiles(self.sums["shares"], 1.0),
            "entropy_quantiles": _quantiles(self.sums["entropies"], LARGEST_ENTROPY),
            "contexts": [
                [[share / UNIT, *place] for share, *place in _top(contexts)]
                for contexts in self.contexts
            ],
        }


class Aggregates(dict[str, MeasureAggregate]):
    """The aggregates of a run, by measure."""

    def add(self, maps: Sequence[MixingMaps], shares: np.ndarray, names: Sequence[str]) -> None:
        """Texts whose maps have one shape, with their shares [text, layer, target, source]."""
        measure = maps[0].provenance["measure"]
        if measure not in self:
            self[measure] = MeasureAggregate([int(layer) for layer in maps[0].layers])
        self[measure].add(maps, shares, names)

    def merge(self, saved: dict[str, Any]) -> None:
        """Adds another part of the corpus, as `to_dict` gave it."""
        for measure, other in saved.items():
            if measure in self:
                self[measure].merge(MeasureAggregate.from_dict(other))
            else:
                self[measure] = MeasureAggregate.from_dict(other)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {measure: self[measure].to_dict() for measure in sorted(self)}

    def conclude(self) -> dict[str, Any]:
        """Means and quantiles, by measure."""
        return {measure: self[measure].conclude() for measure in sorted(self)}


def _sums_by(units: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """Sums of [layer, text, target, source] by the place of each source: [layer, place].

    Sums of whole numbers below 2^53 are exact in float64.
    """
    layers = count * np.arange(len(units))[:, None, None, None]
    flat = (layers + np.broadcast_to(places, units.shape[1:])).reshape(-1)
    sums = np.bincount(flat, units.reshape(-1), minlength=count * len(units))
    return sums.reshape(len(units), count).astype(np.int64)


def _categories(maps: MixingMaps) -> np.ndarray:
    special = maps.source_row.special or (False,) * len(maps.source_row)
    return np.array(
        [
            0 if mark else 2 if any(sign.isalnum() for sign in label) else 1
            for mark, label in zip(special, maps.source_tokens, strict=True)
        ]
    )


def _histogram(values: np.ndarray, largest: float) -> np.ndarray:
    bins = np.minimum((values * (BINS / largest)).astype(np.int64), BINS - 1)
    flat = bins.reshape(len(bins), -1) + BINS * np.arange(len(bins))[:, None]
    counts = np.bincount(flat.reshape(-1), minlength=BINS * len(bins))
    return counts.reshape(len(bins), BINS)


def _quantiles(histograms: np.ndarray, largest: float) -> list[dict[str, float]]:
    """The upper edge of the bin that each quantile lies in."""
    quantiles = []
    for counts in histograms:
        running = np.cumsum(counts)
        edges = {
            f"{q:g}": (int(np.searchsorted(running, q * running[-1])) + 1) * largest / BINS
            for q in (0.05, 0.25, 0.5, 0.75, 0.95)
        }
        quantiles.append({key: min(edge, largest) for key, edge in edges.items()})
    return quantiles


def _top(contexts: set[tuple[int, str, int, int]]) -> list[tuple[int, str, int, int]]:
    """The largest shares; equal ones by name and place."""
    return sorted(contexts, key=lambda context: (-context[0], *context[1:]))[:CONTEXTS]
