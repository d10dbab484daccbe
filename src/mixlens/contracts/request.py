"""The layers and targets that a measure has to score, for one attention of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from mixlens.contracts.span import Span
from mixlens.contracts.spec import AttentionKind
from mixlens.errors import InvalidInput
from mixlens.text.segments import segment_positions
from mixlens.text.tokens import EachText, TokenRow, positions_by_text, to_list, whole_numbers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of each text, for the layers of one attention.

    The tensors of a layer contain either all tokens of a text or only the targets (`is_cut`).
    `take` selects the targets in both cases.
    """

    positions: tuple[tuple[int, ...], ...] | None  # for each text; None: all
    kind: AttentionKind
    lengths: Sequence[int]  # tokens of each text, without padding
    source_lengths: Sequence[int]  # sources of each text, without padding
    weights: tuple[tuple[float, ...], ...] | None = None  # of each target, if they are a span
    source_row: Callable[[int], TokenRow] | None = field(default=None, compare=False, repr=False)
    cut_at: Tensor | None = field(default=None, compare=False, repr=False)  # the same, if cut
    _pairs: dict[Any, Tensor] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def is_cut(self) -> bool:
        """Return whether the tensors of a layer contain only these targets."""
        return self.cut_at is not None

    @property
    def are_all(self) -> bool:
        """Return whether all tokens are targets, in their order."""
        return self.positions is None

    def blocks(self, size: int) -> Iterator[Targets]:
        """Yield the targets of a span in blocks of `size`.

        If the tensors of a layer contain only these targets, yield all of them at once.
        """
        if self.is_cut or self.positions is None or self.weights is None:
            yield self
            return
        for start in range(0, len(self.positions[0]), size):
            yield self.block(slice(start, start + size))

    def block(self, part: slice) -> Targets:
        """Return a subset of these targets, selected by a slice."""
        if self.positions is None or part == slice(0, len(self.positions[0])):
            return self
        return replace(
            self,
            positions=tuple(of_text[part] for of_text in self.positions),
            weights=None
            if self.weights is None
            else tuple(of_text[part] for of_text in self.weights),
            cut_at=None if self.cut_at is None else self.cut_at[:, part],
        )

    def weights_like(self, tensor: Tensor) -> Tensor:
        """Return the weights of a span, [batch, target], on the device and in the dtype of
        `tensor`.
        """
        import torch

        from mixlens.model.placement import sent

        return sent(torch.tensor(self.weights, dtype=tensor.dtype), tensor.device)

    def segments(self, by: Any) -> list[dict[str, list[int]]]:
        """Return, for each text, the positions of the sources in each named segment. For `by`, see
        `segment_positions`.
        """
        if self.source_row is None:
            raise InvalidInput(
                "These targets have no texts, so there are no segments. Measure texts, not tensors."
            )
        count = len(self.source_lengths)
        return [segment_positions(self.source_row(text), by) for text in range(count)]

    def take(self, tensor: Tensor, dim: int) -> Tensor:
        """Select the targets from a tensor [batch, ...] along the axis `dim`."""
        if self.positions is None or self.is_cut:
            return tensor
        import torch  # not above, because listing the measures needs no torch

        from mixlens.model.placement import sent

        index = sent(torch.tensor(self.positions), tensor.device)
        dim = dim % tensor.dim()
        shape = [1] * tensor.dim()
        shape[0], shape[dim] = index.shape
        sizes = list(tensor.shape)
        sizes[dim] = index.shape[1]
        return tensor.gather(dim, index.reshape(shape).expand(sizes))

    def at(self, batch: int, count: int, device: torch.device) -> Tensor:
        """Return the position of every target in its text: [batch, target]."""
        import torch

        from mixlens.model.placement import sent

        if self.cut_at is not None:
            return self.cut_at.to(device)
        if self.positions is None:
            return torch.arange(count, device=device).expand(batch, count)
        return sent(torch.tensor(self.positions), device)

    def places(self, batch: int, count: int, device: torch.device) -> Tensor:
        """Return the index of every target in the tensors of a layer: [batch, target]."""
        import torch

        if self.is_cut:
            return torch.arange(count, device=device).expand(batch, count)
        return self.at(batch, count, device)

    def token_counts(self, weights: Tensor) -> Sequence[int] | None:
        """Return the number of tokens of each text if `weights` covers all pairs of tokens, else
        None.

        All weights beyond these numbers of tokens are padding.
        """
        square = self.kind is AttentionKind.SELF and weights.shape[-2] == weights.shape[-1]
        return self.lengths if self.are_all and square else None

    def real_pairs(self, positions: Tensor, sources: int) -> Tensor:
        """Return a mask [batch, target, source] of the pairs without padding.

        `positions` are the positions of the targets. The result is cached, because all layers of a
        pass share it.
        """
        import torch

        from mixlens.model.placement import sent

        key = (tuple(positions.shape), sources, positions.device)
        if key not in self._pairs:
            lengths = sent(torch.tensor(self.lengths), positions.device)
            ends = sent(torch.tensor(self.source_lengths), positions.device)[:, None]
            columns = torch.arange(sources, device=positions.device) < ends
            self._pairs[key] = (positions < lengths[:, None])[:, :, None] & columns[:, None, :]
        return self._pairs[key]


@dataclass(frozen=True, kw_only=True)
class Request:
    """The requested scores."""

    site: str
    kind: AttentionKind
    layers: tuple[int, ...]  # indices among the layers of the attention, from 0
    targets: tuple[tuple[int, ...], ...] | None  # for each text of the batch; None: all
    per_head: bool
    span: Span | None = None  # if the targets are scored as one
    layers_named: bool = False  # whether the caller chose these layers, or they are all there are

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
        """Return a request in which names and negative numbers are resolved to positions."""
        chosen_site = recording.structure.site(site)
        numbers = whole_numbers(layers, "layers")
        target_list = targets if isinstance(targets, EachText) else to_list(targets, "targets")
        layer_numbers = _positions(recording, chosen_site.name, numbers)
        positions = None
        if target_list is not None:
            stack = chosen_site.stack.name
            recorded = recording.targets if recording.target_stack == stack else None
            tokens = [
                recording.named_targets(chosen_site.name, text)
                for text in range(recording.rows(chosen_site.name))
            ]
            positions = positions_by_text(target_list, tokens, first=recorded)
        return cls(
            site=chosen_site.name,
            kind=chosen_site.kind,
            layers=layer_numbers,
            targets=positions,
            per_head=per_head,
            layers_named=layers is not None,
        )

    def in_order(self) -> Request:
        """Return the request with the targets of its span in text order.

        The order does not change the sum over the targets.
        """
        assert self.targets is not None
        assert self.span is not None
        orders = [sorted(range(len(of_text)), key=of_text.__getitem__) for of_text in self.targets]

        def sort(by_text: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
            return tuple(
                tuple(of_text[place] for place in order)
                for of_text, order in zip(by_text, orders, strict=True)
            )

        span = replace(self.span, weights=sort(self.span.weights))
        return replace(self, targets=sort(self.targets), span=span)

    def numbers(self, recording: Recording) -> tuple[int, ...]:
        """Return the requested layers as layer numbers of the model."""
        layer_numbers = recording.structure.site(self.site).numbers
        return tuple(layer_numbers[position] for position in self.layers)

    def sites(self, recording: Recording) -> Iterator[tuple[Layer, Attention]]:
        """Yield the requested layers, each with the requested attention, one at a time."""
        stack = recording.layers(self.site)
        for index in self.layers:
            yield stack[index], stack[index].site(self.kind)

    @property
    def take(self) -> NoReturn:
        """Raise an error that explains how to update a measure written for version 0.1."""
        raise InvalidInput(
            "Request.take was removed. Score one layer at a time: score_layer(layer, attention,"
            " targets, *, option=default) -> LayerScores, with targets.take(tensor, axis). A"
            " measure of a whole recording calls request.chosen(recording).take(tensor, axis)."
        )

    def chosen(self, recording: Recording, cut_at: Tensor | None = None) -> Targets:
        """Return the targets of this request, with the lengths of the texts in the recording.

        If the tensors of the layers contain only these targets, pass the target positions as
        `cut_at`.
        """
        return Targets(
            positions=self.targets,
            kind=self.kind,
            lengths=recording.lengths[recording.structure.stack_of(self.site).name],
            source_lengths=recording.source_lengths(self.site),
            weights=None if self.span is None else self.span.weights,
            source_row=functools.partial(recording.source_tokens, self.site),
            cut_at=cut_at,
        )


def _positions(recording: Recording, site: str, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Return the indices of the requested layers among all layers with this attention.

    `layers` are layer numbers of the model; negative numbers count from the end.
    """
    numbers = recording.structure.site(site).numbers
    count = len(numbers)
    if layers is None:
        return tuple(range(count))
    for layer in layers:
        if layer not in numbers and not -count <= layer < 0:
            stack = recording.structure.stack_of(site).name
            if numbers == tuple(range(count)):
                raise InvalidInput(
                    f"Layer {layer} is out of range (0–{count - 1}). Pass a layer of the "
                    f"{stack}, or -1 for the last one."
                )
            layer_names = ", ".join(map(str, numbers))
            raise InvalidInput(
                f"Layer {layer} of the {stack} has no measured attention. Choose one of: "
                f"{layer_names}."
            )
    return tuple(layer % count if layer < 0 else numbers.index(layer) for layer in layers)
