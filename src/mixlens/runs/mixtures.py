"""Scores of a batch of texts, with properties of their tokens.

Summaries and aggregates are computed for a whole batch on the device of the scores, because
splitting the batch into texts would take longer than measuring it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixlens.contracts import Facts
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.measuring.measured_batch import MeasuredBatch, target_tokens
from mixlens.model.placement import sent
from mixlens.text.tokens import TokenRow


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixtures:
    """The scores of one measure for a batch. Positions beyond the tokens of a text are padding."""

    values: Tensor  # [group, text, target, source]
    groups: tuple[tuple[int, int | None], ...]  # layer, and head if heads are kept separate
    sources: Sequence[TokenRow]  # tokens of each text
    targets: Sequence[TokenRow]
    positions: Sequence[tuple[int, ...]]  # wanted targets of each text
    facts: Facts
    provenance: Mapping[str, Any]

    @classmethod
    def of_batch(cls, batch: MeasuredBatch) -> Mixtures:
        """Create the scores from a measured batch."""
        request, recording = batch.request, batch.recording
        texts = range(recording.rows(request.site))
        targets_by_text = [target_tokens(recording, request, batch.scores, text) for text in texts]
        values, heads = batch.scores.values, [None] if batch.scores.values.dim() == 4 else None
        if heads is None:
            values = values.transpose(1, 2).flatten(0, 1)
        count = len(values) // len(batch.layers)
        return cls(
            values=values,
            groups=tuple((layer, h) for layer in batch.layers for h in heads or range(count)),
            sources=[recording.source_tokens(request.site, text) for text in texts],
            targets=[tokens for tokens, _ in targets_by_text],
            positions=[places for _, places in targets_by_text],
            facts=batch.facts,
            provenance=batch.provenance(),
        )

    @classmethod
    def of_maps(cls, maps: Sequence[MixingMaps]) -> Mixtures:
        """Create the padded scores of a batch from the maps of each text."""
        shapes = [one.scores.shape for one in maps]
        largest = [max(sizes) for sizes in zip(*shapes, strict=True)]
        values = torch.zeros(largest[0], len(maps), *largest[1:], dtype=torch.float64)
        for text, (one, shape) in enumerate(zip(maps, shapes, strict=True)):
            values[:, text, : shape[1], : shape[2]] = torch.tensor(one.scores)
        return cls(
            values=values,
            groups=tuple((int(layer), None) for layer in maps[0].layers),
            sources=[one.source_row for one in maps],
            targets=[one.target_row for one in maps],
            positions=[one.target_positions for one in maps],
            facts=maps[0].facts,
            provenance=maps[0].provenance,
        )

    @property
    def same_tokens(self) -> bool:
        """Return whether targets and sources are the same tokens."""
        return self.facts.same_tokens

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the layer number of each group, which is a layer or a head."""
        return tuple(layer for layer, _ in self.groups)

    @cached_property
    def row_count(self) -> int:
        """Return the total number of targets in all texts."""
        return sum(map(len, self.positions))

    @cached_property
    def pair_count(self) -> int:
        """Return the number of target-source pairs in all texts, without padding."""
        texts = zip(self.positions, self.sources, strict=True)
        return sum(len(targets) * len(sources) for targets, sources in texts)

    @cached_property
    def target_counts(self) -> Tensor:
        """Return the number of targets of each text."""
        return self._tensor([len(places) for places in self.positions])

    @cached_property
    def source_counts(self) -> Tensor:
        """Return the number of sources of each text."""
        return self._tensor([len(tokens) for tokens in self.sources])

    @cached_property
    def is_target(self) -> Tensor:
        """Return a mask [text, target], which is True outside padding."""
        return self._range(-2) < self.target_counts[:, None]

    @cached_property
    def real(self) -> Tensor:
        """Return a mask [text, target, source], which is True for pairs outside padding."""
        sources = self._range(-1) < self.source_counts[:, None]
        return self.is_target[:, :, None] & sources[:, None]

    @cached_property
    def target_places(self) -> Tensor:
        """Return the position of each target as a tensor [text, target], with 0 in padding."""
        return self._pad(self.positions, -2)

    @cached_property
    def distances(self) -> Tensor:
        """Return the distances in tokens as a tensor [text, target, source]."""
        return (self._range(-1) - self.target_places[..., None]).abs()

    @cached_property
    def special(self) -> Tensor:
        """Return a mask [text, source], which is True for special tokens."""
        marks = [tokens.special or (False,) * len(tokens) for tokens in self.sources]
        return self._pad(marks, -1).bool()

    @cached_property
    def kinds(self) -> Classes:
        """Return the classes of tokens: special tokens, punctuation and words."""
        names = ("special", "punctuation", "word")
        sources = [token_kinds(tokens) for tokens in self.sources]
        if self.same_tokens:
            return self.classes(names, sources, sources)
        return self.classes(names, [token_kinds(tokens) for tokens in self.targets], sources)

    def classes(
        self,
        names: Sequence[str],
        of_targets: Sequence[Sequence[int]],
        of_sources: Sequence[Sequence[int]],
    ) -> Classes:
        """Return the classes of tokens, given a class index for every token of each text."""
        classes_of_targets = [
            [kinds[place] for place in places]
            for kinds, places in zip(of_targets, self.positions, strict=True)
        ]
        counts = np.bincount(
            np.concatenate(classes_of_targets).astype(np.int64), minlength=len(names)
        )
        return Classes(
            names=tuple(names),
            targets=self._one_hot(classes_of_targets, -2, len(names)),
            sources=self._one_hot(of_sources, -1, len(names)),
            target_counts=tuple(counts.tolist()),
        )

    def _one_hot(self, class_lists: Sequence[Sequence[int]], axis: int, count: int) -> Tensor:
        """Return a one-hot encoding of class numbers, with zeros in padding."""
        numbers = self._pad(class_lists, axis, fill=count)
        return (numbers[..., None] == torch.arange(count, device=numbers.device)).double()

    def _range(self, axis: int) -> Tensor:
        return torch.arange(self.values.shape[axis], device=self.values.device)

    def _tensor(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        return sent(torch.from_numpy(np.asarray(numbers, np.int64)), self.values.device)

    def _pad(self, lists: Sequence[Sequence[int]], axis: int, fill: int = 0) -> Tensor:
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        padded = np.full((len(lists), int(self.values.shape[axis])), fill, np.int64)
        inside = np.arange(padded.shape[1]) < lengths[:, None]
        padded[inside] = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
        return self._tensor(padded)


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """Classes of tokens, as one-hot tensors [text, target or source, class]."""

    names: tuple[str, ...]
    targets: Tensor
    sources: Tensor
    target_counts: tuple[int, ...]  # number of targets of all texts in each class


def token_kinds(row: TokenRow) -> list[int]:
    """Return the kind of each token: 0 for special tokens, 1 for punctuation, and 2 for words."""
    special = row.special or (False,) * len(row)
    return [
        0 if mark else 2 if _has_letters(label) else 1
        for mark, label in zip(special, row.labels, strict=True)
    ]


@cache
def _has_letters(label: str) -> bool:
    return any(sign.isalnum() for sign in label)
