"""Experiments: a file in this folder is a figure or table of a paper.

`experiments()` lists them, `reproduce(...)` runs one.

An experiment file (`brunner2020/fig3a.py`) holds nothing but the protocol:

* `SPEC`, an `ExperimentSpec`: what it shows, what the paper found, the paper's data, models and
  numbers;
* `run(setting, **options) -> Outcome`: tables, figures, the numbers that the paper prints, and
  which of its statements hold here.

What they share: `contracts` (these types), `reproduction` (runs one), `questions` that are asked of
every text, the `memory` of their answers, and `ranked`, `folder` and `page` for what comes out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.papers.contracts import Experiment, ExperimentSpec, Finding, Outcome, Setting
from mixlens.registry import Registry

if TYPE_CHECKING:
    from mixlens.datasets import Dataset
    from mixlens.lens import Lens
    from mixlens.papers.reproduction import Reproduced

__all__ = [
    "ExperimentSpec",
    "Finding",
    "Outcome",
    "Setting",
    "experiments",
    "module",
    "names",
    "papers",
    "reproduce",
    "resolved",
]


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


EXPERIMENTS: Registry[Experiment] = Registry("experiment", __name__, order=_order)


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


def reproduce(name: str, lens: Lens, dataset: Dataset | None = None, **options: Any) -> Reproduced:
    """Runs one experiment (`paper/id`); see `mixlens.papers.reproduction.reproduce` for the
    options.
    """
    from mixlens.papers.reproduction import reproduce as run

    return run(name, lens, dataset, **options)
