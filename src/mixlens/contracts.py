"""What a measure is given and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.row import position_of
from mixlens.tokens import resolved

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.recording.site import Site


class AttentionKind(StrEnum):
    """Whose tokens an attention reads: those of its own stack, or those of another."""

    SELF = "self"
    CROSS = "cross"


@dataclass(frozen=True)
class Facts:
    """What is true of a measure's scores."""

    signed: bool = False  # may scores be negative?
    rows_sum_to_one: bool = False
    residual_included: bool = False  # does the diagonal hold the residual stream?


@dataclass(frozen=True)
class Option:
    name: str
    default: Any
    kind: str


@dataclass(frozen=True)
class Spec:
    """A measure's description."""

    summary: str
    citation: str
    use_when: str  # when to use it, in plain words
    cost: str  # in forward passes, or as a formula of n
    facts: Facts
    sites: tuple[str, ...] = tuple(AttentionKind)
    per_head: bool = False
    rollout_residual: float | None = (
        None  # the share of the identity that the paper's own rollout mixes in
    )
    rollout_normalized: bool = True
    reaches_input: bool = (
        False  # does each layer already speak of the input tokens? Then it is not rolled out
    )
    options: tuple[Option, ...] = ()

    @property
    def explains_output(self) -> bool:
        """Does it explain what the model says (a word, a class) rather than what is inside a
        target?
        """
        return any(option.name == "word" for option in self.options)

    def with_options(self, options: tuple[Option, ...]) -> Spec:
        return replace(self, options=options)


@dataclass(frozen=True)
class Scores:
    """A measure's numbers for the whole batch: [layer, batch, target, source] or [layer, batch,
    head, target, source].

    Rows and columns of padding may hold anything finite: they are cut off afterwards.
    """

    values: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    # Extras have leading axes [layer, batch, ...]; an axis as long as the padded targets or sources
    # is cut like `values` when its name says so in `extra_dims`.
    extra_dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    layers: Sequence[int] | None = (
        # where they are not the requested ones (0 = the input of the first layer, for gradients)
        None
    )
    target_labels: Sequence[str] | None = (
        # where the targets are not tokens of the site (one explained output per row of the batch)
        None
    )
    facts: Facts | None = None  # where options change them


@dataclass(frozen=True)
class Request:
    """Which scores are asked for."""

    site: str
    kind: AttentionKind
    layers: tuple[int, ...]
    targets: tuple[tuple[int, ...], ...] | None  # for each row of the batch; None: all
    per_head: bool
    layers_named: bool = False  # did someone ask for these layers, or are they all there are?

    @classmethod
    def resolved(
        cls,
        recording: Recording,
        *,
        site: str | None,
        layers: Sequence[int] | None,
        targets: Sequence[int | str] | None,
        per_head: bool,
    ) -> Request:
        chosen_site = recording.structure.site(site)
        stack = chosen_site.stack
        if (layers is not None and not len(layers)) or (targets is not None and not len(targets)):
            raise InvalidInput(
                "an empty list of layers or targets asks for nothing: leave it out to have all"
            )
        count = len(stack.layers)
        try:
            chosen = tuple(range(count)) if layers is None else tuple(resolved(list(layers), count))
        except IndexError as error:
            raise InvalidInput(
                f"layers {list(layers or [])}: {stack.name} has {count} layers, 0 to {count - 1}"
            ) from error
        rows = None
        if targets is not None:
            rows = tuple(
                tuple(position_of(target, row, range(len(row))) for target in targets)
                for row in recording.tokens[stack.name]
            )
        return cls(chosen_site.name, chosen_site.kind, chosen, rows, per_head, layers is not None)

    def sites(self, recording: Recording) -> Iterator[tuple[Layer, Site]]:
        """The requested layers, each with the requested attention site, one at a time."""
        stack = recording.layers(self.site)
        for index in self.layers:
            yield stack[index], stack[index].site(self.kind)

    def take(self, tensor: Tensor, dim: int) -> Tensor:
        """The requested targets of a tensor [batch, ...] along its target axis (all of them where
        none were named).
        """
        if self.targets is None:
            return tensor
        import torch  # not above: listing the measures needs no torch

        index = torch.tensor(self.targets, device=tensor.device)
        dim = dim % tensor.dim()
        shape = [1] * tensor.dim()
        shape[0], shape[dim] = index.shape
        sizes = list(tensor.shape)
        sizes[dim] = index.shape[1]
        return tensor.gather(dim, index.reshape(shape).expand(sizes))

    def target_positions(self, batch: int, count: int, device: torch.device) -> Tensor:
        """[batch, target]: the position of every requested target."""
        import torch

        if self.targets is None:
            return torch.arange(count, device=device).expand(batch, count)
        return torch.tensor(self.targets, device=device)
