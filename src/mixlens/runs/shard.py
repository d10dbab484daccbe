"""One shard: its texts are read, measured and written. Engines do nothing but call this.

It depends on its shard, the job and the model alone, so that it may be done anywhere, in any order,
and again after a crash. Several measures share one recording of each batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.batching import halve_until_it_fits, plan_batches, token_counts
from mixlens.corpus.rows import BadRow, TextRow, rows_of
from mixlens.corpus.shards import Shard
from mixlens.errors import (
    InvalidInput,
    MissingExtra,
    MissingTokenizer,
    MixlensError,
    UnsupportedModel,
)
from mixlens.measures import spec_of
from mixlens.measuring import measure
from mixlens.precision import outside_inference_mode
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates
from mixlens.runs.job import Job
from mixlens.runs.summaries import shares_of, summarise

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps import MixingMaps

Report = dict[str, Any]
"""What a worker says of a finished shard: counts, the file with its hash, errors, aggregates."""


def file_name(shard: Shard) -> str:
    """Where the results of a shard go, below the folder of the run."""
    return f"{store.DATA}/part-{shard.number:06d}.parquet"


def measure_shard(lens: Lens, job: Job, shard: Shard) -> Report:
    """Reads, measures and writes one shard. A text that cannot be measured becomes an error."""
    start = time.perf_counter()
    rows = list(rows_of(shard, job.columns))
    texts = [row for row in rows if isinstance(row, TextRow)]
    errors = [
        _error(shard, row.line, row.id, row.reason) for row in rows if isinstance(row, BadRow)
    ]
    work = _Work(lens, job, texts)
    lengths = token_counts(lens.tokenizer, [row.text for row in texts])
    for batch in plan_batches(lengths, lens.model, memory=job.memory, batch_size=job.batch_size):
        work.do(batch)
    errors += [
        _error(shard, texts[place].line, texts[place].id, reason)
        for place, reason in work.failed.items()
    ]
    digest = store.write_shard(
        Path(job.out) / file_name(shard),
        [row for place in sorted(work.rows) for row in work.rows[place]],
        {"settings": job.settings(), "measures": work.about},
    )
    return {
        "shard": shard.number,
        "file": file_name(shard),
        "sha256": digest,
        "texts": len(work.rows),
        "tokens": sum(lengths[place] for place in work.rows),
        "errors": sorted(errors, key=lambda error: error["line"]),
        "halved": work.halved,
        "aggregates": work.aggregates.to_dict(),
        "seconds": time.perf_counter() - start,
    }


def _error(shard: Shard, line: int, name: str, reason: str) -> dict[str, Any]:
    file = shard.path if shard.format == "hub" else Path(shard.path).name
    return {"file": file, "line": line, "id": name, "reason": reason}


class _Work:
    """The texts of a shard on their way to rows."""

    def __init__(self, lens: Lens, job: Job, texts: Sequence[TextRow]) -> None:
        self.lens, self.job, self.texts = lens, job, texts
        self.rows: dict[int, list[dict[str, Any]]] = {}
        self.failed: dict[int, str] = {}
        self.about: dict[str, Any] = {}
        self.aggregates = Aggregates()
        self.halved: list[int] = []  # sizes of batches that did not fit

    def do(self, batch: list[int]) -> None:
        """Measures a batch; if it fails, each half of it, to find the text that is to blame."""
        measure = partial(_measure_batch, self.lens, self.job, self.texts)
        try:
            measured = halve_until_it_fits(measure, batch, lambda b: self.halved.append(len(b)))
        except (MissingTokenizer, MissingExtra, UnsupportedModel):  # no text can change that
            raise
        except MixlensError as error:
            if len(batch) == 1:
                self.failed[batch[0]] = " ".join(str(error).split())
                return
            middle = len(batch) // 2
            self.do(batch[:middle])
            self.do(batch[middle:])
            return
        for column in zip(*measured, strict=True):
            self._keep(batch, column)

    def _keep(self, batch: Sequence[int], measured: Sequence[MixingMaps]) -> None:
        """The maps of one measure; those of one shape are summarised together."""
        name = measured[0].provenance["measure"]
        if name not in self.about:
            self.about[name] = store.about(measured[0])
        by_shape: dict[tuple[int, ...], list[tuple[int, MixingMaps]]] = {}
        for place, maps in zip(batch, measured, strict=True):
            by_shape.setdefault(maps.scores.shape, []).append((place, maps))
        for pairs in by_shape.values():
            alike = [maps for _, maps in pairs]
            shares = shares_of(np.stack([maps.scores for maps in alike]))
            summary = summarise(alike, shares)
            names = [self.texts[place].id for place, _ in pairs]
            self.aggregates.add(alike, shares, names)
            for number, (place, maps) in enumerate(pairs):
                self.rows.setdefault(place, []).extend(
                    store.rows_of(
                        maps,
                        summary,
                        number,
                        line=self.texts[place].line,
                        name=names[number],
                        keep=self.job.keep,
                    )
                )


def _measure_batch(
    lens: Lens, job: Job, texts: Sequence[TextRow], places: list[int]
) -> list[list[MixingMaps]]:
    """All measures of some texts, from one recording: for each text a list of maps."""
    rows = [texts[place] for place in places]
    with outside_inference_mode():
        recording = lens.record([row.text for row in rows], memory_budget=job.memory)
        targets = _targets(lens, job)
        columns = []
        for name in job.measures:
            spec = spec_of(name)
            chosen: dict[str, Any] = {"site": job.site, **job.options.get(name, {})}
            if spec.explains_output:
                keys = job.columns.explain
                chosen |= {key: [row.explain[key] for row in rows] for key in keys}
            rolled = job.keep == "rollout" and spec.gives == "maps"
            if spec.gives == "maps" and not rolled:
                chosen["targets"] = targets
            measured = measure(name, recording, **chosen)
            maps = measured if isinstance(measured, list) else [measured]
            if rolled:
                maps = [one.rollout() for one in maps]
                maps = maps if targets is None else [one.at(targets=targets) for one in maps]
            columns.append(maps)
    return [list(maps) for maps in zip(*columns, strict=True)]


def _targets(lens: Lens, job: Job) -> list[int | str] | None:
    if job.targets == "all":
        return None
    if job.targets == "mask":
        mask = getattr(lens.tokenizer, "mask_token", None)
        if mask is None:
            raise InvalidInput("targets mask: the tokenizer has no mask token")
        return [str(mask)]
    return [0 if job.targets == "first" else -1]
