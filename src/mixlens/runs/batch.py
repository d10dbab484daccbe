"""Record a batch of texts once, run every measure, and summarise the scores on the device.

`Fetching` copies tensors to the CPU without waiting for the device. `token_tags` gives each token
the part-of-speech tag of the word in which it begins. A text has one tag per word. Words are split
at spaces, unless the corpus defines them (CoNLL-U).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from mixlens.datasets.rows import TextRecord
from mixlens.errors import InvalidInput
from mixlens.maps.rollout import roll_out
from mixlens.measures import spec_of
from mixlens.measuring.batching import batch_bytes
from mixlens.measuring.generate import generate
from mixlens.measuring.measure import measure_batches
from mixlens.measuring.measured_batch import MeasuredBatch
from mixlens.measuring.recorder import record
from mixlens.model.session import outside_inference_mode
from mixlens.recording.deferred_checks import DeferredChecks, checks_wait, raise_if_true
from mixlens.runs import store
from mixlens.runs.aggregates import Aggregates, BatchSums
from mixlens.runs.job import Job
from mixlens.runs.mixtures import Classes, Mixtures
from mixlens.runs.summaries import Summaries, shares_of
from mixlens.text.tokens import EachText, TokenRow

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.text.inputs import Prepared


Targets = list[int | str] | EachText | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of a batch, ready to be stored."""

    chunks: list[store.Chunk]
    about: dict[str, Any]  # chunks by measure
    aggregates: Aggregates


class _Part:
    """The results of one measure for a batch, summarised on the device.

    The results are copied to the CPU in the background, and `BatchUnderway.conclude` waits for
    them. Scores of single heads are aggregated, but not summarised. The recording is not stored.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        batch: MeasuredBatch,
        mixtures: Mixtures,
        texts: Sequence[TextRecord],
    ) -> None:
        self.name, self.measure = name, batch.name
        self.by_head = name != batch.name
        self._mixtures, self._spec = mixtures, batch.spec
        self._batch_sums = BatchSums(mixtures, tag_classes(mixtures, texts))
        summaries = Summaries(mixtures)
        for part in shares_of(mixtures):
            self._batch_sums.add(part)
            if not self.by_head:
                summaries.add(part)
        keeps_scores = job.keep != "summary" and not self.by_head
        optional = {"scores": mixtures.values if keeps_scores else None}
        self._sums = Fetching(self._batch_sums.sums())
        self._columns = Fetching(summaries.columns)
        self._optional = Fetching({k: t.float() for k, t in optional.items() if t is not None})

    def about(self) -> dict[str, Any]:
        """Return the metadata that all texts of this measure share."""
        return store.about(self._mixtures.provenance, self._mixtures.facts, self._spec)

    def add_to(self, aggregates: Aggregates, names: Sequence[str]) -> None:
        """Add the scores of this batch to the aggregates of the corpus."""
        aggregate = aggregates.of(self.name, self._mixtures)
        aggregate.add(self._batch_sums, self._sums.arrays(), names)

    def chunk(self, texts: Sequence[TextRecord], places: Sequence[int]) -> store.Chunk:
        """Return the results of this measure for all texts of the batch."""
        mixtures = self._mixtures
        return store.Chunk(
            measure=self.measure,
            layers=mixtures.layers,
            places=list(places),
            names=[text.id for text in texts],
            lines=[text.line for text in texts],
            sources=mixtures.sources,
            targets=mixtures.targets,
            positions=mixtures.positions,
            summary={"own_share": None, "mean_distance": None, **self._columns.arrays()},
            scores=self._optional.arrays().get("scores"),
        )


class BatchUnderway:
    """A batch whose measures are running on the device."""

    def __init__(
        self,
        texts: Sequence[TextRecord],
        places: list[int],
        parts: Sequence[_Part],
        deferred: DeferredChecks,
    ) -> None:
        errors, self._verdicts = deferred.compare()
        self._errors = Fetching({"errors": errors})
        self.rows, self.places, self.parts = texts, places, parts

    def conclude(self) -> Measured:
        """Wait for the device, and return the results.

        Raise an error if the recording fails its checks.
        """
        raise_if_true(self._errors.arrays()["errors"].tolist(), self._verdicts)
        names, aggregates = [text.id for text in self.rows], Aggregates()
        for part in self.parts:
            part.add_to(aggregates, names)
        whole = [part for part in self.parts if not part.by_head]
        return Measured(
            chunks=[part.chunk(self.rows, self.places) for part in whole],
            about={part.measure: part.about() for part in whole},
            aggregates=aggregates,
        )


def explains_output(job: Job) -> bool:
    """Return whether any measure of the job explains the model's output."""
    return any(spec_of(name).explains_output for name in job.measures)


def start_measuring(
    lens: Lens,
    job: Job,
    texts: Sequence[TextRecord],
    places: list[int],
    ready: Prepared | None,
) -> BatchUnderway:
    """Start all measures for the texts at the indices `places`.

    `ready` contains the texts as model inputs, if they are already prepared. On a GPU, the call
    returns before the work is done.
    """
    batch_texts, deferred = [texts[place] for place in places], DeferredChecks()
    with outside_inference_mode(), checks_wait(deferred):
        targets = _targets(lens, job, batch_texts)
        batches = _batches(lens, job, batch_texts, ready, targets)
        parts = [
            _Part(job, name, batch, _mixtures(job, batch, targets), batch_texts)
            for name, batch in batches.items()
        ]
    return BatchUnderway(batch_texts, places, parts, deferred)


def _batches(
    lens: Lens, job: Job, texts: Sequence[TextRecord], ready: Prepared | None, targets: Targets
) -> dict[str, MeasuredBatch]:
    """Return the scores of each measure.

    With `by_head`, the scores of single heads are returned too, under `MEASURE by head`.
    """
    inputs = [text.text for text in texts] if ready is None else ready
    specs = [spec_of(name) for name in job.measures]
    memory = batch_bytes(lens.model) if job.memory is None else job.memory
    how: dict[str, Any] = {"site": job.site, "memory_budget": memory}
    measures = {name: _options(job, name, texts) for name in job.measures}
    if job.targets == "generated":
        how |= {"answer": None, "explain_end": True}
        recording = generate(lens, texts[0].text, options={}, **how)
        return _measure_batches_of(job, recording, measures)
    if targets is not None and job.keep != "rollout" and all(spec.row_by_row for spec in specs):
        recording = record(lens, inputs, targets=targets, **how)
        return _measure_batches_of(job, recording, measures)
    recording = record(lens, inputs, targets=None, **how, measures=list(job.measures))
    batch_targets = None if job.keep == "rollout" else targets
    return _measure_batches_of(job, recording, measures, site=job.site, targets=batch_targets)


def _measure_batches_of(
    job: Job, recording: Any, measures: Mapping[str, Mapping[str, Any]], **selection: Any
) -> dict[str, MeasuredBatch]:
    mixing = {name: options for name, options in measures.items() if spec_of(name).gives == "maps"}
    other_measures = {name: options for name, options in measures.items() if name not in mixing}
    by_name = measure_batches(mixing, recording, **selection) if mixing else {}
    if other_measures:  # they have their own targets
        by_name |= measure_batches(other_measures, recording, **{**selection, "targets": None})
    by_name = {name: by_name[name] for name in measures}
    if job.by_head:
        heads = {name: measures[name] for name in measures if spec_of(name).per_head}
        by_head = measure_batches(heads, recording, per_head=True, **selection) if heads else {}
        by_name |= {f"{name} by head": batch for name, batch in by_head.items()}
    return by_name


def _options(job: Job, name: str, texts: Sequence[TextRecord]) -> dict[str, Any]:
    options = dict(job.options.get(name, {}))
    if spec_of(name).explains_output:
        options |= {key: [text.explain[key] for text in texts] for key in job.columns.explain}
    return options


def _mixtures(job: Job, batch: MeasuredBatch, targets: Targets) -> Mixtures:
    """Return the measured scores. If the job stores rollouts, return the rollout of each text."""
    if job.keep != "rollout" or batch.spec.gives != "maps":
        return Mixtures.of_batch(batch)
    rolled = [roll_out(one) for one in batch.maps()]
    if targets is not None:
        targets_by_text = targets if isinstance(targets, EachText) else [targets] * len(rolled)
        rolled = [
            one.at(targets=list(text_targets))
            for one, text_targets in zip(rolled, targets_by_text, strict=True)
        ]
    mixtures = Mixtures.of_maps(rolled)
    shares = batch.facts.rows_are_shares or batch.spec.rollout_normalised
    facts = replace(mixtures.facts, rows_sum_to_one=shares, sums_vary=False)  # largest of any text
    return replace(mixtures, facts=facts)


def _targets(lens: Lens, job: Job, texts: Sequence[TextRecord]) -> Targets:
    """Return the targets that the job requests, or None for all tokens."""
    if job.targets in ("all", "generated"):
        return None
    if job.targets == "column":
        return EachText((text.target,) for text in texts if text.target is not None)
    if job.targets == "mask":
        mask = getattr(lens.tokenizer, "mask_token", None)
        if mask is None:
            raise InvalidInput(
                "The tokenizer has no mask token, so a mask cannot be the target. Choose other "
                "targets."
            )
        return [str(mask)]
    return [0 if job.targets == "first" else -1]


Key = TypeVar("Key", bound=Hashable)


class Fetching(Generic[Key]):
    """Copies tensors to the CPU in the background, so that they can be read later.

    Reading a tensor directly would wait for all queued work on the device.
    """

    def __init__(self, tensors: Mapping[Key, Tensor]) -> None:
        self._copies = {key: t.to("cpu", non_blocking=True) for key, t in tensors.items()}
        devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
        self._events = [_event(device) for device in devices]

    def arrays(self) -> dict[Key, np.ndarray]:
        """Wait for the copies, and return them as NumPy arrays."""
        for event in self._events:
            event.synchronize()
        return {key: copy.numpy() for key, copy in self._copies.items()}


def _event(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


Words = Sequence[tuple[int, int]]
"""The character span of each word."""

SPECIAL, NONE = "special", "none"


def token_tags(row: TokenRow, tags: Sequence[str], words: Words | None = None) -> list[str]:
    """Return the part-of-speech tag of each token.

    Special tokens have the tag "special", and tokens outside words have the tag "none".
    """
    if row.text is None or row.offsets is None:
        raise InvalidInput(
            "The tokenizer has no offset mapping, which part-of-speech tags need. Use a fast"
            " tokenizer."
        )
    by_character = [NONE] * (len(row.text) + 1)
    words = words or [match.span() for match in re.finditer(r"\S+", row.text)]
    if len(words) != len(tags):
        raise InvalidInput(
            f"{len(tags)} tags do not match the {len(words)} words of the text. Pass one tag "
            "per word."
        )
    for (start, stop), tag in zip(words, tags, strict=True):
        by_character[start:stop] = [tag] * (stop - start)
    special = row.special or (False,) * len(row)
    return [
        SPECIAL if mark else _begins_in(by_character, *place)
        for mark, place in zip(special, row.offsets, strict=True)
    ]


def _begins_in(by_character: Sequence[str], start: int, stop: int) -> str:
    """Return the tag of the word in which a token begins.

    The token may start with the space before its word, so the first character that has a tag is
    used.
    """
    return next((tag for tag in by_character[start:stop] if tag != NONE), NONE)


def tag_classes(mixtures: Mixtures, texts: Sequence[TextRecord]) -> Classes | None:
    """Return the part-of-speech classes of the tokens of a batch.

    Return None if the texts have no tags, or if targets and sources are different tokens.
    """
    if not mixtures.same_tokens or not texts or texts[0].tags is None:
        return None
    by_text = [
        token_tags(tokens, text.tags or (), text.words)
        for tokens, text in zip(mixtures.sources, texts, strict=True)
    ]
    names = sorted({tag for tokens in by_text for tag in tokens})
    numbers = {name: number for number, name in enumerate(names)}
    of_tokens = [[numbers[tag] for tag in tokens] for tokens in by_text]
    return mixtures.classes(names, of_tokens, of_tokens)
