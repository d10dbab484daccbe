"""The models and data of each entry, and the commands that run it.

Models and data are names below the folder that `training.leaderboard.models` makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

BUNDLED = "mixlens/bundled/"


@dataclass(frozen=True, kw_only=True)
class OfModels:
    """What is run on one model, or on two that are compared."""

    model: str
    other: str | None = None

    @property
    def models(self) -> list[str]:
        return [name for name in (self.model, self.other) if name is not None]


@dataclass(frozen=True, kw_only=True)
class Row(OfModels):
    """One benchmark: every measure by every evaluation that fits the data, unless some are named.

    `texts` is the size of the sample; None: all that there are.
    """

    data: str | None = None
    texts: int | None = None
    evaluations: str = "all"
    measures: str = "all"
    large: bool = False  # is the model large enough that a GPU pays?

    def arguments(self, folder: str) -> list[str]:
        """Of `mixlens`, with the folder of models and data in front of their names."""
        parts = ["benchmark", "--model", below(folder, self.model)]
        for option, value in (
            ("--data", self.data and below(folder, self.data)),
            ("--sample", self.texts and str(self.texts)),
            ("--measures", None if self.measures == "all" else self.measures),
            ("--evaluations", None if self.evaluations == "all" else self.evaluations),
            ("--other-model", self.other and below(folder, self.other)),
        ):
            parts += [option, value] if value else []
        return parts

    def shortened(self, texts: int | None) -> Row:
        """With at most so many texts: a quick look."""
        if texts is None or (self.texts is not None and self.texts <= texts):
            return self
        return replace(self, texts=texts)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model that is fine-tuned first."""

    task: str
    model: str
    data: str
    options: tuple[str, ...] = ()
    held_out: str | None = None

    def arguments(self, folder: str, out: str) -> list[str]:
        """Of `mixlens`."""
        parts = ["finetune", self.task, "--model", below(folder, self.model)]
        parts += ["--data", below(folder, self.data), "--out", out, *self.options]
        return parts + (["--held-out", below(folder, self.held_out)] if self.held_out else [])


def below(folder: str, name: str) -> str:
    """Where a model or data set is: in the folder, unless it is bundled."""
    return name if name.startswith(BUNDLED) else str(Path(folder) / name)


def _sst2(model: str) -> Trained:
    return Trained(
        task="classification",
        model=model,
        data="sst2/train_sentences.tsv",
        held_out="sst2/dev.tsv",
    )


TRAINED = {
    "gte-prompt": Trained(
        task="prompt",
        model="gte-small",
        data="blimp_cues",
        options=("--epochs", "10", "--lr", "1e-4", "--batch", "32"),
    ),
    "gte-sst2": _sst2("gte-small"),
    "minilm-sst2": _sst2("minilm"),
    "masked-sst2": _sst2("mixlens/bundled/masked"),
}

MASKED, CAUSAL = f"{BUNDLED}masked", f"{BUNDLED}causal"
SST2 = "sst2/test.tsv"
# An output measure explains one word at a time: of a pair of sentences it takes minutes.
CROSS = "alti,attention,attention_norm,effective_attention,value_zeroing"

# In the order in which they are run.
ROWS = {
    "gte-prompt-blimp": Row(model="gte-prompt", data="blimp_unseen", texts=150, large=True),
    "gte-sst2": Row(model="gte-sst2", data=SST2, texts=100, other="minilm-sst2", large=True),
    "masked-blimp": Row(model=MASKED, data="blimp_unseen", texts=240),
    "causal-evidence": Row(model=CAUSAL, data="logit_explanations", texts=240),
    "stories-evidence": Row(model="stories15M", data="logit_explanations", texts=240),
    "smollm2-evidence": Row(model="smollm2", data="logit_explanations", texts=60, large=True),
    "rxnfp-molecules": Row(model="rxnfp", data="molecules", texts=60),
    "rxnmapper-molecules": Row(model="rxnmapper", data="molecules", texts=60),
    "minilm-sst2": Row(model="minilm-sst2", data=SST2, texts=100, other="masked-sst2", large=True),
    "masked-sst2": Row(model="masked-sst2", data=SST2, texts=60, other="minilm-sst2"),
    "masked-linzen": Row(model=MASKED, data="linzen_agreement", texts=60),
    "causal-linzen": Row(model=CAUSAL, data="linzen_agreement", texts=60),
    "gte-prompt-linzen": Row(model="gte-prompt", data="linzen_agreement", texts=60, large=True),
    "opus-alignment": Row(
        model="opus-mt-en-fr", data="alignment_en_fr", measures=CROSS, evaluations="word_alignment"
    ),
    "truth": Row(model=MASKED, evaluations="planted_truth,compiled_truth"),
}
