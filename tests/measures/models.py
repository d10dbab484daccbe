"""Small float64 models for the oracles, every weight, bias and norm random, and inputs for them."""

from __future__ import annotations

import functools
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

from mixlens import Lens
from mixlens.contracts import Request, Scores
from mixlens.measures import scores_of
from mixlens.recording.recording import Recording

_SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
_CAUSAL: dict[str, Any] = {
    **_SIZES,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BART: dict[str, Any] = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}

BUILDERS = {
    "bert": lambda: hf.BertModel(
        hf.BertConfig(**_SIZES, max_position_embeddings=40, layer_norm_eps=1e-3),
        add_pooling_layer=False,
    ),
    "gpt2": lambda: hf.GPT2Model(
        hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40)
    ),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**_CAUSAL, attention_bias=True)),
    "gemma2": lambda: hf.Gemma2Model(
        hf.Gemma2Config(
            **_CAUSAL,
            head_dim=4,
            query_pre_attn_scalar=4,
            sliding_window=6,
            layer_types=["full_attention"] * 2,
        )
    ),
    "gpt_neox": lambda: hf.GPTNeoXModel(
        hf.GPTNeoXConfig(**_SIZES, max_position_embeddings=40, use_parallel_residual=True)
    ),
    "bart": lambda: hf.BartModel(hf.BartConfig(**_BART)),
}


class PlainRms(nn.Module):
    """Gemma's norm in the precision of its input; transformers' own computes in float32, which
    hides errors below 1e-7.
    """

    def __init__(self, like: Any) -> None:
        super().__init__()
        self.eps, self.weight = like.eps, like.weight

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def _with_plain_norms(model: Any) -> Any:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "Gemma2RMSNorm":
                setattr(parent, name, PlainRms(child))
    return model


def randomised(model: Any, seed: int = 0) -> Any:
    """Every parameter random: what a fresh model has as zeros and ones hides forgotten biases and
    norms.
    """
    generator = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(
                noise * (0.25 if parameter.dim() > 1 else 0.4)
                + (0.0 if parameter.dim() > 1 else 0.3)
            )
    return model


@functools.cache
def build(name: str, seed: int = 0) -> Any:
    model = randomised(_with_plain_norms(BUILDERS[name]()), seed)
    model.config._attn_implementation = "eager"
    return model


def inputs(name: str, length: int, *, prefix: int = 5, seed: int = 0) -> dict[str, Any]:
    """One row of tokens, none of them twice."""
    generator = torch.Generator().manual_seed(seed)
    ids = (torch.randperm(47, generator=generator) + 3)[:length][None]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if name == "bart":
        tensors["decoder_input_ids"] = (torch.randperm(47, generator=generator) + 3)[:prefix][None]
    return tensors


def padded_inputs(name: str, lengths: list[int]) -> dict[str, Any]:
    """Several rows of different lengths, padded on the right; row k alone is `inputs(name,
    lengths[k], seed=k)`.
    """
    rows = [inputs(name, length, seed=k) for k, length in enumerate(lengths)]
    width = max(lengths)

    def stacked(key: str) -> Tensor:
        return torch.cat(
            [
                nn.functional.pad(row[key], (0, width - length))
                for row, length in zip(rows, lengths, strict=True)
            ]
        )

    tensors = {"input_ids": stacked("input_ids"), "attention_mask": stacked("attention_mask")}
    if name == "bart":
        tensors["decoder_input_ids"] = torch.cat([row["decoder_input_ids"] for row in rows])
    return tensors


@functools.cache
def recording(name: str, length: int, seed: int = 0) -> Recording:
    return Lens(build(name)).record(inputs(name, length, seed=seed))


def scores(
    measure: str,
    recorded: Recording,
    *,
    site: str | None = None,
    layers: Any = None,
    targets: Any = None,
    per_head: bool = False,
    **options: Any,
) -> Scores:
    """What a measure's own file returns."""
    request = Request.resolved(
        recorded, site=site, layers=layers, targets=targets, per_head=per_head
    )
    return scores_of(measure, recorded, request, options)


SELF = [
    ("bert", "encoder"),
    ("gpt2", "decoder"),
    ("llama", "decoder"),
    ("gemma2", "decoder"),
    ("gpt_neox", "decoder"),
]
SELF += [("bart", "encoder"), ("bart", "decoder")]
SITES = [*SELF, ("bart", "cross")]
# They take the softmax in float32 whatever their precision, and its last bit depends on the
# processor and on how wide a row is.
FLOAT32_SOFTMAX = {"llama", "gemma2", "gpt_neox"}
LENGTHS = [3, 9]  # below and above d_head = 4
