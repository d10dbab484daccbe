"""Kobayashi et al. (2020), figure 6: do frequent tokens get less attention and have shorter
vectors?
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from mixlens.evaluations import norm_statistics
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting, verdict
from mixlens.papers.kobayashi2020 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="frequency rank of a token against the weight that it gets and against |f(x)|",
    finding=(
        "frequent tokens have short vectors (rank and norm correlate with rho 0.75), which "
        "the weights do not show (-0.08)"
    ),
    kinds=("text",),
    longest=paper.LONGEST,
    data=(
        f"{paper.DATA}; ranks of tokens in BERT's training text"
        " (bert_frequency_ranks.txt), else counted in these texts"
    ),
    files=paper.FILES,
    texts=paper.TEXTS,
    published={"bert-base-uncased": {"rank and weight": -0.08, "rank and norm": 0.75}},
)

BERT_VOCABULARY = 30522


def run(setting: Setting) -> Outcome:
    """Plot one point for each occurrence of a token."""
    ranks = _ranks(setting)
    observations = setting.observe({"norms": norm_statistics.observe})
    correlations = norm_statistics.frequencies(observations.answers["norms"], ranks)
    measured = {
        "rank and weight": float(correlations["weight"]),
        "rank and norm": float(correlations["norm"]),
    }
    table = pd.DataFrame(
        {
            key: correlations[key]
            for key in ("token", "rank", "category", "token_weight", "token_norm")
        }
    )
    figure, places = figures.panels(2, columns=2)
    for place, (key, name) in zip(
        places, (("token_weight", "weight"), ("token_norm", "|f(x)|")), strict=True
    ):
        figures.scatter(
            table["rank"], table[key], x_label="frequency rank", y_label=name, axes=place
        )
    numbers = (
        f"rho {measured['rank and norm']:.2f} of norm, {measured['rank and weight']:.2f} of weight"
    )
    finding = Finding(
        "rare tokens have longer vectors",
        verdict(measured["rank and norm"] > 0.2, measured["rank and norm"]),
        numbers,
    )
    notes = "Ranks are of BERT's training text." if ranks else "Ranks were counted in these texts."
    return Outcome(
        {"tokens": table}, {"fig6": figure}, measured, [finding], observations.skipped, notes
    )


def _ranks(setting: Setting) -> dict[int, int] | None:
    """Return the frequency rank of each token id from the authors' file.

    Return None if the file is not available, or if the model does not use BERT's vocabulary.
    """
    folder = setting.context.get("data_folder")
    path = Path(folder) / "bert_frequency_ranks.txt" if folder is not None else None
    if (
        path is None
        or not path.is_file()
        or getattr(setting.lens.model.config, "vocab_size", None) != BERT_VOCABULARY
    ):
        return None
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {int(token): int(rank) for rank, _, token in rows}
