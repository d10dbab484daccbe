"""Mohebbi et al. (2023), figure A.2: how many other tokens does a measure rank above the cue?"""

from __future__ import annotations

from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023 import paper

SPEC = ExperimentSpec(
    title="number of other tokens that a measure ranks above the cue (probes needed), by layer",
    finding="as with the dot product, Value Zeroing is best, because it needs the fewest probes",
    kinds=("agreement",),
    data=paper.DATA,
    files=paper.FILES,
    own_files=paper.FILES,
    models=paper.MODELS,
    needs="language",
    cost="every measure once for each text",
)


def run(setting: Setting) -> Outcome:
    """Evaluate each measure in each layer, by the number of tokens that it ranks above the last cue
    token.
    """
    aligned = paper.align_cues(setting, ("probes_needed",))
    by_layer = aligned.tables["by_layer"]
    means = by_layer.groupby("measure").alignment.mean().drop("random").sort_values()
    finding = Finding(
        "Value Zeroing needs fewest probes",
        bool(means.index[0] == "value_zeroing"),
        f"fewest: {means.index[0]} {means.iloc[0]:.2f}",
    )
    return Outcome(
        aligned.tables, {"figA2": aligned.figures["probes_needed"]}, {}, [finding], aligned.skipped
    )
