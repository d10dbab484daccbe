"""The same numbers from the model itself: attention weights that it returns, and Value Zeroing by a
hook on its value projection (on the `einsum` with its value projection, if that is a bare
parameter).

Nothing here uses what mixlens found out about a layer except the values it reports: the channels of
a module's output that hold them are looked for by their numbers, so a fused projection is no
exception.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests.zoo.untouched import tensors_in

Inputs = Mapping[str, Any]


@torch.no_grad()
def own_attentions(model: nn.Module, given: Inputs) -> list[Tensor]:
    """Every [batch, head, target, source] that the model returns with `output_attentions`.

    None if eager attention is not what the model computes by itself (Falcon with ALiBi).
    """
    native = dict(tensors_in(model(**given)))
    try:
        model.set_attn_implementation("eager")  # type: ignore[operator]
        output = model(**given, output_attentions=True)
    except (TypeError, ValueError, RuntimeError, AttributeError):  # it has no such option
        return []
    for name, tensor in tensors_in(output):
        if name in native and tensor.is_floating_point():
            if not torch.allclose(tensor, native[name], rtol=1e-3, atol=1e-3):
                return []
    return [
        tensor
        for name, tensor in tensors_in(output)
        if "attentions" in name and tensor.dim() == 4 and tensor.is_floating_point()
        # ProphetNet returns what enters the softmax, Switch in transformers 5.2 the biases alone.
        if bool((tensor >= 0).all()) and bool(tensor.any())
    ]


@dataclass(frozen=True)
class ValueChannels:
    """Where a module's output holds the values of one site, for row 0."""

    maker: nn.Module | nn.Parameter  # a parameter: the product with it
    call: int  # a module may run several times
    columns: Tensor
    rows: Tensor  # for each source, the row of the flattened output

    def without(self, source: int, output: Tensor) -> Tensor:
        """The module's output with one source's value set to zero."""
        edited = output.clone().reshape(-1, output.shape[-1])
        edited[self.rows[source], self.columns] = 0
        return edited.reshape(output.shape)


class _Products(TorchFunctionMode):
    """Shows `hook` what `einsum` makes of one of the parameters, [tokens, batch, channel]."""

    def __init__(self, parameters: list[nn.Parameter], hook: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.parameters, self.hook = parameters, hook

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is not torch.einsum or not any(args[-1] is own for own in self.parameters):
            return output
        changed = self.hook(args[-1], output.flatten(2))
        return output if changed is None else changed.reshape(output.shape)


@contextlib.contextmanager
def hooked(
    parts: Iterable[nn.Module | nn.Parameter], hook: Callable[[Any, Any], Any]
) -> Iterator[None]:
    """`hook` sees what modules return and what `einsum` makes of parameters, and may replace it."""
    parts = list(parts)
    handles = [
        part.register_forward_hook(lambda module, given, output: hook(module, output))
        for part in parts
        if isinstance(part, nn.Module)
    ]
    try:
        with _Products([part for part in parts if isinstance(part, nn.Parameter)], hook):
            yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def value_channels(
    model: nn.Module, given: Inputs, values: Tensor, inside: nn.Module
) -> ValueChannels | None:
    """The module inside a layer whose output holds `values` [head, source, d_head] of row 0."""
    wanted = values.transpose(0, 1).flatten(1)  # [source, channel]
    wanted = wanted[:, _first_of_each(wanted)]
    channels: list[ValueChannels] = []
    runs: dict[Any, int] = {}

    def look(maker: Any, output: Any) -> None:
        call = runs[maker] = runs.get(maker, -1) + 1
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        flat = output.reshape(-1, output.shape[-1]).to(wanted)
        if channels or flat.numel() > 2_000_000 or len(flat) < len(wanted):
            return
        place = _placed(wanted, flat)
        if place is not None:
            channels.append(ValueChannels(maker, call, *place))

    makers: list[nn.Module | nn.Parameter] = []
    for part in inside.modules():
        own = list(part.parameters(recurse=False))
        makers += own if list(part.children()) else [part]
    with hooked(makers, look):
        model(**given)
    return channels[0] if channels else None


def _first_of_each(wanted: Tensor) -> Tensor:
    """Channels without repetitions: grouped heads are repeated."""
    kept: list[int] = []
    for channel in range(wanted.shape[1]):
        if not any(torch.equal(wanted[:, channel], wanted[:, k]) for k in kept):
            kept.append(channel)
    return torch.tensor(kept)


def _placed(wanted: Tensor, flat: Tensor) -> tuple[Tensor, Tensor] | None:
    """Columns and rows of `flat` that hold `wanted`, or None."""
    scale = wanted.abs().max().clamp_min(1e-9)
    gaps = (flat[None, :, :] - wanted[0][:, None, None]).abs()
    near = gaps.amin(2) <= 1e-5 * scale
    for row in near.all(0).nonzero()[:, 0].tolist():  # where the first source may be
        columns = gaps[:, row].argmin(1)
        count = len(wanted)
        for stride in (1, max(1, len(flat) // count)):  # rows of tokens, or tokens of rows
            rows = row + stride * torch.arange(count)
            if int(rows[-1]) < len(flat):
                if bool(((flat[rows][:, columns] - wanted).abs() <= 1e-4 * scale).all()):
                    return columns, rows
    return None


@torch.no_grad()
def output_without(
    model: nn.Module,
    given: Inputs,
    channels: ValueChannels,
    source: int | None,
    layer: nn.Module,
    tokens: int = 0,
) -> Tensor:
    """What a layer returns, in float64, with one source's value set to zero. `tokens`: of all its
    streams together.
    """
    seen: list[Tensor] = []
    runs = -1

    def zero(maker: Any, output: Tensor) -> Tensor | None:
        nonlocal runs
        runs += 1
        if source is None or runs != channels.call:
            return None
        return channels.without(source, output)

    def keep(layer: Any, output: Any) -> None:
        seen.append(_states(output, tokens).clone())  # XLM sets padding to zero in place

    with hooked([channels.maker], zero), hooked([layer], keep):
        model(**given)
    return seen[min(channels.call, len(seen) - 1)].double()


def steers_attention(
    model: nn.Module, given: Inputs, channels: ValueChannels, weights: Tensor
) -> bool:
    """Do a layer's attention weights, given as they are, follow its values? Doge makes a mask of
    them, so that a hook on the values moves both, and Value Zeroing leaves the weights alone.
    """
    model, channels = copy.deepcopy((model, channels))
    whole = own_attentions(model, given)
    same = [n for n, own in enumerate(whole) if own.shape == weights.shape]
    with hooked([channels.maker], lambda maker, output: channels.without(0, output)):
        edited = own_attentions(model, given)
    if not same or len(edited) != len(whole):
        return False
    number = min(same, key=lambda n: float((whole[n] - weights).abs().max()))
    return not torch.allclose(edited[number], whole[number], atol=1e-5)


def _states(output: Any, tokens: int) -> Tensor:
    """The hidden states that a layer returns: both streams, if these have so many tokens."""
    while isinstance(output, (tuple, list)):
        streams = [part for part in output[:2] if isinstance(part, Tensor) and part.dim() == 3]
        if len(streams) == 2 and sum(part.shape[1] for part in streams) == tokens:
            return torch.cat(streams, 1)
        output = output[0]
    states: Tensor = output
    return states


def first_tokens(states: Tensor, tokens: int, channels: int) -> Tensor:
    """[token, channel] of the first row, of states that may have their channels or tokens in
    front, or several streams whose channels are joined.
    """
    if states.dim() == 4 and states.shape[::3].numel() == channels and states.shape[2] == tokens:
        states = states.permute(1, 2, 0, 3).flatten(2)
    elif states.dim() == 4 and states.shape[2:].numel() == channels and states.shape[1] == tokens:
        states = states.flatten(2)
    if states.dim() == 4 and states.shape[-1] != channels:
        states = states.movedim(1, -1)
    if states.dim() == 3 and states.shape[0] == tokens != states.shape[1]:
        states = states.transpose(0, 1)
    return states.reshape(-1, tokens, channels)[0]


def cosine_distance(a: Tensor, b: Tensor) -> Tensor:
    """1 - cosine, without the cancellation."""
    a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
    return (a - b).square().sum(-1) / 2
