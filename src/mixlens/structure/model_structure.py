"""Describe the structure of a whole model: its stacks of layers, their attention blocks, and the
backend that captures attention.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.structure.layer_structure import LayerStructure
from mixlens.structure.layouts import Layout


class _UnknownSite(UnsupportedModel, InvalidInput):
    """Wrong usage that is the same for every text, so a run over a corpus stops at once."""


@dataclass(frozen=True)
class StackStructure:
    """Describes a stack of layers, such as an encoder."""

    name: str
    path: str
    layers: tuple[LayerStructure, ...]
    left_out: int = 0  # unsupported layers of the same list

    @functools.cached_property
    def has_cross(self) -> bool:
        """Return whether any layer of the stack attends to a different stack."""
        return bool(self.positions(AttentionKind.CROSS))

    def positions(self, kind: AttentionKind) -> tuple[int, ...]:
        """Return the positions of the stack's layers that have attention of this kind.

        In some models, only every fourth layer has cross-attention.
        """
        return tuple(
            position
            for position, layer in enumerate(self.layers)
            if any(kind in site.kinds for site in layer.sites)
        )

    def require_every_layer(self, what: str, count: int | None = None) -> None:
        """Raise an error unless all layers (or the first `count`) can be measured.

        Call this before a computation that needs every layer, such as a rollout. `what` is the name
        of the computation in the error message.
        """
        numbers = [layer.number for layer in self.layers[:count]]
        goes_to_end = count is None and self.left_out > 0
        if goes_to_end or numbers != list(range(len(numbers))):
            raise UnsupportedModel(
                f"only layers {', '.join(map(str, numbers))} of {self.name} are supported, but "
                f"{what} needs all layers, starting with the first. Run `mixlens doctor` for the "
                "reasons"
            )


@dataclass(frozen=True)
class AttentionSite:
    """Describes the attention of one kind in all layers of a stack: self-attention, or
    cross-attention to another stack.
    """

    name: str
    stack: StackStructure
    kind: AttentionKind

    @property
    def reads_own(self) -> bool:
        """Return whether the sources are the tokens of the same stack as the targets."""
        parts = (part for layer in self.stack.layers for part in layer.sites)
        return self.kind is AttentionKind.SELF or any(part.across for part in parts)

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return the indices of the layers that have this attention."""
        return tuple(self.stack.layers[i].number for i in self.stack.positions(self.kind))


@dataclass(frozen=True, kw_only=True)
class ModelStructure:
    """Describes the stacks of a model, and the order in which their layers are called."""

    backend: str
    stacks: tuple[StackStructure, ...]
    calls: tuple[tuple[StackStructure, int], ...]  # stack and layer number, in call order
    sites: Mapping[str, AttentionSite]  # by name
    left_out: Mapping[str, str]  # unsupported layers -> reason
    whole: bool  # whether it was inferred from the whole input

    @property
    def open(self) -> dict[str, str]:
        """Return the layers whose output is not a known sum, and the reason for each."""
        layers = (layer for stack in self.stacks for layer in stack.layers)
        return {layer.path: layer.open for layer in layers if layer.open is not None}

    @property
    def unread(self) -> tuple[int, int]:
        """Return the number of unsupported or open layers, and the number of unsupported layers."""
        return len(self.left_out) + len(self.open), len(self.left_out)

    @property
    def layouts(self) -> dict[str, Layout]:
        """Return the layout of each layer whose hidden states are not [batch, tokens, d_model], by
        path.
        """
        layers = (layer for stack in self.stacks for layer in stack.layers)
        return {layer.path: layer.layout for layer in layers if layer.layout is not None}

    def site(self, name: str | None) -> AttentionSite:
        """Return the attention with this name, or the first one if `name` is None.

        A component of the stack's path also works as a name, unless it occurs in the path of
        another stack.
        """
        if name is None:
            name = next(iter(self.sites))
        is_name = isinstance(name, str)
        if not is_name or name not in self.sites:
            matching_stacks = self.stacks if is_name else ()
            stacks = {stack.name for stack in matching_stacks if name in stack.path.split(".")}
            if len(stacks) == 1 and stacks <= self.sites.keys():
                return self.sites[stacks.pop()]
            raise _UnknownSite(f"Unknown site {name!r}. Choose one of: {', '.join(self.sites)}.")
        return self.sites[name]

    def stack_of(self, site: str | None) -> StackStructure:
        """Return the stack whose tokens are the targets of an attention."""
        return self.site(site).stack


def assemble_structure(
    backend: str, layers: Sequence[LayerStructure], left_out: Mapping[str, str], whole: bool
) -> ModelStructure:
    """Group layers into stacks, and name their attention blocks.

    Layers of one list that process different numbers of texts or tokens form separate stacks,
    because their maps have different sizes.
    """
    lists: dict[str, dict[tuple[int, int], list[LayerStructure]]] = {}
    order: list[tuple[str, tuple[int, int], int]] = []
    for layer in layers:
        path = layer.path.rpartition(".")[0]
        group = lists.setdefault(path, {}).setdefault(layer.shape, [])
        order.append((path, layer.shape, len(group)))
        group.append(layer)
    names = _stack_names({path: next(iter(groups.values())) for path, groups in lists.items()})
    stacks = {
        (path, shape): StackStructure(
            names[path] if number == 1 else f"{names[path]}.{number}",
            path,
            tuple(group),
            sum(other.rpartition(".")[0] == path for other in left_out),
        )
        for path, groups in lists.items()
        for number, (shape, group) in enumerate(groups.items(), 1)
    }
    sites = {site.name: site for site in _sites(list(stacks.values()))}
    return ModelStructure(
        backend=backend,
        stacks=tuple(stacks.values()),
        calls=tuple((stacks[path, shape], i) for path, shape, i in order),
        sites=sites,
        left_out=left_out,
        whole=whole,
    )


def _sites(stacks: Sequence[StackStructure]) -> Iterator[AttentionSite]:
    """Yield the attention blocks with their names.

    Self-attention is named after its stack. Cross-attention is called "cross", preceded by the
    stack's name if several stacks have cross-attention.
    """
    crossing = sum(stack.has_cross for stack in stacks)
    for stack in stacks:
        if stack.positions(AttentionKind.SELF):
            yield AttentionSite(stack.name, stack, AttentionKind.SELF)
        if stack.has_cross:
            name = "cross" if crossing == 1 else f"{stack.name}.cross"
            yield AttentionSite(name, stack, AttentionKind.CROSS)


def _stack_names(grouped: Mapping[str, list[LayerStructure]]) -> dict[str, str]:
    """Return the name of each stack: "encoder" and "decoder" if the model has them, or otherwise
    the component in which the paths of the stacks differ.
    """
    crossed = [
        path
        for path, group in grouped.items()
        if any(AttentionKind.CROSS in site.kinds for site in group[0].sites)
    ]
    if len(grouped) == 1 or (len(grouped) == 2 and len(crossed) == 1):
        return {
            path: "decoder" if path in crossed or group[0].sites[0].causal else "encoder"
            for path, group in grouped.items()
        }
    parts = {path: path.split(".") for path in grouped}
    shared = 0
    while len({tuple(p[: shared + 1]) for p in parts.values()}) == 1:
        shared += 1
    return {
        path: p[shared] if len({q[shared] for q in parts.values()}) == len(parts) else path
        for path, p in parts.items()
    }
