"""Find experiments by name, without importing them."""

from __future__ import annotations

import re
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.papers.contracts import Experiment, ExperimentSpec
from mixlens.registry import Registry


def _order(name: str) -> tuple[object, ...]:
    """Return a sort key for an experiment.

    Experiments are sorted by paper, then by number (figure 2 before figure 11). Appendices come
    last.
    """
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
    """Return the names of all experiments (paper/id), without importing them."""
    return EXPERIMENTS.names()


def papers() -> tuple[str, ...]:
    """Return the names of the papers."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in names()))


def module(name: str) -> Any:
    """Return the module of an experiment."""
    return EXPERIMENTS.entry(resolve_experiment(name))


def experiments() -> dict[str, ExperimentSpec]:
    """Return the spec of each experiment by name."""
    return {name: entry.SPEC for name, entry in EXPERIMENTS.entries().items()}


def resolve_experiment(name: str) -> str:
    """Return the experiment that includes a figure or table: `brunner2020/fig8` is part of
    `brunner2020/fig2b`.
    """
    if name in names():
        return name
    paper, _, part = name.partition("/")
    if paper not in papers():
        raise InvalidInput(f"Unknown paper {paper!r}. Choose one of: {', '.join(papers())}.")
    for other in names():
        if other.startswith(f"{paper}/") and part in module(other).SPEC.also:
            return other
    choices = [other.split("/")[1] for other in names() if other.startswith(f"{paper}/")]
    raise InvalidInput(
        f"Unknown experiment {part!r} of {paper}. Choose one of: {', '.join(choices)}. `mixlens "
        "reproduce --list` lists all."
    )
