"""The authors' own numbers: what their code returns for seven tokens on small random models in
float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixlens import Lens
from mixlens.recording.recording import Recording
from tests import reference
from tests.measures import models

pytestmark = pytest.mark.smoke

Recorded = tuple[Recording, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return reference.four_papers()


@pytest.mark.parametrize(
    ("measure", "per_head", "key", "options", "tolerance"),
    [
        ("attention", True, "attention", {}, 1e-10),
        ("effective_attention", True, "effective_attention", {}, 1e-10),
        ("attention_norm", False, "attention_norm", {}, 1e-10),
        ("attention_norm", True, "attention_norm.per_head", {}, 1e-10),
        ("attention_norm_res", False, "attention_norm_res", {}, 1e-10),
        ("attention_norm_res_ln", False, "attention_norm_res_ln", {}, 1e-10),
        ("globenc", False, "globenc", {}, 1e-10),
        ("alti", False, "alti", {}, 2e-6),
        ("alti", False, "alti", {"variant": "released"}, 1e-10),
        ("value_zeroing", False, "value_zeroing", {}, 1e-10),
    ],
)
def test_scores_are_the_authors(
    recorded: Recorded,
    measure: str,
    per_head: bool,
    key: str,
    options: dict[str, Any],
    tolerance: float,
) -> None:
    recording, numbers = recorded
    made = models.scores(measure, recording, per_head=per_head, **options).values[:, 0].numpy()
    np.testing.assert_allclose(made, numbers[key], atol=tolerance, rtol=0)


def test_rolled_out_value_zeroing_is_the_authors(recorded: Recorded) -> None:
    recording, numbers = recorded
    made = models.scores("value_zeroing", recording).values[:, 0].numpy()
    rolled = made / made.sum(-1, keepdims=True)
    for layer in range(1, len(rolled)):
        rolled[layer] = rolled[layer] @ rolled[layer - 1]
    np.testing.assert_allclose(rolled, numbers["value_zeroing.rollout"], atol=1e-10, rtol=0)


def test_mixing_ratio_is_the_authors(recorded: Recorded) -> None:
    recording, numbers = recorded
    made = models.scores("attention_norm_res_ln", recording).extras["mixing_ratio"][:, 0].numpy()
    np.testing.assert_allclose(made, numbers["mixing_ratio_res_ln"], atol=1e-10, rtol=0)


def test_the_parts_are_the_authors(recorded: Recorded) -> None:
    recording, numbers = recorded
    for index, layer in enumerate(recording.layers()):
        site = layer.site()
        np.testing.assert_allclose(
            site.transformed().norm(dim=-1)[0].numpy(), numbers["norm_f"][index], atol=1e-10, rtol=0
        )
        np.testing.assert_allclose(
            site.block_output[0].numpy(), numbers["resultants"][index], atol=1e-10, rtol=0
        )


def test_alti_of_a_decoder_is_the_authors() -> None:
    """Their code shifts every difference by 1e-6, and counts what a target cannot see."""
    numbers = reference.arrays("alti_logit/alti_logit.npz")
    lens = Lens(reference.alti_logit())
    recording = lens.record({"input_ids": reference.tokens(numbers["ids"])})
    made = models.scores("alti", recording).values[:, 0].numpy()
    np.testing.assert_allclose(made, numbers["alti_layer"], atol=5e-6, rtol=0)
    released = models.scores("alti", recording, variant="released").values[:, 0].numpy()
    np.testing.assert_allclose(released, numbers["alti_layer"], atol=1e-10, rtol=0)
