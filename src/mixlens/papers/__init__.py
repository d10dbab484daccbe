"""Reproduce figures and tables of papers. There is one file per experiment.

`experiments()` lists all experiments, and `reproduce(...)` runs one of them.

An experiment file (`brunner2020/fig3a.py`) holds only the protocol:

* `SPEC`, an `ExperimentSpec` with the title and the paper's finding, data, models and numbers;
* `run(setting, **options) -> Outcome`, which returns tables, figures, the numbers that the paper
  reports, and which of the paper's findings are reproduced.

Experiments share these modules: `contracts` (types such as `ExperimentSpec`), `catalogue` (finds
experiments by name), `reproduction` (runs an experiment), `questions` (asks questions about every
text, and caches the answers), `ranked` (ranks the measures) and `folder` (writes the results).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.papers.catalogue import (
    EXPERIMENTS,
    experiments,
    module,
    names,
    papers,
    resolve_experiment,
)
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
    "resolve_experiment",
]


def reproduce(name: str, lens: Lens, dataset: Dataset | None = None, **options: Any) -> Reproduced:
    """Run one experiment (`paper/id`).

    `mixlens.papers.reproduction.reproduce` describes the options.
    """
    from mixlens.papers.reproduction import reproduce as run

    return run(name, lens, dataset, **options)
