"""The papers' equations as plain loops over the model's own modules: slow, and independent of how
mixlens records or computes.

A `Block` is one attention block of one layer. Everything in it comes from hooks on the Hugging Face
modules, from their weights and from `output_attentions=True`; T_ij is built vector by vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Norm:
    """gain * (u - mean u) / sqrt(var u + eps) + shift, written from its definition; an RMS norm
    does not centre.
    """

    gain: Tensor
    shift: Tensor
    epsilon: float
    centred: bool

    def sigma(self, u: Tensor) -> Tensor:
        mean = u.sum() / len(u) if self.centred else 0.0
        return (((u - mean) ** 2).sum() / len(u) + self.epsilon) ** 0.5

    def linear(self, u: Tensor) -> Tensor:
        return self.gain * (u - u.sum() / len(u) if self.centred else u)


@dataclass
class Block:
    """One attention block, everything detached from the model."""

    attention: Tensor  # [head, target, source]
    f: Tensor  # [head, source, d_model]
    bias: Tensor  # b_O
    residual: Tensor  # [target, d_model]
    branch: Norm | None
    norm: Norm | None
    causal: bool
    cross: bool = False
    second_norm: Norm | None = None
    second_input: Tensor | None = None
    seen_output: Tensor | None = None  # y, if the model shows it

    def __post_init__(self) -> None:
        self.bias = self.bias.detach()

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.attention.shape[1]), int(self.attention.shape[2])

    def written(self, i: int, j: int) -> Tensor:
        """c_ij"""
        total = torch.zeros_like(self.bias)
        for h in range(len(self.f)):
            total = total + self.attention[h, i, j] * self.f[h, j]
        return total

    def module_output(self, i: int) -> Tensor:
        """o_i"""
        return (
            sum((self.written(i, j) for j in range(self.shape[1])), torch.zeros_like(self.bias))
            + self.bias
        )

    def branch_part(self, i: int, vector: Tensor) -> Tensor:
        """A part of o_i after the branch's norm, sigma held at its true value."""
        return (
            vector
            if self.branch is None
            else self.branch.linear(vector) / self.branch.sigma(self.module_output(i))
        )

    def before_norm(self, i: int) -> Tensor:
        o = self.branch_part(i, self.module_output(i))
        if self.branch is not None:
            o = o + self.branch.shift
        return self.residual[i] + o

    def output(self, i: int) -> Tensor:
        """y_i"""
        total = self.before_norm(i)
        return (
            total
            if self.norm is None
            else self.norm.linear(total) / self.norm.sigma(total) + self.norm.shift
        )

    def added(self, i: int, j: int) -> Tensor:
        """c_ij + delta_ij x_i, before the output norm"""
        part = self.branch_part(i, self.written(i, j))
        return part + self.residual[i] if i == j and not self.cross else part

    def normed(self, i: int, vector: Tensor) -> Tensor:
        return (
            vector
            if self.norm is None
            else self.norm.linear(vector) / self.norm.sigma(self.before_norm(i))
        )

    def part(self, i: int, j: int) -> Tensor:
        """T_ij"""
        return self.normed(i, self.added(i, j))


# ----------------------------------------------------------------------------------------- measures


def _map(block: Block, score: Callable[[int, int], Any]) -> Tensor:
    targets, sources = block.shape
    return torch.tensor(
        [[float(score(i, j)) for j in range(sources)] for i in range(targets)], dtype=torch.float64
    )


def attention_norm(block: Block) -> Tensor:
    return _map(block, lambda i, j: block.written(i, j).norm())


def _of_head(block: Block, head: int, i: int, j: int) -> Tensor:
    return (block.attention[head, i, j] * block.f[head, j]).norm()


def attention_norm_per_head(block: Block) -> Tensor:
    return torch.stack([_map(block, partial(_of_head, block, h)) for h in range(len(block.f))])


def contribution_weights(block: Block) -> Tensor:
    sources = range(block.shape[1])

    def score(i: int, j: int) -> Tensor:
        whole = sum((block.written(i, k) for k in sources), torch.zeros_like(block.bias))
        return (block.written(i, j) @ whole) / (whole @ whole)

    return _map(block, score)


def contribution_weights_per_head(block: Block) -> Tensor:
    alone = [
        replace(block, attention=block.attention[[h]], f=block.f[[h]]) for h in range(len(block.f))
    ]
    return torch.stack([contribution_weights(head) for head in alone])


def uncancelled(block: Block) -> Tensor:
    """|o_i| / sum_j |c_ij|"""
    targets, sources = block.shape
    ratios = []
    for i in range(targets):
        written = [block.written(i, j) for j in range(sources)]
        whole = sum(written, torch.zeros_like(block.bias))
        ratios.append(float(whole.norm()) / sum(float(each.norm()) for each in written))
    return torch.tensor(ratios, dtype=torch.float64)


def attention_norm_res(block: Block) -> Tensor:
    return _map(block, lambda i, j: block.added(i, j).norm())


def attention_norm_res_ln(block: Block) -> Tensor:
    return _map(block, lambda i, j: block.part(i, j).norm())


def mixing_ratio(block: Block) -> Tensor:
    targets, sources = block.shape
    ratios = []
    for i in range(targets):
        others = sum(
            (block.part(i, j) for j in range(sources) if j != i), torch.zeros_like(block.bias)
        ).norm()
        ratios.append(float(others / (others + block.part(i, i).norm())))
    return torch.tensor(ratios, dtype=torch.float64)


def globenc(block: Block) -> Tensor:
    second, entering = block.second_norm, block.second_input
    assert second is not None
    assert entering is not None
    return _map(
        block, lambda i, j: (second.linear(block.part(i, j)) / second.sigma(entering[i])).norm()
    )


def alti_gains(block: Block) -> tuple[Tensor, Tensor]:
    """Contributions of the sources and, for cross-attention, of the residual stream."""
    targets, _ = block.shape

    def gain(i: int, part: Tensor) -> float:
        y = block.output(i)
        return max(0.0, float(y.abs().sum() - (y - part).abs().sum()))

    gains = _map(block, lambda i, j: gain(i, block.part(i, j)))
    own = [
        gain(i, block.normed(i, block.residual[i])) if block.cross else 0.0 for i in range(targets)
    ]
    return gains, torch.tensor(own, dtype=torch.float64)


def alti(block: Block) -> Tensor:
    gains, own = alti_gains(block)
    return (gains / (gains.sum(-1) + own)[:, None]).nan_to_num(
        0
    )  # 0 / 0: no part brings the output nearer


def effective_attention(block: Block, *, ones: bool = False) -> Tensor:
    """A minus its projection onto the left null space of T (or [T, 1]), T the rows that the target
    sees, with all of W_O in it.
    """
    heads, targets, sources = block.attention.shape
    result = torch.zeros_like(block.attention)
    for h in range(heads):
        for i in range(targets):
            count = i + 1 if block.causal else sources
            t = block.f[h, :count]
            if ones:
                t = torch.cat([t, torch.ones(count, 1, dtype=t.dtype)], 1)
            left, sizes, _ = torch.linalg.svd(t, full_matrices=True)
            null = left[:, int((sizes > 1e-10 * sizes[0]).sum()) :]
            row = block.attention[h, i, :count]
            for direction in null.T:
                result[h, i, :count] -= (row @ direction) * direction
            result[h, i, :count] += row
    return result


# ----------------------------------------------------------------------------------- from the model


@dataclass
class Seen:
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)


@contextmanager
def _overhearing(model: nn.Module) -> Iterator[Seen]:
    seen, handles = Seen(), []
    for path, module in model.named_modules():

        def keep(_: nn.Module, args: Any, kwargs: Any, output: Any, path: str = path) -> None:
            tensors = [
                value
                for value in (*args, *kwargs.values())
                if isinstance(value, Tensor) and value.is_floating_point()
            ]
            if tensors:
                seen.inputs[path] = tensors[0][0].detach().clone()
            output = output[0] if isinstance(output, tuple) else output
            if isinstance(output, Tensor):
                seen.outputs[path] = output[0].detach().clone()

        handles.append(module.register_forward_hook(keep, with_kwargs=True))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _layer_norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.bias.detach(), module.eps, True)


def _rms(module: Any, plus: float = 0.0) -> Norm:
    epsilon = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
    return Norm(module.weight.detach() + plus, torch.zeros_like(module.weight), epsilon, False)


def _heads(values: Tensor, heads: int, repeats: int = 1) -> Tensor:
    """[source, head * d_head] -> [head, source, d_head], each key-value head as often as query
    heads read it.
    """
    split = values.reshape(values.shape[0], heads, -1).transpose(0, 1)
    return torch.stack([split[h] for h in range(heads) for _ in range(repeats)])


def _transformed(values: Tensor, weight: Tensor) -> Tensor:
    """f: the values of each head times its rows of W_O ([head * d_head, d_model])."""
    heads, _, size = values.shape
    return torch.stack(
        [values[h] @ weight[h * size : (h + 1) * size] for h in range(heads)]
    ).detach()


def _bert(model: Any, seen: Seen, index: int, attention: Tensor) -> Block:
    layer, at = model.encoder.layer[index], f"encoder.layer.{index}"
    x, dense = seen.inputs[at], layer.attention.output.dense
    f = _transformed(_heads(layer.attention.self.value(x), 4), dense.weight.T)
    return Block(
        attention,
        f,
        dense.bias,
        x,
        None,
        _layer_norm(layer.attention.output.LayerNorm),
        False,
        second_norm=_layer_norm(layer.output.LayerNorm),
        second_input=seen.inputs[f"{at}.output.LayerNorm"],
        seen_output=seen.outputs[f"{at}.attention.output.LayerNorm"],
    )


def _gpt2(model: Any, seen: Seen, index: int, attention: Tensor) -> Block:
    layer, x = model.h[index], seen.inputs[f"h.{index}"]
    projection = layer.attn.c_proj
    values = layer.attn.c_attn(layer.ln_1(x))[:, 2 * x.shape[1] :]
    f = _transformed(_heads(values, 4), projection.weight)
    return Block(
        attention,
        f,
        projection.bias,
        x,
        None,
        None,
        True,
        seen_output=seen.inputs[f"h.{index}.ln_2"],
    )


def _llama(model: Any, seen: Seen, index: int, attention: Tensor) -> Block:
    layer, x = model.layers[index], seen.inputs[f"layers.{index}"]
    projection = layer.self_attn.o_proj
    f = _transformed(
        _heads(layer.self_attn.v_proj(layer.input_layernorm(x)), 2, 2), projection.weight.T
    )
    return Block(
        attention,
        f,
        projection.bias,
        x,
        None,
        None,
        True,
        seen_output=seen.inputs[f"layers.{index}.post_attention_layernorm"],
    )


def _gemma2(model: Any, seen: Seen, index: int, attention: Tensor) -> Block:
    layer, x = model.layers[index], seen.inputs[f"layers.{index}"]
    projection = layer.self_attn.o_proj
    f = _transformed(
        _heads(layer.self_attn.v_proj(layer.input_layernorm(x)), 2, 2), projection.weight.T
    )
    after, zero = _rms(layer.post_attention_layernorm, plus=1.0), torch.zeros_like(x[0])
    return Block(
        attention,
        f,
        zero,
        x,
        after,
        None,
        True,
        seen_output=seen.inputs[f"layers.{index}.pre_feedforward_layernorm"],
    )


def _gpt_neox(model: Any, seen: Seen, index: int, attention: Tensor) -> Block:
    layer, x = model.layers[index], seen.inputs[f"layers.{index}"]
    projection = layer.attention.dense
    fused = layer.attention.query_key_value(layer.input_layernorm(x)).reshape(
        len(x), 4, 3, -1
    )  # per head: query, key, value
    f = _transformed(fused[:, :, 2].transpose(0, 1), projection.weight.T)
    return Block(attention, f, projection.bias, x, None, None, True)


def _bart(model: Any, seen: Seen, index: int, attention: Tensor, site: str) -> Block:
    stack = "encoder" if site == "encoder" else "decoder"
    at, layer = f"{stack}.layers.{index}", getattr(model, stack).layers[index]
    x, attend, name = seen.inputs[at], layer.self_attn, "self_attn_layer_norm"
    source = x
    if site == "cross":
        x, source = seen.outputs[f"{at}.self_attn_layer_norm"], seen.outputs["encoder.layers.1"]
        attend, name = layer.encoder_attn, "encoder_attn_layer_norm"
    f = _transformed(_heads(attend.v_proj(source), 4), attend.out_proj.weight.T)
    norm, y = _layer_norm(getattr(layer, name)), seen.outputs[f"{at}.{name}"]
    second: dict[str, Any] = {
        "second_norm": _layer_norm(layer.final_layer_norm),
        "second_input": seen.inputs[f"{at}.final_layer_norm"],
    }
    return Block(
        attention,
        f,
        attend.out_proj.bias,
        x,
        None,
        norm,
        site == "decoder",
        cross=site == "cross",
        seen_output=y,
        **second,
    )


_READERS = {"bert": _bert, "gpt2": _gpt2, "llama": _llama, "gemma2": _gemma2, "gpt_neox": _gpt_neox}
_BART_ATTENTIONS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


def blocks(
    name: str, model: nn.Module, given: dict[str, Any], site: str | None = None
) -> list[Block]:
    """The attention blocks of every layer, read off the running model."""
    with torch.no_grad(), _overhearing(model) as seen:
        output = (
            model(**given, output_attentions=True, use_cache=False)
            if name != "bert"
            else model(**given, output_attentions=True)
        )
        if name == "bart":
            maps = output[_BART_ATTENTIONS[site or "encoder"]]
            return [
                _bart(model, seen, index, attention[0], site or "encoder")
                for index, attention in enumerate(maps)
            ]
        return [
            _READERS[name](model, seen, index, attention[0])
            for index, attention in enumerate(output.attentions)
        ]


def blocks_checked(
    name: str, model: nn.Module, given: dict[str, Any], site: str | None = None
) -> list[Block]:
    """The same; fails if the oracle's own output is not the model's."""
    recorded = blocks(name, model, given, site)
    for block in recorded:
        if block.seen_output is None:
            continue
        for i in range(block.shape[0]):
            torch.testing.assert_close(
                block.output(i), block.seen_output[i], atol=1e-12, rtol=1e-12
            )
    return recorded
