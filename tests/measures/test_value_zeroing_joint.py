"""Value Zeroing of the stacked states of a span."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.recording import span_scores, target_pass
from tests import reference
from tests.answers.models import stored
from tests.measures import models
from tests.measures import oracles_intervention as oracles

TARGETS, WEIGHTS = [3, 4, 2], [1.0, 0.25, 2.0]


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


def joint(lens: Lens, given: Any, **chosen: Any) -> Any:
    chosen = {"targets": TARGETS, "weights": WEIGHTS, **chosen}
    return lens.measure("value_zeroing", given, span="joint", **chosen)


@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12"])
def test_reference_numbers(name: str) -> None:
    numbers = reference.arrays(f"spans/{name}_spans.npz")
    about = json.loads((reference.FOLDER / "spans" / f"{name}_spans.json").read_text())
    ids = reference.arrays(f"flashtrace/{name}.npz")["input_ids"]
    lens = Lens(stored(reference.FOLDER / "flashtrace", name))
    chosen: dict[str, Any] = {"segments": about["segments"], "targets": about["targets"]}
    chosen |= {"weights": numbers["weights"].tolist()}
    maps = one(joint(lens, {"input_ids": reference.tokens(ids)}, **chosen))
    assert maps.provenance["recorded"] == "rows"
    expected = numbers["value_zeroing/joint"]
    np.testing.assert_allclose(maps.scores[:, 0], expected, atol=1e-10, rtol=0)
    np.testing.assert_allclose(maps.extras["coherence"], numbers["coherence"], atol=1e-10)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_equals_the_distance_of_stacked_states(
    name: str, site: str, normalised: bool, distance: str
) -> None:
    model, x = models.build(name), models.inputs(name, 9)
    chosen: dict[str, Any] = {"distance": distance, "normalised": normalised, "weights": WEIGHTS}
    recorded = models.recording(name, 9)
    maps = one(
        mixlens.measure(
            "value_zeroing", recorded, site=site, targets=TARGETS, span="joint", **chosen
        )
    )
    sources = len(maps.source_tokens)
    expected = stacked_distances(name, site, model, x, sources, distance, normalised)
    np.testing.assert_allclose(maps.scores[:, 0], expected, atol=1e-10, rtol=1e-7)


def stacked_distances(
    name: str, site: str, model: Any, x: Any, sources: int, distance: str, normalised: bool
) -> np.ndarray:
    """[layer, source] by one layer call for each zeroed value vector."""
    anatomy, by_layer = oracles.ANATOMY[name, site], []
    layers, heads = anatomy.layers(model), model.config.num_attention_heads
    arguments = oracles.layer_arguments(model, layers, x)
    for layer, (args, kwargs) in zip(layers, arguments, strict=True):
        module = anatomy.attention(layer).get_submodule(anatomy.value)

        def states(source: int | None, module: Any = module, run: Any = layer,
                   args: Any = args, kwargs: Any = kwargs) -> Tensor:  # fmt: skip
            def zero(m: Any, a: Any, out: Tensor) -> Tensor:
                out = out.clone()
                if source is not None:
                    anatomy.part(out, heads)[:, source] = 0
                return out

            with torch.no_grad(), oracles.hooked(module.register_forward_hook(zero)):
                e = oracles.first(run(*args, **kwargs))[0][TARGETS]
            if normalised:
                e = (e - e.mean(-1, keepdim=True)) / e.var(-1, keepdim=True, unbiased=False).sqrt()
            return (e * torch.tensor(WEIGHTS, dtype=e.dtype)[:, None]).flatten()

        before = states(None)
        made = [states(source) for source in range(sources)]
        by_layer.append([float(oracles.DISTANCES[distance](before, after)) for after in made])
    return np.array(by_layer)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_a_span_of_one_target_is_the_measure(name: str, per_head: bool) -> None:
    lens, x = Lens(models.build(name)), models.inputs(name, 9)
    for distance in ("cosine", "euclidean"):
        chosen: dict[str, Any] = {"targets": [5], "distance": distance, "per_head": per_head}
        alone = one(lens.measure("value_zeroing", x, **chosen))
        weight = 1.0 if distance == "euclidean" else 3.0  # angles do not change
        maps = one(joint(lens, x, weights=[weight], **chosen))
        np.testing.assert_allclose(maps.scores, alone.scores, atol=1e-10)


def test_blocks_padding_and_other_texts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, batch = Lens(models.build("gpt2")), models.padded_inputs("gpt2", [9, 6, 7])
    alone = [
        one(joint(lens, models.inputs("gpt2", length, seed=row), targets=[2, 4, 5]))
        for row, length in enumerate((9, 6, 7))
    ]
    for module in (span_scores, target_pass):
        monkeypatch.setattr(module, "targets_at_once", lambda *_: 2)
    for made, expected in zip(joint(lens, batch, targets=[2, 4, 5]), alone, strict=True):
        np.testing.assert_allclose(made.scores, expected.scores, atol=1e-12)
        assert set(made.extras) == {"coherence"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_is_close(dtype: torch.dtype) -> None:
    exact = models.randomised(models.BUILDERS["llama"](), 1).to(dtype).double()
    lower = models.randomised(models.BUILDERS["llama"](), 1).to(dtype)
    x = models.inputs("llama", 9)
    maps = [one(joint(Lens(model), x)).scores for model in (exact, lower)]
    bar = 1e-5 if dtype == torch.float32 else 0.15
    assert abs(maps[0] - maps[1]).mean() <= bar * abs(maps[0]).mean()


def test_impossible_requests() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    with pytest.raises(InvalidInput, match="distance='spearman' does not support span='joint'"):
        joint(lens, x, distance="spearman")
    with pytest.raises(InvalidInput, match="sample=2 needs span='mean', got span='joint'"):
        joint(lens, x, sample=2)
