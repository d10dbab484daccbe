"""The rest of a layer after an attention site, as a function of rows.

Beyond its attention a layer treats every target on its own: e_i depends on x_i and on the attention
output o_i alone. So when only o_i changes there is no need to run whole sequences: any number of
rows (x_i, o_i), from any text, go through the rest of the layer at once.

The layer's own code does the work. The outermost submodule around the attention call whose output
is known (the block's output y, or what the output projection returned) is given an instance-level
`forward` that hands back the edited rows; queries, keys, values and attention are then never
computed. Where a layer does not allow that, copies of whole sequences are run instead, which is
always right.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.recording.calls import first_tensor, hooks_removed
from mixlens.recording.recording import Layer, computing_dtype
from mixlens.recording.rerun import cast, expanded, run_layer
from mixlens.recording.site import ROUNDING, Site, difference, rounding
from mixlens.recording.structure import SiteStructure


def same_bar(like: Tensor) -> float:
    """Largest difference of two ways to compute one thing, in the same precision."""
    if rounding(like) > ROUNDING[like.dtype]:  # products in TF32 or bf16
        return rounding(like) / 4
    return 1e-9 if like.dtype == torch.float64 else 2e-5


_LEVELS = ("block", "branch", "projected")
_HERE = object()  # where the hidden states stand in what a submodule returns


@dataclass(frozen=True)
class _Shortcut:
    """A submodule around an attention call, what it returns, and how that is packed."""

    path: str
    level: str
    template: Any
    dims: int

    def packed(self, rows: Tensor) -> Any:
        return _filled(self.template, rows if self.dims == 3 else rows[0])


def levels(
    module: nn.Module,
    structure: SiteStructure,
    residual: Float[Tensor, "*rows d_model"],
    projected: Float[Tensor, "*rows d_model"],
) -> dict[str, Tensor]:
    """What follows from the output projection: itself, the branch after its norms, and the block's
    output y.
    """
    branch = projected
    for path in structure.branch:
        branch = module.get_submodule(path)(branch)
    factor = structure.branch_scale
    scaled = (
        branch * factor.to(branch)
        if isinstance(factor, Tensor)
        else branch
        if factor == 1.0
        else branch * factor
    )
    total = scaled + (
        residual if structure.residual_scale == 1.0 else residual * structure.residual_scale
    )
    block = (
        total
        if structure.output_norm is None
        else module.get_submodule(structure.output_norm)(total)
    )
    return {"projected": projected, "branch": branch, "block": block}


class Tail:
    """The rest of one layer after one of its attention sites.

    `mode` says how it runs: sum, shortcut or copies.
    """

    def __init__(self, layer: Layer, kind: str, *, rows: int = 4096) -> None:
        self.layer, self.kind, self.rows = (
            layer,
            kind,
            rows,
        )  # rows: the most that go through the layer at once
        self.module = layer.module
        self.sites: list[Site] = layer.sites()
        self.position = next(i for i, site in enumerate(self.sites) if site.structure.kind == kind)
        self.site = self.sites[self.position]
        self.shortcuts: tuple[_Shortcut, ...] = ()
        self.mode = self._chosen_mode()

    def __call__(
        self,
        texts: Int[Tensor, " row"],
        targets: Int[Tensor, " row"],
        projected: Float[Tensor, "row d_model"],
    ) -> Float[Tensor, "row d_model"]:
        """The layer's output for these targets, each with another output of the attention site's
        projection.
        """
        run = {"sum": self._by_sum, "shortcut": self._by_shortcut, "copies": self._by_copies}[
            self.mode
        ]
        return run(texts, targets, projected)

    @torch.no_grad()
    def require_recorded_output(
        self, texts: Int[Tensor, " row"], targets: Int[Tensor, " row"]
    ) -> None:
        """Falls back to whole sequences where the unedited rows (a few of them) do not give what
        the layer returned.
        """
        few = slice(None, None, max(1, len(texts) // 8))
        texts, targets = texts[few], targets[few]
        found = self(texts, targets, self.site.projected[texts, targets])
        if not difference(found, self.layer.output[texts, targets]) <= rounding(
            self.layer._call.hidden_in
        ):
            self.mode = "copies"

    # ----------------------------------------------------------------------------------- three ways

    def _by_sum(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        """A parallel feed-forward part does not see the attention output, and a layer may have
        none: then e moves as y does.
        """
        block = levels(
            self.module, self.site.structure, self.site.residual[texts, targets], projected
        )["block"]
        return block + (self.layer.output - self.site.block_output)[texts, targets]

    def _by_shortcut(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        layer, dtype = self.layer, projected.dtype
        args, kwargs = expanded(layer._call, layer.structure.axes, 0, 1)
        args, kwargs = cast(args, dtype), cast(kwargs, dtype)
        given: dict[str, Any] = {}
        for number, shortcut in enumerate(self.shortcuts):
            site = self.sites[number]
            rows = projected if number == self.position else site.projected[texts, targets]
            value = rows
            if shortcut.level != "projected":
                value = levels(self.module, site.structure, site.residual[texts, targets], rows)[
                    shortcut.level
                ]
            given[shortcut.path] = shortcut.packed(value[None])
        hidden = layer.input[texts, targets][None]
        with answering(self.module, given), looped_experts(self.module):
            return run_layer(self.module, "", args, kwargs, batch=1, hidden=hidden)[0]

    def _by_copies(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        """Whole sequences: the k-th edit of a target goes into the k-th copy of its text."""
        found = torch.empty_like(projected)
        base = self.site.projected
        at_once = max(1, self.rows // base.shape[1])
        for text in sorted(set(texts.tolist())):
            mine = (texts == text).nonzero()[:, 0]
            where = targets[mine]
            copy = _occurrence(where)
            for start in range(0, int(copy.max()) + 1, at_once):
                now = (copy >= start) & (copy < start + at_once)
                edited = base[text].repeat(int(copy[now].max()) - start + 1, 1, 1)
                edited[copy[now] - start, where[now]] = projected[mine[now]]
                output = self.layer.rerun(text, attention_output=edited, kind=self.kind)
                found[mine[now]] = output[copy[now] - start, where[now]]
        return found

    # ----------------------------------------------------------------------------------- the choice

    @torch.no_grad()
    def _chosen_mode(self) -> str:
        last = self.position == len(self.sites) - 1
        if last and (self.site.structure.parallel or self.layer.structure.feed_forward is None):
            return "sum"
        if not last:  # a later attention needs its own masks and states for every row
            return "copies"
        plans = _plans.setdefault(self.layer._recording.model, {})
        key = (self.kind, self.module.training, signature(self.layer))
        if key not in plans:
            plans[key] = self._proved(_shortcuts(self.layer))
        self.shortcuts = plans[key]
        return "shortcut" if self.shortcuts else "copies"

    def _proved(self, found: Sequence[_Shortcut | None]) -> tuple[_Shortcut, ...]:
        """The shortcuts where they give what a re-run of the whole layer gives for a changed
        attention output, else none.
        """
        shortcuts = [shortcut for shortcut in found if shortcut is not None]
        if len(shortcuts) < len(self.sites):
            return ()
        self.shortcuts = tuple(shortcuts)
        base = self.site.projected[0]
        generator = torch.Generator().manual_seed(0)
        edited = base * (1 + torch.randn(base.shape, generator=generator).to(base) / 2)
        expected = self.layer.rerun(0, attention_output=edited[None], kind=self.kind)[0]
        targets = torch.arange(len(base), device=base.device)
        try:
            given = self._by_shortcut(torch.zeros_like(targets), targets, edited)
        except (
            Exception
        ):  # whatever a layer does with rows that it did not expect, whole sequences remain
            return ()
        return self.shortcuts if difference(given, expected) <= same_bar(expected) else ()


_plans: weakref.WeakKeyDictionary[nn.Module, dict[object, tuple[_Shortcut, ...]]] = (
    weakref.WeakKeyDictionary()
)


def signature(layer: Layer) -> object:
    """Layers with the same modules and the same structure take the same shortcuts."""
    parts = tuple((path, type(part)) for path, part in layer.module.named_modules())
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
    module, structures = layer.module, layer.structure.sites
    running: list[str] = []
    around: list[frozenset[str]] = []
    known: list[dict[str, Tensor]] = []
    found: list[_Shortcut | None] = [None] * len(structures)
    args, kwargs = expanded(layer._call, layer.structure.axes, 0, 1)
    dtype = computing_dtype(layer._call.hidden_in.dtype)
    args, kwargs = cast(args, dtype), cast(kwargs, dtype)
    stream = layer.input[:1]

    ours = False  # norms that we call ourselves are no part of the run

    def entered(path: str) -> Callable[..., None]:
        return lambda submodule, inputs: None if ours else running.append(path)

    def left(submodule: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal ours
        if ours:
            return
        path, number = running.pop(), len(around) - 1
        if not 0 <= number < len(structures):
            return
        structure = structures[number]
        if path == structure.output_projection and len(known) == number:
            residual = known[-1]["block"] if known else stream
            ours = True
            if structure.residual_from is not None:
                residual = module.get_submodule(structure.residual_from)(residual)
            known.append(
                levels(
                    module,
                    structure,
                    residual,
                    first_tensor(output).reshape(residual.shape).clone(),
                )
            )
            ours = False
        if path in around[number] and len(known) > number:
            found[number] = _recognised(path, output, known[number]) or found[number]

    handles: list[Any] = []
    with hooks_removed(handles):
        for path, submodule in module.named_modules():
            if path and not isinstance(submodule, nn.ModuleList):
                handles.append(submodule.register_forward_pre_hook(entered(path)))
                handles.append(submodule.register_forward_hook(left))
        backend = layer._recording.structure.backend
        run_layer(
            module,
            backend,
            args,
            kwargs,
            batch=1,
            on_call=lambda call: around.append(frozenset(running)),
        )
    return found


def _recognised(path: str, output: Any, known: dict[str, Tensor]) -> _Shortcut | None:
    try:
        tensor = first_tensor(output)
    except TypeError:
        return None
    for level in _LEVELS:
        if tensor.numel() == known[level].numel() and tensor.dim() in (2, 3):
            if difference(tensor.reshape(known[level].shape), known[level]) <= same_bar(tensor):
                return _Shortcut(path, level, _template(output), tensor.dim())
    return None


def _template(output: Any) -> Any:
    if isinstance(output, Tensor):
        return _HERE
    if isinstance(
        output, (tuple, list)
    ):  # attention weights and the like are not needed by the rest of a layer
        return tuple(
            _template(item) if i == 0 else None if isinstance(item, Tensor) else item
            for i, item in enumerate(output)
        )
    return output


def _filled(template: Any, rows: Tensor) -> Any:
    if template is _HERE:
        return rows
    if isinstance(template, tuple):
        return tuple(_filled(item, rows) if i == 0 else item for i, item in enumerate(template))
    return template


def _occurrence(values: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
    """How many equal values stand before each one."""
    order = torch.argsort(values, stable=True)
    ordered = values[order]
    count = torch.arange(len(values), device=values.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(count).scatter_(0, order, count)


@contextlib.contextmanager
def answering(module: nn.Module, given: dict[str, Any]) -> Iterator[None]:
    """Submodules that return what they are told instead of computing."""
    parts = [module.get_submodule(path) for path in given]
    before = [vars(part).get("forward", _HERE) for part in parts]

    def returning(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    try:
        for part, value in zip(parts, given.values(), strict=True):
            vars(part)["forward"] = returning(value)
        yield
    finally:
        for part, old in zip(parts, before, strict=True):
            if old is _HERE:
                vars(part).pop("forward", None)
            else:
                vars(part)["forward"] = old


@contextlib.contextmanager
def looped_experts(module: nn.Module) -> Iterator[None]:
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
