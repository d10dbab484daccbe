"""One batch of texts: recorded once, measured by every measure, summarised where the scores are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlens.batching import batch_bytes
from mixlens.corpus.rows import TextRow
from mixlens.errors import InvalidInput
from mixlens.measured_batch import MeasuredBatch
from mixlens.measures import spec_of
from mixlens.measuring import measure_batches
from mixlens.precision import outside_inference_mode
from mixlens.recorder import generate, record
from mixlens.row import EachText
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates, BatchSums
from mixlens.runs.job import Job
from mixlens.runs.mixtures import Mixtures
from mixlens.runs.summaries import Summaries, entropies_of, shares_of
from mixlens.runs.tags import tag_classes

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.inputs import Prepared

Targets = list[int | str] | EachText | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is kept of a batch."""

    chunks: list[store.Chunk]
    about: dict[str, Any]  # by measure


def explains_output(job: Job) -> bool:
    """Does any measure need what the model says?"""
    return any(spec_of(name).explains_output for name in job.measures)


def measure_texts(
    lens: Lens,
    job: Job,
    texts: Sequence[TextRow],
    places: Sequence[int],
    ready: Prepared | None,
    aggregates: Aggregates,
) -> Measured:
    """All measures of some texts; `ready` are these texts as the model takes them."""
    rows = [texts[place] for place in places]
    with outside_inference_mode():
        targets = _targets(lens, job, rows)
        batches = _batches(lens, job, rows, ready, targets)
        chunks, sums = [], Aggregates()
        for name, batch in batches.items():
            mixtures = _mixtures(job, batch, targets)
            chunks.append(_chunk(job, batch.name, mixtures, rows, places, sums, name != batch.name))
    # Nothing is added before all of it is there: a batch that runs out of memory is done again.
    aggregates.merge(sums.to_dict())
    about = {batch.name: store.about(batch) for batch in batches.values()}
    return Measured(chunks=[chunk for chunk in chunks if chunk is not None], about=about)


def _batches(
    lens: Lens, job: Job, rows: Sequence[TextRow], ready: Prepared | None, targets: Targets
) -> dict[str, MeasuredBatch]:
    """By measure, and by `measure by head` for those that have heads."""
    given = [row.text for row in rows] if ready is None else ready
    specs = [spec_of(name) for name in job.measures]
    memory = batch_bytes(lens.model) if job.memory is None else job.memory
    how: dict[str, Any] = {"site": job.site, "memory_budget": memory}
    measures = {name: _options(job, name, rows) for name in job.measures}
    if job.targets == "generated":
        recording = generate(lens, rows[0].text, answer=None, options={}, **how)
        return _measured(job, recording, measures)
    if targets is not None and job.keep != "rollout" and all(spec.row_by_row for spec in specs):
        recording = record(lens, given, targets=targets, **how)
        return _measured(job, recording, measures)
    recording = record(lens, given, targets=None, **how, specs=specs)
    asked = None if job.keep == "rollout" else targets
    return _measured(job, recording, measures, site=job.site, targets=asked)


def _measured(
    job: Job, recording: Any, measures: Mapping[str, Mapping[str, Any]], **chosen: Any
) -> dict[str, MeasuredBatch]:
    mixing = {name: own for name, own in measures.items() if spec_of(name).gives == "maps"}
    others = {name: own for name, own in measures.items() if name not in mixing}
    by_name = measure_batches(mixing, recording, **chosen) if mixing else {}
    if others:  # they have targets of their own
        by_name |= measure_batches(others, recording, **{**chosen, "targets": None})
    by_name = {name: by_name[name] for name in measures}
    if job.by_head:
        heads = {name: measures[name] for name in measures if spec_of(name).per_head}
        by_head = measure_batches(heads, recording, per_head=True, **chosen) if heads else {}
        by_name |= {f"{name} by head": batch for name, batch in by_head.items()}
    return by_name


def _options(job: Job, name: str, rows: Sequence[TextRow]) -> dict[str, Any]:
    options = dict(job.options.get(name, {}))
    if spec_of(name).explains_output:
        options |= {key: [row.explain[key] for row in rows] for key in job.columns.explain}
    return options


def _mixtures(job: Job, batch: MeasuredBatch, targets: Targets) -> Mixtures:
    """As measured, or rolled out text by text."""
    if job.keep != "rollout" or batch.spec.gives != "maps":
        return Mixtures.of_batch(batch)
    rolled = [one.rollout() for one in batch.maps()]
    if targets is not None:
        named = targets if isinstance(targets, EachText) else [targets] * len(rolled)
        rolled = [one.at(targets=list(own)) for one, own in zip(rolled, named, strict=True)]
    return Mixtures.of_maps(rolled)


def _chunk(
    job: Job,
    measure: str,
    mixtures: Mixtures,
    rows: Sequence[TextRow],
    places: Sequence[int],
    aggregates: Aggregates,
    by_head: bool,
) -> store.Chunk | None:
    """Summaries and aggregates in one pass over the scores; of heads aggregates alone."""
    names = [row.id for row in rows]
    sums = BatchSums(mixtures, tag_classes(mixtures, rows))
    summaries = Summaries(mixtures)
    for shares in shares_of(mixtures):
        entropies = entropies_of(shares)
        sums.add(shares, entropies)
        if not by_head:
            summaries.add(shares, entropies)
    aggregates.of(f"{measure} by head" if by_head else measure, mixtures).add(sums, names)
    if by_head:
        return None
    kept = None if job.keep == "summary" else mixtures.values.float().cpu().numpy()
    return store.Chunk(
        measure=measure,
        layers=mixtures.layers,
        places=list(places),
        names=names,
        lines=[row.line for row in rows],
        sources=mixtures.sources,
        targets=mixtures.targets,
        positions=mixtures.positions,
        summary=summaries.conclude(),
        scores=kept,
    )


def _targets(lens: Lens, job: Job, rows: Sequence[TextRow]) -> Targets:
    """Whose rows are wanted; None: of all tokens."""
    if job.targets in ("all", "generated"):
        return None
    if job.targets == "column":
        return EachText((row.target,) for row in rows if row.target is not None)
    if job.targets == "mask":
        mask = getattr(lens.tokenizer, "mask_token", None)
        if mask is None:
            raise InvalidInput("targets mask: the tokenizer has no mask token")
        return [str(mask)]
    return [0 if job.targets == "first" else -1]
