"""DecompX by its equations, with plain loops over every vector.

Everything comes from hooks on the Hugging Face modules and from their weights. `Sharing` is the
table of section 3.2 of the paper, source by source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mixlens import Lens
from tests.measures import models, oracles, test_gradients

Vectors = dict[int, Tensor]  # of one target, by source
Affine = tuple[Tensor, Tensor]  # [in, out] and the bias


@dataclass
class LayerWeights:
    """One layer, read off its modules."""

    attention: Tensor  # [head, target, source]
    values: list[Affine]  # of each query head
    outputs: list[Tensor]  # its rows of W_O
    output_bias: Tensor
    first: Affine
    second: Affine
    gate: Affine | None
    activation: Callable[[Tensor], Tensor]
    before: oracles.Norm | None  # the norm in front of the attention
    middle: oracles.Norm  # after the attention block, or in front of the feed-forward part
    last: oracles.Norm | None


def _rows(weight: Tensor, count: int) -> list[Tensor]:
    return list(weight.detach().chunk(count))


def _heads(matrix: Tensor, bias: Tensor, count: int) -> list[Affine]:
    columns = zip(matrix.detach().chunk(count, 1), bias.detach().chunk(count), strict=True)
    return [(part, shift) for part, shift in columns]


def _linear(module: Any) -> Affine:
    bias = module.bias if module.bias is not None else module.weight.new_zeros(len(module.weight))
    return module.weight.detach().T, bias.detach()


def _bert(layer: Any, attention: Tensor) -> LayerWeights:
    dense = layer.attention.output.dense
    return LayerWeights(
        attention,
        _heads(*_linear(layer.attention.self.value), 4),
        _rows(dense.weight.T, 4),
        dense.bias.detach(),
        _linear(layer.intermediate.dense),
        _linear(layer.output.dense),
        None,
        F.gelu,
        None,
        oracles._layer_norm(layer.attention.output.LayerNorm),
        oracles._layer_norm(layer.output.LayerNorm),
    )


def _gpt2(layer: Any, attention: Tensor) -> LayerWeights:
    fused, out = layer.attn.c_attn, layer.attn.c_proj
    return LayerWeights(
        attention,
        _heads(fused.weight[:, 32:], fused.bias[32:], 4),
        _rows(out.weight, 4),
        out.bias.detach(),
        (layer.mlp.c_fc.weight.detach(), layer.mlp.c_fc.bias.detach()),
        (layer.mlp.c_proj.weight.detach(), layer.mlp.c_proj.bias.detach()),
        None,
        lambda x: F.gelu(x, approximate="tanh"),
        oracles._layer_norm(layer.ln_1),
        oracles._layer_norm(layer.ln_2),
        None,
    )


def _llama(layer: Any, attention: Tensor) -> LayerWeights:
    out = layer.self_attn.o_proj
    two = _heads(*_linear(layer.self_attn.v_proj), 2)  # each read by two query heads
    return LayerWeights(
        attention,
        [two[0], two[0], two[1], two[1]],
        _rows(out.weight.T, 4),
        _linear(out)[1],
        _linear(layer.mlp.up_proj),
        _linear(layer.mlp.down_proj),
        _linear(layer.mlp.gate_proj),
        F.silu,
        oracles._rms(layer.input_layernorm),
        oracles._rms(layer.post_attention_layernorm),
        None,
    )


READERS: dict[str, Any] = {
    "bert": (_bert, lambda model: model.encoder.layer),
    "gpt2": (_gpt2, lambda model: model.h),
    "llama": (_llama, lambda model: model.layers),
}


BARS = {"bert": 1e-9, "gpt2": 1e-9, "llama": 1e-5}  # Llama takes norms and softmax in float32


def _shared(parts: Vectors, constant: Tensor, how: str) -> Vectors:
    if how == "none":
        return parts
    weight = {
        "absdot": lambda vector: float(abs(vector @ constant)),
        "norm": lambda vector: float(vector.norm()),
        "equal": lambda vector: float(vector.norm() != 0),
    }[how]
    weights = {k: weight(vector) for k, vector in parts.items()}
    total = sum(weights.values())
    return {
        k: vector + (weights[k] / total * constant if total else 0) for k, vector in parts.items()
    }


def _normed(parts: Vectors, norm: oracles.Norm, whole: Tensor, how: str) -> Vectors:
    sigma = norm.sigma(whole)
    return _shared({k: norm.linear(v) / sigma for k, v in parts.items()}, norm.shift, how)


def _plain(norm: oracles.Norm, whole: Tensor) -> Tensor:
    return norm.linear(whole) / norm.sigma(whole) + norm.shift


def _after_feed_forward(layer: LayerWeights, parts: Vectors, whole: Tensor, how: str) -> Vectors:
    """`parts` and `whole` go into the feed-forward part."""
    (first, bias), (second, shift) = layer.first, layer.second
    hidden = _shared({k: v @ first for k, v in parts.items()}, bias, how)
    if layer.gate is None:
        slope = layer.activation(whole @ first + bias) / (whole @ first + bias)
    else:
        slope = layer.activation(whole @ layer.gate[0] + layer.gate[1])
    return _shared({k: (v * slope) @ second for k, v in hidden.items()}, shift, how)


def _layer(layer: LayerWeights, stream: Tensor, below: list[Vectors], how: str) -> Any:
    """The vectors of each target after a layer, and the stream there."""
    count, entering, normed = len(stream), stream, below
    if layer.before is not None:
        entering = torch.stack([_plain(layer.before, row) for row in stream])
        normed = [_normed(below[i], layer.before, stream[i], how) for i in range(count)]
    outputs, rows = [], []
    for i in range(count):
        parts = {k: torch.zeros_like(stream[0]) for k in range(count)}
        constant = layer.output_bias
        added = layer.output_bias
        for h, ((matrix, bias), out) in enumerate(zip(layer.values, layer.outputs, strict=True)):
            for j in range(count):
                weight = layer.attention[h, i, j]
                constant = constant + weight * bias @ out
                added = added + weight * (entering[j] @ matrix + bias) @ out
                for k in range(count):
                    parts[k] = parts[k] + weight * normed[j][k] @ matrix @ out
        parts = _shared(parts, constant, how)
        parts = {k: parts[k] + below[i][k] for k in parts}
        whole = stream[i] + added
        if layer.last is not None:  # post-norm: after the residual, twice
            parts, whole = _normed(parts, layer.middle, whole, how), _plain(layer.middle, whole)
            read, seen = parts, whole
        else:
            read, seen = _normed(parts, layer.middle, whole, how), _plain(layer.middle, whole)
        branch = _after_feed_forward(layer, read, seen, how)
        parts = {k: parts[k] + branch[k] for k in parts}
        whole = whole + _whole_feed_forward(layer, seen)
        if layer.last is not None:
            parts, whole = _normed(parts, layer.last, whole, how), _plain(layer.last, whole)
        outputs.append(parts)
        rows.append(whole)
    return outputs, torch.stack(rows)


def _whole_feed_forward(layer: LayerWeights, seen: Tensor) -> Tensor:
    up = seen @ layer.first[0] + layer.first[1]
    if layer.gate is None:
        hidden = layer.activation(up)
    else:
        hidden = layer.activation(seen @ layer.gate[0] + layer.gate[1]) * up
    return hidden @ layer.second[0] + layer.second[1]


def loops(name: str, model: Any, given: dict[str, Any], how: str) -> tuple[Tensor, list[Vectors]]:
    """Norms [layer, target, source], and the vectors after the last layer."""
    read, modules = READERS[name]
    more = {} if name == "bert" else {"use_cache": False}
    with torch.no_grad(), oracles._overhearing(model) as seen:
        attentions = model(**given, output_attentions=True, **more).attentions
    paths = {"bert": "encoder.layer.{}", "gpt2": "h.{}", "llama": "layers.{}"}
    stream = seen.inputs[paths[name].format(0)]
    parts = [
        {k: stream[i] if i == k else torch.zeros_like(stream[i]) for k in range(len(stream))}
        for i in range(len(stream))
    ]
    norms = []
    for number, (module, attention) in enumerate(zip(modules(model), attentions, strict=True)):
        parts, stream = _layer(read(module, attention[0]), stream, parts, how)
        torch.testing.assert_close(
            stream, seen.outputs[paths[name].format(number)], atol=BARS[name], rtol=BARS[name]
        )
        norms.append([[float(row[k].norm()) for k in range(len(stream))] for row in parts])
    return torch.tensor(norms, dtype=torch.float64), parts


@pytest.mark.parametrize("how", ["absdot", "norm", "equal", "none"])
@pytest.mark.parametrize("name", READERS)
def test_agrees_with_the_loops(name: str, how: str) -> None:
    """Post-norm; pre-norm and causal; RMS norms, grouped heads and a gate."""
    expected, _ = loops(name, models.build(name), models.inputs(name, 5), how)
    made = models.scores("decompx", models.recording(name, 5), bias=how).values[:, 0]
    torch.testing.assert_close(made, expected, atol=BARS[name], rtol=BARS[name])


@pytest.mark.parametrize("how", ["absdot", "equal"])
def test_a_next_word_after_gates(how: str) -> None:
    """Through RMS norms, grouped heads, gates, the last norm and the head, to one logit."""
    model, given = test_gradients.build("llama"), models.inputs("llama", 5)
    model.config._attn_implementation = "eager"
    recording = Lens(model).record(given)
    made = models.scores("decompx_logit", recording, word=7, bias=how).values[0, 0, 0]
    vectors = loops("llama", model.model, given, how)[1][-1]
    state, norm = sum(vectors.values()), oracles._rms(model.model.norm)
    assert isinstance(state, Tensor)
    row = model.lm_head.weight[7].detach() / norm.sigma(state)
    expected = torch.stack([norm.linear(vectors[k]) @ row for k in range(5)])
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(made.sum(), recording.output.logits[0, -1, 7], atol=1e-5, rtol=0)
