"""Check that an estimate fits into memory, and report what would fit.

An estimate whose `sure` does not fit is refused before the model runs. If memory runs out after
all, the error says the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from mixlens.errors import MixlensError, OutOfMemory
from mixlens.measuring.estimates import Estimate
from mixlens.model.free_memory import is_out_of_memory
from mixlens.text.plurals import plural

_SHORTEST = 16  # tokens of a text that is worth advising


def require_room(estimate: Estimate, available: int) -> None:
    """Refuses an estimate that does not fit into the available bytes, and says what would."""
    if estimate.sure > available:
        raise OutOfMemory(
            f"{_subject(estimate)} needs about {spelled(estimate.needed_within(available))}, and"
            f" {spelled(available)} are free. {what_fits(estimate, available)}"
        )


def _subject(estimate: Estimate) -> str:
    texts = "" if estimate.texts == 1 else f"{estimate.texts} texts of "
    return f"{estimate.measure} of {texts}{estimate.tokens:,} {plural('token', estimate.tokens)}"


def what_fits(estimate: Estimate, available: int) -> str:
    """Targets, layers or a precision with which an estimate fits, in words."""
    estimate = replace(estimate, recorded=False)

    def size(tried: Estimate) -> int:
        return tried.needed_within(available)

    fewer = replace(estimate, targets=1)
    tries = []
    if estimate.targets is None and fewer.by_rows and size(fewer) <= available:
        alone = "one target" if estimate.spec.gives == "maps" else "one target, row by row,"
        tries.append(f"{alone} takes about {spelled(size(fewer))}")
    if (estimate.layers or estimate.shape.layers) > 1 and estimate.spec.gives == "maps":
        one = replace(estimate, layers=1)
        if size(one) <= available:
            tries.append(f"one layer takes about {spelled(size(one))}")
    if estimate.shape.number > 2:
        half = replace(estimate, shape=replace(estimate.shape, number=2))
        if size(half) <= available:
            tries.append(f"the model in bfloat16 takes about {spelled(size(half))}")
    longest = estimate.tokens
    while longest >= _SHORTEST and size(replace(estimate, tokens=longest)) > available:
        longest //= 2
    if _SHORTEST <= longest < estimate.tokens:
        tries.append(f"a text of {longest:,} tokens fits")
    if not tries:
        return "Fewer targets or layers, half precision or a shorter text would not fit either."
    return "; ".join(tries)[:1].upper() + "; ".join(tries)[1:] + "."


@contextlib.contextmanager
def memory_in_words(estimate: Callable[[], Estimate], available: int) -> Iterator[None]:
    """If memory runs out inside, our error says so and what would fit."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MixlensError) or not is_out_of_memory(error):
            raise
        tried = estimate()
        needed = tried.needed_within(available)
        raise OutOfMemory(
            f"memory ran out: {_subject(tried)} takes about {spelled(needed)} beyond the"
            f" weights{' and the recording' * tried.recorded}, and {spelled(available)} were free."
            f" {what_fits(tried, min(available, needed - 1))}"
        ) from error


def spelled(size: float) -> str:
    """Bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.3g} TiB"
