"""The inputs and outputs of one attention call, and the context in which calls are captured."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels.visibility import Visibility
from mixlens.model.distributed import gathered

ValueEdit = Callable[[int, Tensor], Tensor]
"""Takes the number of the attention call in the layer and its values, and returns the values to
use.
"""


@dataclass(frozen=True)
class AttentionCall:
    """Inputs and outputs of one call of the attention function."""

    weights: Tensor  # [batch, head, target, source], after softmax, masks, soft-cap and sinks
    values: Tensor  # [batch, kv head, source, d_head], before grouped heads are repeated
    output: Tensor  # [batch, target, head, d_head]
    backend: str
    product: Tensor | None = None  # A V from recomputed weights, next to `output`
    visibility: Visibility | None = None  # None if the mask is unknown
    across: bool = False  # whether each of two streams reads the other

    def with_heads(self, heads: int, kv_heads: int) -> AttentionCall:
        """Return the call with this number of heads, if each process of the model has some of
        them.
        """
        weights = gathered(self.weights, 1, heads)
        if weights is self.weights:
            return self
        if self._seen_by_heads:
            raise UnsupportedModel(
                "heads that see different sources are spread over several processes. Load the "
                "model in one process"
            )
        return replace(
            self,
            weights=weights,
            values=gathered(self.values, 1, kv_heads),
            output=gathered(self.output, 2, heads),
            product=None if self.product is None else gathered(self.product, 2, heads),
        )

    @property
    def _seen_by_heads(self) -> bool:
        """Return whether heads see different sources."""
        seen = None if self.visibility is None else self.visibility.seen
        return seen is not None and seen.shape[1] > 1

    @property
    def seen(self) -> Tensor | None:
        """Return the sources that each target sees, or None if every target sees every source."""
        seen = (self.visibility or Visibility.of_weights(self.weights)).seen
        return None if seen is None else seen.expand(-1, -1, *self.weights.shape[-2:])


@dataclass
class Listener:
    """Behaviour of the attention function while a context is open."""

    on_call: Callable[[AttentionCall], None] | None = None
    edit_values: ValueEdit | None = None
    batch: int = 1  # batch size of the running layer, for products [batch * head, target, source]
    calls: int = 0
    # Masks in the form that eager code adds. Layers of a pass share them.
    masks: dict[Hashable, Any] = field(default_factory=dict)

    def values(self, values: Tensor) -> Tensor:
        """Return the values to use, edited if requested."""
        return values if self.edit_values is None else self.edit_values(self.calls, values)

    def captured(self, call: AttentionCall) -> None:
        """Count a call and pass it on."""
        self.calls += 1
        if self.on_call is not None:
            self.on_call(call)


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar(
    "mixlens_listener", default=None
)


@contextlib.contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send attention calls in this context to `listener`; with None they are not captured."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """Return the current listener."""
    return _listener.get()
