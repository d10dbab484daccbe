"""Convert Tracr's weights to a GPT-2 of transformers with the same states.

GPT-2 has layer norms and Tracr has none. Every channel x is therefore there twice, as x and -x, so
that the mean is zero; what reads it takes half of each. With an epsilon of 1e12 and a gain of 1e6
the norm then divides by one. Heads may need more channels than there are: zeros fill them up. GPT-2
divides by the root of the width of a head, Tracr by that of its keys, and queries make up for it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import transformers

EPSILON, GAIN = 1e12, 1e6
SPECIAL = {"BOS": 0, "PAD": 1}


def vocabulary(letters: str) -> dict[str, int]:
    """BOS, PAD, then the letters."""
    return SPECIAL | {letter: number for number, letter in enumerate(letters, start=2)}


def ported(compiled: Any, letters: str) -> transformers.GPT2LMHeadModel:
    """The compiled program as a model in float64; logit k is the k-th letter."""
    settings, weights = compiled.model_config, compiled.params
    heads, layers = settings.num_heads, settings.num_layers
    plain = len(compiled.residual_labels)
    channels = plain  # so many that they fall into heads wide enough for the keys
    while 2 * channels % heads or 2 * channels // heads < settings.key_size:
        channels += 1
    config = transformers.GPT2Config(
        vocab_size=len(letters) + len(SPECIAL),
        n_positions=weights["pos_embed"]["embeddings"].shape[0],
        n_embd=2 * channels,
        n_layer=layers,
        n_head=heads,
        n_inner=settings.mlp_hidden_size,
        activation_function="relu",
        layer_norm_epsilon=EPSILON,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=1,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = transformers.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        _fill(model, compiled, letters, channels)
    return model


def _fill(model: Any, compiled: Any, letters: str, channels: int) -> None:
    weights, ids_by_name = compiled.params, compiled.input_encoder.encoding_map
    body = model.transformer
    for norm in (body.ln_f, *(n for block in body.h for n in (block.ln_1, block.ln_2))):
        norm.weight.fill_(GAIN)
        norm.bias.zero_()
    names = {**dict.fromkeys(letters), "BOS": "BOS", "PAD": "compiler_pad"}
    for name, number in vocabulary(letters).items():
        row = weights["token_embed"]["embeddings"][ids_by_name[names[name] or name]]
        body.wte.weight[number] = _written(row, channels)
    body.wpe.weight.copy_(_written(weights["pos_embed"]["embeddings"], channels))
    for number, block in enumerate(body.h):
        part = f"transformer/layer_{number}"
        _fill_attention(block.attn, weights, f"{part}/attn", compiled.model_config, channels)
        first, second = (weights[f"{part}/mlp/linear_{k}"] for k in (1, 2))
        block.mlp.c_fc.weight.copy_(_read(first["w"], channels))
        block.mlp.c_fc.bias.copy_(_tensor(first["b"]))
        block.mlp.c_proj.weight.copy_(_written(second["w"], channels))
        block.mlp.c_proj.bias.copy_(_written(second["b"], channels))
    model.lm_head.weight.zero_()
    sink = compiled.output_name
    for number, letter in enumerate(letters):
        place = compiled.residual_labels.index(f"{sink}:{letter}")
        model.lm_head.weight[number, place] = 0.5
        model.lm_head.weight[number, channels + place] = -0.5


def _fill_attention(attention: Any, weights: Any, part: str, settings: Any, channels: int) -> None:
    heads, keys = settings.num_heads, settings.key_size
    width = 2 * channels // heads
    scale = {"query": math.sqrt(width / keys), "key": 1.0, "value": 1.0}
    attention.c_attn.weight.zero_()
    attention.c_attn.bias.zero_()
    for number, (name, factor) in enumerate(scale.items()):
        matrix = _read(weights[f"{part}/{name}"]["w"], channels) * factor
        offset = _tensor(weights[f"{part}/{name}"]["b"]) * factor
        for head in range(heads):
            start = number * 2 * channels + head * width
            columns = slice(head * keys, (head + 1) * keys)
            attention.c_attn.weight[:, start : start + keys] = matrix[:, columns]
            attention.c_attn.bias[start : start + keys] = offset[columns]
    output = _written(weights[f"{part}/linear"]["w"], channels)
    attention.c_proj.weight.zero_()
    for head in range(heads):
        attention.c_proj.weight[head * width : head * width + keys] = output[
            head * keys : (head + 1) * keys
        ]
    attention.c_proj.bias.copy_(_written(weights[f"{part}/linear"]["b"], channels))


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64))


def _written(array: Any, channels: int) -> torch.Tensor:
    """What goes into the stream: [..., plain] -> [..., x and -x], filled up with zeros."""
    values = _tensor(array)
    filled = torch.nn.functional.pad(values, (0, channels - values.shape[-1]))
    return torch.cat([filled, -filled], -1)


def _read(array: Any, channels: int) -> torch.Tensor:
    """What is taken out of the stream: [plain, out] -> [2 channels, out]."""
    values = _tensor(array)
    filled = torch.nn.functional.pad(values, (0, 0, 0, channels - values.shape[0]))
    return torch.cat([filled, -filled], 0) / 2
