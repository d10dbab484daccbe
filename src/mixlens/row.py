"""Parts of maps: one target's row, with the sources that gave most, and what was measured next to
the scores.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.plurals import counted
from mixlens.suggestions import no_such
from mixlens.tokens import TokenRow, resolved

_MARKS = "Ġ▁"


@dataclass(frozen=True, eq=False)
class Extra:
    """Something measured next to the scores; `dims` names its axes."""

    dims: tuple[str, ...]
    values: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", owned(self.values, np.asarray(self.values).dtype))


def owned(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array itself if it is frozen already and nobody else's, else a frozen copy."""
    flags = array.flags
    if flags.owndata and flags.c_contiguous and not flags.writeable and array.dtype == dtype:
        return array
    return frozen(np.array(array, dtype=dtype, order="C"))


def frozen(array: np.ndarray) -> np.ndarray:
    """The array itself, which can no longer be changed."""
    array.flags.writeable = False
    return array


class Source(NamedTuple):
    """A source of a target, with its score."""

    token: str
    position: int
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """The scores of one target: [layer, source], or [layer, head, source]."""

    target: int
    token: str
    scores: np.ndarray
    layers: tuple[int, ...]
    source_tokens: tuple[str, ...]

    def __repr__(self) -> str:
        heads = f", {counted(self.scores.shape[1], 'head')}" if self.scores.ndim == 3 else ""
        sources = counted(len(self.source_tokens), "source")
        sizes = f"{counted(len(self.layers), 'layer')}{heads}, {sources}"
        last = self.scores[-1] if self.scores.ndim == 2 else self.scores[-1].mean(0)
        best = ", ".join(
            f"{self.source_tokens[i]} {last[i]:.3g}"
            for i in np.argsort(-np.abs(last), kind="stable")[:3]
        )
        largest = f"largest in layer {self.layers[-1]}: {best}"
        return f"<Row of {self.token!r} (token {self.target}): {sizes}; {largest}>"

    def top(self, k: int = 5, *, layer: int = -1, head: int | None = None) -> list[Source]:
        """The k sources with the largest scores, largest first. Of two equal ones the earlier comes
        first.
        """
        if not hasattr(k, "__index__") or k < 1:
            raise InvalidInput(f"top({k!r}): ask for at least one source, by a whole number")
        values = self.scores[layer_index(layer, self.layers)]
        if values.ndim == 2 and head is None:
            raise InvalidInput(
                f"these scores are of {len(values)} heads: name one with head=…, or merge them"
                " first with maps.heads()"
            )
        if values.ndim == 1 and head is not None:
            raise InvalidInput(
                "these scores are of whole layers: measure with per_head=True for single heads"
            )
        if head is not None:
            values = values[head_index(head, len(values))]
        order = np.argsort(-values, kind="stable")[:k]
        return [Source(self.source_tokens[i], int(i), float(values[i])) for i in order]


def layer_index(layer: int, layers: Sequence[int]) -> int:
    """The place of a layer among those held; negative numbers count from the last of them."""
    if layer in layers:
        return list(layers).index(layer)
    if -len(layers) <= layer < 0:
        return layer + len(layers)
    raise InvalidInput(
        f"there is no layer {layer} in these maps; they have {', '.join(map(str, layers))}"
    )


def head_index(head: int, count: int) -> int:
    """The number of a head; negative numbers count from the last."""
    try:
        return resolved([head], count)[0]
    except IndexError as error:
        raise InvalidInput(
            f"there is no head {head}; these maps have {count} heads, 0 to {count - 1}"
        ) from error


class EachText(tuple[tuple[int | str, ...], ...]):
    """Targets that differ by text: as many for each text of a batch."""


def positions_by_text(
    targets: Sequence[int | str] | EachText,
    rows: Sequence[TokenRow],
    *,
    first: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """The positions of the named targets in every text of a batch; labels are looked for among the
    positions of `first` before all others.
    """
    named = targets if isinstance(targets, EachText) else [targets] * len(rows)
    before: Sequence[Sequence[int]] = [()] * len(rows) if first is None else first
    return tuple(
        tuple(_found(target, row, known) for target in own)
        for own, row, known in zip(named, rows, before, strict=True)
    )


def _found(target: int | str, row: TokenRow, first: Sequence[int]) -> int:
    if isinstance(target, str) and first:
        with contextlib.suppress(InvalidInput):
            return position_of(target, row, first)
    return position_of(target, row, range(len(row)))


def position_of(target: int | str, row: TokenRow, held: Sequence[int]) -> int:
    """The position of a token that is among those held, from its position or its label.

    A label may be written as the vocabulary has it (Ġvery), as it is shown (·very), without its
    mark (very), or in a different case; of several that are alike, `dogs#2` is the second.
    """
    if isinstance(target, str):
        position = _labelled(target, row, list(dict.fromkeys(held)))
    elif isinstance(target, bool) or not hasattr(target, "__index__"):
        raise InvalidInput(f"a token is named by its position or its label, not by {target!r}")
    else:
        try:
            (position,) = resolved([int(target)], len(row))
        except IndexError as error:
            raise InvalidInput(
                f"there is no token {target}: the text has {len(row)} tokens, 0 to {len(row) - 1}"
            ) from error
    if position not in held:
        raise InvalidInput(
            f"target {target} was not measured; these maps have the targets"
            f" {', '.join(map(str, held))}"
        )
    return position


def _labelled(label: str, row: TokenRow, held: list[int]) -> int:
    places = _written(label, row, held)
    name, number = label, None
    if not places and (numbered := re.fullmatch(r"(.+)#([1-9]\d{0,8})", label)):
        name, number = numbered[1], int(numbered[2])
        places = _written(name, row, held)
    if not places:
        raise InvalidInput(no_such("token", name, _shown(row, held), "the text has"))
    if number is not None and number <= len(places):
        return places[number - 1]
    if number is not None or len(places) > 1:
        raise InvalidInput(
            f"{name!r} is at the positions {', '.join(map(str, places))}: name one by its position,"
            f" or write {' or '.join(f'{name}#{i + 1}' for i in range(min(len(places), 3)))}"
        )
    return places[0]


def _written(label: str, row: TokenRow, held: list[int]) -> list[int]:
    """Positions of the tokens that are written so, by the closest reading that has any."""
    dots = str.maketrans(dict.fromkeys(_MARKS, "·"))
    readings: tuple[Callable[[str], str], ...] = (
        str,
        lambda text: text.translate(dots),
        lambda text: text.lstrip(_MARKS + "·"),
        lambda text: text.lstrip(_MARKS + "·").casefold(),
    )
    for reading in readings:
        wanted = reading(label)
        places = [i for i in held if reading(row.labels[i]) == wanted]
        if places:
            return places
    return []


def _shown(row: TokenRow, held: list[int]) -> list[str]:
    """Labels for a message, not more than fit on a few lines."""
    labels = list(dict.fromkeys(row.labels[i] for i in held))
    return labels if len(labels) <= 60 else [*labels[:60], "…"]
