"""The request of a measure: layers and targets of one attention."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from mixlens.contracts.span import Span
from mixlens.contracts.spec import AttentionKind
from mixlens.contracts.targets import Targets
from mixlens.errors import InvalidInput
from mixlens.text.positions import EachText, positions_by_text
from mixlens.text.tokens import listed, whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording


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
        """Return the request in positions of this recording, with names and negative numbers
        resolved.
        """
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

    def numbers(self, recording: Recording) -> tuple[int, ...]:
        """Return the requested layers by their numbers in the model."""
        known = recording.structure.site(self.site).numbers
        return tuple(known[position] for position in self.layers)

    def sites(self, recording: Recording) -> Iterator[tuple[Layer, Attention]]:
        """Yield the requested layers, each with the requested attention, one at a time."""
        stack = recording.layers(self.site)
        for index in self.layers:
            yield stack[index], stack[index].site(self.kind)

    @property
    def take(self) -> NoReturn:
        """Raise: measures of the old form took targets from the request."""
        raise InvalidInput(
            "Request.take is gone. Score one layer at a time: score_layer(layer, attention,"
            " targets, *, option=default) -> LayerScores, with targets.take(tensor, axis). A"
            " measure of a whole recording calls request.chosen(recording).take(tensor, axis)."
        )

    def chosen(self, recording: Recording, cut_at: Tensor | None = None) -> Targets:
        """Return the requested targets of a recording. `cut_at` are their positions, if its layers
        hold only these targets.
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
    """Return layer numbers as indices among those of an attention; negative ones count from the
    end.
    """
    numbers = recording.structure.site(site).numbers
    count = len(numbers)
    if layers is None:
        return tuple(range(count))
    for layer in layers:
        if layer not in numbers and not -count <= layer < 0:
            known = (
                f"{count} layers, 0 to {count - 1}"
                if numbers == tuple(range(count))
                else f"measured attention in layers {', '.join(map(str, numbers))}"
            )
            stack = recording.structure.stack_of(site).name
            raise InvalidInput(f"layers {list(layers)}: {stack} has {known}")
    return tuple(layer % count if layer < 0 else numbers.index(layer) for layer in layers)
