"""Kobayashi et al. (2020), table 3, figures 7, 8 and 13 to 17: word alignments from the
cross-attention of a translation model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from mixlens.evaluating.case import Case
from mixlens.evaluations import word_alignment
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.views import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPEC = ExperimentSpec(
    title=(
        "alignment error rate by layer and measure, at the decoder step that reads (AWI) or "
        "predicts (AWO) a word"
    ),
    finding=(
        "norms align far better than weights, with error rates of 28.3 and 51.9 % in the best"
        " layer, and 61.6 and 81.4 % in the mean of the layers (AWO)"
    ),
    kinds=("alignment",),
    data="508 German-English sentence pairs with gold alignments (Vilar et al. 2006)",
    files=("alignment_de_en",),
    models=(),  # the paper's translation models are not published
    needs="translation",
    cost="each measure once for each pair",
    also=("fig7", "fig8", *(f"fig{number}" for number in range(13, 18))),
)

CLEARLY = 0.005  # AER

MEASURES = ("attention", "attention_norm", "alti", "value_zeroing")


def run(setting: Setting, *, names: Sequence[str] = MEASURES, eos: str = "drop") -> Outcome:
    """Run the experiment.

    `eos` defines how links to the end token are treated ("drop" or "exclude"). `names` lists the
    measures.
    """
    keys = [(name, how) for name in names for how in word_alignment.SETTINGS]
    questions = {
        key: partial(word_alignment.observe, measure=key[0], setting=key[1], eos=eos)
        for key in keys
    }
    observations = setting.observe({**questions, ("maps", ""): partial(_soft, names=names)})
    maps = observations.answers.pop(("maps", ""))
    results = {
        key: word_alignment.conclude(answers) for key, answers in observations.answers.items()
    }
    rows = [
        {
            "measure": name,
            "setting": how,
            "layer": layer,
            "AER": rate,
            "precision": result.details["precision"][layer],
            "recall": result.details["recall"][layer],
        }
        for (name, how), result in results.items()
        for layer, rate in enumerate(result.details["aer"])
    ]
    best = [
        {
            "measure": name,
            "setting": how,
            "best layer": r.details["best_layer"],
            "AER": r.value,
            "low": r.interval[0],
            "high": r.interval[1],
            "mean of layers": r.details["mean_aer"],
            "layer chosen on the other half": r.details["held_out_aer"],
        }
        for (name, how), r in results.items()
    ]
    plots = {
        how: figures.lines(
            {n: r.details["aer"] for (n, h), r in results.items() if h == how},
            title=f"{how}",
            y_label="AER",
        )
        for how in word_alignment.SETTINGS
    }
    plots["soft_alignment"] = _draw_alignment(maps[0])
    measured = {f"{name} {how} best layer": r.value for (name, how), r in results.items()}
    tables = {"best": pd.DataFrame(best), "by_layer": pd.DataFrame(rows)}
    return Outcome(tables, plots, measured, _findings(measured), observations.skipped)


def _findings(measured: dict[str, float]) -> list[Finding]:
    findings = []
    for how in word_alignment.SETTINGS:
        weight, norm = (
            measured.get(f"{name} {how} best layer", float("nan"))
            for name in ("attention", "attention_norm")
        )
        findings.append(
            Finding(
                f"norms align better than weights, {how}",
                verdict(norm < weight - CLEARLY, norm, weight),
                f"{norm:.3f} against {weight:.3f}",
            )
        )
    return findings


def _soft(case: Case, names: Sequence[str]) -> dict[str, Any]:
    example = case.example
    alignments = {name: word_alignment.soft_alignment(case, name)[0] for name in names}
    return {
        "source": list(getattr(example, "source", ())),
        "target": list(getattr(example, "target", ())),
        "maps": alignments,
    }


def _draw_alignment(answer: dict[str, Any]) -> Figure:
    """Plot the soft alignments of the first sentence pair, in the layer with the clearest
    maxima.
    """
    source, target, maps = answer["source"], answer["target"], answer["maps"]
    figure, places = figures.panels(
        len(maps), columns=len(maps), width=0.3 * len(source) + 2, height=0.3 * len(target) + 1.6
    )
    for place, (name, values) in zip(places, maps.items(), strict=True):
        shares = values / values.sum(-1, keepdims=True).clip(1e-30)
        layer = int(shares.max(-1).mean(-1).argmax())
        figures.heat_map(shares[layer], target, source, title=f"{name}, layer {layer}", axes=place)
    return figure
