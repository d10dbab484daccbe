"""Mohebbi et al.

(2023), figure A.2: how many other tokens stand before the cue in a measure's order.
"""

from __future__ import annotations

from dataclasses import replace

from mixlens.experiments.contracts import Finding, Outcome, Setting
from mixlens.experiments.mohebbi2023 import fig1 as mohebbi2023_fig1

SPEC = replace(
    mohebbi2023_fig1.SPEC,
    title="probes needed: how many other tokens a measure puts before the cue, by layer",
    finding="the same pattern as with the dot product: Value Zeroing needs fewest probes",
    also=(),
)


def run(setting: Setting) -> Outcome:
    found = mohebbi2023_fig1.run(setting, metrics=("probes_needed",))
    means = (
        found.tables["by_layer"].groupby("measure").alignment.mean().drop("random").sort_values()
    )
    finding = Finding(
        "Value Zeroing needs fewest probes",
        bool(means.index[0] == "value_zeroing"),
        f"fewest: {means.index[0]} {means.iloc[0]:.2f}",
    )
    return Outcome(
        found.tables, {"figA2": found.figures["probes_needed"]}, {}, [finding], found.skipped
    )
