"""Compute the value of a RASP expression at a position, and the tokens whose content it carries.

Tokens carry themselves. Indices carry nothing. A map carries what its argument carries. A map of
two arguments carries both, since each of ours depends on both. An aggregate carries what its values
carry at the selected places: keys and queries decide where to look and are not content.
"""

from __future__ import annotations

from typing import Any

from tracr.rasp import rasp


class Undecided(Exception):
    """Several different values are selected: a program that averages letters means nothing."""


def value(expression: Any, tokens: str, place: int) -> Any:
    """None if nothing is selected."""
    if isinstance(expression, rasp.TokensType):
        return tokens[place]
    if isinstance(expression, rasp.IndicesType):
        return place
    if isinstance(expression, rasp.SequenceMap):
        parts = [value(part, tokens, place) for part in (expression.fst, expression.snd)]
        return None if None in parts else expression.f(*parts)
    if isinstance(expression, rasp.Aggregate):
        values = {value(expression.sop, tokens, at) for at in selected(expression, tokens, place)}
        if len(values) > 1:
            raise Undecided
        return next(iter(values), None)
    raise TypeError(f"{type(expression).__name__} is not used by our programs")


def selected(expression: Any, tokens: str, place: int) -> list[int]:
    """The places that an aggregate reads at a place, itself and those to its left."""
    select = expression.selector
    query = value(select.queries, tokens, place)
    keys = {at: value(select.keys, tokens, at) for at in range(place + 1)}
    return [
        at
        for at, key in keys.items()
        if key is not None and query is not None and select.predicate(key, query)
    ]


def carried(expression: Any, tokens: str, place: int) -> set[int]:
    """The places whose tokens are in the value."""
    if isinstance(expression, rasp.TokensType):
        return {place}
    if isinstance(expression, rasp.IndicesType):
        return set()
    if isinstance(expression, rasp.SequenceMap):
        return carried(expression.fst, tokens, place) | carried(expression.snd, tokens, place)
    return {
        source
        for at in selected(expression, tokens, place)
        for source in carried(expression.sop, tokens, at)
    }
