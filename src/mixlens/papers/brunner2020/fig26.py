"""Brunner et al. (2020), figures 26 to 37: which parts of speech retain the largest contribution
from their own input?
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mixlens.errors import InvalidInput
from mixlens.evaluations import context_contribution
from mixlens.papers.brunner2020 import paper
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.views import figures

SPEC = ExperimentSpec(
    title="own contribution by part of speech, for each layer",
    finding="nouns, verbs and adjectives keep the largest part of their own content",
    kinds=("tagged",),
    data=(
        "MRPC dev with part-of-speech tags; here a CoNLL-U file, such as those of Universal"
        " Dependencies"
    ),
    files=("ud_ewt/*dev.conllu", "*dev.conllu", "*.conllu"),
    also=tuple(f"fig{number}" for number in range(27, 38)),
    cost=paper.ATTRIBUTION_COST,
)

CONTENT, FUNCTION = (
    ("NOUN", "VERB", "ADJ"),
    ("DET", "ADP", "PUNCT", "AUX", "CCONJ", "SCONJ", "PART", "PRON"),
)


def run(setting: Setting, *, probes: int | None = 32) -> Outcome:
    """Run the experiment.

    `probes` is the number of random probes for each source token in Hidden Token Attribution. If
    `probes` is None, the attribution is computed exactly.
    """
    observations = setting.observe(
        {"shares": partial(context_contribution.observe, probes=probes, seed=setting.seed)}
    )
    tags = context_contribution.conclude(observations.answers["shares"]).details["tags"]
    if not tags:
        raise InvalidInput(
            "No token has a part-of-speech tag. Use tagged data, such as a CoNLL-U file."
        )
    medians = {tag: np.median(values, 1) for tag, values in tags.items()}
    table = pd.DataFrame(
        [
            {"tag": tag, "tokens": tags[tag].shape[1], "layer": layer, "median": float(value)}
            for tag, values in medians.items()
            for layer, value in enumerate(values)
        ]
    )
    means = {
        name: (
            float(np.mean([tags[tag][-1].mean() for tag in group if tag in tags]))
            if any(tag in tags for tag in group)
            else float("nan")
        )
        for name, group in (("content", CONTENT), ("function", FUNCTION))
    }
    is_decided = all(value == value for value in means.values())
    numbers = f"last layer: {means['content']:.3f} against {means['function']:.3f}"
    finding = Finding(
        "nouns, verbs and adjectives keep more of themselves than function words",
        means["content"] > means["function"] if is_decided else None,
        numbers,
    )
    plots = {"by_layer": figures.lines(medians, title="own contribution, median", y_label="share")}
    plots["last_layer"] = figures.boxes(
        {tag: values[-1] for tag, values in tags.items()},
        x_label="",
        y_label="share",
        title="last layer",
    )
    return Outcome({"by_layer": table}, plots, {}, [finding], observations.skipped)
