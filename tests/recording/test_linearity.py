"""Modules that quantise activations raise an error, and no others."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from mixlens.model.linearity import require_linear_modules
from tests.conformance.zoo import built

GIVEN = {"input_ids": torch.arange(3, 11)[None]}
Rounding = Callable[[Tensor], Tensor]


def to_int8(x: Tensor) -> Tensor:
    """Round to int8 with one scale for each token."""
    step = x.float().abs().amax(-1, keepdim=True).clamp_min(1e-9) / 127
    return ((x / step).round() * step).to(x.dtype)


def to_int8_in_groups(x: Tensor) -> Tensor:
    return to_int8(x.unflatten(-1, (-1, 32))).flatten(-2)


def to_fp8(x: Tensor) -> Tensor:
    step = x.float().abs().amax(-1, keepdim=True).clamp_min(1e-9) / 448
    return ((x / step).to(torch.float8_e4m3fn).float() * step).to(x.dtype)


def to_static_int8(x: Tensor) -> Tensor:
    """Round with a scale that was calibrated before: each channel on its own."""
    return ((x / 0.05).round().clamp(-128, 127) * 0.05).to(x.dtype)


def to_int8_below_6(x: Tensor) -> Tensor:
    """Keep channels with large values, as LLM.int8 does."""
    large = (x.abs() > 6).any(-2, keepdim=True)
    return torch.where(large, x, to_int8(x.masked_fill(large, 0)))


def same(x: Tensor) -> Tensor:
    return x


def llama(dtype: torch.dtype, width: int = 64) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval().to(dtype)


def with_own_forward(model: Any, rounded: Rounding) -> Any:
    """Replace `forward` of every linear layer, as compressed-tensors does."""

    def forward(self: nn.Linear, x: Tensor) -> Tensor:
        return type(self).forward(self, rounded(x))

    for path, part in model.named_modules():
        if type(part) is nn.Linear and path != "lm_head":
            vars(part)["forward"] = types.MethodType(forward, part)
    return model


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    "rounded", [to_int8, to_int8_in_groups, to_fp8, to_static_int8, to_int8_below_6]
)
def test_quantised_activations_are_refused(rounded: Rounding, dtype: torch.dtype) -> None:
    lens = Lens(with_own_forward(llama(dtype), rounded))
    before = lens.model(**GIVEN).logits
    for targets in (None, [-1]):
        with pytest.raises(UnsupportedModel, match=r"`model\.layers\.0\..*` .*is not linear"):
            lens.measure("attention", GIVEN, targets=targets)
    assert torch.equal(lens.model(**GIVEN).logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("width", [64, 4096])
def test_the_bar_holds_for_wide_layers(width: int, dtype: torch.dtype) -> None:
    part = nn.Linear(width, 128).to(dtype).eval()
    for rounded in (to_int8, to_fp8):
        model = with_own_forward(nn.Sequential(part), rounded)
        with pytest.raises(UnsupportedModel, match="quantises activations"):
            require_linear_modules(model)
    for large in (1, 50, 0):
        part.bias.data.mul_(large)
        require_linear_modules(with_own_forward(nn.Sequential(part), same))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_linear_modules_of_other_kinds_are_measured(dtype: torch.dtype) -> None:
    model = llama(dtype)
    plain = Lens(model).measure("attention_norm", GIVEN, targets=[-1]).scores
    kept = Lens(with_own_forward(model, same)).measure("attention_norm", GIVEN, targets=[-1])
    assert abs(kept.scores - plain).max() < (2e-2 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_adapters_are_linear(dtype: torch.dtype) -> None:
    peft = pytest.importorskip("peft")
    for options in ({}, {"use_dora": True}, {"lora_alpha": 400}):
        config = peft.LoraConfig(
            r=4, target_modules="all-linear", init_lora_weights=False, **options
        )
        model = peft.get_peft_model(llama(dtype), config, autocast_adapter_dtype=False)
        require_linear_modules(model.eval())
        with model.disable_adapter():
            require_linear_modules(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["falcon", "mixtral", "gpt2"])
def test_families_with_modules_of_their_own(family: str, dtype: torch.dtype) -> None:
    require_linear_modules(built(family).to(dtype))


def test_weights_that_stay_compressed_are_refused() -> None:
    model = with_own_forward(llama(torch.bfloat16), to_fp8)
    for layer in model.model.layers:
        own = layer.mlp.down_proj.weight
        own.data = own.data.to(torch.float8_e4m3fn)
    with pytest.raises(UnsupportedModel, match="still compressed after a run"):
        require_linear_modules(model.model.layers[0].mlp.down_proj)


def test_a_kernel_in_bfloat16_is_named() -> None:
    def halved(x: Tensor) -> Tensor:
        return x.bfloat16().float()

    with pytest.raises(UnsupportedModel, match=r"computes in bfloat16.*model in bfloat16"):
        require_linear_modules(with_own_forward(llama(torch.float32), halved))


@pytest.mark.filterwarnings("ignore")
def test_dynamic_quantisation_of_torch_is_refused() -> None:
    model = torch.ao.quantization.quantize_dynamic(built("bert"), {nn.Linear}).eval()
    with pytest.raises(UnsupportedModel, match="quantises activations"):
        Lens(model).measure("attention", GIVEN)


def test_a_changed_model_is_checked_again() -> None:
    lens = Lens(llama(torch.bfloat16))
    lens.measure("attention", GIVEN)
    with_own_forward(lens.model, to_int8)
    with pytest.raises(UnsupportedModel, match="is not linear"):
        lens.measure("attention", GIVEN)
