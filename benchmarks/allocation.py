"""Peak memory of tensors during a call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import profile


def peak_bytes(run: Callable[[], Any]) -> int:
    """On the CPU, from the allocator's own events: every tensor and workspace that torch asks for
    is counted.
    """
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "99"
    )  # the profiler announces itself on stderr otherwise
    with profile(use_cpu=True, profile_memory=True, use_kineto=True) as profiled:
        run()
    results: Any = profiled.kineto_results
    events = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU
    ]
    held = most = 0
    for _, size in sorted(events, key=lambda event: event[0]):
        held += size
        most = max(most, held)
    return most
