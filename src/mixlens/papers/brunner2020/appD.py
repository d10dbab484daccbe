"""Brunner et al. (2020), appendix D: identifiability and contributions on CoLA or MNLI."""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.papers.brunner2020 import fig2a, fig3a, fig3b, fig4
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting

SPEC = ExperimentSpec(
    title="identifiability and contributions on CoLA or MNLI",
    finding="the results are similar to those on MRPC",
    kinds=("text",),
    data=(
        "CoLA dev (1,043 sentences), or MNLI-matched (the first 4,000 pairs; identifiability on"
        " 500)"
    ),
    files=(
        "glue/cola/dev.tsv",
        "cola/dev.tsv",
        "CoLA/dev.tsv",
        "glue/mnli/*.tsv",
        "mnli/*.tsv",
        "MNLI/*.tsv",
    ),
    cost="one forward pass and Hidden Token Attribution for each text, then probes",
)


def run(
    setting: Setting,
    *,
    probes: Sequence[str] = ("naive", "linear"),
    metrics: Sequence[str] = ("cosine",),
    folds: int = 10,
    attribution_probes: int | None = 32,
) -> Outcome:
    """Run figures 2a, 3a, 3b and 4.

    `attribution_probes` is the number of random probes for figures 3a, 3b and 4.
    """
    parts = {
        "fig2a": fig2a.run(setting, probes=probes, metrics=metrics, folds=folds),
        "fig3a": fig3a.run(setting, probes=attribution_probes),
        "fig3b": fig3b.run(setting, probes=attribution_probes),
        "fig4": fig4.run(setting, probes=attribution_probes),
    }
    tables = {
        f"{name}_{key}": table for name, part in parts.items() for key, table in part.tables.items()
    }
    plots = {
        f"{name}_{key}": figure
        for name, part in parts.items()
        for key, figure in part.figures.items()
    }
    measured = {
        f"{name}: {key}": value
        for name, part in parts.items()
        for key, value in part.measured.items()
    }
    findings = [
        Finding(f"{name}: {f.statement}", f.holds, f.numbers)
        for name, part in parts.items()
        for f in part.findings
    ]
    return Outcome(tables, plots, measured, findings, parts["fig2a"].skipped)
