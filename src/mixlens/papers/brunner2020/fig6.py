"""Brunner et al. (2020), figure 6: raw, effective and null attention of one head on a passage."""

from __future__ import annotations

import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

WIDEST = 4.0  # inches of a panel; a long passage labels every few tokens

SPEC = ExperimentSpec(
    title="raw, effective and null attention of one head on one passage",
    finding=(
        "most of the weight on [CLS] and [SEP] lies in the null space, so it never reaches the"
        " output"
    ),
    kinds=("text",),
    longest=126,
    data="one Wikipedia passage",
    files=("wikitext2/test.txt", "wikitext*/test*"),
    texts=12,
    cost="one forward pass for each of a few texts; the longest is drawn",
)


def run(setting: Setting, *, layer: int | None = None, head: int | None = None) -> Outcome:
    """Plot one attention head. By default, plot the head with the largest null attention."""
    observations = setting.observe({"maps": _maps})
    raw, null, labels, special = max(
        observations.answers["maps"], key=lambda answer: len(answer[2])
    )
    sizes = (null**2).sum((-1, -2)) / (raw**2).sum((-1, -2))
    at = divmod(int(sizes.argmax()), sizes.shape[1])
    at = (at[0] if layer is None else layer, at[1] if head is None else head)
    maps = {"raw": raw[at], "effective": raw[at] - null[at], "null": null[at]}
    size = min(0.16 * len(labels) + 2, WIDEST)
    figure, places = figures.panels(3, columns=3, width=size, height=size)
    for place, (name, values) in zip(places, maps.items(), strict=True):
        figures.heat_map(
            values,
            labels,
            labels,
            title=f"{name} attention, layer {at[0]}, head {at[1]}",
            y_label="target" if place is places[0] else "",
            axes=place,
        )
        if place is not places[0]:  # the same tokens
            place.tick_params(axis="y", left=False, labelleft=False)
    rows = [
        {"map": name, "target": target, "source": source, "weight": float(values[target, source])}
        for name, values in maps.items()
        for target in range(len(labels))
        for source in range(len(labels))
    ]
    share = float(abs(maps["null"]).mean())
    on_special = float(abs(maps["null"][:, special]).mean()) if special else float("nan")
    finding = Finding(
        "null attention lies on special tokens",
        on_special > share if special and share > 1e-6 else None,
        f"mean size {on_special:.4f} on special tokens, {share:.4f} on all; {len(labels)} tokens,"
        f" null share {sizes[at]:.3f}",
    )
    return Outcome(
        {"maps": pd.DataFrame(rows)}, {"fig6": figure}, {}, [finding], observations.skipped
    )


def _maps(case: Case) -> tuple[object, ...]:
    maps = case.maps("effective_attention", per_head=True)
    null = maps.extras["null_attention"].to_numpy()
    special = [place for place, mark in enumerate(case.row.special or ()) if mark]
    return maps.scores + null, null, list(case.row.labels), special
