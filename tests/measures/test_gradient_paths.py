"""Integrated gradients along other paths: against inseq, loops and differences of outputs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import InvalidInput, Lens, UnsupportedModel
from tests import reference
from tests.measures import models
from tests.measures import oracles_intervention as oracles
from tests.measures.test_gradients import HEADS, LAYERS, build, inputs, number, options


@pytest.mark.parametrize("baseline", ["zero", "pad"])
def test_sequential_gradients_are_those_of_inseq(baseline: str) -> None:
    numbers = reference.arrays("inseq/numbers.npz")
    model = reference.pretrained("chefer2021/bert", "BertForSequenceClassification")
    recorded = Lens(model).record({"input_ids": torch.from_numpy(numbers["ids"])})
    chosen: dict[str, Any] = {"label": 2, "of": "logit", "baseline": baseline}
    made = models.scores("integrated_gradients", recorded, path="sequential", steps=8, **chosen)
    np.testing.assert_allclose(
        made.values[0, 0, 0], numbers[f"sequential/{baseline}"], rtol=0, atol=1e-6
    )  # Captum keeps its steps in float32


@pytest.mark.parametrize("name", ["masked", "causal", "translator"])
def test_sequential_gradients_replace_one_token(name: str) -> None:
    """The oracle: one token at a time, one step at a time. Each score is what the output loses."""
    model, given = build(name), inputs(name)
    run, hidden = oracles.as_function_of_layer_input(
        model, LAYERS[name](model)[1], given, number(name, "logit")
    )
    points, weights = np.polynomial.legendre.leggauss(6)
    expected = []
    for token in range(hidden.shape[1]):
        total = torch.zeros_like(hidden[0, token])
        for point, weight in zip(points, weights, strict=True):
            moved = hidden.clone()
            moved[0, token] *= (point + 1) / 2
            total += weight / 2 * oracles.gradient(run, moved)[token]
        expected.append((total * hidden[0, token]).sum())
    made = models.scores(
        "integrated_gradients",
        Lens(model).record(given),
        layers=[1],
        of="logit",
        steps=6,
        path="sequential",
        **options(name),
    )
    torch.testing.assert_close(made.values[0, 0, 0], torch.stack(expected), atol=1e-10, rtol=1e-9)
    without = hidden.clone()
    without[0, 2] = 0
    change = run(hidden) - run(without)
    error = made.extras["completeness_error"][0, 0, 2]
    torch.testing.assert_close(made.values[0, 0, 0, 2] - error, change, atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("anchors", ["greedy", "maxcount"])
def test_discretised_gradients_are_those_of_inseq(anchors: str) -> None:
    """All other words are neighbours: the model has fifty. inseq keeps its points in float32."""
    numbers = reference.arrays("inseq/numbers.npz")
    model = reference.pretrained("chefer2021/bert", "BertForSequenceClassification")
    recorded = Lens(model).record({"input_ids": torch.from_numpy(numbers["ids"])})
    chosen: dict[str, Any] = {"label": 2, "of": "logit", "baseline": "pad", "path": "discretised"}
    made = models.scores("integrated_gradients", recorded, steps=10, anchors=anchors, **chosen)
    np.testing.assert_allclose(
        made.values[0, 0, 0], numbers[f"discretised/{anchors}/49"], rtol=0, atol=1e-6
    )
    blank = model(input_ids=torch.zeros_like(recorded.inputs["input_ids"])).logits[0, 2]
    change = recorded.output.logits[0, 2] - blank
    off = made.extras["completeness_error"][0, 0]
    torch.testing.assert_close(made.values.sum() - off, change, atol=1e-10, rtol=0)


def test_discretised_paths_of_texts_leave_special_tokens_alone() -> None:
    """Padding and the batch change nothing."""
    lens = Lens.bundled(dtype=torch.float64)
    chosen: dict[str, Any] = {"path": "discretised", "baseline": "mask", "steps": 4}
    texts = ["The dogs [MASK] here.", "The pictures of some hat [MASK] scaring Marcus."]
    both = lens.measure("integrated_gradients", texts, **chosen)
    alone = lens.measure("integrated_gradients", texts[0], **chosen)
    np.testing.assert_allclose(both[0].scores, alone.scores, rtol=0, atol=1e-10)
    row = alone.scores[0, 0]
    assert row[0] == row[-1] == row[3] == 0  # [CLS], [SEP], [MASK]
    assert (np.delete(row, [0, 3, len(row) - 1]) != 0).all()


@pytest.mark.parametrize("path", ["sequential", "discretised"])
@pytest.mark.parametrize("name", sorted(HEADS.keys() - {"causal", "gpt_neox"}))  # no padding word
def test_scores_without_their_errors_are_changes_of_the_output(name: str, path: str) -> None:
    """On every architecture: the change if one word is replaced, or all of them."""
    model, given = build(name), inputs(name)
    recorded, output = Lens(model).record(given), number(name, "logit")
    chosen: dict[str, Any] = {"baseline": "pad", "steps": 4, "of": "logit", **options(name)}
    made = models.scores("integrated_gradients", recorded, path=path, **chosen)
    scores, errors = made.values[0, 0, 0], made.extras["completeness_error"][0, 0]
    whole = path == "discretised"
    changes = [scores.sum() - errors] if whole else (scores - errors).unbind()
    for place, change in enumerate(changes):
        ids = given["input_ids"].clone()
        ids[:, slice(None) if whole else place] = model.config.pad_token_id
        with torch.no_grad():
            expected = output(recorded.output) - output(model(**{**given, "input_ids": ids}))
        torch.testing.assert_close(change, expected, atol=1e-9, rtol=1e-9)


def test_paths_that_there_are_not() -> None:
    recorded = Lens(build("masked")).record(inputs("masked"))
    ask = functools.partial(models.scores, "integrated_gradients", recorded, **options("masked"))
    for wrong in (
        {"path": "winding"},
        {"path": "discretised"},
        {"path": "discretised", "baseline": "pad", "anchors": "all"},
        {"path": "discretised", "baseline": "pad", "steps": 1},
    ):
        with pytest.raises(InvalidInput):
            ask(**wrong)
    with pytest.raises(UnsupportedModel, match="only the first layer reads"):
        ask(path="discretised", baseline="pad", layers=[1])
