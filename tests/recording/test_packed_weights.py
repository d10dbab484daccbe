"""Weights in the format of a library are read as the numbers that its modules compute with."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from mixlens.model.readable_weights import (
    is_packed,
    linear_sizes,
    make_readable,
    read_by_application,
)
from tests.conformance.zoo import built

GIVEN = {"input_ids": torch.arange(3, 15)[None]}
MEASURES = ("attention", "attention_norm", "alti", "value_zeroing")
F32, BF16 = torch.float32, torch.bfloat16


class Packed(nn.Module):
    """A linear layer as GPTQ packs it: integers, scales and zero points per group, all buffers."""

    vectors: ClassVar[Counter[int]] = Counter()  # to which each layer was applied, by its id
    packed: Tensor
    scales: Tensor
    zeros: Tensor
    bias: Tensor | None

    def __init__(self, plain: nn.Linear, group: int = 8) -> None:
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        groups = plain.weight.detach().float().unflatten(1, (-1, group))
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        self.register_buffer("scales", ((high - low) / 15).half())
        self.register_buffer("zeros", low.half())
        whole = ((groups - low) / self.scales.float()).round().clamp(0, 15).to(torch.uint8)
        self.register_buffer("packed", whole[..., ::2] + 16 * whole[..., 1::2])
        self.register_buffer("bias", None if plain.bias is None else plain.bias.detach())

    def unpacked(self) -> Tensor:
        whole = torch.stack([self.packed % 16, self.packed // 16], -1).flatten(-2)
        return (whole * self.scales.float() + self.zeros.float()).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        self.vectors[id(self)] += x.shape[:-1].numel()
        return nn.functional.linear(x, self.unpacked().to(x.dtype), self.bias)


class WithoutDerivative(Packed):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


def packed(model: Any, kind: type[Packed] = Packed) -> tuple[Any, Any]:
    """Return a model with packed layers, and the plain model that computes the same."""
    plain = copy.deepcopy(model)
    for path, part in list(model.named_modules()):
        if type(part) is nn.Linear and path != "lm_head":
            owner, _, name = path.rpartition(".")
            setattr(model.get_submodule(owner), name, kind(part).eval())
            other = plain.get_submodule(path)
            other.weight.data = model.get_submodule(path).unpacked().to(other.weight)
    return model, plain


def llama(dtype: torch.dtype = F32) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attention_bias=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    return model.to(dtype)


def scores(model: Any, name: str, **options: Any) -> np.ndarray:
    return np.asarray(Lens(model).measure(name, GIVEN, **options).scores)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_packed_layers_are_measured_as_the_plain_ones(dtype: torch.dtype) -> None:
    model, plain = packed(llama(dtype))
    before = model(**GIVEN).logits
    for name in (*MEASURES, "decompx", "gradient_x_input"):
        for options in ({"targets": [-1]}, {}) if name in MEASURES else ({},):
            close = {F32: 1e-6, BF16: 2e-2}[dtype]
            expected = scores(plain, name, **options)
            error = np.abs(scores(model, name, **options) - expected).max()
            assert error <= close * np.abs(expected).max(), (name, options)
    assert torch.equal(model(**GIVEN).logits, before)


@torch.no_grad()
def test_value_zeroing_is_that_of_the_model_itself() -> None:
    model, target, zeroed = packed(llama())[0], 9, []
    layer, calls = model.model.layers[1], list[Any]()
    handle = layer.register_forward_hook(lambda *call: calls.append(call), with_kwargs=True)
    model(**GIVEN, use_cache=False)
    handle.remove()
    _, args, kwargs, output = calls[0]
    for source in range(target + 1):

        def without(part: Any, args: Any, values: Tensor, source: int = source) -> Tensor:
            return values.index_fill(1, torch.tensor([source]), 0.0)

        handle = layer.self_attn.v_proj.register_forward_hook(without)
        edited = layer(*args, **kwargs)
        handle.remove()
        pair = edited[0, target].double(), output[0, target].double()
        zeroed.append(1 - torch.cosine_similarity(*pair, dim=0).item())
    ours = scores(model, "value_zeroing", targets=[target])[1, 0, : target + 1]
    np.testing.assert_allclose(ours, zeroed, atol=1e-5 * max(zeroed))


def test_only_the_weights_that_are_read_are_unpacked() -> None:
    model = packed(llama())[0]
    lens, layer = Lens(model), model.model.layers[0]
    lens.measure("attention_norm", GIVEN, targets=[-1])  # finds the structure
    Packed.vectors.clear()
    lens.measure("attention_norm", GIVEN, targets=[-1])
    tokens, width = GIVEN["input_ids"].shape[1], 64
    assert Packed.vectors[id(layer.self_attn.o_proj)] == tokens + 1 + width
    for part in (layer.self_attn.q_proj, layer.self_attn.v_proj, layer.mlp.down_proj):
        assert Packed.vectors[id(part)] == tokens
    Packed.vectors.clear()
    lens.measure("attention", GIVEN, targets=[-1])
    assert max(Packed.vectors.values()) == tokens + 1 + width
    lens.measure("value_zeroing", GIVEN, targets=[-1])
    assert Packed.vectors[id(layer.mlp.up_proj)] > width


def test_changed_packed_weights_are_read_again() -> None:
    model, plain = packed(llama())
    lens = Lens(model)
    lens.measure("alti", GIVEN)
    for each, other in zip(model.model.layers, plain.model.layers, strict=True):
        each.self_attn.o_proj.scales *= 2
        other.self_attn.o_proj.weight.data = each.self_attn.o_proj.unpacked()
    np.testing.assert_allclose(lens.measure("alti", GIVEN).scores, scores(plain, "alti"), atol=1e-6)


def test_a_head_is_read_too() -> None:
    model = llama()
    model.lm_head = Packed(model.lm_head).eval()
    plain = copy.deepcopy(model)
    plain.lm_head = nn.Linear(64, 64, bias=False).eval()
    plain.lm_head.weight.data = model.lm_head.unpacked()
    np.testing.assert_allclose(
        scores(model, "decompx_logit"), scores(plain, "decompx_logit"), atol=1e-5
    )


def test_gradients_through_a_kernel_without_a_derivative_raise() -> None:
    model, plain = packed(llama(), WithoutDerivative)
    for name in ("gradient_x_input", "attention_gradient", "integrated_gradients", "deep_lift"):
        with pytest.raises(UnsupportedModel, match="gradients cannot pass through `model"):
            Lens(model).measure(name, GIVEN)
    np.testing.assert_allclose(scores(model, "alti"), scores(plain, "alti"), atol=1e-6)


class PackedExperts(nn.Module):
    """Experts that unpack their weights in every run, as MXFP4 does on a GPU."""

    def __init__(self, experts: nn.Module) -> None:
        super().__init__()
        self.experts = (experts,)
        for name, weight in experts.named_parameters():
            scale = weight.detach().float().abs().amax(-1, keepdim=True) / 127
            whole = (weight.detach() / scale).round().to(torch.int8)
            self.register_parameter(name, nn.Parameter(whole, requires_grad=False))
            self.register_buffer(f"{name}_scale", scale)
            weight.data = (whole * scale).to(weight.dtype)

    def forward(self, hidden: Tensor, *args: Any) -> Tensor:
        assert hidden.dtype == next(self.experts[0].parameters()).dtype
        return self.experts[0](hidden, *args)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_packed_experts_run_as_they_are(dtype: torch.dtype) -> None:
    model = built("mixtral", dtype)
    for layer in model.layers:
        layer.mlp.experts = PackedExperts(layer.mlp.experts).eval()
    plain = copy.deepcopy(model)
    for layer in plain.layers:
        (layer.mlp.experts,) = layer.mlp.experts.experts
    for name in ("attention_norm", "value_zeroing"):
        for targets in ([-1], None):
            expected = scores(plain, name, targets=targets)
            error = np.abs(scores(model, name, targets=targets) - expected).max()
            assert error <= {F32: 1e-6, BF16: 2e-2}[dtype] * np.abs(expected).max()


def test_blocks_of_unit_vectors() -> None:
    plain = nn.Linear(1030, 5).eval()
    made = read_by_application(plain, F32, torch.device("cpu"))
    assert torch.allclose(made.weight, plain.weight, atol=1e-6)  # the bias is subtracted
    assert torch.equal(made.bias, plain.bias)
    plain.bias.data.zero_()
    made = read_by_application(plain, F32, torch.device("cpu"))
    assert torch.equal(made.weight, plain.weight)
    assert made.bias is None


def test_packed_tensors() -> None:
    assert not is_packed(torch.zeros(2, 2))
    assert not is_packed(torch.tensor(3))  # a count of calls
    assert is_packed(torch.zeros(2, 2, dtype=torch.uint8))
    assert is_packed(torch.zeros(2, 2).to(torch.float8_e4m3fn))
    assert linear_sizes(nn.Embedding(3, 4)) is None


def test_weights_that_are_nowhere_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="does not provide their location"):
        make_readable(nn.Linear(3, 3, device="meta"), F32)
    with pytest.raises(UnsupportedModel, match="without numbers"):
        Lens(built("llama").to("meta")).record({"input_ids": torch.ones(1, 4, dtype=torch.long)})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["qint4", "qint8", "qfloat8"])
def test_weights_of_quanto(kind: str) -> None:
    quanto = pytest.importorskip("optimum.quanto", reason="NOT RUN: there is no optimum-quanto")
    model = llama()
    quanto.quantize(model, weights=getattr(quanto, kind))
    quanto.freeze(model.eval())
    plain = llama()
    for path, part in plain.named_modules():
        if type(part) is nn.Linear:
            part.weight.data = model.get_submodule(path).weight.dequantize()
    for name in MEASURES:
        np.testing.assert_allclose(scores(model, name), scores(plain, name), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_activations_of_quanto_are_refused() -> None:
    quanto = pytest.importorskip("optimum.quanto", reason="NOT RUN: there is no optimum-quanto")
    model = llama()
    quanto.quantize(model, weights=quanto.qint8, activations=quanto.qint8)
    with quanto.Calibration(), torch.no_grad():
        model(**GIVEN)
    quanto.freeze(model.eval())
    before = model(**GIVEN).logits
    with pytest.raises(UnsupportedModel, match="quantises activations"):
        Lens(model).measure("attention", GIVEN)
    assert torch.equal(model(**GIVEN).logits, before)
