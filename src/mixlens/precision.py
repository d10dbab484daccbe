"""How exactly float32 products are taken: torch's own switch, for one call.

`float32` is exact; `tf32` and `bf16` trade digits for speed on hardware that has them. Nothing is
traded unless asked for, here or by `torch.set_float32_matmul_precision`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mixlens.errors import InvalidInput

PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}


@contextlib.contextmanager
def matmul_precision(name: str | None) -> Iterator[None]:
    """Products in the named precision while open; None leaves torch as it is."""
    if name is None:
        yield
        return
    if name not in PRECISIONS:
        raise InvalidInput(f"precision {name!r}: choose one of {', '.join(PRECISIONS)}")
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Tensors made while this is open can be followed by gradients, wherever it is opened."""
    import torch

    with (
        torch.inference_mode(False)
        if torch.is_inference_mode_enabled()
        else contextlib.nullcontext()
    ):
        yield
