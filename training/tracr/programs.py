"""The programs that were written for mixlens.

Each asks something that the eight programs of the archive do not: a far source, a source that is
found by its content, two sources that are both needed, and a source that counts only sometimes.
"""

from __future__ import annotations

from collections.abc import Callable

from tracr.rasp import rasp

LETTERS = "abcd"


def _at(distance: int) -> rasp.SOp:
    """The token so many places before."""
    select = rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query - distance)
    return rasp.Aggregate(select, rasp.tokens)


def _first() -> rasp.SOp:
    """The first token, wherever the target is."""
    select = rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == 0)
    return rasp.Aggregate(select, rasp.tokens)


def far_copy() -> rasp.SOp:
    return _first()


def induction() -> rasp.SOp:
    same = rasp.Select(_at(1), rasp.tokens, rasp.Comparison.EQ)
    return rasp.Aggregate(same, rasp.tokens)


def both_needed() -> rasp.SOp:
    def sum_of(one: str, other: str) -> str:
        return LETTERS[(LETTERS.index(one) + LETTERS.index(other)) % len(LETTERS)]

    return rasp.SequenceMap(sum_of, _at(1), _at(2))


def switch() -> rasp.SOp:
    def choose(one: str, other: str) -> str:
        return other if one == "a" else one

    return rasp.SequenceMap(choose, _at(1), _at(3))


# Name -> (what it computes, the program).
PROGRAMS: dict[str, tuple[str, Callable[[], rasp.SOp]]] = {
    "far_copy": ("copies the first token, however far away it is", far_copy),
    "induction": (
        "returns the token that followed the earlier occurrence of the current token",
        induction,
    ),
    "both_needed": (
        "returns the sum modulo four of the two previous tokens, as a letter",
        both_needed,
    ),
    "switch": (
        "copies the previous token or, if that is an a, the token three positions back",
        switch,
    ),
}
