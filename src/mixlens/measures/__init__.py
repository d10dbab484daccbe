"""Measures: a file in this folder is a measure.

`measures()` lists them, `measure(name, recording)` computes one.

A measure file holds

* `SPEC`, a `Spec`: what it computes, its citation, where it is defined, what is true of its scores;
* `scores(recording, request, **options) -> Scores`: the numbers for the whole batch, padding still
  inside;
* optionally `refusal(layer, site) -> str | None`: why it cannot be right on a layer of that
  structure.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mixlens.contracts import Facts, Option, Request, Scores, Spec
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.precision import matmul_precision
from mixlens.registry import entries
from mixlens.suggestions import no_such

if TYPE_CHECKING:
    from mixlens.maps import MixingMaps
    from mixlens.recording.model_structure import ModelStructure
    from mixlens.recording.recording import Recording

__all__ = [
    "Facts",
    "Option",
    "Request",
    "Scores",
    "Spec",
    "measure",
    "measures",
    "names",
    "refusal",
]


@functools.cache
def names() -> tuple[str, ...]:
    """Names of all measures, without importing them."""
    return entries(__path__)


def _module(name: str) -> ModuleType:
    if name not in names():
        raise InvalidInput(no_such("measure", name, names()))
    return importlib.import_module(f"{__name__}.{name}")


def measures() -> dict[str, Spec]:
    """Name -> what the measure is: summary, citation, scope, facts and options."""
    return {name: _spec(name) for name in names()}


@functools.cache
def _spec(name: str) -> Spec:
    module = _module(name)
    spec: Spec = module.SPEC
    return spec.with_options(_options(module))


def _options(module: ModuleType) -> tuple[Option, ...]:
    parameters = inspect.signature(module.scores).parameters.values()
    return tuple(
        Option(p.name, p.default, str(p.annotation))
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    )


def refusal(name: str, structure: ModelStructure, site: str | None = None) -> str | None:
    """Why a measure is not given for a model, or None where it is."""
    module = _module(name)
    chosen = structure.site(site)
    stack, kind = chosen.stack, chosen.kind
    if kind not in module.SPEC.sites:
        return f"{name} is not defined for {kind}-attention"
    check = getattr(module, "refusal", None)
    if check is None:
        return None
    for number, layer in enumerate(stack.layers):
        for part in layer.sites:
            if part.kind == kind:
                reason = check(layer, part)
                if reason is not None:
                    return f"{name}, layer {number} of {stack.name}: {reason}"
    return None


def measure(
    name: str,
    recording: Recording,
    *,
    site: str | None = None,
    layers: Sequence[int] | None = None,
    targets: Sequence[int | str] | None = None,
    per_head: bool = False,
    precision: str | None = None,
    **options: Any,
) -> MixingMaps | list[MixingMaps]:
    """The scores of one measure: `MixingMaps` for a recording of one row, a list of them for
    several.

    `layers` and `targets` restrict what is computed; negative numbers count from the end.
    `precision`: float32, tf32 or bf16 for the products of this call; by default torch's own
    setting.
    """
    module = _module(name)
    known = {option.name for option in _options(module)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InvalidInput(
            f"{name} has no option {unknown[0]!r}; it has: {', '.join(sorted(known)) or 'none'}"
        )
    if per_head and not module.SPEC.per_head:
        raise InvalidInput(f"{name} is defined for whole layers only, not per head")
    reason = refusal(name, recording.structure, site)
    if reason is not None:
        raise UnsupportedModel(reason)
    request = Request.resolved(
        recording, site=site, layers=layers, targets=targets, per_head=per_head
    )
    with matmul_precision(precision):
        scores: Scores = module.scores(recording, request, **options)
    found = list(_rows(name, _spec(name), recording, request, scores, options))
    return found[0] if recording.batch == 1 else found


def _rows(
    name: str,
    spec: Spec,
    recording: Recording,
    request: Request,
    scores: Scores,
    options: Mapping[str, Any],
) -> Iterator[MixingMaps]:
    from mixlens.maps import MixingMaps

    if request.kind == "cross":  # a target is not among its sources there
        spec = replace(spec, facts=replace(spec.facts, residual_included=False))
    for row in range(recording.batch):
        yield MixingMaps.from_scores(name, spec, recording, request, scores, row, options)
