"""Counts in words: "1 text", "2 texts"."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural unless it is one."""
    return f"{count} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """Return the noun with an s, unless the count is one."""
    return noun if count == 1 else f"{noun}s"
