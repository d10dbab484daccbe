"""torch's OutOfMemoryError becomes ours, on a real GPU: `PYTHONPATH=src python
benchmarks/out_of_memory.py`, half a minute.

torch is allowed a small part of the device: enough for what is refused beforehand, too little for
what comes then, so that memory runs out while the model runs or while a measure does. Exit status 1
if something else than `mixlens.OutOfMemory` comes out, if it counts what torch may not have as
free, or if the same text does not work afterwards.
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
from mixlens.estimating import spelled
from mixlens.recording.memory import available_memory

GIB = 2**30


def allowed(size: float) -> bool:
    """Lets torch have so many bytes more than it holds now. Is no more than that called free?"""
    torch.cuda.empty_cache()
    whole = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + size) / whole)
    free = available_memory(torch.device("cuda", torch.cuda.current_device()))
    print(f"{spelled(size)} allowed, {spelled(free)} free", flush=True)
    return free <= 1.01 * size


def is_ours(name: str, run: Callable[[], Any]) -> bool:
    try:
        run()
    except mixlens.OutOfMemory as error:
        print(f"{name}: OutOfMemory: {error}", flush=True)
        return isinstance(error.__cause__, torch.OutOfMemoryError)
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
    passed = [allowed(1.5 * GIB)]
    passed.append(is_ours("while the model runs", lambda: lens.measure("attention", inputs)))
    passed.append(allowed(GIB / 16))
    passed.append(is_ours("while a measure runs", lambda: mixlens.measure("alti", kept)))
    passed.append(is_ours("by rows", lambda: lens.measure("value_zeroing", inputs, targets=[-1])))
    torch.cuda.set_per_process_memory_fraction(1.0)
    lens.measure("value_zeroing", inputs, targets=[-1])
    print("passed" if all(passed) else "FAILED", passed)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
