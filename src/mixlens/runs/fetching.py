"""Copy tensors from a device that continues to work."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)


class Fetching(Generic[Key]):
    """Copies that are started now and read later. Reading a tensor directly would wait for all
    queued work of the device.
    """

    def __init__(self, tensors: Mapping[Key, Tensor]) -> None:
        self._copies = {key: t.to("cpu", non_blocking=True) for key, t in tensors.items()}
        devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
        self._events = [_event(device) for device in devices]

    def arrays(self) -> dict[Key, np.ndarray]:
        """Return the numbers as soon as they have arrived."""
        for event in self._events:
            event.synchronize()
        return {key: copy.numpy() for key, copy in self._copies.items()}


def _event(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event
