"""Check on a real GPU that torch's OutOfMemoryError becomes that of mixlens: `PYTHONPATH=src python
benchmarks/out_of_memory.py` (half a minute).

torch is allowed a small part of the device: a little more than what is surely needed, so that
nothing is refused beforehand and memory runs out while the model runs or while a measure does; then
a little less, which is refused. Exit status 1 if something else than `mixlens.OutOfMemory` comes
out, if it counts what torch may not have as free, or if the same text does not work afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import mixlens
from benchmarks import models
from mixlens.measuring.estimates import Estimate, estimate_of, format_bytes
from mixlens.model.placement import available_memory

GIB = 2**30


def allowed(size: float) -> bool:
    """Lets torch have so many bytes more than it holds now. Is no more than that called free? What
    it has reserved already stays its own.
    """
    torch.cuda.empty_cache()
    whole = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + size) / whole)
    free = available_memory(torch.device("cuda", torch.cuda.current_device()))
    print(f"{format_bytes(size)} allowed, {format_bytes(free)} free", flush=True)
    reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return free <= 1.01 * max(size, reserved)


def is_ours(name: str, run: Callable[[], Any], *, beforehand: bool) -> bool:
    try:
        run()
    except mixlens.OutOfMemory as error:
        print(f"{name}: OutOfMemory: {error}", flush=True)
        return isinstance(error.__cause__, torch.OutOfMemoryError) is not beforehand
    except torch.OutOfMemoryError as error:
        print(f"{name}: torch's own error: {str(error).splitlines()[0]}", flush=True)
        return False
    print(f"{name}: memory did not run out", flush=True)
    return False


def main() -> int:
    if not torch.cuda.is_available():
        print("there is no GPU")
        return 2
    model = models.llama(device="cuda")
    model.set_attn_implementation("sdpa")
    lens = mixlens.Lens(model, memory_budget=GIB)
    inputs = models.tokens(model, 4096)
    lens.measure("attention", models.tokens(model, 32))  # discovery
    kept = lens.record(models.tokens(model, 1024))
    alone: dict[str, Any] = {"targets": [-1]}
    cases: dict[str, tuple[Estimate, Callable[[], Any]]] = {
        "while the model runs": (
            estimate_of(model, "attention", 4096),
            lambda: lens.measure("attention", inputs),
        ),
        "while a measure runs": (
            estimate_of(model, "alti", 1024, recorded=True),
            lambda: mixlens.measure("alti", kept),
        ),
        "by rows": (
            estimate_of(model, "value_zeroing", 4096, targets=1),
            lambda: lens.measure("value_zeroing", inputs, **alone),
        ),
    }
    passed = []
    for name, (estimate, run) in cases.items():
        passed.append(allowed(1.1 * estimate.sure))
        passed.append(is_ours(name, run, beforehand=False))
        passed.append(allowed(0.9 * estimate.sure))
        passed.append(is_ours(f"{name}, beforehand", run, beforehand=True))
    torch.cuda.set_per_process_memory_fraction(1.0)
    lens.measure("value_zeroing", inputs, targets=[-1])
    print("passed" if all(passed) else "FAILED", passed)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
