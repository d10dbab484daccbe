"""Replays a training step as one CUDA graph: small steps do not wait for kernel launches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[], tuple[Tensor, ...]]


def optimizer_for(
    model: torch.nn.Module, rate: float, betas: tuple[float, float], decay: float, device: str
) -> torch.optim.AdamW:
    """AdamW whose rate can change between replays."""
    fast = device == "cuda"
    start = torch.tensor(rate, device=device) if fast else rate
    return torch.optim.AdamW(
        model.parameters(), lr=start, betas=betas, weight_decay=decay, fused=fast, capturable=fast
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def graphed(step: Step, optimizer: torch.optim.Optimizer, device: str) -> Step:
    """The step itself on a CPU; on a GPU, a replay of its recording (fresh random draws at each
    replay).

    Recording needs a few warm-up steps; they run with a rate of zero and leave the weights as they
    are.
    """
    if device != "cuda":
        return step
    set_rate(optimizer, 0.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()

    def replay() -> tuple[Tensor, ...]:
        graph.replay()
        return result

    return replay
