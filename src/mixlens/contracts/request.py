"""What a measure is asked for: layers and targets of one attention site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mixlens.contracts.spec import AttentionKind
from mixlens.errors import InvalidInput
from mixlens.text.positions import EachText, positions_by_text
from mixlens.text.tokens import listed, whole_numbers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mixlens.recording.attention import Site
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which scores are asked for."""

    site: str
    kind: AttentionKind
    layers: tuple[int, ...]  # among the layers of the site, from 0
    targets: tuple[tuple[int, ...], ...] | None  # for each row of the batch; None: all
    per_head: bool
    layers_named: bool = False  # did someone ask for these layers, or are they all there are?
    # If the recording holds these targets only: the same positions as a tensor.
    alone_at: Tensor | None = field(default=None, compare=False, repr=False)

    @classmethod
    def resolved(
        cls,
        recording: Recording,
        *,
        site: str | None,
        layers: int | Sequence[int] | None,
        targets: int | str | Sequence[int | str] | EachText | None,
        per_head: bool,
    ) -> Request:
        """The request in positions of this recording, with names and negative numbers resolved."""
        chosen_site = recording.structure.site(site)
        numbers = whole_numbers(layers, "layers")
        named = targets if isinstance(targets, EachText) else listed(targets, "targets")
        chosen = _positions(recording, chosen_site.name, numbers)
        rows = None
        if named is not None:
            stack = chosen_site.stack.name
            known = recording.targets if recording.target_stack == stack else None
            tokens = [
                recording.named_targets(chosen_site.name, row)
                for row in range(recording.rows(chosen_site.name))
            ]
            rows = positions_by_text(named, tokens, first=known)
        return cls(
            site=chosen_site.name,
            kind=chosen_site.kind,
            layers=chosen,
            targets=rows,
            per_head=per_head,
            layers_named=layers is not None,
        )

    @property
    def alone(self) -> bool:
        """Does the recording hold these targets only?"""
        return self.alone_at is not None

    @property
    def everything(self) -> bool:
        """Are all targets asked for, in their order?"""
        return self.targets is None

    def token_counts(self, lengths: Sequence[int], weights: Tensor) -> Sequence[int] | None:
        """How many tokens each text has, if all of them are targets and sources of these weights:
        what is beyond is padding. Else None.
        """
        square = self.kind is AttentionKind.SELF and weights.shape[-2] == weights.shape[-1]
        return lengths if self.everything and square else None

    def numbers(self, recording: Recording) -> tuple[int, ...]:
        """The requested layers by the numbers that they have in the model."""
        known = recording.structure.site(self.site).numbers
        return tuple(known[position] for position in self.layers)

    def sites(self, recording: Recording) -> Iterator[tuple[Layer, Site]]:
        """The requested layers, each with the requested attention site, one at a time."""
        stack = recording.layers(self.site)
        for index in self.layers:
            yield stack[index], stack[index].site(self.kind)

    def take(self, tensor: Tensor, dim: int) -> Tensor:
        """The requested targets of a tensor [batch, ...] along its target axis; all of them if none
        were named.
        """
        if self.targets is None or self.alone:
            return tensor
        import torch  # not above: listing the measures needs no torch

        index = torch.tensor(self.targets, device=tensor.device)
        dim = dim % tensor.dim()
        shape = [1] * tensor.dim()
        shape[0], shape[dim] = index.shape
        sizes = list(tensor.shape)
        sizes[dim] = index.shape[1]
        return tensor.gather(dim, index.reshape(shape).expand(sizes))

    def target_places(self, batch: int, count: int, device: torch.device) -> Tensor:
        """[batch, target]: where every requested target is in the tensors of a recording."""
        import torch

        if self.alone:
            return torch.arange(count, device=device).expand(batch, count)
        return self.target_positions(batch, count, device)

    def target_positions(self, batch: int, count: int, device: torch.device) -> Tensor:
        """[batch, target]: the position of every requested target."""
        import torch

        if self.alone_at is not None:
            return self.alone_at.to(device)
        if self.targets is None:
            return torch.arange(count, device=device).expand(batch, count)
        return torch.tensor(self.targets, device=device)


def _positions(recording: Recording, site: str, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Layer numbers as positions among those of a site; negative ones count from the end."""
    numbers = recording.structure.site(site).numbers
    count = len(numbers)
    if layers is None:
        return tuple(range(count))
    for layer in layers:
        if layer not in numbers and not -count <= layer < 0:
            known = (
                f"{count} layers, 0 to {count - 1}"
                if numbers == tuple(range(count))
                else f"attention that is measured in layers {', '.join(map(str, numbers))}"
            )
            stack = recording.structure.stack_of(site).name
            raise InvalidInput(f"layers {list(layers)}: {stack} has {known}")
    return tuple(layer % count if layer < 0 else numbers.index(layer) for layer in layers)
