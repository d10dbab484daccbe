"""Measure free memory, and recognise out-of-memory errors."""

from __future__ import annotations

import os

import torch

_KINDS = ("reserved", "allocated")


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process can still allocate."""
    if device.type == "cuda":
        return _of_gpu(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31


def available_memory(device: torch.device) -> int:
    """Return the bytes that a plan may use: free memory, and caches that can be freed."""
    if device.type == "cuda":
        return sum(_of_gpu(device))
    try:
        with open("/proc/meminfo") as file:
            known = dict(line.split(":", 1) for line in file)
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux: nothing is rejected beforehand
        return 2**63


def _of_gpu(device: torch.device) -> tuple[int, int]:
    """Return the bytes that torch can still reserve, and those that it has reserved but not
    used.
    """
    free, whole = torch.cuda.mem_get_info(device)
    known = torch.cuda.memory_stats(device)  # empty before anything is allocated
    reserved, used = (int(known.get(f"{kind}_bytes.all.current", 0)) for kind in _KINDS)
    share_of = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not in torch 2.7
    share = 1.0 if share_of is None else share_of(device)
    return within_share(free, whole, reserved, share), reserved - used


def within_share(free: int, whole: int, reserved: int, share: float) -> int:
    """Return how many free bytes torch can still reserve if it may use this fraction of all
    memory.
    """
    return max(0, min(free, int(share * whole) - reserved))


def raise_if_out_of_memory(error: Exception) -> None:
    """Raise again if an error is out of memory, which proves nothing and must not be cached."""
    if is_out_of_memory(error):
        raise error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device or the machine ran out of memory."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
