from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr, variation

from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluating.drawn_pairs import joint_sample, lowest
from mixlens.evaluating.states import CATEGORIES, categories
from mixlens.evaluations import norm_statistics
from tests.evaluations.model_cases import bundled_cases, random_case

ALL = 10**7  # pairs: no sampling


def _norms(case: Case) -> np.ndarray:
    """[layer, head, token] |f(x)| with loops."""
    norms = []
    for layer in case.recording.layers():
        site = layer.site()
        _, heads, tokens, _ = site.values.shape
        norms.append(
            [
                [
                    float((site.values[0, h, j] @ site.output_weight[h]).norm())
                    for j in range(tokens)
                ]
                for h in range(heads)
            ]
        )
    return np.array(norms)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_spread_is_that_of_all_tokens_of_all_texts(name: str) -> None:
    cases = [random_case(name, 6, seed=0), random_case(name, 9, seed=1)]
    result = norm_statistics.evaluate(cases)
    every = np.concatenate([_norms(case) for case in cases], -1)
    for key, slow in (
        ("mean", every.mean(-1)),
        ("std", every.std(-1)),
        ("max", every.max(-1)),
        ("min", every.min(-1)),
    ):
        assert np.allclose(result.details["f"][key], slow, rtol=1e-9), key
    assert np.allclose(result.details["f"]["cv"], variation(every, axis=-1), rtol=1e-9)
    assert math.isclose(result.value, variation(every, axis=-1).mean(), rel_tol=1e-9)
    assert np.allclose(
        result.per_example, [variation(_norms(case), axis=-1).mean() for case in cases]
    )


def test_x_is_what_attention_reads() -> None:
    post = random_case("bert", 6)
    inputs = [layer.input[0].norm(dim=-1).numpy() for layer in post.recording.layers()]
    assert np.allclose(norm_statistics.evaluate([post]).details["x"]["mean"], np.mean(inputs, 1))
    pre = random_case("gpt2", 6)
    read = [
        layer.module.ln_1(layer.input)[0].norm(dim=-1).detach().numpy()
        for layer in pre.recording.layers()
    ]
    assert np.allclose(norm_statistics.evaluate([pre]).details["x"]["cv"], variation(read, axis=1))


def test_categories_of_two_tokenizers() -> None:
    names = [CATEGORIES[kind] for kind in categories(bundled_cases("masked")[1])]
    assert names == [
        "cls",
        "other",
        "other",
        "other",
        "punctuation",
        "other",
        "other",
        "other",
        "punctuation",
        "sep",
    ]
    causal = [CATEGORIES[kind] for kind in categories(bundled_cases("causal")[1])]
    assert causal[0] == "cls"
    assert causal.count("punctuation") == 2
    assert "sep" not in causal


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_shares_of_categories_with_loops(name: str) -> None:
    cases = bundled_cases(name)[:2]
    result = norm_statistics.evaluate(cases)
    layer, head = 3, 1
    weight, norm, pairs, total = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)
    for case in cases:
        site, kinds, sizes = (
            case.recording.layers()[layer].site(),
            categories(case),
            _norms(case)[layer, head],
        )
        for i in range(len(kinds)):
            for j in range(len(kinds)):
                alpha = float(site.weights[0, head, i, j])
                weight[kinds[j]] += alpha / len(kinds) / 2
                norm[kinds[j]] += alpha * sizes[j] / len(kinds) / 2
                total[kinds[j]] += alpha
                pairs[kinds[j]] += name == "masked" or j <= i
    assert np.allclose(result.details["category_weight"][layer, head], weight, rtol=1e-5)
    assert np.allclose(result.details["category_norm"][layer, head], norm, rtol=1e-5)
    with np.errstate(invalid="ignore"):
        assert np.allclose(
            result.details["category_weight_per_pair"][layer, head],
            total / pairs,
            rtol=1e-5,
            equal_nan=True,
        )
    assert np.allclose(result.details["category_weight"].sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_correlation_of_weight_and_norm_is_scipys_over_all_pairs(name: str) -> None:
    cases = bundled_cases(name)[:2]
    result = norm_statistics.evaluate(cases, sample=ALL, most=ALL)
    for kind, category in enumerate(CATEGORIES):
        weights, norms = [], []
        for case in cases:
            sizes, kinds = _norms(case), categories(case)
            for number, layer in enumerate(case.recording.layers()):
                alpha = layer.site().weights[0].numpy()
                for j in np.flatnonzero(kinds == kind):
                    seen = alpha[:, j:, j] if name == "causal" else alpha[:, :, j]
                    weights.append(seen.ravel())
                    norms.append(np.repeat(sizes[number, :, j], seen.shape[1]))
        if not weights:
            assert np.isnan(result.details["correlation"][category])
            continue
        slow = spearmanr(
            np.concatenate(weights).astype(np.float64), np.concatenate(norms)
        ).statistic
        assert math.isclose(result.details["correlation"][category], slow, abs_tol=1e-3)
        assert (result.details["pairs"]["category"] == kind).sum() == sum(map(len, weights))


def test_a_sample_is_near_the_whole_and_does_not_depend_on_order() -> None:
    cases = bundled_cases("masked")
    whole = norm_statistics.evaluate(cases, sample=ALL, most=ALL).details["correlation"]
    sampled = norm_statistics.evaluate(cases, sample=1500).details
    again = norm_statistics.evaluate(cases[::-1], sample=1500).details
    assert len(sampled["pairs"]["weight"]) <= 4 * 4 * 1500
    for category in CATEGORIES:
        assert abs(whole[category] - sampled["correlation"][category]) < 0.12
        assert math.isclose(
            sampled["correlation"][category], again["correlation"][category], rel_tol=1e-9
        )


def test_each_pair_has_the_same_chance_whatever_its_text() -> None:
    """Texts of 10 and 1,000 pairs: the joint sample holds them in that proportion."""
    taken = np.zeros(2)
    for seed in range(300):
        generator = np.random.default_rng(seed)
        drawn = [lowest(count, 50, generator) for count in (10, 1000)]
        for place, kept in enumerate(
            joint_sample([one[1] for one in drawn], [one[2] for one in drawn])
        ):
            taken[place] += kept.sum()
    assert math.isclose(taken[0] / taken[1], 0.01, rel_tol=0.25)
    assert taken[1] == 300 * 50
    assert [
        kept.sum()
        for kept in joint_sample([np.array([0.1, 0.4]), np.array([0.2, 0.3])], [1.0, 0.35], most=2)
    ] == [1, 1]


def test_frequency_ranks() -> None:
    cases = bundled_cases("masked")
    result = norm_statistics.evaluate(cases)
    frequency = result.details["frequency"]
    first = cases[0]
    slow = np.mean(
        [layer.site().weights[0].mean((0, 1)).numpy() for layer in first.recording.layers()], 0
    )
    count = len(first.row)
    assert np.allclose(frequency["token_weight"][:count], slow, rtol=1e-5)
    assert np.allclose(frequency["token_norm"][:count], _norms(first).mean((0, 1)), rtol=1e-5)
    times = {token: (frequency["token"] == token).sum() for token in frequency["token"]}
    for token, rank in zip(frequency["token"], frequency["rank"], strict=True):
        assert rank == 1 + sum(other > times[token] for other in times.values())
    assert math.isclose(
        frequency["norm"], spearmanr(frequency["rank"], frequency["token_norm"]).statistic
    )
    given = norm_statistics.evaluate(cases, ranks={int(frequency["token"][0]): 7}).details[
        "frequency"
    ]
    assert set(given["rank"].tolist()) == {7, 8}  # those without a rank come last
    assert math.isclose(given["norm"], spearmanr(given["rank"], frequency["token_norm"]).statistic)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gpt_neox"])
def test_singular_values_are_those_of_the_map_itself(name: str) -> None:
    """f is rebuilt with loops from unit vectors sent through the projection of the class."""
    case = random_case(name, 6)
    singular = norm_statistics.singular_values(case.recording)
    for number, layer in enumerate(case.recording.layers()):
        site, module = layer.site(), layer.module
        width, (heads, d_head) = layer.input.shape[-1], site.values.shape[1::2]
        rows = torch.cat([torch.zeros(1, width), torch.eye(width)]).double()
        if name == "bert":
            values = module.attention.self.value(rows)
        elif name == "gpt2":
            values = module.attn.c_attn(rows)[:, 2 * width :]
        elif name == "llama":
            values = (
                module.self_attn.v_proj(rows)
                .reshape(-1, 2, d_head)
                .repeat_interleave(2, 1)
                .flatten(1)
            )
        else:
            values = (
                module.attention.query_key_value(rows)
                .reshape(-1, heads, 3, d_head)[:, :, 2]
                .flatten(1)
            )
        values = values.detach().reshape(-1, heads, d_head)
        for head in range(heads):
            matrix = (
                torch.cat([values[1:, head] - values[0, head], values[:1, head]])
                @ site.output_weight[head]
            )
            assert np.allclose(
                singular[number, head], np.linalg.svd(matrix.numpy())[1][:d_head], rtol=1e-8
            )


def test_half_precision_has_singular_values_too() -> None:
    import mixlens

    lens = mixlens.Lens.bundled("causal", dtype=torch.bfloat16)
    values = norm_statistics.singular_values(lens.record("The keys are on the table."))
    wide = norm_statistics.singular_values(bundled_cases("causal")[0].recording)
    assert np.abs(values / wide - 1).max() < 0.02


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="self-attention"):
        norm_statistics.observe(random_case("bart", 6), site="cross")
    assert np.isnan(norm_statistics.conclude([]).value)


def test_observations_of_a_text_do_not_grow_with_its_square() -> None:
    seen = norm_statistics.observe(random_case("bert", 30), sample=100)
    assert sum(array.nbytes for array in seen.values()) < 40_000
    assert not np.isnan(seen["pairs"]).any()
