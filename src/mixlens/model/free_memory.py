"""Measure free memory, and recognise out-of-memory errors."""

from __future__ import annotations

import os

import torch

_KINDS = ("reserved", "allocated")


def free_memory(device: torch.device) -> int:
    """Bytes that this process can still allocate."""
    if device.type == "cuda":
        return _of_gpu(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31


def available_memory(device: torch.device) -> int:
    """Bytes that a plan may count on: what is free, and what would be freed for it."""
    if device.type == "cuda":
        return sum(_of_gpu(device))
    try:
        with open("/proc/meminfo") as file:
            known = dict(line.split(":", 1) for line in file)
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux: nothing is refused beforehand
        return 2**63


def _of_gpu(device: torch.device) -> tuple[int, int]:
    """Bytes that torch can still reserve, and those that it has reserved and does not use."""
    free, whole = torch.cuda.mem_get_info(device)
    known = torch.cuda.memory_stats(device)  # empty before anything is allocated
    reserved, used = (int(known.get(f"{kind}_bytes.all.current", 0)) for kind in _KINDS)
    share_of = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not in torch 2.7
    share = 1.0 if share_of is None else share_of(device)
    return within_share(free, whole, reserved, share), reserved - used


def within_share(free: int, whole: int, reserved: int, share: float) -> int:
    """What torch can still reserve of the free bytes if its part of them all may be this share."""
    return max(0, min(free, int(share * whole) - reserved))


def raise_if_out_of_memory(error: Exception) -> None:
    """What fails for want of memory proves nothing, and must not be remembered."""
    if is_out_of_memory(error):
        raise error


def is_out_of_memory(error: BaseException) -> bool:
    """Did a device, or the machine, have no more memory to give?"""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
