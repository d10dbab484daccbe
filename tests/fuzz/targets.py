"""All targets by name, and how long a run of one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from tests.fuzz import public_api, readers

Target = Callable[[], None]

TARGETS: dict[str, Target] = {
    name: target
    for module in (readers, public_api)
    for name, target in vars(module).items()
    if hasattr(target, "hypothesis")
}


def searching(
    target: Any, examples: int, *, derandomize: bool = False, found_before: bool = True
) -> Target:
    """The target with so many cases, and with nothing that would stop it early: a case that was
    found before and fails again would end a search before it began.
    """
    left_out = set() if found_before else {Phase.explicit}
    wanted: Target = settings(
        max_examples=examples,
        derandomize=derandomize,  # the same cases in every run
        phases=[phase for phase in Phase if phase not in left_out],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )(target)
    return wanted
