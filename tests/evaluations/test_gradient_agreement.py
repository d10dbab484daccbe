from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from scipy.stats import spearmanr

from mixlens import Lens
from mixlens.datasets.examples import Labelled
from mixlens.evaluating.case import Case
from mixlens.evaluating.sources import rank_agreement
from mixlens.evaluations import gradient_agreement
from tests.evaluations.released import released
from tests.evaluations.sentences import cases, lens

# Ferrando et al. (2022), table 2, SST-2: mean and spread
TABLE: dict[str, dict[str, tuple[float, float | None]]] = {
    "bert": {"rollout": (-0.03, 0.29), "norm": (0.41, 0.26), "ours": (0.55, 0.19)},
    "distilbert": {"rollout": (0.23, None), "norm": (0.29, None), "ours": (0.54, None)},
}


@pytest.mark.parametrize(
    ("model", "method"), [(model, method) for model, rows in TABLE.items() for method in rows]
)
def test_the_released_attributions_give_table_2(shared: Path, model: str, method: str) -> None:
    rows = released(shared, model)
    assert len(rows) == 500
    correlations = [
        rank_agreement(
            np.array(row[method]), np.array(row["grad"]), np.ones(len(row["grad"]), bool)
        )
        for row in rows
    ]
    theirs = [spearmanr(row[method], row["grad"]).statistic for row in rows]
    assert correlations == pytest.approx(theirs, abs=1e-12)
    result, (mean, spread) = gradient_agreement.conclude(correlations), TABLE[model][method]
    assert round(result.value, 2) == mean
    assert spread is None or round(result.details["std"], 2) == spread
    assert result.interval[0] < result.value < result.interval[1]


def test_it_is_the_correlation_of_the_rows() -> None:
    case = cases()[0]
    reference = case.maps("gradient_norm", of="probability", reduction="l2").scores[0, 0]
    row = case.target_row("alti")
    assert gradient_agreement.observe(case, "alti") == pytest.approx(
        spearmanr(row, reference).statistic, abs=1e-9
    )
    words = [i for i, label in enumerate(case.row.labels) if not label.startswith("[")]
    observation = gradient_agreement.observe(case, "alti", special=False, own=False)
    assert observation == pytest.approx(spearmanr(row[words], reference[words]).statistic, abs=1e-9)


@pytest.mark.parametrize("model", ["masked", "causal"])
def test_the_gradient_agrees_with_itself(model: str) -> None:
    result = gradient_agreement.evaluate(cases(model), "gradient_norm")
    assert result.per_example == pytest.approx(np.ones(4))
    assert abs(gradient_agreement.evaluate(cases(model), "random").value) < 0.9


def test_a_classifier_is_explained_by_its_own_class() -> None:
    torch.manual_seed(0)
    config = hf.BertConfig(  # type: ignore[call-arg]
        vocab_size=len(lens().tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        num_labels=3,
    )
    model = hf.BertForSequenceClassification(config).double().eval()
    case = Case(
        Lens(model, lens().tokenizer),
        Labelled(name="x", text="The keys are on the old table .", label="1"),
    )
    assert case.target == 0
    hidden = model.bert.embeddings(case.recording.inputs["input_ids"]).detach().requires_grad_()
    logits = model.classifier(model.bert.pooler(model.bert.encoder(hidden)[0]))
    torch.softmax(logits, -1).max().backward()
    expected = spearmanr(case.target_row("attention"), hidden.grad.norm(dim=-1)[0]).statistic
    assert gradient_agreement.observe(case, "attention") == pytest.approx(expected, abs=1e-9)
