"""The experiments by name, found without importing them."""

from __future__ import annotations

import re
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.papers.contracts import Experiment, ExperimentSpec
from mixlens.registry import Registry


def _order(name: str) -> tuple[object, ...]:
    """By paper, then as the paper counts: figure 2 before figure 11, appendices last."""
    paper, _, part = name.partition("/")
    return (
        paper,
        part.startswith("app"),
        tuple(
            (not piece.isdigit(), int(piece) if piece.isdigit() else piece)
            for piece in re.split(r"(\d+)", part)
        ),
    )


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "mixlens.papers", order=_order)


def names() -> tuple[str, ...]:
    """Names of all experiments, without importing them: paper/id."""
    return EXPERIMENTS.names()


def papers() -> tuple[str, ...]:
    """The papers that they come from."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in names()))


def module(name: str) -> Any:
    """The file behind a name."""
    return EXPERIMENTS.entry(resolved(name))


def experiments() -> dict[str, ExperimentSpec]:
    """Name -> what the experiment is."""
    return {name: entry.SPEC for name, entry in EXPERIMENTS.entries().items()}


def resolved(name: str) -> str:
    """The experiment that gives a figure or table: `brunner2020/fig8` is part of
    `brunner2020/fig2b`.
    """
    if name in names():
        return name
    paper, _, part = name.partition("/")
    if paper not in papers():
        raise InvalidInput(f"there is no paper {paper!r}; choose one of: {', '.join(papers())}")
    for other in names():
        if other.startswith(f"{paper}/") and part in module(other).SPEC.also:
            return other
    known = [other.split("/")[1] for other in names() if other.startswith(f"{paper}/")]
    raise InvalidInput(
        f"{paper} has no experiment {part!r}; choose one of: {', '.join(known)} (mixlens reproduce"
        " --list shows all)"
    )
