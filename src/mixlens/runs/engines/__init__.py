"""Engines: who measures which shard when. Each yields the report of every shard, in any order.

An engine that ends, for whatever reason, leaves finished shards finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mixlens.errors import InvalidInput
from mixlens.suggestions import no_such

if TYPE_CHECKING:
    from mixlens.corpus.shards import Shard
    from mixlens.runs.job import Job, ModelSource
    from mixlens.runs.shard import Report

ENGINES = ("local", "ray")


def measure_shards(
    engine: str, source: ModelSource, job: Job, shards: Iterable[Shard], workers: int
) -> Iterator[Report]:
    """The reports of all shards, as they are finished."""
    if workers < 1:
        raise InvalidInput(f"{workers} workers: at least one is needed")
    if engine == "local":
        from mixlens.runs.engines.local import measure_locally

        return measure_locally(source, job, list(shards), workers)
    if engine == "ray":
        from mixlens.runs.engines.on_ray import measure_on_ray

        return measure_on_ray(source, job, list(shards), workers)
    raise InvalidInput(no_such("engine", engine, ENGINES))
