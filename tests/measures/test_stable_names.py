"""Stable names, options and shapes of the measures since 2023.

Through `lens.measure`, on the reference models. Without `variant=` the clean definition is
computed. Where the numbers are from: `tests/reference/README.md`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens, MixingMaps
from tests import reference
from tests.measures import models, test_gradients

N = 7  # tokens of every reference text


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


@pytest.fixture(scope="module")
def classifier() -> tuple[Lens, dict[str, Any]]:
    given = reference.arrays("decompx/inputs.npz")
    return Lens(reference.decompx()), {name: torch.from_numpy(v) for name, v in given.items()}


@pytest.fixture(scope="module")
def decoder() -> tuple[Lens, dict[str, Any]]:
    ids = reference.arrays("alti_logit/alti_logit.npz")["ids"]
    return Lens(reference.alti_logit()), {"input_ids": reference.tokens(ids)}


def test_decompx(classifier: tuple[Lens, dict[str, Any]]) -> None:
    """The cumulative norms [layer, target, source], and the signed shares of one logit."""
    (lens, x), results = classifier, reference.arrays("decompx/results.npz")
    paper = reference.arrays("decompx/ours_paper_literal.npz")
    released = one(lens.measure("decompx", x, variant="released"))
    assert released.scores.shape == (3, N, N)
    np.testing.assert_allclose(released.scores, results["default/encoder_norm"][:, 0], atol=1e-10)
    clean = one(lens.measure("decompx", x))
    np.testing.assert_allclose(clean.scores, paper["default/encoder_norm"][:, 0], atol=1e-9)
    logit = one(lens.measure("decompx_logit", x, label=2, variant="released"))
    assert logit.scores.shape == (1, 1, N)
    expected = results["default/classifier"][0, :, 2]
    np.testing.assert_allclose(logit.scores[0, 0], expected, atol=1e-10)
    assert logit.facts.signed


def test_alti_logit_and_logit_update(decoder: tuple[Lens, dict[str, Any]]) -> None:
    """By layer, [layer, 1, source]; `logit_update` is the same without mixing."""
    (lens, x), numbers = decoder, reference.arrays("alti_logit/alti_logit.npz")
    chosen: dict[str, Any] = {"word": 5, "foil": 9}
    for measure, key in (("alti_logit", "x_j_alti"), ("logit_update", "x_j")):
        made = one(lens.measure(measure, x, variant="released", **chosen))
        assert made.scores.shape == (3, 1, N)
        expected = numbers[f"pair0_logit_aff_{key}_contrast_layers"]
        np.testing.assert_allclose(made.scores[:, 0], expected, atol=1e-10)
    clean = reference.arrays("alti_logit/ours_clean_variant.npz")["pair0_alti_logit"]
    made = one(lens.measure("alti_logit", x, **chosen))
    np.testing.assert_allclose(made.scores[:, 0], clean[0] - clean[1], atol=1e-10)


def test_flow_routes(decoder: tuple[Lens, dict[str, Any]]) -> None:
    """Head-summed attention edges with the residual on the diagonal; heads with `per_head`."""
    (lens, x), clean = decoder, reference.arrays("alti_logit/ours_clean_variant.npz")
    maps = one(lens.measure("flow_routes", x))
    kept = clean["attn_resid"][..., None] * np.eye(N)
    np.testing.assert_allclose(maps.scores, clean["attn_edge"].sum(-1) + kept, atol=1e-10)
    heads = one(lens.measure("flow_routes", x, per_head=True))
    np.testing.assert_allclose(heads.scores, clean["attn_edge"].transpose(0, 3, 1, 2), atol=1e-10)


def test_feed_forward_scope_and_gradient() -> None:
    numbers = reference.arrays("kobayashi2024/numbers.npz")
    lens = Lens(reference.pretrained("kobayashi2024/bert", "BertModel"))
    x = {"input_ids": reference.tokens(numbers["input_ids"])}
    made = one(lens.measure("attention_norm_ff_res_ln", x, bias="joint"))
    np.testing.assert_allclose(made.scores, numbers["bert/joint/AtbFfResLn"], atol=1e-10)
    default = one(lens.measure("attention_norm_ff_res_ln", x))
    np.testing.assert_array_equal(default.scores, made.scores)
    theirs = reference.arrays("chefer2021/numbers.npz")
    lens = Lens(reference.pretrained("chefer2021/bert", "BertForSequenceClassification"))
    x = {"input_ids": reference.tokens(theirs["input_ids"])}
    maps = one(lens.measure("attention_gradient", x, label=int(theirs["bert/label"])))
    np.testing.assert_allclose(maps.scores, theirs["bert/cams"], atol=1e-13)


def test_context_cite_and_paths() -> None:
    lens = Lens.bundled("causal")
    given = ("The keys are here. The dogs sleep.", "Where?", " Here.")
    cited = lens.context_cite(*given, segments="sentences", ablations=4, seed=0, held_out=2)
    assert cited.scores.shape == (2,)
    recording = Lens(test_gradients.build("masked")).record(test_gradients.inputs("masked"))
    for path in ("sequential", "discretised"):
        made = models.scores(
            "integrated_gradients",
            recording,
            path=path,
            baseline="pad",
            steps=3,
            **test_gradients.options("masked"),
        )
        assert made.values.shape == (1, 1, 1, 6)


def test_all_of_them_are_listed() -> None:
    since = {"decompx", "decompx_logit", "alti_logit", "logit_update", "flow_routes"}
    since |= {"attention_norm_ff", "attention_norm_ff_res", "attention_norm_ff_res_ln"}
    assert since | {"attention_gradient"} <= set(mixlens.list_measures())


def test_the_tests_that_the_documentation_names() -> None:
    """The table of docs/measures.md has a test for each check of each of these measures."""
    root = Path(__file__).parents[2]
    named = re.findall(r"`(\S+\.py)::(test_\w+)`", (root / "docs" / "measures.md").read_text())
    assert len(named) > 25
    for file, test in named:
        path = root / (file if file.startswith("tests/") else f"tests/measures/{file}")
        assert f"\ndef {test}(" in path.read_text(), f"{file}::{test}"
