from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, NonFiniteActivations
from mixlens.contracts import AttentionKind
from tests.measures import models, oracles


@pytest.mark.parametrize("constraint", ["none", "sum"])
@pytest.mark.parametrize("length", [*models.LENGTHS, 14])
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_agrees_with_the_loops(name: str, site: str, length: int, constraint: str) -> None:
    made = models.scores(
        "effective_attention",
        models.recording(name, length),
        site=site,
        per_head=True,
        constraint=constraint,
    )
    for layer, block in enumerate(
        oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    ):
        expected = oracles.effective_attention(block, ones=constraint == "sum")
        torch.testing.assert_close(made.values[layer, 0], expected, atol=1e-10, rtol=0)
        torch.testing.assert_close(
            made.extras["null_attention"][layer, 0], block.attention - expected, atol=1e-10, rtol=0
        )
        ranks = torch.tensor([int(torch.linalg.matrix_rank(f)) for f in block.f])
        assert torch.equal(made.extras["rank"][layer, 0], ranks)
        assert torch.equal(made.extras["null_dimension"][layer, 0], block.shape[1] - ranks)


@pytest.mark.parametrize("constraint", ["none", "sum", "simplex"])
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_the_output_stays_and_the_future_stays_zero(name: str, site: str, constraint: str) -> None:
    recorded = models.recording(name, 14)
    made = models.scores(
        "effective_attention", recorded, site=site, per_head=True, constraint=constraint
    ).values
    kind = AttentionKind.CROSS if site == "cross" else AttentionKind.SELF
    for layer, effective in zip(recorded.layers(site), made, strict=True):
        parts = layer.site(kind)
        torch.testing.assert_close(
            effective @ parts.values, parts.weights @ parts.values, atol=1e-10, rtol=0
        )
        if parts.structure.causal:
            assert not effective.triu(1).any()
        if constraint != "none":
            torch.testing.assert_close(effective.sum(-1), parts.weights.sum(-1), atol=1e-10, rtol=0)


def test_simplex_rows_are_the_shortest_distributions() -> None:
    """Karush-Kuhn-Tucker: on its positive weights the row is a combination of T's columns and the
    ones, elsewhere that is not above it.
    """
    model = models.randomised(models.BUILDERS["bert"]())
    with torch.no_grad():
        model.encoder.layer[0].attention.self.query.weight.mul_(
            20
        )  # peaked attention, so that the signs matter
    recorded = Lens(model).record(models.inputs("bert", 14))
    made = models.scores("effective_attention", recorded, per_head=True, constraint="simplex")
    assert not made.facts.signed
    assert made.values.min() >= 0
    site = recorded.layers()[0].site()
    active = 0
    for head in range(4):
        columns = torch.cat([site.values[0, head], torch.ones(14, 1, dtype=torch.float64)], 1)
        for row in made.values[0, 0, head]:
            used = row > 1e-9
            active += int((~used).sum())
            multipliers = torch.linalg.lstsq(columns[used], row[used, None]).solution
            torch.testing.assert_close(
                columns[used] @ multipliers, row[used, None], atol=1e-8, rtol=0
            )
            if used.sum() >= columns.shape[1]:
                assert (columns[~used] @ multipliers <= 1e-8).all()
    assert active > 0  # else the constraint was never met


def test_equals_attention_where_tokens_are_few() -> None:
    recorded = models.recording("bert", 4)
    made = models.scores("effective_attention", recorded, per_head=True)
    assert torch.equal(made.values, models.scores("attention", recorded, per_head=True).values)


@pytest.mark.parametrize("lengths", [[14, 3], [3, 14, 6]])
@pytest.mark.parametrize("constraint", ["none", "sum"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_padding_is_no_part_of_the_values(name: str, constraint: str, lengths: list[int]) -> None:
    batched = models.scores(
        "effective_attention",
        Lens(models.build(name)).record(models.padded_inputs(name, lengths)),
        per_head=True,
        constraint=constraint,
    )
    for row, length in enumerate(lengths):
        alone = models.scores(
            "effective_attention",
            models.recording(name, length, seed=row),
            per_head=True,
            constraint=constraint,
        )
        bar = 1e-6 if name in models.FLOAT32_SOFTMAX else 1e-10
        torch.testing.assert_close(
            batched.values[:, row, :, :length, :length], alone.values[:, 0], atol=bar, rtol=0
        )
        for key in ("rank", "null_dimension"):
            assert torch.equal(batched.extras[key][:, row], alone.extras[key][:, 0])


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_chosen_targets_are_rows_of_the_whole_map(name: str) -> None:
    recorded = models.recording(name, 14)
    whole = models.scores("effective_attention", recorded).values
    made = models.scores("effective_attention", recorded, targets=[13, 0, 6]).values
    torch.testing.assert_close(made, whole[:, :, [13, 0, 6]], atol=1e-10, rtol=0)


def test_equal_tokens_share_their_weight() -> None:
    """Without positions in the values, the first layer cannot tell equal tokens apart: each gets
    the mean of their weights.
    """
    ids = torch.tensor([[5, 6, 5, 7, 5, 8]])
    recorded = Lens(models.build("llama")).record({"input_ids": ids})
    raw = models.scores("attention", recorded, per_head=True).values[0, 0]
    made = models.scores("effective_attention", recorded, per_head=True).values[0, 0]
    torch.testing.assert_close(
        made[:, 3, [0, 2]],
        raw[:, 3, [0, 2]].mean(-1, keepdim=True).expand(-1, 2),
        atol=1e-10,
        rtol=0,
    )
    torch.testing.assert_close(made[:, 3, [1, 3]], raw[:, 3, [1, 3]], atol=1e-10, rtol=0)
    site = recorded.layers()[0].site()
    torch.testing.assert_close(
        made @ site.values[0], site.weights[0] @ site.values[0], atol=1e-10, rtol=0
    )


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_rank_deficient_output_projection_counts(name: str) -> None:
    """Directions of the values that W_O drops are as invisible as those outside them."""
    model = models.randomised(models.BUILDERS[name](), seed=3)
    model.config._attn_implementation = "eager"
    dense = (
        model.encoder.layer[0].attention.output.dense
        if name == "bert"
        else model.layers[0].self_attn.o_proj
    )
    with torch.no_grad():
        dense.weight[:, 2] = dense.weight[:, 1] * 2  # two dimensions of head 0 go to the same place
    given = models.inputs(name, 9)
    made = models.scores("effective_attention", Lens(model).record(given), per_head=True)
    block = oracles.blocks_checked(name, model, given)[0]
    torch.testing.assert_close(
        made.values[0, 0], oracles.effective_attention(block), atol=1e-10, rtol=0
    )
    assert made.extras["rank"][0, 0].tolist() == [3, 4, 4, 4]


@pytest.mark.parametrize("window", [3, 8])
def test_inside_a_window_each_target_has_the_sources_it_sees(window: int) -> None:
    settings: dict[str, Any] = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 8,
        "sliding_window": window,
        "pad_token_id": 0,
    }
    model = models.randomised(hf.MistralModel(hf.MistralConfig(**settings)))
    recorded = Lens(model).record({"input_ids": torch.arange(3, 17)[None]})
    made = models.scores("effective_attention", recorded, per_head=True).values[0, 0]
    site = recorded.layers()[0].site()
    for head in range(4):
        for target in range(14):
            first = max(0, target - window + 1)
            assert not made[head, target, :first].any()
            values = site.values[0, head, first : target + 1]
            expected = (
                site.weights[0, head, target, first : target + 1]
                @ values
                @ torch.linalg.pinv(values)
            )
            torch.testing.assert_close(
                made[head, target, first : target + 1], expected, atol=1e-9, rtol=0
            )


def test_an_unknown_constraint_is_named() -> None:
    with pytest.raises(InvalidInput, match="cone"):
        models.scores("effective_attention", models.recording("bert", 3), constraint="cone")


def test_the_cache_of_a_projection_is_cleared_if_its_weights_change() -> None:
    model = copy.deepcopy(models.build("bert"))
    lens, given = Lens(model), models.inputs("bert", 14)

    def ranks() -> Any:
        maps: Any = lens.measure("effective_attention", given, per_head=True)
        return (maps[0] if isinstance(maps, list) else maps).measured["rank"].values[0]

    before = ranks()
    with torch.no_grad():
        weight = model.encoder.layer[0].attention.output.dense.weight
        weight[:, 0] = weight[:, 1]  # two rows of the first head's matrix are one
    after = ranks()
    assert (before - after).tolist() == [1] + [0] * (len(before) - 1)


@pytest.mark.parametrize("window", [None, 9])
def test_a_few_targets_have_the_rows_of_the_map(window: int | None) -> None:
    """More tokens than a head has dimensions, grouped heads, with and without a window; a target
    that sees all of its past and one that does not.
    """
    torch.manual_seed(0)
    config = hf.MistralConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=window,
    )
    lens = Lens(hf.MistralModel(config).double().eval())
    given = {"input_ids": torch.randint(50, (1, 20))}
    whole = lens.measure("effective_attention", given)
    assert whole.extras["null_attention"].any()
    for targets in ([19], [6], [3, 12, 19]):
        rows = lens.measure("effective_attention", given, targets=targets)
        assert rows.provenance["recorded"] == "rows"
        np.testing.assert_allclose(rows.scores, whole.scores[:, targets], atol=1e-6)
        removed = rows.extras["null_attention"]
        np.testing.assert_allclose(removed, whole.extras["null_attention"][:, targets], atol=1e-6)
        for name in ("rank", "null_dimension"):
            np.testing.assert_array_equal(rows.extras[name], whole.extras[name])


def test_no_row_is_given_of_a_layer_that_returned_nan() -> None:
    model = copy.deepcopy(models.build("gpt2"))
    model.h[0].mlp.c_proj.weight.data.fill_(float("nan"))
    with pytest.raises(NonFiniteActivations):
        Lens(model).measure("effective_attention", models.inputs("gpt2", 14), targets=[-1])
