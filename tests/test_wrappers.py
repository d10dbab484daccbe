"""A wrapped model is measured as the model inside. Other objects raise an error."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

import mixlens
from mixlens import Lens
from mixlens.measuring import recorder
from mixlens.model.loading import damaged_weights
from tests.conformance.zoo import built, inputs


def scores(model: Any, name: str = "attention_norm") -> np.ndarray:
    measured = Lens(model).measure(name, inputs("bert"))
    return np.stack([maps.scores for maps in measured])


def test_compiled_and_parallel_models() -> None:
    model = built("bert")
    expected = scores(model)
    assert np.array_equal(scores(torch.compile(model)), expected)
    assert np.array_equal(scores(nn.DataParallel(model)), expected)
    model.compile()  # in place; would take a minute if hooks made torch compile each layer
    assert np.array_equal(scores(model), expected)
    assert model._compiled_call_impl is not None


def never(*_: Any) -> Any:
    raise AssertionError("this would be compiled")


def compiled_layers(model: Any) -> None:
    for place, layer in enumerate(model.layers):
        model.layers[place] = torch.compile(layer, backend=never)


def compiled_forward(model: Any) -> None:
    model.forward = torch.compile(model.forward, backend=never)


def compiled_parts(model: Any) -> None:
    attention = model.layers[0].self_attn
    attention.forward = torch.compile(attention.forward, backend=never)
    model.layers[1].mlp = torch.compile(model.layers[1].mlp, backend=never)
    model.layers[1].compile(backend=never)


def compiled_class(model: Any) -> None:
    layer = model.layers[0]
    written = type(layer).forward
    layer.__class__ = type(
        "Compiled", (type(layer),), {"forward": torch.compile(written, backend=never)}
    )


def compiled_below_accelerate(model: Any) -> None:
    accelerate = pytest.importorskip("accelerate")
    compiled_parts(model)
    accelerate.cpu_offload(model, torch.device("cpu"))


@pytest.mark.parametrize(
    "compiled",
    [
        compiled_layers,
        compiled_forward,
        compiled_parts,
        compiled_class,
        compiled_below_accelerate,
    ],
)
def test_compiled_parts_run_as_they_are_written(compiled: Any) -> None:
    model, given = built("llama"), inputs("llama", rows=1)
    ask = {
        "alti": lambda lens: lens.measure("alti", given),
        "row": lambda lens: lens.measure("value_zeroing", given, targets=[-1]),
        "gradient": lambda lens: lens.measure(
            "gradient_norm", given, of="embedding", pooling="last"
        ),
    }
    expected = {name: measured(Lens(model)).scores for name, measured in ask.items()}
    compiled(model)
    before = [(part, dict(vars(part)), dict(part._modules)) for part in model.modules()]
    for name, measured in ask.items():
        assert np.allclose(measured(Lens(model)).scores, expected[name], atol=1e-6), name
    Lens(model).verify(given)
    for part, own, inner in before:
        assert vars(part).keys() == own.keys()
        assert all(vars(part)[name] is own[name] for name in ("forward",) if name in own)
        assert part._modules == inner


def test_compiled_parts_are_put_back_after_an_error() -> None:
    model = built("llama")
    compiled_layers(model)
    layers = list(model.layers)
    with pytest.raises(mixlens.InvalidInput, match="outside the model's vocabulary"):
        Lens(model).measure("attention", {"input_ids": torch.tensor([[10**6]])})
    assert list(model.layers) == layers
    layers[0].register_forward_hook(lambda *_: None)
    with pytest.raises(mixlens.UnsupportedModel, match=r"`0` of ModuleList has its own hooks"):
        Lens(model).measure("attention", inputs("llama"))
    assert list(model.layers) == layers


def test_adapters_count() -> None:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(target_modules=["query", "value", "dense"], r=2)
    adapted = peft.get_peft_model(built("bert"), settings).eval()
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(len(name)))
    measured = {name: scores(adapted, name) for name in ("value_zeroing", "alti")}
    assert not np.allclose(measured["alti"], scores(built("bert"), "alti"), atol=1e-3)
    merged = adapted.merge_and_unload()
    for name, values in measured.items():
        assert np.allclose(values, scores(merged, name), atol=1e-5), name


def test_prompts_outside_the_model_are_refused() -> None:
    peft = pytest.importorskip("peft")
    settings = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    with pytest.raises(mixlens.UnsupportedModel, match="learned vectors before the text"):
        Lens(peft.get_peft_model(built("bert"), settings))


def test_adapters_that_need_pefts_own_forward_are_refused() -> None:
    peft = pytest.importorskip("peft")
    plain: dict[str, Any] = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    activated = peft.LoraConfig(**plain, alora_invocation_tokens=[3, 4])
    with pytest.raises(mixlens.UnsupportedModel, match="'default' is an activated LoRA"):
        Lens(peft.get_peft_model(built("llama", head=True), activated))
    with pytest.raises(mixlens.UnsupportedModel, match="PEFT's PolyModel does more than call"):
        Lens(peft.get_peft_model(built("llama", head=True), peft.PolyConfig(**plain, r=2)))
    both = peft.get_peft_model(built("llama", head=True), peft.LoraConfig(**plain))
    both.add_adapter("second", activated)
    Lens(both)  # it is there, and it is not active
    both.base_model.set_adapter(["default", "second"])
    with pytest.raises(mixlens.UnsupportedModel, match="'second' is an activated LoRA"):
        Lens(both)


def test_sentence_transformers_and_pipelines_bring_their_tokenizer(tmp_path: Path) -> None:
    lens, text = Lens.bundled(), "The dogs are old."
    expected = lens.measure("attention", text)
    model: Any = lens.model
    pipeline: Any = hf.pipeline("fill-mask", model=model, tokenizer=lens.tokenizer)
    assert np.array_equal(Lens(pipeline).measure("attention", text).scores, expected.scores)
    library = pytest.importorskip("sentence_transformers")
    model.save_pretrained(tmp_path)
    lens.tokenizer.save_pretrained(tmp_path)
    encoder = library.SentenceTransformer(str(tmp_path), device="cpu")
    maps = Lens(encoder).measure("attention", text)
    assert maps.tokens == expected.tokens
    assert np.allclose(maps.scores, expected.scores, atol=1e-6)
    alone = Lens(encoder[0], lens.tokenizer).measure("attention", text)  # its first part
    assert np.allclose(alone.scores, expected.scores, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "bert-base-uncased",
            r"is a name.*Load it with Lens.from_pretrained\('bert-base-uncased'\)",
        ),
        (hf.BertModel, "BertModel is a class"),
        (hf.BertConfig(), "BertConfig is a configuration"),
        ({"weight": torch.ones(2)}, "If it holds weights"),
        (None, "NoneType is not a transformers model"),
        (nn.Linear(2, 2), "Linear is not a transformers model"),
    ],
)
def test_invalid_models(given: Any, words: str) -> None:
    with pytest.raises(mixlens.InvalidInput, match=words):
        Lens(given)


def test_a_model_that_was_made_in_inference_mode_is_named() -> None:
    with torch.inference_mode():
        model = built("bert")
    with pytest.raises(mixlens.UnsupportedModel, match=r"copy\.deepcopy\(model\)"):
        Lens(model)
    assert np.array_equal(scores(copy.deepcopy(model)), scores(built("bert")))


def test_a_mask_may_hold_infinity() -> None:
    model = built("bert")
    model.register_buffer("causal_mask", torch.full((2, 2), -float("inf")).triu(1))
    assert damaged_weights(model) is None


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_damaged_weights_are_named(weight: float) -> None:
    model = built("bert")
    model.encoder.layer[1].output.dense.bias.data[3] = weight
    with pytest.raises(mixlens.NonFiniteActivations, match=r"layer\.1\.output\.dense\.bias"):
        Lens(model).record(inputs("bert"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda lens, ids: lens.measure("alti", ids, targets=[-1]),
        lambda lens, ids: lens.rollout("alti", ids, [-1]),
        lambda lens, ids: lens.compare(ids, -1, only=["alti", "attention"]),
        lambda lens, ids: lens.generate(ids, answer=[5, 6]),
        lambda lens, ids: lens.generate(ids, max_new_tokens=2),
    ],
)
def test_damaged_weights_do_not_leave_out_a_layer(ask: Any) -> None:
    model = built("llama", head=True)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
    with pytest.raises(mixlens.NonFiniteActivations, match=r"layers\.1\.mlp\.down_proj\.weight"):
        ask(Lens(model), {"input_ids": inputs("llama", rows=1)["input_ids"]})


def test_weights_of_a_hybrid_model_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def look(model: Any) -> str | None:
        looked.append(model)
        return damaged_weights(model)

    monkeypatch.setattr(recorder, "damaged_weights", look)
    model, given = built("jamba"), inputs("jamba", rows=1)
    for _ in range(2):
        Lens(model).measure("attention", given, targets=[-1])
    assert len(looked) == 1
    with torch.no_grad():
        model.layers[0].mamba.out_proj.weight[0, 0] = float("nan")
    with pytest.raises(mixlens.NonFiniteActivations, match=r"mamba\.out_proj\.weight"):
        Lens(model).measure("attention", given, targets=[-1])


def test_a_pipeline_of_pictures_brings_its_processor() -> None:
    image = pytest.importorskip("PIL.Image")
    config = hf.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
    )
    model = hf.ViTForImageClassification(config).eval()
    processor = hf.ViTImageProcessor(size={"height": 8, "width": 8})
    pipeline: Any = hf.pipeline("image-classification", model=model, image_processor=processor)
    picture = image.new("RGB", (8, 8), (200, 30, 90))
    expected: Any = Lens(model, processor=processor).measure("attention", picture)
    made: Any = Lens(pipeline).measure("attention", picture)
    assert np.array_equal(made.scores, expected.scores)


def test_the_feature_extractor_of_a_model_is_not_a_processor() -> None:
    assert Lens(built("wav2vec2")).processor is None
