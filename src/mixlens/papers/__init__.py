"""Experiments: figures and tables of papers, one per file.

`experiments()` lists them, `reproduce(...)` runs one.

An experiment file (`brunner2020/fig3a.py`) holds only the protocol:

* `SPEC`, an `ExperimentSpec`: its title, the paper's finding, data, models and numbers;
* `run(setting, **options) -> Outcome`: tables, figures, the numbers that the paper prints, and
  which of its findings hold here.

Shared files: `contracts` (these types), the `catalogue` of names, `reproduction` (runs an
experiment), `questions` (observations of every text), `memory` (caches them), and `ranked`,
`folder` for the results.
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
    """Run one experiment (`paper/id`); see `mixlens.papers.reproduction.reproduce` for the
    options.
    """
    from mixlens.papers.reproduction import reproduce as run

    return run(name, lens, dataset, **options)
