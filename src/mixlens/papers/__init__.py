"""Experiments: a file in this folder is a figure or table of a paper.

`experiments()` lists them, `reproduce(...)` runs one.

An experiment file (`brunner2020/fig3a.py`) holds nothing but the protocol:

* `SPEC`, an `ExperimentSpec`: what it shows, what the paper found, the paper's data, models and
  numbers;
* `run(setting, **options) -> Outcome`: tables, figures, the numbers that the paper prints, and
  which of its statements hold here.

What they share: `contracts` (these types), the `catalogue` of names, `reproduction` (runs one),
`questions` that are asked of every text, the `memory` of their answers, and `ranked`, `folder` and
`page` for the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.papers.catalogue import EXPERIMENTS, experiments, module, names, papers, resolved
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting

if TYPE_CHECKING:
    from mixlens.datasets import Dataset
    from mixlens.lens import Lens
    from mixlens.papers.reproduction import Reproduced

__all__ = [
    "EXPERIMENTS",
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


def reproduce(name: str, lens: Lens, dataset: Dataset | None = None, **options: Any) -> Reproduced:
    """Runs one experiment (`paper/id`); see `mixlens.papers.reproduction.reproduce` for the
    options.
    """
    from mixlens.papers.reproduction import reproduce as run

    return run(name, lens, dataset, **options)
