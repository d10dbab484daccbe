"""Choose the measures and evaluations of a run, and list the excluded evaluations with the
reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from mixlens.errors import InvalidInput, list_reasons, no_such
from mixlens.evaluations import evaluations as known_evaluations
from mixlens.evaluations import module
from mixlens.measures import names as measure_names

BASELINE = "random"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The measures of a run, and its evaluations in groups: evaluations of measures on the texts,
    of the model on the texts, and of measures on cases that the evaluation defines itself.
    """

    measures: tuple[str, ...]
    of_measures: tuple[str, ...] = ()  # evaluations of every text and measure
    of_model: tuple[str, ...] = ()  # evaluations of every text
    own: tuple[
        str, ...
    ] = ()  # evaluations with their own `cases()`: texts and models with a known answer
    left_out: Mapping[str, str] = field(default_factory=dict)  # evaluation -> reason
    options: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # options by measure or evaluation
    extras: Mapping[str, Any] = field(
        default_factory=dict
    )  # further arguments of an evaluation, such as a different model

    def sent(self) -> Plan:
        """Return a copy of the plan for a worker process, without the second model, which the
        worker loads itself.
        """
        return replace(self, extras={**self.extras, "other": None})

    def receive(self, other: Any) -> Plan:
        """Return a copy of the plan with `other`, the second model that this worker has loaded."""
        return replace(self, extras={**self.extras, "other": other})

    def options_of(self, evaluation: str, function: str = "observe") -> dict[str, Any]:
        """Return the options of an evaluation that one of its functions accepts."""
        takes = _parameters(module(evaluation), function)
        values = {key: value for key, value in self.extras.items() if value is not None}
        values |= self.options.get(evaluation, {})
        return {key: value for key, value in values.items() if key in takes}


def make_plan(
    kind: str,
    measures: Sequence[str] | None = None,
    evaluations: Sequence[str] | None = None,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    extras: Mapping[str, Any] | None = None,
) -> Plan:
    """Return a plan with the named measures and evaluations. By default, the plan contains all
    measures, and all default evaluations that support examples of this kind.

    The plan always contains the random baseline and the evaluations that check whether the model
    can do the task.
    """
    specs = known_evaluations()
    usual = [name for name, spec in specs.items() if spec.by_default]
    evaluation_list = _choose_names(
        usual if evaluations is None else evaluations, tuple(specs), "evaluation"
    )
    judges = [name for name, spec in specs.items() if spec.judges_data and kind in spec.kinds]
    _choose_names(list(options or {}), (*specs, *measure_names()), "measure or evaluation")
    left_out: dict[str, str] = {}
    groups: dict[str, list[str]] = {"measure": [], "model": [], "own": []}
    for name in dict.fromkeys((*evaluation_list, *judges)):
        reason = _reason(name, specs[name].kinds, kind, extras or {})
        if reason is not None:
            left_out[name] = reason
        else:
            groups["own" if not specs[name].kinds else specs[name].of].append(name)
    if not set(evaluation_list) - left_out.keys():
        raise InvalidInput(f"No evaluation applies: {list_reasons(left_out)}")
    measure_list = _choose_names(measures, measure_names(), "measure")
    return Plan(
        measures=measure_list if BASELINE in measure_list else (*measure_list, BASELINE),
        of_measures=tuple(groups["measure"]),
        of_model=tuple(groups["model"]),
        own=tuple(groups["own"]),
        left_out=left_out,
        options=options or {},
        extras=extras or {},
    )


def _choose_names(
    names: Sequence[str] | None, available: Sequence[str], what: str
) -> tuple[str, ...]:
    if names is None or list(names) == ["all"]:
        return tuple(available)
    for name in names:
        if name not in available:
            raise InvalidInput(no_such(what, name, available))
    return tuple(dict.fromkeys(names))


def _reason(name: str, kinds: Sequence[str], kind: str, extras: Mapping[str, Any]) -> str | None:
    if kinds and kind not in kinds:
        return f"it needs {' or '.join(kinds)} examples, not {kind} examples"
    needs = [key for key in _list_required(module(name)) if extras.get(key) is None]
    return None if not needs else _NEEDS.get(needs[0], f"it needs {needs[0]}=")


_NEEDS = {"other": "it compares two models; pass the second with --other-model"}


def _parameters(module: ModuleType, function: str) -> Mapping[str, inspect.Parameter]:
    return (
        inspect.signature(getattr(module, function)).parameters if hasattr(module, function) else {}
    )


def _list_required(module: ModuleType) -> list[str]:
    return [
        name
        for name, parameter in _parameters(module, "observe").items()
        if name not in ("case", "measure")
        and parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
