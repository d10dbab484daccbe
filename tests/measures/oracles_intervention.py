"""Interventions and gradients as plain loops over the Hugging Face modules, one edit or one
derivative at a time.

Nothing of mixlens is used here. Layers are called again with what they were called with, while a
hook edits one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass
class Anatomy:
    """Where an architecture keeps what the loops need."""

    layers: Callable[[Any], Any]
    attention: Callable[[Any], Any]  # of a layer
    value: str  # submodule of the attention module whose output holds the values
    output: str  # and the one that takes A V
    part: Callable[[Tensor, int], Tensor] = lambda out, heads: (
        out
    )  # the view of `value`'s output that is the values, [1, n, kv * d_head]


def _fused_by_head(out: Tensor, heads: int) -> Tensor:
    """GPT-NeoX: query, key and value of each head side by side."""
    shaped = out.view(*out.shape[:-1], heads, -1)
    return shaped[..., 2 * (shaped.shape[-1] // 3) :]


def _third(out: Tensor, heads: int) -> Tensor:
    return out[..., 2 * (out.shape[-1] // 3) :]


ANATOMY = {
    ("bert", "encoder"): Anatomy(
        lambda m: m.encoder.layer, lambda layer: layer.attention, "self.value", "output.dense"
    ),
    ("gpt2", "decoder"): Anatomy(
        lambda m: m.h, lambda layer: layer.attn, "c_attn", "c_proj", _third
    ),
    ("llama", "decoder"): Anatomy(
        lambda m: m.layers, lambda layer: layer.self_attn, "v_proj", "o_proj"
    ),
    ("gemma2", "decoder"): Anatomy(
        lambda m: m.layers, lambda layer: layer.self_attn, "v_proj", "o_proj"
    ),
    ("gpt_neox", "decoder"): Anatomy(
        lambda m: m.layers,
        lambda layer: layer.attention,
        "query_key_value",
        "dense",
        _fused_by_head,
    ),
    ("bart", "encoder"): Anatomy(
        lambda m: m.encoder.layers, lambda layer: layer.self_attn, "v_proj", "out_proj"
    ),
    ("bart", "decoder"): Anatomy(
        lambda m: m.decoder.layers, lambda layer: layer.self_attn, "v_proj", "out_proj"
    ),
    ("bart", "cross"): Anatomy(
        lambda m: m.decoder.layers, lambda layer: layer.encoder_attn, "v_proj", "out_proj"
    ),
}


@contextmanager
def hooked(*handles: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def layer_arguments(
    model: Any, layers: Any, inputs: dict[str, Any]
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    calls: list[Any] = []
    handles = [
        layer.register_forward_pre_hook(
            lambda m, args, kwargs: calls.append((args, kwargs)), with_kwargs=True
        )
        for layer in layers
    ]
    with hooked(*handles), torch.no_grad():
        model(**inputs, use_cache=False)
    return calls


# ------------------------------------------------------------------------------------ value zeroing


def cosine_distance(a: Tensor, b: Tensor) -> float:
    return 1 - float(a @ b / (a @ a) ** 0.5 / (b @ b) ** 0.5)


def euclidean_distance(a: Tensor, b: Tensor) -> float:
    return float(((a - b) ** 2).sum() ** 0.5)


def spearman_distance(a: Tensor, b: Tensor) -> float:
    from scipy.stats import spearmanr

    return 1 - float(spearmanr(a.numpy(), b.numpy()).statistic)


DISTANCES = {
    "cosine": cosine_distance,
    "euclidean": euclidean_distance,
    "spearman": spearman_distance,
}


def value_zeroing(
    name: str,
    site: str,
    model: Any,
    inputs: dict[str, Any],
    distance: str = "cosine",
    normalised: bool = False,
    segments: list[list[int]] | None = None,
) -> Tensor:
    """[layer, target, source]: one layer call for each zeroed value vector, or for the values of
    each segment.
    """
    anatomy = ANATOMY[name, site]
    layers = anatomy.layers(model)
    measure, by_layer = DISTANCES[distance], []
    heads = model.config.num_attention_heads

    def shown(e: Tensor) -> Tensor:
        return (e - e.mean()) / e.var(unbiased=False) ** 0.5 if normalised else e

    for layer, (args, kwargs) in zip(layers, layer_arguments(model, layers, inputs), strict=True):
        module = anatomy.attention(layer).get_submodule(anatomy.value)
        sizes: list[int] = []

        def count(m: Any, a: Any, out: Tensor, sizes: list[int] = sizes) -> None:
            sizes.append(out.shape[1])

        with torch.no_grad(), hooked(module.register_forward_hook(count)):
            before = first(layer(*args, **kwargs))[0]
        columns = segments or [[j] for j in range(sizes[0])]
        scores = torch.zeros(len(before), len(columns), dtype=torch.float64)
        for j, members in enumerate(columns):

            def zeroed(m: Any, a: Any, out: Tensor, members: list[int] = members) -> Tensor:
                out = out.clone()
                anatomy.part(out, heads)[:, members] = 0
                return out

            with torch.no_grad(), hooked(module.register_forward_hook(zeroed)):
                after = first(layer(*args, **kwargs))[0]
            for i in range(len(before)):
                scores[i, j] = measure(shown(before[i]), shown(after[i]))
        by_layer.append(scores)
    return torch.stack(by_layer)


def _less(start: int, lost: Tensor) -> Callable[..., tuple[Tensor]]:
    def edit(module: Any, given: tuple[Tensor]) -> tuple[Tensor]:
        product = given[0].clone()
        product[0, :, start : start + lost.shape[1]] -= lost
        return (product,)

    return edit


def value_zeroing_per_head(name: str, site: str, model: Any, inputs: dict[str, Any]) -> Tensor:
    """[layer, head, target, source]: A^h_ij v^h_j taken out of what goes into the output
    projection, head by head.
    """
    anatomy = ANATOMY[name, site]
    layers, by_layer = anatomy.layers(model), []
    heads = model.config.num_attention_heads
    for layer, (args, kwargs) in zip(layers, layer_arguments(model, layers, inputs), strict=True):
        attention = anatomy.attention(layer)
        value, output = (
            attention.get_submodule(anatomy.value),
            attention.get_submodule(anatomy.output),
        )
        seen: dict[str, Tensor] = {}
        handles = [
            value.register_forward_hook(
                lambda m, a, out, seen=seen: seen.update(v=anatomy.part(out, heads)[0])
            ),
            attention.register_forward_hook(
                lambda m, a, out, seen=seen: seen.update(weights=out[1][0])
            ),
        ]
        with torch.no_grad(), hooked(*handles):
            before = first(layer(*args, **kwargs))[0]
        weights = seen["weights"]  # [head, target, source]
        d_head = output.weight.shape[0 if type(output).__name__ == "Conv1D" else 1] // heads
        values = seen["v"].reshape(weights.shape[-1], -1, d_head)
        scores = torch.zeros(weights.shape, dtype=torch.float64)
        for h in range(heads):
            own = h // (heads // values.shape[1])  # the key-value head that a query head reads
            for j in range(weights.shape[-1]):
                lost = weights[h, :, j, None] * values[j, own]  # [target, d_head]
                edit = _less(h * d_head, lost)
                with torch.no_grad(), hooked(output.register_forward_pre_hook(edit)):
                    after = first(layer(*args, **kwargs))[0]
                for i in range(len(before)):
                    scores[h, i, j] = cosine_distance(before[i], after[i])
        by_layer.append(scores)
    return torch.stack(by_layer)


# ---------------------------------------------------------------------------------------- gradients


def hidden_token_attribution(
    name: str, site: str, model: Any, inputs: dict[str, Any], into: Any | None = None
) -> Tensor:
    """[layer, target, source]: one backward pass for every channel of every target; `into`:
    differentiate what goes into this module.
    """
    layers = ANATOMY[name, site].layers(model)
    leaf: list[Tensor] = []
    outputs: list[Tensor] = []

    def enter(m: Any, args: Any, kwargs: Any) -> Any:
        given = args[0] if args else kwargs["hidden_states"]
        leaf.append(given.detach().clone().requires_grad_())
        return (
            ((leaf[0], *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": leaf[0]})
        )

    handles = [
        layer.register_forward_hook(lambda m, a, out: outputs.append(first(out)))
        for layer in layers
    ]
    if site == "cross":
        with torch.no_grad():
            states = model.get_encoder()(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            ).last_hidden_state
        leaf.append(states.clone().requires_grad_())
        inputs = {**inputs, "encoder_outputs": (leaf[0],)}
    else:
        handles.append(
            (layers[0] if into is None else into).register_forward_pre_hook(enter, with_kwargs=True)
        )
    with hooked(*handles):
        model(**inputs, use_cache=False)
    by_layer = []
    for output in outputs:
        squares = torch.zeros(output.shape[1], leaf[0].shape[1], dtype=torch.float64)
        for i in range(output.shape[1]):
            for channel in range(output.shape[2]):
                row = torch.autograd.grad(output[0, i, channel], leaf[0], retain_graph=True)[0][0]
                squares[i] += (row**2).sum(-1)
        norms = squares**0.5
        by_layer.append(norms / norms.sum(-1, keepdim=True))
    return torch.stack(by_layer)


def as_function_of_layer_input(
    model: Any, layer: Any, inputs: dict[str, Any], number: Callable[[Any], Tensor]
) -> tuple[Any, Tensor]:
    """The explained number as a function of the hidden states that enter a layer, and those hidden
    states.
    """
    given: list[Tensor] = []

    def run(hidden: Tensor) -> Tensor:
        def enter(m: Any, args: Any, kwargs: Any) -> Any:
            return (
                ((hidden, *args[1:]), kwargs)
                if args
                else (args, {**kwargs, "hidden_states": hidden})
            )

        with hooked(layer.register_forward_pre_hook(enter, with_kwargs=True)):
            return number(model(**inputs))

    def keep(m: Any, args: Any, kwargs: Any) -> None:
        given.append((args[0] if args else kwargs["hidden_states"]).detach())

    with hooked(layer.register_forward_pre_hook(keep, with_kwargs=True)), torch.no_grad():
        model(**inputs)
    return run, given[0]


def gradient(run: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    leaf = hidden.clone().requires_grad_()
    return torch.autograd.grad(run(leaf), leaf)[0][0]


def integrated_gradients(run: Callable[[Tensor], Tensor], hidden: Tensor, steps: int) -> Tensor:
    """Eq. 1 of Sundararajan et al. from a baseline of zeros, by Gauss-Legendre quadrature."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(hidden[0])
    for point, weight in zip(points, weights, strict=True):
        total += weight / 2 * gradient(run, hidden * (point + 1) / 2)
    return total * hidden[0]
