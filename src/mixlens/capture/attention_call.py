"""Store the tensors of an attention call, and the sources that each target sees.

`listening` opens a context in which calls are captured.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels import differences
from mixlens.model.distributed import gather_tensor

_HIDES = 5e3  # below the largest entry of the mask of a target

ValueEdit = Callable[[int, Tensor], Tensor]
"""Takes the number of the attention call in the layer and its values, and returns the values to
use.
"""


class Visibility:
    """The sources that the targets of one attention call can see.

    Visibility is read from the mask, not from the weights, because the weight of a visible source
    can underflow to zero (in float16, below 6e-8). A source is hidden if its mask value is more
    than 5,000 below the largest mask value of the target. Position biases (ALiBi, relative
    positions) are far smaller than that, and the usual mask values (-1e4, -1e9, the lowest number
    of a dtype, minus infinity) are larger in magnitude. If all mask values of a target are the same
    finite number, the mask does not change the softmax, so every source is visible. If only the
    weights are known, because a plug-in reports no mask, sources of weight zero count as hidden.

    Layers with the same mask share one `Visibility`, so that each property is computed once.
    """

    def __init__(
        self,
        added: Tensor | None = None,
        *,
        visible: Bool[Tensor, "*batch target source"] | None = None,
        ends: Sequence[int] | None = None,
        triangle: bool = False,
    ) -> None:
        """Read visibility from `added`, the mask added to the scores before the softmax, or from
        `visible`.

        Without either, nothing is hidden. `ends` contains, for each text, the index after the last
        source that any target sees, if it is known. If `triangle` is True, `visible` must be lower
        triangular, and its values are not checked.
        """
        self._added, self._visible, self._ends, self._triangle = added, visible, ends, triangle

    @classmethod
    def of_weights(cls, weights: Float[Tensor, "batch head target source"]) -> Visibility:
        """Return a visibility in which all sources of weight zero are hidden."""
        return cls(visible=weights != 0)

    @cached_property
    def visible(self) -> Bool[Tensor, "texts heads target source"] | None:
        """Return which sources each target sees, or None if every target sees every source.

        The axis of texts or heads has size one if all texts or heads see the same sources.
        """
        visible = self._visible
        if visible is None:
            if self._added is None:
                return None
            visible = find_visible(self._added)
        visible = visible[(None,) * (4 - visible.dim())]
        one = visible[:, :1]
        return one if visible.shape[1] > 1 and bool((visible == one).all()) else visible

    @cached_property
    def hides_later(self) -> bool:
        """Return whether no target sees a later source.

        The targets must be all tokens, in order.
        """
        visible = self.visible
        if visible is None or visible.shape[-2] != visible.shape[-1]:
            return False
        return self._triangle or not bool(visible.triu(1).any())

    @cached_property
    def ends(self) -> list[int] | None:
        """Return, for each text, the index after the last source that any target sees. Return None
        if every target sees every source.
        """
        if self._ends is not None:
            return list(self._ends)
        if self.visible is None:
            return None
        is_source = self.visible.flatten(1, 2).any(1)
        return (
            (is_source * torch.arange(1, is_source.shape[1] + 1, device=is_source.device))
            .amax(1)
            .tolist()
        )

    @cached_property
    def blank(self) -> Bool[Tensor, "texts heads target 1"] | None:
        """Return a mask of the targets that see no source, or None if there are no such targets.

        PyTorch's fused attention returns zeros for these targets. On a GPU, the mask is always
        returned, because checking whether it is empty would force a synchronisation.
        """
        if self.visible is None or self._triangle:
            return None
        blank = ~self.visible.any(-1, keepdim=True)
        return blank if not differences.may_look_at(blank) or bool(blank.any()) else None

    def columns(self, sources: slice) -> Visibility:
        """Return the visibility of a subset of the sources."""
        return Visibility(visible=None if self.visible is None else self.visible[..., sources])


def find_visible(
    added: Float[Tensor, "*batch target source"],
) -> Bool[Tensor, "*batch target source"]:
    """Return which sources remain visible when this mask is added to the attention scores."""
    return (added >= added.amax(-1, keepdim=True) - _HIDES) & (added > -torch.inf)


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
        """Return the call with all heads, gathered from the processes of a tensor-parallel
        model.
        """
        weights = gather_tensor(self.weights, 1, heads)
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
            values=gather_tensor(self.values, 1, kv_heads),
            output=gather_tensor(self.output, 2, heads),
            product=None if self.product is None else gather_tensor(self.product, 2, heads),
        )

    @property
    def _seen_by_heads(self) -> bool:
        """Return whether heads see different sources."""
        visible = None if self.visibility is None else self.visibility.visible
        return visible is not None and visible.shape[1] > 1

    @property
    def visible(self) -> Tensor | None:
        """Return the sources that each target sees, or None if every target sees every source."""
        visible = (self.visibility or Visibility.of_weights(self.weights)).visible
        return None if visible is None else visible.expand(-1, -1, *self.weights.shape[-2:])


@dataclass
class Listener:
    """Callbacks for captured attention calls, and the state of one capture context."""

    on_call: Callable[[AttentionCall], None] | None = None
    edit_values: ValueEdit | None = None
    batch: int = 1  # batch size of the running layer, for products [batch * head, target, source]
    calls: int = 0
    # Masks in the form that eager code adds. Layers of a pass share them.
    masks: dict[Hashable, Any] = field(default_factory=dict)

    def values(self, values: Tensor) -> Tensor:
        """Return the values for the attention function, edited by `edit_values` if it is set."""
        return values if self.edit_values is None else self.edit_values(self.calls, values)

    def capture(self, call: AttentionCall) -> None:
        """Count a call and pass it to `on_call`."""
        self.calls += 1
        if self.on_call is not None:
            self.on_call(call)


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar(
    "mixlens_listener", default=None
)


@contextlib.contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Send attention calls in this context to `listener`. With None, no calls are captured."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """Return the current listener."""
    return _listener.get()


def additive_mask(mask: Any, like: Tensor) -> Any:
    """Return the mask in a form that eager code can add to the scores.

    A boolean mask (True = attend) is converted, because eager code would add it as 0 and 1. A
    float64 mask is clamped to the lowest number of float32: the lowest number of float64 would
    become minus infinity in a float32 softmax, which returns NaN for a padding token that sees
    nothing.
    """
    if not isinstance(mask, Tensor):
        return mask
    lowest = max(torch.finfo(kind).min for kind in (like.dtype, torch.float32))
    if mask.dtype == torch.bool:
        zero = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
        return zero.masked_fill(~mask, lowest)
    return mask.clamp_min(lowest) if mask.dtype == torch.float64 else mask
