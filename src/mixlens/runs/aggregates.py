"""Aggregate scores over a corpus without storing maps.

For each measure and each layer or head, the aggregates are the mean scores by distance, by kind of
token (special, punctuation, word) and by part of speech, the distributions of normalised scores and
of entropies, and the texts with the largest scores of a token other than the target.

Every aggregate is a sum of integers, or a maximum under a strict order. To make scores integers,
normalised scores are rounded to units of 2^-32. Merging the parts of a corpus in any order
therefore gives the same result, bit for bit.

Quantiles are estimated from a sketch: counts in bins whose width grows with the value. There are
sixteen bins per octave, so the relative error of a quantile is 5 %. Two sketches are merged by
adding their counts. The method follows DDSketch (Masson et al. 2019,
https://arxiv.org/abs/1908.10693), with bins defined by the leading bits of a float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from mixlens.runs.mixtures import Classes, Mixtures
from mixlens.runs.summaries import Shares

UNIT = 2.0**32
DISTANCES = 64  # farther sources share the last bin
CONTEXTS = 10  # texts kept per layer
SHARES, ENTROPIES = 1, 5  # powers of two that no normalised score and no entropy exceeds
OCTAVES = 24  # octaves below the largest power of two; smaller values count as zero
PARTS = 16  # bins per octave
BINS = 1 + OCTAVES * PARTS
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SHIFT = 23 - 4  # shift of a float32's bits: the exponent and four bits of the mantissa remain

SUMS = {
    "distance": (DISTANCES,),
    "pairs": (DISTANCES,),
    "shares": (BINS,),
    "entropies": (BINS,),
}
PARTITIONS = ("kinds", "tags")

Context = tuple[int, str, int, int]
"""Normalised score in units, name of the text, target, source."""


class ClassMap:
    """Sums of normalised scores for each class of target and source, and the number of targets."""

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self.units: dict[tuple[str, str], np.ndarray] = {}
        self.rows: dict[str, int] = {}

    def add(self, classes: Classes, pairs: np.ndarray) -> None:
        """Add the scores `pairs` [group, class of target, class of source], in units of 2^-32."""
        for i, target in enumerate(classes.names):
            for j, source in enumerate(classes.names):
                if pairs[:, i, j].any():
                    self._cell(target, source)[:] += pairs[:, i, j]

    def count(self, classes: Classes) -> None:
        """Count the targets of each class, which are the same in all groups."""
        for name, count in zip(classes.names, classes.target_counts, strict=True):
            if count:
                self.rows[name] = self.rows.get(name, 0) + count

    def merge(self, saved: Mapping[str, Any]) -> None:
        """Add the sums of another part of the corpus, as `to_dict` returns them."""
        for (target, source), units in zip(saved["cells"], saved["units"], strict=True):
            self._cell(target, source)[:] += units
        for name, count in saved["rows"].items():
            self.rows[name] = self.rows.get(name, 0) + count

    def _cell(self, target: str, source: str) -> np.ndarray:
        return self.units.setdefault((target, source), np.zeros(self.groups, np.int64))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values and arrays, in a fixed order."""
        cells = sorted(self.units)
        units = [self.units[cell] for cell in cells]
        return {
            "cells": [list(cell) for cell in cells],
            "units": np.array(units, np.int64).reshape(len(cells), self.groups),
            "rows": dict(sorted(self.rows.items())),
        }

    def conclude(self) -> dict[str, dict[str, list[float]]]:
        """Return the mean score for each class of target and source, with one entry per layer or
        head.
        """
        means: dict[str, dict[str, list[float]]] = {}
        for target, source in sorted(self.units):
            mean = self.units[target, source] / UNIT / self.rows[target]
            means.setdefault(target, {})[source] = mean.tolist()
        return means


class BatchSums:
    """Sums over one batch, computed on the device of its scores.

    All sums are integers below 2^53, which are exact in float64 in any order of addition.
    """

    def __init__(self, mixtures: Mixtures, tags: Classes | None) -> None:
        self.mixtures = mixtures
        self.classes: dict[str, Classes] = {"kinds": mixtures.kinds} | (
            {} if tags is None else {"tags": tags}
        )
        if mixtures.same_tokens:
            self._gaps = mixtures.distances.clamp(max=DISTANCES - 1).flatten(1)
        self._sums: dict[str, Tensor] = {}

    def add(self, part: Shares) -> None:
        """Add the scores of a part of the batch."""
        texts, units = part.texts, (part.values * UNIT).round_()
        totals_by_name = {
            "shares": sketch(part.narrow.flatten(2), SHARES),
            "entropies": sketch(part.entropies, ENTROPIES),
        }
        for name, classes in self.classes.items():
            by_source = units @ classes.sources[texts]
            totals_by_name[name] = (classes.targets[texts].mT @ by_source).sum(1)
        if self.mixtures.same_tokens:
            flat = units.flatten(2)
            gaps = self._gaps[texts].expand(flat.shape)
            totals_by_name["distance"] = totals(gaps, DISTANCES, flat)
            places = self.mixtures.target_places[texts][..., None]
            units.scatter_(-1, places.expand(*units.shape[:3], 1), 0.0)
        for key, values in totals_by_name.items():
            self._whole(key, values.shape[1:])[part.groups] += values.long()
        most, place = units.flatten(2).max(-1)
        size = self.mixtures.values.shape[1:2]
        self._whole("most", size)[part.groups, texts] = most.long()
        self._whole("place", size)[part.groups, texts] = place

    def _whole(self, key: str, size: Sequence[int]) -> Tensor:
        if key not in self._sums:
            values = self.mixtures.values
            self._sums[key] = values.new_zeros(len(values), *size, dtype=torch.int64)
        return self._sums[key]

    def sums(self) -> dict[str, Tensor]:
        """Return the sums by name, as tensors on the device.

        The first axis of each tensor is the group, which is a layer or a head.
        """
        mixtures = self.mixtures
        _, texts, targets, sources = mixtures.values.shape
        self._sums["shares"][:, 0] -= texts * targets * sources - mixtures.pair_count  # padding
        self._sums["entropies"][:, 0] -= texts * targets - mixtures.row_count
        if not mixtures.same_tokens:
            return self._sums
        real = mixtures.real.flatten(1)[None].double()
        return {**self._sums, "pairs": totals(self._gaps[None], DISTANCES, real).long()}


def _contexts(
    mixtures: Mixtures, names: Sequence[str], most: np.ndarray, place: np.ndarray
) -> set[Context]:
    """Return the pairs of different tokens with the largest scores, at most one pair per text."""
    enough = np.partition(most, -CONTEXTS)[-CONTEXTS] if len(most) > CONTEXTS else 1
    contexts = set()
    for text in np.flatnonzero(most >= max(int(enough), 1)).tolist():
        index, source = divmod(int(place[text]), mixtures.values.shape[-1])
        contexts.add((int(most[text]), names[text], mixtures.positions[text][index], source))
    return contexts


class MeasureAggregate:
    """Sums over all texts for one measure.

    The first axis of each array is the group, which is a layer or a head.
    """

    def __init__(self, groups: Sequence[Sequence[int | None]]) -> None:
        self.groups: list[tuple[int | None, ...]] = [tuple(group) for group in groups]
        count = len(self.groups)
        self.rows = 0
        self.sums = {key: np.zeros((count, *shape), np.int64) for key, shape in SUMS.items()}
        self.classes: dict[str, ClassMap] = {name: ClassMap(count) for name in PARTITIONS}
        self.contexts: list[set[Context]] = [set() for _ in self.groups]

    def add(self, batch: BatchSums, sums: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
        """Add the texts of a batch. `sums` contains `batch.sums()`, copied to the CPU."""
        self.rows += batch.mixtures.row_count
        for key in self.sums.keys() & sums.keys():
            self.sums[key] += sums[key]
        for name, classes in batch.classes.items():
            self.classes[name].add(classes, sums[name])
            self.classes[name].count(classes)
        for group, contexts in enumerate(self.contexts):
            most, place = sums["most"][group], sums["place"][group]
            contexts |= _contexts(batch.mixtures, names, most, place)
            self.contexts[group] = set(_top(contexts))

    def merge(self, saved: Mapping[str, Any]) -> None:
        """Add sums over other texts, as `to_dict` returns them, in any order."""
        self.rows += saved["rows"]
        for key in SUMS:
            self.sums[key] += saved[key]
        for name, classes in self.classes.items():
            classes.merge(saved[name])
        self.contexts = [
            set(_top(contexts | {(c[0], c[1], c[2], c[3]) for c in more}))
            for contexts, more in zip(self.contexts, saved["contexts"], strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values and arrays.

        They depend only on the texts, not on how the texts were batched or merged.
        """
        return {
            "groups": [list(group) for group in self.groups],
            "rows": self.rows,
            "contexts": [
                [list(context) for context in _top(contexts)] for contexts in self.contexts
            ],
            **self.sums,
            **{name: classes.to_dict() for name, classes in self.classes.items()},
        }

    def conclude(self) -> dict[str, Any]:
        """Return means and quantiles as lists, with one entry per layer or head."""
        pairs = self.sums["pairs"]
        means = np.divide(
            self.sums["distance"] / UNIT, pairs, out=np.zeros(pairs.shape), where=pairs > 0
        )
        heads = [head for _, head in self.groups]
        return {
            "layers": [layer for layer, _ in self.groups],
            **({} if None in heads else {"heads": heads}),
            "rows": self.rows,
            "mean_share_by_distance": means.tolist(),
            "mean_share_by_kind": self.classes["kinds"].conclude(),
            "mean_share_by_part_of_speech": self.classes["tags"].conclude(),
            "share_quantiles": [quantiles(counts, SHARES) for counts in self.sums["shares"]],
            "entropy_quantiles": [quantiles(c, ENTROPIES) for c in self.sums["entropies"]],
            "contexts": [
                [[share / UNIT, *place] for share, *place in _top(contexts)]
                for contexts in self.contexts
            ],
        }


class Aggregates(dict[str, MeasureAggregate]):
    """The aggregates of a run for each measure.

    Aggregates of single heads have the key `MEASURE by head`.
    """

    def of(self, name: str, mixtures: Mixtures) -> MeasureAggregate:
        """Return the aggregate of a measure. Create it if it does not exist."""
        if name not in self:
            self[name] = MeasureAggregate(mixtures.groups)
        return self[name]

    def merge(self, saved: Mapping[str, Any]) -> None:
        """Add the aggregates of another part of the corpus, as `to_dict` returns them."""
        for name, part in saved.items():
            if name not in self:
                self[name] = MeasureAggregate(part["groups"])
            self[name].merge(part)

    def to_dict(self) -> dict[str, Any]:
        """Return the aggregates as plain values and arrays, which a journal can store."""
        return {name: self[name].to_dict() for name in sorted(self)}

    def conclude(self) -> dict[str, Any]:
        """Return means and quantiles for each measure."""
        return {name: self[name].conclude() for name in sorted(self)}


def _top(contexts: set[Context]) -> list[Context]:
    """Return the contexts with the largest scores. Ties are ordered by text and position.

    A context is the score of one target and one source of a text.
    """
    return sorted(contexts, key=lambda context: (-context[0], *context[1:]))[:CONTEXTS]


def sketch(
    values: Float[Tensor, "group text number"], largest_power: int
) -> Int[Tensor, "group bin"]:
    """Count the values in each bin of a quantile sketch.

    The bins cover values between zero and 2**largest_power.
    """
    below = (127 + largest_power - OCTAVES) * PARTS - 1
    bins = (values.float().view(torch.int32) >> _SHIFT).sub_(below)
    return totals(bins.clamp_(0, BINS - 1), BINS)


def totals(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """Count how often each index occurs in a group.

    With `weights`, return the sum of the weights of each index.
    """
    if (
        places.device.type != "cpu"
    ):  # `bincount` reads the largest number, for which a GPU would wait
        return totals_by_text(places, count, weights)
    groups = torch.arange(len(places), dtype=places.dtype)[:, None, None]
    flat = (places + groups * count).flatten()
    flat_weights = None if weights is None else weights.flatten()
    return flat.bincount(flat_weights, minlength=len(places) * count).view(-1, count)


def totals_by_text(
    places: Int[Tensor, "group text number"], count: int, weights: Tensor | None = None
) -> Shaped[Tensor, "group place"]:
    """Compute `totals` on a GPU.

    Each text is first summed separately, so that fewer threads write to the same element.
    """
    amounts = (
        places.new_ones((), dtype=torch.int64).expand_as(places) if weights is None else weights
    )
    sums = amounts.new_zeros(*places.shape[:2], count)
    return sums.scatter_add_(2, places.long(), amounts).sum(1)


def quantiles(counts: np.ndarray, largest_power: int) -> dict[str, float]:
    """Estimate each quantile from the bin counts of a sketch.

    The estimate is the middle of the bin that contains the quantile.
    """
    running = np.cumsum(counts)
    return {
        f"{q:g}": _middle(int(np.searchsorted(running, q * running[-1])), largest_power)
        for q in QUANTILES
    }


def _middle(place: int, largest_power: int) -> float:
    if place == 0:
        return 0.0
    octave, part = divmod(place - 1, PARTS)
    return float(2.0 ** (largest_power - OCTAVES + octave) * (1 + (part + 0.5) / PARTS))
