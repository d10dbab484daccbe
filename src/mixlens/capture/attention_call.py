"""The inputs and outputs of one attention call, and the context in which calls are captured."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from mixlens.kernels.visibility import Visibility

ValueEdit = Callable[[int, Tensor], Tensor]
"""Gets the number of the attention call in the layer and its values; returns the values to use."""


@dataclass(frozen=True)
class AttentionCall:
    """What one call of the attention function saw and returned."""

    weights: Tensor  # [batch, head, target, source], after softmax, masks, soft-cap and sinks
    values: Tensor  # [batch, kv head, source, d_head], before grouped heads are repeated
    output: Tensor  # [batch, target, head, d_head]
    backend: str
    product: Tensor | None = None  # A V from weights that were formed again, next to `output`
    visibility: Visibility | None = None  # None: the mask is not known
    across: bool = False  # does each of two streams read the other?

    @property
    def seen(self) -> Tensor | None:
        """Which sources each target sees; None if every target sees every source."""
        seen = (self.visibility or Visibility.of_weights(self.weights)).seen
        return None if seen is None else seen.expand(-1, -1, *self.weights.shape[-2:])


@dataclass
class Listener:
    """What the attention function does while a context is open."""

    on_call: Callable[[AttentionCall], None] | None = None
    edit_values: ValueEdit | None = None
    batch: int = 1  # rows of the running layer: [batch * head, target, source] products need it
    calls: int = 0
    # Masks in the form in which eager code adds them: layers of a pass are given the same.
    masks: dict[Hashable, Any] = field(default_factory=dict)

    def values(self, values: Tensor) -> Tensor:
        """The values to use: edited if the listener edits."""
        return values if self.edit_values is None else self.edit_values(self.calls, values)

    def captured(self, call: AttentionCall) -> None:
        """Counts a call and passes it on."""
        self.calls += 1
        if self.on_call is not None:
            self.on_call(call)


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar(
    "mixlens_listener", default=None
)


@contextlib.contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Attention calls in this context go to `listener`; with None nobody hears them."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """Who listens now."""
    return _listener.get()
