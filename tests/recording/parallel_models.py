"""Tiny models with the tensor-parallel and expert-parallel plans of transformers, in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers

import mixlens
from mixlens.model.distributed import spread_options

_SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_NEOX = {name: size for name, size in _SIZES.items() if name != "num_key_value_heads"}
_WINDOW = {**_SIZES, "head_dim": 8, "sliding_window": 4}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_BIASED = {"attention_bias": True, "mlp_bias": True}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {**_SIZES, **_BIASED}),
    "qwen3": ("Qwen3", {**_SIZES, "head_dim": 16, "attention_bias": True}),
    "mixtral": ("Mixtral", {**_SIZES, **_EXPERTS}),
    "gemma3": ("Gemma3", _WINDOW),
    "gpt_neox": ("GPTNeoX", _NEOX),
    "gpt_oss": ("GptOss", {**_WINDOW, **_EXPERTS}),
    "gemma2": ("Gemma2", _WINDOW),
    "phi3": ("Phi3", _SIZES),
    "olmo2": ("Olmo2", _SIZES),
    "cohere": ("Cohere", _SIZES),
    "wide_llama": (
        "Llama",
        {**_SIZES, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8},
    ),
}
_EXPERTS_ONLY = ("gpt_oss",)  # it has no tensor-parallel plan


def save(name: str, folder: Path) -> None:
    """Save a model with random weights, biases and norms."""
    kind, settings = MODELS[name]
    config = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, config)(**settings))
    drawn = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        size = 0.3 if weight.dim() == 1 else weight.shape[-1] ** -0.5
        around = weight.data if weight.dim() == 1 else 0.0
        weight.data = around + size * torch.randn(weight.shape, generator=drawn)
    model.save_pretrained(folder / name)


def load(name: str, folder: Path, dtype: torch.dtype, processes: int = 1) -> Any:
    """Load it as transformers does, spread over this number of processes."""
    options: dict[str, Any] = {"dtype": dtype, **spread_options(processes)}
    if processes > 1 and name in _EXPERTS_ONLY:
        from transformers.distributed import DistributedConfig

        experts: dict[str, Any] = {"enable_expert_parallel": True}
        if hasattr(DistributedConfig(), "ep_size"):
            experts = {"ep_size": processes, "tp_plan": {}}
        if "distributed_config" in options:
            experts["tp_size"] = processes
        options["distributed_config"] = DistributedConfig(**experts)
    kind: Any = transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder / name, **options).eval()


def save_reader(folder: Path) -> None:
    """Save a Llama with the tokenizer of the bundled one."""
    bundled = Path(mixlens.__file__).parent / "bundled" / "causal"
    words = len(transformers.AutoTokenizer.from_pretrained(bundled))
    MODELS["reader"] = ("Llama", {**_SIZES, "vocab_size": words})
    save("reader", folder)
    for file in bundled.glob("tokenizer*"):
        shutil.copy(file, folder / "reader")
