"""What a measure is given and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mixlens.errors import InvalidInput
from mixlens.row import EachText, positions_by_text
from mixlens.tokens import listed, whole_numbers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.recording.site import Site
    from mixlens.recording.structure import LayerStructure, SiteStructure


GIVES = ("maps", "rows", "row", "graph")
READS = ("attention", "output", "gradient")


class AttentionKind(StrEnum):
    """Whose tokens an attention reads: those of its own stack, or those of another."""

    SELF = "self"
    CROSS = "cross"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is true of scores."""

    signed: bool = False  # may they be negative?
    rows_sum_to_one: bool = False
    residual_included: bool = False  # does the diagonal hold the residual stream?
    reaches_input: bool = False  # does each layer already speak of the input tokens?
    same_tokens: bool = True  # are the targets the sources? Not so in cross-attention
    joined_by: str | None = None  # the step that joined the layers, after which none can


@dataclass(frozen=True)
class Option:
    """A keyword of a measure, in Python and on the command line."""

    name: str
    default: Any
    kind: str  # its annotation


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a measure is. All that others need to know of it is here, and nowhere else."""

    summary: str
    citation: str
    use_when: str  # when to use it, in plain words
    cost: str  # in forward passes, or as a formula of n
    facts: Facts
    sites: tuple[AttentionKind, ...] = tuple(AttentionKind)
    per_head: bool = False
    # Does it explain what the model says (a word, a class)? Then `scores` is given an `Explained`,
    # and the options that name the output (label, word, foil, position, of) come by themselves.
    explains_output: bool = False
    explains_embedding: bool = False  # may it be an embedding, or the similarity of two?
    explains_by_default: str = "probability"  # or "logit": the default of the option `of`
    # What of a forward pass it reads: the "attention" inside, taken apart and verified; only what
    # enters the layers and the "output"; or these two and the "gradient" of one by the other.
    reads: str = "attention"
    # "maps": [layer, target, source]. "rows": one row for each layer. "row": one row for the whole
    # model. "graph": nodes and edges.
    gives: str = "maps"
    # Does a layer's score of a target need that layer, its sources and this target alone? Then a
    # few targets are measured without forming maps.
    row_by_row: bool = False
    # How the rows of the layers become one ("rows" only): the "first" of them, or their "sum".
    one_row: str = "first"
    # The share of the identity that the paper's own rollout mixes in.
    rollout_residual: float | None = None
    rollout_normalised: bool = True
    rollout_adds_identity: bool = False  # R_l = R_(l-1) + M_l R_(l-1), as for relevance
    # What it sees and what it misses, as a predicate: "`name` <blind_spots>."
    blind_spots: str = ""
    # Peak beyond recording, weights and scores, in numbers (not bytes): a formula of n, d_model,
    # heads, d_ff, layers; of graph (what a forward pass keeps for its gradient); and of what a
    # block, a chunk and the memory budget hold.
    memory: str = ""
    # Options for an answer in seconds, if the defaults take minutes (`compare`, `benchmark`).
    quick: Mapping[str, Any] = field(default_factory=dict)
    # Options with which the contract can be checked on any model, by the least work.
    least: Mapping[str, Any] = field(default_factory=dict)
    # How far rounding in float32 may move scores, relative to the largest of a text.
    rounding: float = 1e-5
    # How far bfloat16 may move scores on average, relative to their mean. None: not known.
    half_precision: float | None = 0.15
    # A row is rounding, and counts as empty, if its largest score is below this many units of
    # rounding (the dtype's epsilon) times `Scores.scale`. None: no row is.
    empty_below: float | None = None
    # A floor to compare with, not a way to look into the model.
    baseline: bool = False
    options: tuple[Option, ...] = ()  # filled in from the signature of `scores`

    def __post_init__(self) -> None:
        if self.gives not in GIVES:
            raise InvalidInput(f"gives={self.gives!r}: choose one of {', '.join(GIVES)}")
        if self.reads not in READS:
            raise InvalidInput(f"reads={self.reads!r}: choose one of {', '.join(READS)}")
        if self.one_row not in ("first", "sum"):
            raise InvalidInput(f"one_row={self.one_row!r}: choose first or sum")

    def with_options(self, options: tuple[Option, ...]) -> Spec:
        """The same measure with its options."""
        return replace(self, options=options)


@runtime_checkable
class ScoreFunction(Protocol):
    """`scores(recording, request, *, option=default)`. A measure that explains an output takes it
    third: `scores(recording, request, output, *, option=default)`.
    """

    def __call__(
        self, recording: Recording, request: Request, /, *args: Any, **options: Any
    ) -> Scores:
        """The numbers for the whole batch, padding still inside."""


@runtime_checkable
class Refusal(Protocol):
    """`refusal(layer, site)`: why a measure cannot be right on a layer of this structure."""

    def __call__(self, layer: LayerStructure, site: SiteStructure, /) -> str | None:
        """The reason, or None."""


@runtime_checkable
class Measure(Protocol):
    """What a file in `mixlens.measures` is, and what a plug-in must be.

    It may also have a `refusal`.
    """

    @property
    def SPEC(self) -> Spec:
        """What it is."""

    @property
    def scores(self) -> ScoreFunction:
        """How it is computed."""


def by_layer(parts: Sequence[Tensor], *, copied: bool = False) -> Tensor:
    """The scores of layers along a first axis, wherever each layer is. Those of a single one are
    copied only if they are not the measure's own.
    """
    import torch  # not above: listing the measures needs no torch

    if len(parts) == 1 and not copied:
        return parts[0][None]
    return torch.stack([part.to(parts[0].device) for part in parts])


@dataclass(frozen=True)
class Scores:
    """A measure's numbers for the whole batch: [layer, batch, target, source] or [layer, batch,
    head, target, source].

    Rows and columns of padding may hold anything finite: they are cut off afterwards.
    """

    values: Tensor
    # Extras have leading axes [layer, batch, ...]; an axis as long as the padded targets or sources
    # is cut like `values` if its name says so in `extra_dims`.
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    extra_dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _: KW_ONLY
    # If they are not the requested ones (0 = the input of the first layer, for gradients).
    layers: Sequence[int] | None = None
    # If the targets are not tokens of the site (one explained output per row of the batch).
    target_labels: Sequence[str] | None = None
    facts: Facts | None = None  # if options change them
    # Do all rows sum to one? Numbers decide that for some measures. One or more truth values, left
    # on the device until the maps are made; they replace what the facts say.
    rows_whole: Tensor | None = None
    # [layer, batch, target]: the size that a row's rounding is relative to (`Spec.empty_below`).
    scale: Tensor | None = None

    def to(self, device: str | torch.device) -> Scores:
        """The same numbers on a device."""
        return replace(
            self,
            values=self.values.to(device),
            extras={name: tensor.to(device) for name, tensor in self.extras.items()},
            scale=None if self.scale is None else self.scale.to(device),
            rows_whole=None if self.rows_whole is None else self.rows_whole.to(device),
        )

    @classmethod
    def joined(cls, layers: Sequence[Scores]) -> Scores:
        """The scores of several layers that were measured one by one, in their order."""
        import torch

        first = layers[0]
        if len(layers) == 1:
            return first
        device = first.values.device  # layers may be on several
        layers = [part if part.values.device == device else part.to(device) for part in layers]
        scales = [part.scale for part in layers if part.scale is not None]
        whole = [part.rows_whole.flatten() for part in layers if part.rows_whole is not None]
        return replace(
            first,
            values=torch.cat([part.values for part in layers]),
            extras={
                name: torch.cat([part.extras[name] for part in layers]) for name in first.extras
            },
            scale=torch.cat(scales) if scales else None,
            rows_whole=torch.cat(whole) if whole else None,
        )

    @classmethod
    def of_outputs(cls, outputs: Sequence[Scores]) -> Scores:
        """The scores of several explained outputs of one text, as rows below each other."""
        import torch

        first = outputs[0]
        scales = [part.scale for part in outputs if part.scale is not None]
        return replace(
            first,
            values=torch.cat([part.values for part in outputs], -2),
            extras={
                name: torch.stack([part.extras[name] for part in outputs], 2)
                for name in first.extras
            },
            extra_dims={name: ("target", *first.extra_dims[name]) for name in first.extras},
            target_labels=[label for part in outputs for label in part.target_labels or ()],
            scale=torch.cat(scales, -1) if scales else None,
        )

    def known_facts(self, usual: Facts) -> Facts:
        """What is true of these scores, `usual` being what is true of the measure's."""
        facts = usual if self.facts is None else self.facts
        if self.rows_whole is None:
            return facts
        return replace(facts, rows_sum_to_one=bool(self.rows_whole.all()))


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


def is_released(variant: str) -> bool:
    """Is a measure to do as the authors' released code does, not as their paper says?"""
    if variant not in ("paper", "released"):
        raise InvalidInput(f"variant={variant!r}: choose paper or released")
    return variant == "released"
