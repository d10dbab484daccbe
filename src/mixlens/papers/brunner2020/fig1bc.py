"""Brunner et al. (2020), figures 1b, 1c and 5: raw and effective attention to [CLS], [SEP] and
punctuation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mixlens.contracts import AttentionKind
from mixlens.evaluating.case import Case
from mixlens.evaluating.states import CATEGORIES, categories
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPEC = ExperimentSpec(
    title=(
        "mean raw and effective attention to [CLS], [SEP] and punctuation by layer; to [SEP] from"
        " [SEP] and from other tokens by head"
    ),
    finding="the peak of attention to [SEP] in the middle layers vanishes in effective attention",
    kinds=("text",),
    longest=126,
    data="Wikipedia passages of up to 128 tokens",
    files=("wikitext2/test.txt", "wikitext*/test*"),
    cost="one forward pass and a thin decomposition of each head for each text",
    also=("fig5",),
    texts=1000,
)

SIDES = ("raw", "effective")


def run(setting: Setting) -> Outcome:
    """Return the means of raw and of effective attention over all texts."""
    observations = setting.observe({"texts": _observe})
    texts = observations.answers["texts"]
    weight = np.array([text["targets"] for text in texts], float)
    means = {
        side: (
            np.einsum("t,tlhc->lhc", weight, np.stack([text[side] for text in texts]))
            / weight.sum()
        )
        for side in SIDES
    }
    by_layer = {side: means[side].mean(1) for side in SIDES}
    rows = [
        {"layer": layer, "to": name, **{side: by_layer[side][layer, i] for side in SIDES}}
        for layer in range(len(by_layer["raw"]))
        for i, name in enumerate(CATEGORIES[:3])
    ]
    figure, places = figures.panels(2, columns=2, sharey=True)
    for place, side in zip(places, SIDES, strict=True):
        series = {name: by_layer[side][:, i] for i, name in enumerate(CATEGORIES[:3])}
        figures.lines(
            series,
            title=f"{side} attention",
            y_label="mean weight on all tokens of the kind",
            axes=place,
        )
    peaks = {side: float(by_layer[side][:, CATEGORIES.index("sep")].max()) for side in SIDES}
    longest, d_head = max(text["tokens"] for text in texts), texts[0]["d_head"]
    # Short texts have no null space, and some tokenizers have no [SEP].
    smaller = (
        peaks["effective"] < 0.9 * peaks["raw"] if longest > d_head and peaks["raw"] > 0 else None
    )
    numbers = (
        f"raw {peaks['raw']:.3f}, effective {peaks['effective']:.3f}; longest text {longest}"
        f" tokens, d_head {d_head}"
    )
    heads = _to_separator(texts)
    return Outcome(
        {"by_layer": pd.DataFrame(rows), "heads": heads},
        {"fig1bc": figure, "fig5": _by_head(heads)},
        {},
        [
            Finding(
                "the peak of attention to [SEP] is smaller in effective attention", smaller, numbers
            )
        ],
        observations.skipped,
    )


def _observe(case: Case) -> dict[str, object]:
    """Return the mean weight that falls on each kind of source in one text, [layer, head, kind].

    Weights are summed over the sources of a kind and averaged over targets. The result also has the
    mean weights to [SEP] from [SEP] itself and from other tokens.
    """
    maps = case.maps("effective_attention", per_head=True)
    effective = maps.scores.astype(np.float64)
    raw = effective + maps.extras["null_attention"].to_numpy()
    kinds = categories(case)
    separators = kinds == CATEGORIES.index("sep")
    d_head = int(case.recording.layers()[0].site(AttentionKind.SELF).values.shape[-1])
    observation: dict[str, object] = {"targets": len(kinds), "tokens": len(kinds), "d_head": d_head}
    for side, scores in (("raw", raw), ("effective", effective)):
        observation[side] = np.stack(
            [scores[..., kinds == kind].sum(-1).mean(-1) for kind in range(3)], -1
        )
        to = scores[..., separators].sum(-1)  # layer, head, target
        for name, mask in (("sep", separators), ("other", ~separators)):
            observation[f"{side} from {name}"] = (
                to[..., mask].mean(-1) if mask.any() else np.full(to.shape[:2], np.nan)
            )
    return observation


def _to_separator(observations: list[dict[str, object]]) -> pd.DataFrame:
    columns = [f"{side} from {name}" for side in SIDES for name in ("sep", "other")]
    means = {}
    for column in columns:
        stacked = np.stack([np.asarray(text[column], float) for text in observations])
        is_number = ~np.isnan(stacked)
        means[column] = np.where(is_number, stacked, 0).sum(0) / np.where(
            is_number.any(0), is_number.sum(0), np.nan
        )
    shape = means[columns[0]].shape
    return pd.DataFrame(
        [
            {"layer": a, "head": b, **{column: means[column][a, b] for column in columns}}
            for a, b in np.ndindex(*shape)
        ]
    )


def _by_head(heads: pd.DataFrame) -> Figure:
    figure, places = figures.panels(4, columns=2, width=4.6, height=3.6)
    columns = [name for name in heads.columns if " from " in name]
    for place, column in zip(places, columns, strict=True):
        grid = heads.pivot(index="layer", columns="head", values=column)
        title = f"{column} to [SEP]"
        figures.heat_map(
            grid.to_numpy(),
            [str(i) for i in grid.index],
            [str(i) for i in grid.columns],
            title=title,
            x_label="head",
            y_label="layer",
            axes=place,
        )
    return figure
