"""Brunner et al. (2020), figure 1a: agreement of raw and effective attention against text
length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from mixlens.contracts import AttentionKind
from mixlens.maps.attention_identifiability import identifiability
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = ExperimentSpec(
    title="Pearson's r of effective and raw attention against the length of the text",
    finding=(
        "the correlation is exactly 1 if a text has no more tokens than a head has dimensions"
        " (64), and lower for longer texts"
    ),
    kinds=("text",),
    longest=126,
    data="Wikipedia passages of up to 128 tokens",
    files=("wikitext2/test.txt", "wikitext*/test*"),
    cost="one forward pass and a thin decomposition of each head for each text",
)


def run(setting: Setting) -> Outcome:
    """Plot the correlation of raw and effective attention against text length.

    There is one point per text.
    """
    observations = setting.observe({"texts": _observe})
    table = (
        pd.DataFrame(observations.answers["texts"]).sort_values("tokens").dropna(subset="r")
    )  # a single token has no correlation
    short, long = table[table.tokens <= table.d_head], table[table.tokens > table.d_head]
    findings = [
        Finding(
            "raw and effective attention are the same up to d_head tokens",
            bool((short.r > 1 - 1e-3).all()) if len(short) else None,
            f"smallest r {short.r.min():.6f} of {len(short)} texts",
        ),
        Finding(
            "they part in longer texts",
            bool(long.r.mean() < 0.999) if len(long) else None,
            f"mean r {long.r.mean():.3f} of {len(long)} texts",
        ),
    ]
    means = table.groupby("tokens").r.mean()
    figure = figures.lines(
        {"r": means.to_numpy()},
        x=list(means.index),
        x_label="tokens",
        y_label="Pearson's r",
        title=SPEC.title,
    )
    figure.axes[0].axvline(
        float(table.d_head.iloc[0]) + 0.5, color="grey", linestyle=":", linewidth=1
    )
    notes = (
        "Without position embeddings (rotary models) a word that occurs twice has one value vector"
        " in the first layer: r is below 1 then."
    )
    return Outcome({"by_text": table}, {"fig1a": figure}, {}, findings, observations.skipped, notes)


def _observe(case: Case) -> dict[str, float]:
    dataset = identifiability(case.recording)
    assert not isinstance(dataset, list)
    d_head = case.recording.layers()[0].site(AttentionKind.SELF).values.shape[-1]
    return {"tokens": len(case.row), "r": float(dataset["pearson"].mean()), "d_head": int(d_head)}
