"""A data set: its examples, and the records that could not be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from mixlens.datasets.examples import Example
from mixlens.errors import InvalidInput


@dataclass(frozen=True, repr=False)
class Dataset(Sequence[Example]):
    """A data set with examples of one kind.

    `errors` lists (name, reason) for each skipped record. `origin` is the source of the data.
    """

    name: str
    kind: str
    examples: tuple[Example, ...]
    errors: tuple[tuple[str, str], ...] = ()
    origin: str = ""

    def __repr__(self) -> str:
        errors = f", {len(self.errors)} records skipped" if self.errors else ""
        first = f"; first: {self.examples[0].text[:60]!r}" if self.examples else ""
        return f"<Dataset {self.name}: {len(self)} {self.kind} examples{errors}{first}>"

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @overload
    def __getitem__(self, place: int) -> Example: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Example, ...]: ...

    def __getitem__(self, place: int | slice) -> Example | tuple[Example, ...]:
        return self.examples[place]

    @property
    def groups(self) -> dict[str | None, int]:
        """Return the number of examples of each group, in the order of the data."""
        counts: dict[str | None, int] = {}
        for example in self.examples:
            counts[example.group] = counts.get(example.group, 0) + 1
        return counts

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """Return a random sample of `count` examples, stratified by group.

        The sample does not depend on the order of the data.
        """
        if count < 1:
            raise InvalidInput(f"Sample size {count} is out of range. Pass at least 1.")
        if count >= len(self):
            return self
        sampled: set[int] = set()
        shares = _shares(self.groups, count, seed)
        for group, share in shares.items():
            places = [
                place for place, example in enumerate(self.examples) if example.group == group
            ]
            sampled.update(
                sorted(places, key=lambda place: _lot(self.examples[place], seed))[:share]
            )
        return replace(self, examples=tuple(self.examples[place] for place in sorted(sampled)))


def digest(examples: Iterable[Example]) -> str:
    """Return a hash of the examples and their order, which identifies the data of a run."""
    digest = hashlib.sha256()
    for example in examples:
        fields = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in vars(example).items()
        }
        digest.update(repr((example.kind, sorted(fields.items()))).encode())
    return digest.hexdigest()[:16]


def _shares(groups: dict[str | None, int], count: int, seed: int) -> dict[str | None, int]:
    """Return how many of `count` examples to sample from each group, in proportion to its size.

    The counts are rounded by the largest-remainder method.
    """
    total = sum(groups.values())
    shares = {group: count * size // total for group, size in groups.items()}
    by_remainder = sorted(
        groups, key=lambda group: (-(count * groups[group] % total), _digest(seed, str(group)))
    )
    for group in by_remainder[: count - sum(shares.values())]:
        shares[group] += 1
    return shares


def _lot(example: Example, seed: int) -> tuple[str, str]:
    """Return a pseudo-random sort key that depends on the example, not on its position in the data.

    The name of the example breaks ties between equal texts.
    """
    return _digest(seed, example.text, example.pair or ""), example.name


def _digest(seed: int, *parts: str) -> str:
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).hexdigest()
