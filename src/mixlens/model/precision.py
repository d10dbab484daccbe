"""Set the precision of float32 products for one call.

`float32` is exact; `tf32` and `bf16` trade precision for speed on hardware that supports them. The
default is exact, unless you change it here or with `torch.set_float32_matmul_precision`.
`torch.autocast` is off while a model is measured, because mixlens verifies the model in the
precision of its weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mixlens.errors import InvalidInput

PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}


@contextlib.contextmanager
def matmul_precision(name: str | None) -> Iterator[None]:
    """Compute products in the named precision while the context is open; None keeps torch's
    setting.
    """
    if name is None:
        yield
        return
    if name not in PRECISIONS:
        raise InvalidInput(f"Unknown precision {name!r}. Choose one of: {', '.join(PRECISIONS)}.")
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Allow gradients of tensors created inside, and keep the precision of products, even within
    `torch.inference_mode` or `torch.autocast`.
    """
    import torch

    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for kind in filter(torch.is_autocast_enabled, _CAST_ON):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


_CAST_ON = ("cpu", "cuda", "mps", "xpu")
