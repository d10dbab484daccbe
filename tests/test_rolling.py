"""The rollout of a few targets equals the product of whole maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mixlens import Lens, MixingMaps
from mixlens.errors import InvalidInput
from tests.conformance.zoo import ZOO, built, inputs
from tests.kernels.decompositions import LargestTensor


def one_text(name: str) -> dict[str, Any]:
    given = inputs(name)
    mask = given.get("attention_mask")
    length = given["input_ids"].shape[1] if mask is None else int(mask[0].sum())
    return {"input_ids": given["input_ids"][:1, :length]}


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma2", "mixtral"])
@pytest.mark.parametrize("budget", [None, 1])
def test_rows_of_the_product_are_those_of_the_product_of_maps(
    name: str, budget: int | None
) -> None:
    """`budget`: of one byte, so that each row is a block of its own. Some models take softmax or
    norms in float32, whatever their dtype.
    """
    exact = 1e-12 if ZOO[name].float64_inside else 1e-6
    lens = Lens(built(name).double(), memory_budget=budget)
    given = one_text(name)
    for measure in ("attention", "attention_norm", "alti", "value_zeroing"):
        whole = lens.measure(measure, given)
        assert isinstance(whole, MixingMaps)
        expected = whole.rollout().at(targets=[-1, 1])
        made = lens.rollout(measure, given, [-1, 1])
        assert made.provenance["recorded"] == "rows"
        np.testing.assert_allclose(made.scores, expected.scores, rtol=0, atol=exact)
        assert made.facts == expected.facts
        assert made.tokens == expected.tokens
        assert made.provenance["steps"] == expected.provenance["steps"]
    mixed = whole.rollout(0.3, False).at(targets=[2])
    made = lens.rollout("value_zeroing", given, 2, residual=0.3, normalise=False)
    np.testing.assert_allclose(made.scores, mixed.scores, rtol=0, atol=exact)


def test_nothing_as_large_as_a_map_is_made() -> None:
    model = built("llama")
    model.config.max_position_embeddings = 1024
    tokens = 400
    given = {"input_ids": torch.arange(tokens)[None] % 90 + 3}
    lens = Lens(model, memory_budget=2**20)
    lens.rollout("attention_norm", {"input_ids": given["input_ids"][:, :20]}, [-1])  # proofs
    with LargestTensor() as largest:
        lens.rollout("attention_norm", given, [-1])
    assert largest.numbers < tokens * tokens


def test_generated_words_roll_out_to_the_prompt() -> None:
    lens = Lens.bundled("causal")
    rows = lens.generate("The keys to the cabinet", answer=" are on the table")
    made = lens.rollout("alti", rows)
    assert made.tokens == ("Ġare", "Ġon", "Ġthe", "Ġtable")
    whole = lens.measure("alti", "The keys to the cabinet are on the").rollout()
    np.testing.assert_allclose(made.scores, whole.scores[:, list(made.target_positions)], atol=2e-6)
    assert lens.rollout("alti", rows, ["table"]).target_positions == made.target_positions[-1:]
    assert made.segments().source_tokens == ("(first token)", "prompt", "answer")


def test_unsupported_targets_are_rolled_out_from_maps() -> None:
    lens, given = Lens(built("bloom")), one_text("bloom")
    made = lens.rollout("alti", given, [2])
    whole = lens.measure("alti", given)
    assert isinstance(whole, MixingMaps)
    assert made.provenance["recorded"].startswith("maps: ")
    np.testing.assert_allclose(made.scores, whole.rollout().at(targets=[2]).scores, atol=1e-6)
    with pytest.raises(InvalidInput, match="scores are signed"):
        Lens.bundled("causal").rollout("effective_attention", "The keys are old.", [-1])
    with pytest.raises(InvalidInput, match="No targets were passed"):
        lens.rollout("alti", given)


def test_a_rollout_reports_its_time_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lens = Lens.bundled("causal")
    text = "The keys to the old cabinet near the door are on the table. " * 6
    rows = lens.generate(text, answer=" They are old")
    with pytest.raises(InvalidInput, match=r"rollout of value_zeroing over .* takes about .* s,"):
        lens.rollout("value_zeroing", rows, budget=0.001)
    with pytest.raises(InvalidInput, match="budget=-1 is"):
        lens.rollout("attention", rows, budget=-1)
    plain = lens.rollout("attention", rows)
    assert lens.rollout("attention", rows, budget=1000) == plain
    monkeypatch.setattr("mixlens.measuring.timing.LONG", 0.001)
    monkeypatch.setattr("mixlens.measuring.timing._TOKENS", 16)
    with pytest.warns(UserWarning, match="takes about .* Pass budget=SECONDS"):
        assert lens.rollout("attention", text, targets=-1).scores.shape[1] == 1
