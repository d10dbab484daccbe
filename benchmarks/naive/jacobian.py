"""Hidden Token Attribution by one backward pass for every output number of every layer (Brunner et
al. 2020, eq. 11).

A whole map of a sentence takes layers x tokens x d_model backward passes: hours. So one target can
be done in full, to compare numbers, and a sample of outputs can be timed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.models import Inputs
from benchmarks.timing import once


def layer_outputs(model: Any, inputs: Inputs) -> tuple[Tensor, list[Tensor]]:
    """The embedding module's output, and the output of every layer as a function of it, for one
    text without padding.
    """
    with torch.no_grad():
        embedded = model.embeddings(input_ids=inputs["input_ids"])
    start = embedded.detach().requires_grad_()
    hidden, outputs = start, []
    for layer in model.encoder.layer:
        output = layer(hidden)
        hidden = output[0] if isinstance(output, tuple) else output
        outputs.append(hidden)
    return start, outputs


def contributions(model: Any, inputs: Inputs, layer: int, target: int) -> Tensor:
    """[source]: the row of one target, from d_model backward passes."""
    start, outputs = layer_outputs(model, inputs)
    squares = torch.zeros(start.shape[1], dtype=start.dtype, device=start.device)
    for number in outputs[layer][0, target]:
        gradient = torch.autograd.grad(number, start, retain_graph=True)[0][0]
        squares += gradient.square().sum(-1)
    norms = squares.sqrt()
    return norms / norms.sum()


def estimated_seconds(model: Any, inputs: Inputs, *, outputs_per_layer: int) -> float:
    """Seconds for all layers x tokens x d_model backward passes, from a sample in every layer."""
    start, outputs = layer_outputs(model, inputs)
    torch.autograd.grad(outputs[-1][0, 0, 0], start, retain_graph=True)  # warm-up
    total = 0.0
    for output in outputs:
        numbers = output[0].flatten()
        sample = torch.linspace(0, len(numbers) - 1, outputs_per_layer).long().tolist()

        def backward(numbers: Tensor = numbers, sample: list[int] = sample) -> None:
            for index in sample:
                gradient = torch.autograd.grad(numbers[index], start, retain_graph=True)[0]
                gradient[0].square().sum(-1)

        total += once(backward) / outputs_per_layer * len(numbers)
    return total
