"""Measure one text, or several in batches of similar length.

If a text cannot be measured, the error names the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

from mixlens.capture.layer_calls import batch_size as text_count
from mixlens.datasets.examples import Example
from mixlens.errors import (
    InvalidInput,
    MissingExtra,
    MissingTokenizer,
    MixlensError,
    UnsupportedModel,
    about,
    in_short,
)
from mixlens.measures import spec_of
from mixlens.measuring.batching import halve_until_it_fits, plan_batches, token_counts
from mixlens.measuring.measure import measure, measure_batches
from mixlens.measuring.measured_batch import MeasuredBatch
from mixlens.measuring.recorder import record
from mixlens.model.session import open_session
from mixlens.recording.batch_independence import DependentTexts
from mixlens.recording.deferred_checks import checks_wait
from mixlens.recording.recording import Recording
from mixlens.text.inputs import as_tensor, is_pair, is_raw, texts_of
from mixlens.text.padding import is_padded_sound, unpad_clip, unpad_text
from mixlens.text.processing import run_processor

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps

ON_ERROR = ("raise", "skip")


class MeasuredTexts(list["MixingMaps"]):
    """The maps of the measured texts, in the order of the input.

    `names` are the names of these texts. `errors` holds a pair (name, reason) for each skipped
    text.
    """

    def __init__(
        self,
        maps: Sequence[MixingMaps],
        names: Sequence[str],
        errors: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(maps)
        self.names: tuple[str, ...] = tuple(names)
        self.errors: tuple[tuple[str, str], ...] = tuple(errors)


def measure_inputs(
    lens: Lens,
    name: str,
    raw_inputs: Any,
    selection: dict[str, Any],
    options: dict[str, Any],
    *,
    on_error: str,
    batch_size: int | None,
) -> MixingMaps | list[MixingMaps]:
    """Implement `Lens.measure`. An option of the measure may be a list with one entry for each
    text.
    """
    if isinstance(raw_inputs, Recording):
        if on_error != "raise" or batch_size is not None:
            raise InvalidInput(
                "on_error and batch_size do not apply to a recording. Leave them out."
            )
        return measure(name, raw_inputs, **selection, **options)
    raw_inputs = (
        run_processor(lens.processor, raw_inputs, lens.model) if is_raw(raw_inputs) else raw_inputs
    )
    is_one_text = isinstance(raw_inputs, str) or is_pair(raw_inputs)
    if is_one_text or (isinstance(raw_inputs, Mapping) and not is_padded_sound(raw_inputs)):
        try:
            return _measure_at_once(lens, name, raw_inputs, {**selection, **options})
        except DependentTexts:
            if not isinstance(raw_inputs, Mapping):
                raise
            raw_inputs = {key: as_tensor(key, value) for key, value in raw_inputs.items()}
    texts, names, groups = _plan_batches(lens, name, raw_inputs, batch_size)

    def measure_group(places: list[int]) -> list[MixingMaps]:
        each = {**options, "weights": selection.get("weights")}
        text_options = {
            key: _entries(key, value, places, len(texts)) for key, value in each.items()
        }
        batch = [texts[place] for place in places]
        inputs = batch[0] if isinstance(raw_inputs, Mapping) else batch  # its texts run one by one
        maps = _measure_at_once(lens, name, inputs, {**selection, **text_options})
        return maps if isinstance(maps, list) else [maps]

    return _measure_groups(measure_group, groups, names, on_error)


def _plan_batches(
    lens: Lens, name: str, raw_inputs: Any, batch_size: int | None
) -> tuple[list[Any], list[str], list[list[int]]]:
    """Return the texts, their names, and the batches of text indices."""
    if isinstance(raw_inputs, Mapping):  # padded audio, or texts that depend on each other
        numbers, sounds = range(text_count(raw_inputs)), is_padded_sound(raw_inputs)
        cut = [
            unpad_clip(raw_inputs, number)
            if sounds
            else unpad_text(raw_inputs, number, len(numbers))
            for number in numbers
        ]
        return cut, [f"text {number}" for number in numbers], [[number] for number in numbers]
    items = texts_of(raw_inputs)
    names = [
        item.name if isinstance(item, Example) else f"text {i}" for i, item in enumerate(items)
    ]
    texts = [item.given if isinstance(item, Example) else item for item in items]
    lengths = token_counts(lens.tokenizer, texts)
    groups = plan_batches(
        lengths,
        lens.model,
        memory=lens.memory_budget,
        batch_size=batch_size,
        logits=spec_of(name).explains_output,
    )
    return texts, names, groups


def _entries(key: str, value: Any, places: list[int], count: int) -> Any:
    """Return the value of an option for some of the texts.

    A list with one entry for each text is split among the texts. A tuple of positions is one
    answer, and a list of numbers holds the weights of one span.
    """
    one_for_each = isinstance(value, (list, tuple)) and len(value) == count
    if key == "answer":
        one_for_each = one_for_each and isinstance(value, list)
    if key == "weights":
        one_for_each = one_for_each and not any(isinstance(entry, Real) for entry in value)
    return [value[place] for place in places] if one_for_each else value


def _measure_at_once(
    lens: Lens, name: str, raw_inputs: Any, selection: dict[str, Any]
) -> MixingMaps | list[MixingMaps]:
    # The model is checked once for both, and a GPU waits for the checks only once, at the end.
    with open_session(lens.model, restores=False), checks_wait():
        recording, remaining = _record_for(lens, name, raw_inputs, selection)
        return measure(name, recording, **remaining)


def measure_batch(
    lens: Lens,
    name: str,
    raw_inputs: Any,
    selection: dict[str, Any],
    options: dict[str, Any],
    *,
    device: str | torch.device | None,
) -> MeasuredBatch:
    """Implement `Lens.measure_batch`."""
    if device is not None:
        _require_device(device)
    with open_session(lens.model, restores=False), checks_wait():
        recording, remaining = _record_for(lens, name, raw_inputs, {**selection, **options})
        remaining_selection = {key: remaining[key] for key in selection}
        batch = measure_batches({name: options}, recording, **remaining_selection)[name]
    return batch if device is None else batch.to(device)


def _require_device(device: str | torch.device) -> None:
    """Raise if the device is not available, before the model runs."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInput(f"device={device!r}: {in_short(error)}") from error


def _record_for(
    lens: Lens, name: str, raw_inputs: Any, selection: dict[str, Any]
) -> tuple[Recording, dict[str, Any]]:
    """Record the inputs for a measure, and return the recording and the remaining arguments.

    If the measure and the model allow it, only the requested targets are recorded.
    """
    targets, spec, site = selection.get("targets"), spec_of(name), selection.get("site")
    if targets is None or not (spec.row_by_row or spec.follows_gradient):
        how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": None}
        return record(lens, raw_inputs, **how, measures=[name], arguments=selection), selection
    target_recording = record(lens, raw_inputs, targets=targets, site=site, memory_budget=None)
    return target_recording, {**selection, "targets": None}


def _measure_groups(
    measure_group: Callable[[list[int]], list[MixingMaps]],
    groups: Iterable[list[int]],
    names: Sequence[str],
    on_error: str,
) -> MeasuredTexts:
    """Measure groups of texts, given by their indices.

    If a group fails, its texts are measured one by one. Depending on `on_error`, a text that fails
    raises an error with its name, or is skipped with the reason.
    """
    if on_error not in ON_ERROR:
        raise InvalidInput(f"Unknown on_error {on_error!r}. Choose one of: {', '.join(ON_ERROR)}.")
    maps: dict[int, MixingMaps] = {}
    errors: dict[int, MixlensError] = {}
    for group in groups:
        try:
            maps.update(zip(group, halve_until_it_fits(measure_group, group), strict=True))
        except (MissingTokenizer, MissingExtra):  # no text can change that
            raise
        except MixlensError as error:
            if on_error == "raise" and isinstance(error, UnsupportedModel):
                raise
            one_by_one, failed = _one_by_one(measure_group, group, until_known=on_error == "raise")
            if len(failed) == len(names) > 1 and len({str(e) for e in failed.values()}) == 1:
                raise about("every text", failed[group[0]]) from None
            if failed and on_error == "raise":
                place, reason = next(iter(failed.items()))
                raise about(names[place], reason) if len(names) > 1 else reason from None
            maps.update(one_by_one)
            errors.update(failed)
    return MeasuredTexts(
        [maps[place] for place in sorted(maps)],
        [names[place] for place in sorted(maps)],
        [(names[place], str(errors[place])) for place in sorted(errors)],
    )


def _one_by_one(
    measure_group: Callable[[list[int]], list[MixingMaps]], group: list[int], *, until_known: bool
) -> tuple[dict[int, MixingMaps], dict[int, MixlensError]]:
    """Return the maps of the texts that can be measured, and the errors of the others.

    With `until_known`, stop as soon as one text has failed and another has succeeded, because the
    error then depends on the text.
    """
    maps: dict[int, MixingMaps] = {}
    failed: dict[int, MixlensError] = {}
    for place in sorted(group):
        try:
            (maps[place],) = measure_group([place])
        except MixlensError as error:
            failed[place] = error
        if until_known and maps and failed:
            break
    return maps, failed
