"""Ferrando et al. (2022), figure 3: are block outputs, and the transformed vectors that sum to
them, isotropic?
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixlens.evaluations import anisotropy
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.ferrando2022 import paper
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="mean cosine similarity of block outputs and of transformed vectors by layer",
    finding=(
        "the outputs point in similar directions, but the transformed vectors do not, so "
        "distances between transformed vectors are meaningful"
    ),
    kinds=("text",),
    data="sentences of SST-2",
    files=paper.FILES,
    models=("bert-base-uncased", "distilbert-base-uncased", "roberta-base"),
    texts=500,
    cost="one forward pass and n^2 d_model for each layer and text",
)


def run(setting: Setting) -> Outcome:
    """Return the mean cosine over all pairs of vectors, for each layer."""
    observations = setting.observe({"vectors": anisotropy.observe})
    details = anisotropy.conclude(observations.answers["vectors"]).details
    outputs, transformed = np.asarray(details["outputs"]), np.asarray(details["transformed"])
    table = pd.DataFrame(
        {
            "layer": np.arange(len(outputs)),
            "block outputs": outputs,
            "transformed vectors": transformed,
        }
    )
    more = int((outputs > transformed).sum())
    finding = Finding(
        "block outputs are more alike than transformed vectors",
        more == len(outputs),
        f"in {more} of {len(outputs)} layers; mean {outputs.mean():.2f} against"
        f" {transformed.mean():.2f}",
    )
    series = {"block outputs": outputs, "transformed vectors": transformed}
    figure = figures.lines(series, title="mean cosine similarity of two vectors", y_label="cosine")
    return Outcome({"by_layer": table}, {"fig3": figure}, {}, [finding], observations.skipped)
