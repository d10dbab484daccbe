"""Whether texts of one batch leave each other alone.

Experts with a capacity that the whole batch shares (NLLB-MoE) do not: a text loses tokens to the
texts before it. This shows if one expert gets every token of a text, as it does if all tokens are
the same. Copies of a text are then run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.recording.differences import difference, rounding
from mixlens.recording.memory import raise_if_out_of_memory
from mixlens.recording.remembered import Remembered

apart: Remembered[bool] = Remembered()
ROWS = 1024  # of one batch: more than a fixed capacity of an expert


@torch.no_grad()
def leave_each_other_alone(
    run: Callable[[Float[Tensor, "copies target d_model"]], Tensor],
    hidden: Float[Tensor, "target d_model"],
    rows: int = ROWS,
) -> bool:
    """Whether states of a text, and of a text of one token all over, give in one batch what each
    gives alone.
    """
    crowd = hidden[len(hidden) // 2].expand_as(hidden)
    pair = torch.stack([crowd, hidden])
    times = max(1, rows // (2 * len(hidden)))
    try:
        alone = torch.cat([run(pair[:1]), run(pair[1:])])
        batched = run(pair.repeat(times, 1, 1))
    except Exception as failure:  # whatever a layer does with states that it did not expect
        raise_if_out_of_memory(failure)
        return False
    alone = alone.repeat(times, *[1] * (alone.dim() - 1))
    return difference(batched, alone) <= rounding(alone)  # a lost token is more than rounding
