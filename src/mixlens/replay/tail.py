"""The rest of a layer after an attention site, as a function of rows.

Beyond its attention a layer treats every target on its own: e_i depends on x_i and on the attention
output o_i alone. So when only o_i changes there is no need to run whole sequences: any number of
rows (x_i, o_i), from any text, go through the rest of the layer at once.

The layer's own code does the work. The outermost submodule around the attention call whose output
is known (the block's output y, or what the output projection returned) is given an instance-level
`forward` that hands back the edited rows; queries, keys, values and attention are then never
computed. This is proved with many rows, shuffled and repeated: a feed-forward part may depend on a
row's place (BLIP-2's Q-Former has another for its text), on how many rows there are (experts with a
capacity) or on its neighbours (convolutions). For such layers whole sequences are run instead,
which is always right.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.recording.differences import difference, same_bar
from mixlens.recording.events import HERE, Event
from mixlens.recording.layer import Layer
from mixlens.recording.remembered import Remembered
from mixlens.recording.site import Site

_PROVED_ROWS = 1024
_LEVELS = ("block", "branch", "projected")


@dataclass(frozen=True)
class _Shortcut:
    """A submodule around an attention call, what it returns, and how that is packed."""

    path: str
    level: str
    packing: Any
    dims: int

    def packed(self, rows: Tensor) -> Any:
        """What the submodule returns with these rows."""
        return _filled(self.packing, rows if self.dims == 3 else rows[0])


class Tail:
    """The rest of one layer after one of its attention sites.

    `mode` says how it runs: sum, shortcut, or sequences if rows alone cannot be run.
    """

    def __init__(self, layer: Layer, kind: str, *, rows: int = 4096) -> None:
        self.layer, self.kind = layer, kind
        self.rows = rows  # the most that go through the layer at once
        self.sites: list[Site] = layer.sites()
        self.position = layer.position(kind)
        self.site = layer.site(kind)
        self.shortcuts: tuple[_Shortcut, ...] = ()
        self.mode = self._chosen_mode()

    @property
    def module(self) -> nn.Module:
        """The layer in float32 or better."""
        return self.layer.module

    def __call__(
        self,
        texts: Int[Tensor, " row"],
        targets: Int[Tensor, " row"],
        projected: Float[Tensor, "row d_model"],
    ) -> Float[Tensor, "row d_model"]:
        """The layer's output for these targets, each with another output of the attention site's
        projection.
        """
        assert self.mode != "sequences", "its rows depend on each other"
        run = self._by_sum if self.mode == "sum" else self._by_shortcut
        return run(texts, targets, projected)

    @torch.no_grad()
    def mixes(self) -> bool:
        """Does the output of a target change with the attention output of a different one?"""
        base = self.site.projected[0]
        place = len(base) // 2
        edited = base.clone()
        edited[place] = base[place].flip(-1) + base.abs().mean()
        both = torch.stack([base, edited])
        output = self.layer.rerun(0, attention_output=both, kind=self.kind)
        others = torch.arange(len(base), device=base.device) != place
        return not difference(output[1, others], output[0, others]) <= same_bar(base)

    @torch.no_grad()
    def require_recorded_output(
        self, texts: Int[Tensor, " row"], targets: Int[Tensor, " row"]
    ) -> None:
        """Falls back to whole sequences where the unedited rows (a few of them) do not give what
        the layer returned.
        """
        if self.mode == "sequences":
            return
        few = slice(None, None, max(1, len(texts) // 8))
        texts, targets = texts[few], targets[few]
        found = self(texts, targets, self.site.projected[texts, targets])
        error = difference(found, self.layer.output[texts, targets])
        if not error <= self.layer.rounding:
            _fall_back(self.layer, f"unedited rows are off by {error:.1e} in mode {self.mode}")
            self.mode = "sequences"

    # ------------------------------------------------------------------------------------- two ways

    def _by_sum(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        """A parallel feed-forward part does not see the attention output, and a layer may have
        none: then e moves as y does.
        """
        residual = self.site.residual[texts, targets]
        block = self.site.structure.levels(self.module, residual, projected)["block"]
        return block + (self.layer.output - self.site.block_output)[texts, targets]

    def _by_shortcut(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        given: dict[str, Any] = {}
        for number, shortcut in enumerate(self.shortcuts):
            site = self.sites[number]
            rows = projected if number == self.position else site.projected[texts, targets]
            value = rows
            if shortcut.level != "projected":
                residual = site.residual[texts, targets]
                value = site.structure.levels(self.module, residual, rows)[shortcut.level]
            given[shortcut.path] = shortcut.packed(value[None])
        hidden = self.layer.input[texts, targets][None]
        return answered_run(self.layer, 0, given, hidden)

    # ----------------------------------------------------------------------------------- the choice

    @torch.no_grad()
    def _chosen_mode(self) -> str:
        last = self.position == len(self.sites) - 1
        if last and (self.site.structure.parallel or self.layer.structure.feed_forward is None):
            return "sum"
        if not last:  # a later attention needs its own masks and states for every row
            return "sequences"
        key = (self.kind, self.layer.submodule("").training, signature(self.layer))
        plan = _plans.of(self.layer.model, key, self._proved_plan)
        if plan is None:
            _fall_back(self.layer, "its rest does not work on rows")
            return "sequences"
        self.shortcuts, self.rows = plan.shortcuts, min(self.rows, plan.rows)
        return "shortcut"

    def _proved_plan(self) -> _Plan | None:
        """Of the whole layer: a layer of which only rows were recorded cannot be run again."""
        whole = self.layer.whole
        if whole is self.layer:
            return self._proved(_shortcuts(self.layer))
        tail = Tail(whole, self.kind, rows=self.rows)
        return _Plan(tail.shortcuts, tail.rows) if tail.mode == "shortcut" else None

    def _proved(self, found: Sequence[_Shortcut | None]) -> _Plan | None:
        """The shortcuts, if many rows of two edited copies of a text, shuffled and repeated, come
        out as in a re-run of the whole layer.
        """
        shortcuts = tuple(shortcut for shortcut in found if shortcut is not None)
        if len(shortcuts) < len(self.sites):
            return None
        self.shortcuts = shortcuts
        base = self.site.projected[0]
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(2, *base.shape, generator=generator).to(base)
        edited = base * (1 + noise / 2) + noise * base.abs().mean() / 2
        expected = self.layer.rerun(0, attention_output=edited, kind=self.kind)
        count = max(2 * len(base) + 1, min(self.rows, _PROVED_ROWS))
        copies, targets = (
            torch.randint(high, (count,), generator=generator) for high in (2, len(base))
        )
        crowd = slice(0, count // 4)  # the same row many times: all of them go to one expert
        copies[crowd], targets[crowd] = 0, len(base) // 2
        copies, targets = copies.to(base.device), targets.to(base.device)
        try:
            given = self._by_shortcut(torch.zeros_like(targets), targets, edited[copies, targets])
        except Exception:  # whatever a layer does with rows that it did not expect
            return None
        error = difference(given, expected[copies, targets])
        return _Plan(shortcuts, count) if error <= same_bar(expected) else None


@dataclass(frozen=True)
class _Plan:
    """Shortcuts, and with how many rows at once they were proved."""

    shortcuts: tuple[_Shortcut, ...]
    rows: int


_plans: Remembered[_Plan | None] = Remembered()
_log = logging.getLogger(__name__)


def _fall_back(layer: Layer, reason: str) -> None:
    _log.debug("`%s`: whole sequences are run again: %s", layer.structure.path, reason)


def signature(layer: Layer) -> object:
    """Layers with the same modules and the same structure take the same shortcuts."""
    parts = tuple((path, type(part)) for path, part in layer.submodule("").named_modules())
    sites = tuple(
        (
            s.kind,
            s.output_projection,
            s.branch,
            s.residual_scale,
            s.residual_from,
            s.input_norm,
            s.output_norm,
            s.witness,
        )
        for s in layer.structure.sites
    )
    return parts, sites


def _shortcuts(layer: Layer) -> list[_Shortcut | None]:
    """For each attention site the outermost submodule around it whose output is known, from one run
    of the layer.
    """
    seen, stream = layer.observed(), layer.input[:1]
    ends = [core.tick for core in seen.cores[1:]] + [seen.events[-1].end + 1]
    shortcuts: list[_Shortcut | None] = []
    for structure, core, end in zip(layer.structure.sites, seen.cores, ends, strict=True):
        during = [event for event in seen.events if event.end > core.tick and event.end < end]
        projected = next(
            event.output for event in during if event.path == structure.output_projection
        )
        assert projected is not None
        residual = structure.residual(layer.module, stream)
        known = structure.levels(layer.module, residual, projected.reshape(residual.shape))
        around = [event for event in during if event.path in core.inside]
        recognised = (_recognised(event, known) for event in around)  # the outermost first
        shortcuts.append(next((one for one in recognised if one is not None), None))
        stream = known["block"]
    return shortcuts


def _recognised(event: Event, known: dict[str, Tensor]) -> _Shortcut | None:
    tensor = event.output
    if tensor is None or event.dims not in (2, 3):
        return None
    for level in _LEVELS:
        if tensor.numel() == known[level].numel():
            if difference(tensor.reshape(known[level].shape), known[level]) <= same_bar(tensor):
                return _Shortcut(event.path, level, event.packing, event.dims)
    return None


def _filled(packing: Any, rows: Tensor) -> Any:
    if packing is HERE:
        return rows
    if isinstance(packing, tuple):
        return tuple(_filled(item, rows) if i == 0 else item for i, item in enumerate(packing))
    return packing


def answered_run(
    layer: Layer, row: int, given: dict[str, Any], hidden: Float[Tensor, "one row d_model"]
) -> Float[Tensor, "row d_model"]:
    """The layer on rows, while the submodules around its attention return what is given."""
    args, kwargs = layer.arguments(row)
    with _answering(layer.module, given), _looped_experts(layer.module):
        return layer.run(args, kwargs, hidden=hidden, attends=False)[0]


@contextlib.contextmanager
def _answering(module: nn.Module, given: dict[str, Any]) -> Iterator[None]:
    """Submodules that return what they are told instead of computing."""
    parts = [module.get_submodule(path) for path in given]
    before = [vars(part).get("forward", HERE) for part in parts]

    def returning(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    try:
        for part, value in zip(parts, given.values(), strict=True):
            vars(part)["forward"] = returning(value)
        yield
    finally:
        for part, old in zip(parts, before, strict=True):
            if old is HERE:
                vars(part).pop("forward", None)
            else:
                vars(part)["forward"] = old


@contextlib.contextmanager
def _looped_experts(module: nn.Module) -> Iterator[None]:
    """Experts one after the other: products that gather expert weights for every row would not fit
    many rows.
    """
    name = "_experts_implementation_internal"
    configs = {
        id(c): c
        for c in (getattr(part, "config", None) for part in module.modules())
        if getattr(c, name, None) is not None
    }
    before = [(config, getattr(config, name)) for config in configs.values()]
    try:
        for config, _ in before:
            setattr(config, name, "eager")
        yield
    finally:
        for config, implementation in before:
            setattr(config, name, implementation)
