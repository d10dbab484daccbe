"""Tiny quantised models of every kind that loads on a CPU or GPU, for `benchmarks.quantised`.

Checkpoints of GPTQ, AWQ, fine-grained FP8, MXFP4 and GGUF are written by hand, those of
compressed-tensors by its own compressor. Everything else is quantised while transformers loads it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

DEVICE = "cpu"
F32, BF16 = torch.float32, torch.bfloat16
_GROUP, _BLOCK = 32, 64
_FORMATS = {
    "W4A16": "pack-quantized",
    "NVFP4A16": "nvfp4-pack-quantized",
    "W8A8": "int-quantized",
    "FP8_DYNAMIC": "float-quantized",
}


def plain_model() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=256,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model, drawn = transformers.LlamaForCausalLM(config), torch.Generator().manual_seed(1)
    for weight in model.parameters():
        noise = torch.randn(weight.shape, generator=drawn)
        weight.data = weight.data + 0.2 * noise if weight.dim() == 1 else 0.1 * noise
    return model.eval()


# ------------------------------------------------------------------------------- checkpoints


def _write(
    folder: Path, model: Any, tensors: dict[str, Tensor] | None, quantisation: dict[str, Any]
) -> None:
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"quantization_config": quantisation}
    path.write_text(json.dumps(config | {"dtype": "float32"}))
    if tensors is not None:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _packed_columns(x: Tensor, order: tuple[int, ...] = tuple(range(8))) -> Tensor:
    bits = x.reshape(x.shape[0], -1, 8)[..., list(order)] << (4 * torch.arange(8))
    whole = bits.sum(-1)
    return torch.where(whole >= 2**31, whole - 2**32, whole).to(torch.int32)


def _write_four_bits(folder: Path, kind: str) -> None:
    """Write GPTQ or AWQ: groups of inputs with a scale and a zero point."""
    model, tensors = plain_model(), {}
    for name, weight in model.state_dict().items():
        if "proj" not in name:
            tensors[name] = weight.clone()
            continue
        groups, base = weight.T.reshape(-1, _GROUP, weight.shape[0]), name.removesuffix(".weight")
        low, high = groups.amin(1), groups.amax(1)
        scale = ((high - low) / 15).half().float()
        zero = (-low / scale).round().clamp(0, 15).long()
        whole = (groups / scale[:, None] + zero[:, None]).round().clamp(0, 15).long().flatten(0, 1)
        tensors[f"{base}.scales"] = scale.half()
        if kind == "gptq":
            tensors[f"{base}.qweight"] = _packed_columns(whole.T.contiguous()).T.contiguous()
            tensors[f"{base}.qzeros"] = _packed_columns(zero - 1 & 15)
            tensors[f"{base}.g_idx"] = (torch.arange(weight.shape[1]) // _GROUP).to(torch.int32)
        else:
            order = (0, 2, 4, 6, 1, 3, 5, 7)
            tensors[f"{base}.qweight"] = _packed_columns(whole, order)
            tensors[f"{base}.qzeros"] = _packed_columns(zero, order)
    own: dict[str, Any] = {"quant_method": kind, "bits": 4, "group_size": _GROUP}
    own |= {
        "gptq": {"desc_act": False, "sym": False, "checkpoint_format": "gptq"},
        "awq": {"zero_point": True, "version": "gemm"},
    }[kind]
    _write(folder, model, tensors, own)


def _write_fp8(folder: Path, dequantize: bool = True) -> None:
    model, tensors = plain_model(), {}
    for name, weight in model.state_dict().items():
        if "proj" not in name:
            tensors[name] = weight.clone()
            continue
        blocks = weight.unflatten(0, (-1, _BLOCK)).unflatten(2, (-1, _BLOCK))
        scale = blocks.abs().amax((1, 3)) / 448
        whole = (blocks / scale[:, None, :, None]).flatten(2).flatten(0, 1)
        tensors[name] = whole.to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scale
    own: dict[str, Any] = {"quant_method": "fp8", "weight_block_size": [_BLOCK] * 2}
    own |= {"dequantize": dequantize, "activation_scheme": "dynamic"}
    _write(folder, model, tensors, own)


def _gguf(folder: Path, dtype: torch.dtype, kind: str) -> Any:
    """Write a GGUF file, which transformers unpacks while it loads it."""
    library: Any = importlib.import_module("gguf")
    model, form = plain_model(), library.GGMLQuantizationType[kind]
    writer, config = library.GGUFWriter(folder / "model.gguf", "llama"), model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    for name, weight in model.state_dict().items():
        for old, new in _GGUF_NAMES.items():
            name = name.replace(old, new)
        if "attn_q." in name or "attn_k." in name:  # the halves of rotary pairs alternate
            weight = (
                weight.unflatten(0, (-1, 2, config.head_dim // 2)).transpose(1, 2).flatten(0, 2)
            )
        numbers = weight.float().contiguous().numpy()
        if "blk" in name and numbers.ndim == 2:
            packed = library.quants.quantize(numbers, form)
            writer.add_tensor(name, packed, raw_dtype=form)
        else:
            writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return _loaded(folder, dtype, gguf_file="model.gguf")


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _write_mxfp4(folder: Path) -> None:
    """Write experts of random four-bit numbers: every byte is a pair of them."""
    config = transformers.GptOssConfig(
        vocab_size=256, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_local_experts=4,
        num_experts_per_tok=2, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model, tensors = transformers.GptOssForCausalLM(config).eval(), {}
    for name, weight in model.state_dict().items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = weight.clone().bfloat16()
            continue
        experts, inputs, outputs = weight.shape
        shape = experts, outputs, inputs // 32
        tensors[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
        tensors[f"{name}_scales"] = torch.randint(121, 124, shape, dtype=torch.uint8)
    skipped = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens"]
    own = {"quant_method": "mxfp4", "modules_to_not_convert": [*skipped, "lm_head"]}
    _write(folder, model, tensors, own)


def _write_compressed(folder: Path, preset: str) -> None:
    compressors: Any = importlib.import_module("compressed_tensors.compressors")
    library: Any = importlib.import_module("compressed_tensors.quantization")
    parameters: Any = importlib.import_module("compressed_tensors.quantization.utils")
    model, scheme = plain_model(), library.preset_name_to_scheme(preset, ["Linear"])
    config = library.QuantizationConfig(
        config_groups={"group_0": scheme},
        ignore=["lm_head"],
        format=_FORMATS[preset],
        quantization_status="frozen",
    )
    library.apply_quantization_config(model, config)
    for part in model.modules():
        if getattr(part, "quantization_scheme", None) is not None:
            _set_scales(part, part.quantization_scheme.weights, parameters)
    compressors.ModelCompressor(quantization_config=config).compress_model(model)
    model.save_pretrained(folder)
    own = json.loads(config.model_dump_json())
    own |= {"quant_method": "compressed-tensors", "quantization_status": "compressed"}
    _write(folder, model, None, own)


def _set_scales(part: Any, args: Any, parameters: Any) -> None:
    weight, more = part.weight.data, {}
    size = args.group_size if "group" in args.strategy else weight.shape[1]
    groups = weight.reshape(weight.shape[0], -1, size)
    if hasattr(part, "weight_global_scale"):
        whole = parameters.generate_gparam(weight.amin(), weight.amax())
        part.weight_global_scale.data.copy_(whole.reshape(part.weight_global_scale.shape))
        more["global_scale"] = part.weight_global_scale
    ends = groups.amin(-1), groups.amax(-1)
    scale, zero = parameters.calculate_qparams(*ends, args, **more)
    part.weight_scale.data.copy_(scale.reshape(part.weight_scale.shape))
    if hasattr(part, "weight_zero_point"):
        part.weight_zero_point.data.copy_(zero.reshape(part.weight_zero_point.shape))


# ----------------------------------------------------------------------------------- loading


def _loaded(folder: Path, dtype: torch.dtype, **options: Any) -> Any:
    auto = transformers.AutoModelForCausalLM
    return auto.from_pretrained(folder, device_map=DEVICE, dtype=dtype, **options).eval()


def _plain(folder: Path, dtype: torch.dtype, **options: Any) -> Any:
    plain_model().save_pretrained(folder)
    return _loaded(folder, dtype, **options)


def _written(write: Callable[[Path], None], folder: Path, dtype: torch.dtype) -> Any:
    write(folder)
    return _loaded(folder, dtype)


def _bitsandbytes(folder: Path, dtype: torch.dtype, **options: Any) -> Any:
    config = transformers.BitsAndBytesConfig(bnb_4bit_compute_dtype=dtype, **options)
    return _plain(folder, dtype, quantization_config=config)


def _quanto(folder: Path, dtype: torch.dtype, weights: str) -> Any:
    return _plain(folder, dtype, quantization_config=transformers.QuantoConfig(weights=weights))


def _quanto_activations(folder: Path, dtype: torch.dtype) -> Any:
    quanto: Any = importlib.import_module("optimum.quanto")
    model = _plain(folder, dtype)
    quanto.quantize(model, weights=quanto.qint8, activations=quanto.qint8, exclude="lm_head")
    with quanto.Calibration(), torch.no_grad():
        model(input_ids=torch.arange(3, 40, device=model.device)[None])
    quanto.freeze(model.eval())
    return model


def _torchao(folder: Path, dtype: torch.dtype, name: str, **options: Any) -> Any:
    library: Any = importlib.import_module("torchao.quantization")
    config = transformers.TorchAoConfig(getattr(library, name)(**options))
    return _plain(folder, dtype, quantization_config=config)


def _hqq(folder: Path, dtype: torch.dtype, bits: int) -> Any:
    """Use the module of hqq itself: transformers 5.22 does not load it."""
    library: Any = importlib.import_module("hqq.core.quantize")
    library.HQQLinear.set_backend(library.HQQBackend.PYTORCH)
    model, how = _plain(folder, dtype), library.BaseQuantizeConfig(nbits=bits, group_size=64)
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if type(part) is nn.Linear and name != "lm_head":
                own = library.HQQLinear(part, how, compute_dtype=dtype, device=DEVICE)
                setattr(parent, name, own)
    return model.eval()


Load = Callable[[Path, torch.dtype], Any]
_DYNAMIC = "Int8DynamicActivationInt8WeightConfig"
_DYNAMIC_FP8 = "Float8DynamicActivationFloat8WeightConfig"

KINDS: dict[tuple[str, str], Load] = {
    ("transformers", "plain"): _plain,
    ("bitsandbytes", "nf4"): partial(_bitsandbytes, load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    ("bitsandbytes", "fp4"): partial(_bitsandbytes, load_in_4bit=True, bnb_4bit_quant_type="fp4"),
    ("hqq", "3 bits"): partial(_hqq, bits=3),
    ("hqq", "4 bits"): partial(_hqq, bits=4),
    ("hqq", "8 bits"): partial(_hqq, bits=8),
    ("gptqmodel", "GPTQ, 4 bits"): partial(_written, partial(_write_four_bits, kind="gptq")),
    ("gptqmodel", "AWQ, 4 bits"): partial(_written, partial(_write_four_bits, kind="awq")),
    ("optimum-quanto", "int4 weights"): partial(_quanto, weights="int4"),
    ("optimum-quanto", "int8 weights"): partial(_quanto, weights="int8"),
    ("optimum-quanto", "float8 weights"): partial(_quanto, weights="float8"),
    ("torchao", "int8 weights"): partial(_torchao, name="Int8WeightOnlyConfig"),
    ("torchao", "float8 weights"): partial(_torchao, name="Float8WeightOnlyConfig"),
    ("torchao", "int4 weights"): partial(_torchao, name="Int4WeightOnlyConfig", group_size=32),
    ("torchao", "intx weights"): partial(_torchao, name="IntxWeightOnlyConfig"),
    ("compressed-tensors", "W4A16"): partial(_written, partial(_write_compressed, preset="W4A16")),
    ("compressed-tensors", "NVFP4A16"): partial(
        _written, partial(_write_compressed, preset="NVFP4A16")
    ),
    ("transformers", "fine-grained FP8, dequantize=True"): partial(_written, _write_fp8),
    ("transformers", "fine-grained FP8"): partial(_written, partial(_write_fp8, dequantize=False)),
    ("gguf", "Q4_0"): partial(_gguf, kind="Q4_0"),
    ("gguf", "Q8_0"): partial(_gguf, kind="Q8_0"),
    ("transformers", "MXFP4 (gpt-oss)"): partial(_written, _write_mxfp4),
    ("bitsandbytes", "LLM.int8"): partial(_bitsandbytes, load_in_8bit=True),
    ("optimum-quanto", "int8 weights and activations"): _quanto_activations,
    ("torchao", "int8 weights, dynamic int8 activations"): partial(_torchao, name=_DYNAMIC),
    ("torchao", "float8 weights, dynamic float8 activations"): partial(_torchao, name=_DYNAMIC_FP8),
    ("compressed-tensors", "W8A8"): partial(_written, partial(_write_compressed, preset="W8A8")),
    ("compressed-tensors", "FP8 dynamic"): partial(
        _written, partial(_write_compressed, preset="FP8_DYNAMIC")
    ),
}


def models(words: list[str]) -> Iterator[tuple[str, str, torch.dtype, Load]]:
    """Yield library, format, dtype and loader of the kinds that contain one of these words."""
    for (library, form), load in KINDS.items():
        for dtype in (F32, BF16):
            if not words or any(word in f"{library} {form}" for word in words):
                yield library, form, dtype, load
