"""Learned head weights against the authors' numbers (AT2), and through files and commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.answers.fit_heads import fit_heads
from mixlens.answers.head_examples import FitPrompt, collect_examples, read_fit_prompts
from mixlens.answers.head_fitting import HeadExample, draw_masks, fit_weights, pearson_loss
from mixlens.contracts.head_weights import (
    FEATURES,
    HeadWeights,
    load_head_weights,
    sample_layer,
)
from tests import reference
from tests.answers import models

PROMPTS = [
    {"prompt": "The keys are on the table. The dogs sleep. Where are they?", "answer": " Here."},
    {
        "documents": ["The dogs bark at night.", "The cat likes fish."],
        "prompt": "Who barks?",
        "answer": " The dogs bark. They are old.",
    },
]


@pytest.fixture(scope="module")
def numbers() -> dict[str, np.ndarray]:
    return reference.arrays("at2/llama_n12.npz")


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fit") / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, PROMPTS)) + "\n\n")
    return path


def _prompts(numbers: dict[str, np.ndarray]) -> list[FitPrompt]:
    first, end = numbers["target"].tolist()
    named: Any = {f"s{i}": tuple(span) for i, span in enumerate(numbers["sources"].tolist())}
    return [
        FitPrompt(f"text {i}", {"input_ids": [ids[:first]]}, ids[first:end], named)
        for i, ids in enumerate(numbers["input_ids"].tolist())
    ]


@pytest.mark.smoke
def test_training_is_that_of_the_authors(numbers: dict[str, np.ndarray]) -> None:
    assert (draw_masks(32, 4) == numbers["masks"]).all()
    features, outputs = (torch.from_numpy(numbers[name]) for name in ("features", "outputs"))
    theta = torch.full((12,), 1 / 12, dtype=torch.float64, requires_grad=True)
    loss = pearson_loss(theta, features, outputs)
    assert loss.detach().numpy() == pytest.approx(numbers["start/loss_each"], abs=1e-10)
    loss.mean().backward()
    assert theta.grad is not None
    assert theta.grad.numpy() == pytest.approx(numbers["start/gradient"], abs=1e-10)
    pairs = zip(features.numpy(), outputs.numpy(), strict=True)
    examples = [[HeadExample(*each)] for each in pairs]
    for steps in (1, 20, 200):
        fit = fit_weights(examples, steps)
        assert fit.before == pytest.approx(numbers[f"trained_{steps}/weights_before_l1"], abs=1e-9)
        assert fit.weights == pytest.approx(numbers[f"trained_{steps}/weights"], abs=1e-9)
        assert fit.loss == pytest.approx(numbers[f"trained_{steps}/loss"], abs=1e-9)


def test_features_and_outputs_are_those_of_the_authors(numbers: dict[str, np.ndarray]) -> None:
    lens = Lens(models.at2())
    for number, prompt in enumerate(_prompts(numbers)[:3]):
        (made,) = collect_examples(lens, prompt, "attention", 32)
        assert made.features == pytest.approx(numbers["features"][number], abs=1e-9)
        assert made.outputs == pytest.approx(numbers["outputs"][number], abs=1e-9)


def test_scores_are_those_of_the_authors(numbers: dict[str, np.ndarray]) -> None:
    """From texts to the scores of the sources of the first one, by the measure."""
    lens, prompts = Lens(models.at2()), _prompts(numbers)
    weights = fit_heads(lens, prompts, steps=20)
    flat = weights.weights.reshape(-1)
    assert flat == pytest.approx(numbers["trained_20/weights"], abs=1e-8)
    recording = lens.generate(prompts[0].prompt, answer=prompts[0].answer)
    maps: Any = mixlens.measure("learned_heads", recording, weights=weights)
    by_token = maps.scores.sum(0).mean(0)
    scores = [by_token[first:stop].sum() for first, stop in numbers["sources"]]
    assert scores == pytest.approx(numbers["trained_20/first_text_scores"], abs=1e-8)


@pytest.mark.parametrize("features", FEATURES)
def test_every_kind_of_features(features: str, lens: Lens, data: Path, tmp_path: Path) -> None:
    """The measure is the sum over heads of the features by head, times the weights."""
    weights = fit_heads(lens, data, features=features, masks=4, steps=3)
    assert weights.weights.shape == (6, lens.model.config.num_attention_heads)
    assert np.abs(weights.weights).sum() == pytest.approx(1)
    weights.save(tmp_path / "heads.safetensors")
    text = "The dogs bark at night."
    maps = lens.measure("learned_heads", text, weights=tmp_path / "heads.safetensors")
    by_head = lens.measure(features, text, per_head=True).scores
    expected = (by_head * weights.weights[:, :, None, None]).sum(1)
    assert maps.scores == pytest.approx(expected, abs=1e-5 * np.abs(expected).max())
    few = lens.measure("learned_heads", text, weights=weights, targets=[-1])
    assert few.scores[:, 0] == pytest.approx(maps.scores[:, -1], abs=1e-6)


def test_weights_are_needed(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match="needs the weights of the heads"):
        lens.measure("learned_heads", "The dogs bark.")
    assert mixlens.list_measures()["learned_heads"].needs == "weights"
    compared = lens.compare("The dogs bark.", only=["attention", "learned_heads"])
    assert "needs the weights of the heads" in compared.left_out["learned_heads"]
    assert "learned_heads" not in lens.compare("The dogs bark.").left_out
    with pytest.raises(InvalidInput, match="'learned_heads' needs weights=, which you cannot pass"):
        lens.answer("The dogs bark. The cat", answer=" sleeps", methods="learned_heads")


def test_examples_are_kept(lens: Lens, data: Path, tmp_path: Path) -> None:
    first = fit_heads(lens, data, masks=4, steps=2, keep=tmp_path)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 2
    before = [file.stat().st_mtime_ns for file in files]
    again = fit_heads(lens, data, masks=4, steps=2, keep=tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == before
    assert (again.weights == first.weights).all()
    assert first.about["targets"] == 3  # the second answer has two sentences
    fit_heads(lens, data, masks=5, steps=2, keep=tmp_path)
    assert len(list(tmp_path.glob("*.npz"))) == 4


def test_weights_of_another_model_are_refused(lens: Lens, data: Path, tmp_path: Path) -> None:
    weights = fit_heads(lens, data, masks=4, steps=2)
    half = Lens.bundled("causal", dtype=torch.bfloat16)
    half.measure("learned_heads", "The dogs bark.", weights=weights)  # the same model
    other = Lens.bundled("causal")
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.mul_(1.1)
    with pytest.raises(InvalidInput, match="learned on mixlens/bundled/causal, and layer 0"):
        other.measure("learned_heads", "The dogs bark.", weights=weights)
    fewer = HeadWeights(weights.weights[:, :2], "attention", weights.samples, weights.about)
    with pytest.raises(InvalidInput, match="6 layers with 2 heads"):
        lens.measure("learned_heads", "The dogs bark.", weights=fewer)
    (tmp_path / "wrong.safetensors").write_bytes(b"nothing")
    for wrong in ("wrong.safetensors", "absent.safetensors"):
        with pytest.raises(InvalidInput, match="fit-heads"):
            load_head_weights(tmp_path / wrong)
    with pytest.raises(InvalidInput, match="is not a file"):
        lens.measure("learned_heads", "The dogs bark.", weights=[1, 2])
    assert "6 layers" in repr(weights)


_DAMAGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "an axis less": lambda values: values[0],
    "an axis more": lambda values: values[None],
    "a layer less": lambda values: values[:-1],
    "NaN": lambda values: values * np.nan,
    "integers": lambda values: np.ones(values.shape, dtype=np.int64),
}


@pytest.mark.parametrize("name", ["weights", "samples"])
@pytest.mark.parametrize("damage", _DAMAGES)
def test_damaged_weights_are_refused(lens: Lens, tmp_path: Path, name: str, damage: str) -> None:
    about = {"format": "mixlens head weights 1", "features": "attention", "about": "{}"}
    layers = lens.model.get_submodule("model.layers").children()
    samples = np.stack([each for each in map(sample_layer, layers) if each is not None])
    config: Any = lens.model.config
    weights = np.ones((len(samples), config.num_attention_heads))
    arrays: dict[str, np.ndarray] = {"weights": weights, "samples": samples}
    file = tmp_path / "heads.safetensors"
    save_file(arrays, file, metadata=about)
    whole = lens.measure("learned_heads", "The dogs bark.", weights=file)
    attention = lens.measure("attention", "The dogs bark.", per_head=True)
    assert isinstance(whole, MixingMaps)
    assert isinstance(attention, MixingMaps)
    np.testing.assert_allclose(whole.scores, attention.scores.sum(1), rtol=1e-5)
    damaged = {**arrays, name: np.ascontiguousarray(_DAMAGES[damage](arrays[name]))}
    save_file(damaged, tmp_path / "damaged.safetensors", metadata=about)
    with pytest.raises(InvalidInput, match="does not hold head weights"):
        lens.measure("learned_heads", "The dogs bark.", weights=tmp_path / "damaged.safetensors")
    for text in ("[]", "[" * 100_000):
        save_file(arrays, tmp_path / "about.safetensors", metadata={**about, "about": text})
        with pytest.raises(InvalidInput, match="does not hold head weights"):
            load_head_weights(tmp_path / "about.safetensors")


def test_generated_prompts(lens: Lens) -> None:
    prompts = read_fit_prompts("generated:fact?count=2&documents=3")
    assert len(prompts) == 2
    assert isinstance(prompts[0].segments, list)
    texts = [str(prompts[0].prompt)[first:stop] for _, first, stop in prompts[0].segments]
    assert len(texts) == 3
    assert all(text.strip() for text in texts)
    assert fit_heads(lens, prompts, masks=4, steps=2).about["used"] == 2


def test_wrong_prompts_are_refused(lens: Lens, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    cases = {
        "": "is empty",
        "{": "not valid JSON",
        '{"prompt": "a"}': "is not an object with an answer",
        '{"prompt": "a", "answer": " "}': "empty answer",
        '{"prompt": "a", "messages": [], "answer": "b"}': "needs either messages",
        '{"documents": [3], "answer": "b"}': "is not a text",
    }
    for line, match in cases.items():
        file.write_text(line)
        with pytest.raises(InvalidInput, match=match):
            read_fit_prompts(file)
    file.write_text('{"prompt": "One sentence.", "answer": " Yes."}')
    with pytest.raises(InvalidInput, match="has one segment"):
        fit_heads(lens, file)
    for wrong in ({"features": "alti"}, {"masks": 2}, {"steps": 0}):
        with pytest.raises(InvalidInput):
            fit_heads(lens, file, **wrong)
    with pytest.raises(InvalidInput, match="does not exist"):
        read_fit_prompts(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("features", [name for name in FEATURES if name != "attention"])
def test_features_of_heads_are_those_of_the_native_model(
    features: str, numbers: dict[str, np.ndarray]
) -> None:
    """Vectors of every head by hooks on the plain model, summed and averaged as in AT2."""
    model, prompt = models.at2(), _prompts(numbers)[0]
    (made,) = collect_examples(Lens(model), prompt, features, 6)
    first, end = numbers["target"].tolist()
    ids = torch.from_numpy(numbers["input_ids"][:1, : end - 1])
    states: list[list[Any]] = [[], []]  # of the attention, and of the residual stream
    hooks = []
    for layer in model.model.layers:
        hooks += [
            layer.self_attn.register_forward_pre_hook(
                lambda _, args, kwargs: states[0].append(kwargs["hidden_states"][0]),
                with_kwargs=True,
            ),
            layer.register_forward_pre_hook(lambda _, args: states[1].append(args[0][0])),
        ]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    phi = []
    targets = slice(first - 1, end - 1)
    for layer, read, stream, by_head in zip(model.model.layers, *states, weights, strict=True):
        attention, heads = layer.self_attn, by_head.shape[1]
        values = attention.v_proj(read).view(len(read), -1, attention.head_dim)
        values = values.repeat_interleave(heads // values.shape[1], 1).transpose(0, 1)
        out = attention.o_proj.weight.view(-1, heads, attention.head_dim)
        moved = torch.einsum("hjk,dhk->hjd", values, out)
        parts = by_head[0, :, targets, :, None] * moved[:, None]  # [head, target, source, d]
        if features == "attention_norm":
            scores = parts.norm(dim=-1)
        elif features == "contribution_weights":
            whole = parts.sum(2, keepdim=True)
            scores = (parts * whole).sum(-1) / whole.square().sum(-1)
        else:
            own = stream[targets]
            bias = 0 if attention.o_proj.bias is None else attention.o_proj.bias
            y = own + parts.sum((0, 2)) + bias
            constant = attention.v_proj.bias  # which is a term of its own
            if constant is not None:
                constant = constant.view(-1, attention.head_dim).repeat_interleave(
                    heads // attention.config.num_key_value_heads, 0
                )
                moved = moved - torch.einsum("hk,dhk->hd", constant, out)[:, None]
                parts = by_head[0, :, targets, :, None] * moved[:, None]

            def near(part: Any, y: Any = y) -> Any:
                return (y.abs().sum(-1) - (y - part).abs().sum(-1)).clamp_min(0)

            scores = torch.stack([near(parts[:, :, j]) for j in range(parts.shape[2])], -1)
            scores = scores / (scores.sum((0, 2)) + near(own))[:, None]
        phi.append(scores.mean(1).detach().numpy())
    columns = np.stack(
        [np.stack(phi)[:, :, a:b].sum(-1).reshape(-1) for a, b in numbers["sources"].tolist()]
    )
    expected = (2.0 * draw_masks(6, len(columns)) - 1) @ columns
    assert made.features == pytest.approx(expected, rel=1e-5, abs=1e-6)
