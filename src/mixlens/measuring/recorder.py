"""Record and verify a forward pass on text, tensors, images or audio."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

from mixlens.capture.layer_calls import Inputs, batch_size, forward
from mixlens.contracts import AttentionKind
from mixlens.errors import (
    InvalidInput,
    MixlensError,
    NonFiniteActivations,
    TargetsUnavailable,
    UnsupportedModel,
    in_short,
)
from mixlens.measures import spec_of
from mixlens.measuring.estimates import (
    Estimate,
    estimate_of,
    estimate_of_recording,
    memory_advice,
    require_room,
)
from mixlens.measuring.read_positions import find_explained_targets, find_read_positions
from mixlens.model.distributed import require_measurable, require_same, smallest
from mixlens.model.linearity import require_linear_modules
from mixlens.model.loading import damaged_weights
from mixlens.model.module_walk import parts_of
from mixlens.model.placement import available_to, entry_device, free_memory
from mixlens.model.readable_weights import has_packed_weights
from mixlens.model.session import ModelSession, ModuleCache, once_per_state, open_session
from mixlens.recording.batch_independence import (
    DependentTexts,
    require_independent_texts,
    text_lengths,
)
from mixlens.recording.forward_pass import StructureDiffers, capture_inputs, capture_layers
from mixlens.recording.recording import Recording
from mixlens.recording.target_pass import require_cuttable, tokens_before_pass
from mixlens.recording.verification import require_same_natively
from mixlens.replay.intervention import find_ids_read
from mixlens.structure.language_structure import language_structure
from mixlens.structure.model_discovery import model_structure
from mixlens.structure.model_structure import ModelStructure
from mixlens.structure.probe import may_be_whole
from mixlens.structure.user_hooks import hooks_inside
from mixlens.text.input_checks import is_plain_text
from mixlens.text.inputs import Prepared, is_raw, prepare_inputs
from mixlens.text.media_labels import label_texts
from mixlens.text.processing import audio_seconds, run_processor
from mixlens.text.token_labels import token_rows
from mixlens.text.tokens import EachText, positions_by_text, to_list

if TYPE_CHECKING:
    from torch import nn

    from mixlens.contracts import Spec
    from mixlens.lens import Lens

_RAISED_BY_MODELS = (
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_log = logging.getLogger(__name__)


def record(
    lens: Lens,
    raw_inputs: Any,
    *,
    targets: int | str | Sequence[int | str] | EachText | None,
    site: str | None,
    memory_budget: int | None,
    measures: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
) -> Recording:
    """Implement `Lens.record`. With `measures`, record only the tensors that these measures need.
    If none needs the output, the forward pass stops after the last layer or its attention block,
    and if none needs attention, no layer is split. Pass the `arguments` of a single measure (as in
    `Lens.measure`) to estimate the memory of this measure and, if the model supports it, to compute
    logits only at the explained tokens.
    """
    model = lens.model
    require_measurable(model)
    budget = _bytes_to_keep(lens, memory_budget)
    with open_session(model, restores=False) as session:
        ready = _ready(lens, raw_inputs, session)
        with open_session(model):
            require_linear_modules(model)
            options = (site, budget, list(measures), arguments)
            require_same(inputs=ready.tensors, targets=targets, options=options)
            if targets is None and arguments is not None:
                targets = _find_explained_targets(model, ready, measures, arguments, budget)
                if targets is not None:
                    measures, arguments = (), None
            estimate = _estimate(lens, ready, None if targets is None else 1, measures, arguments)
            available = available_to(model)
            require_room(estimate, available)
            session.memory_advice = partial(memory_advice, estimate, available)
            with _refusal_explained(model, ready):
                _require_independent_texts(model, ready, targets, measures)
                if targets is None:
                    recording = _record_as_probed(lens, ready, budget, measures, arguments)
                else:
                    target_list = (
                        targets if isinstance(targets, EachText) else to_list(targets, "targets")
                    )
                    recording = _record_targets(lens, ready, site, target_list or [], budget)
    left_out = recording.structure.left_out
    if left_out:  # NaN weights are not a kind of layer
        require_sound_weights(model)
    for path, reason in left_out.items():
        if hooks_inside(model.get_submodule(path), path):
            warnings.warn(f"not measured: {reason}", stacklevel=3)
    recording.tokenizer = lens.tokenizer
    if recording.is_kept and site is not None:
        recording.site = recording.structure.site(site).name  # measured by default
    return recording


def _ready(lens: Lens, raw_inputs: Any, session: ModelSession) -> Prepared:
    """Prepare the input. If the model has packed weights, run it once.

    Some libraries permanently unpack or rearrange weights in the first run.
    """
    model = lens.model
    ready = raw_inputs if isinstance(raw_inputs, Prepared) else _prepare(lens, raw_inputs)

    def run_once() -> None:
        if any(map(has_packed_weights, parts_of(model))):
            with torch.no_grad():
                forward(model, ready.tensors)
            session.look_again()

    with contextlib.suppress(*_RAISED_BY_MODELS):  # raised again by the recording
        _first_run.of(model, None, run_once)
        _first_run.of(model, None, lambda: None)  # the run may have changed its state
    return ready


_first_run: ModuleCache[None] = ModuleCache()


def _prepare(lens: Lens, raw_inputs: Any) -> Prepared:
    """Return the model inputs, with labels for the images in a text and the lengths of audio."""
    seconds = None
    if is_raw(raw_inputs):
        seconds = audio_seconds(lens.processor, raw_inputs)
        raw_inputs = run_processor(lens.processor, raw_inputs, lens.model)
    model, ready = lens.model, prepare_inputs(lens.model, lens.tokenizer, raw_inputs)
    ready = replace(ready, seconds=seconds)
    ids = ready.tensors.get("input_ids")
    if ready.rows is None or ids is None or is_plain_text(ready.tensors):
        return ready
    rows = label_texts(model.config, ids, ready.rows, ready.tensors, lens.processor)
    return replace(ready, rows=rows)


def _find_explained_targets(
    model: nn.Module,
    ready: Prepared,
    measures: Sequence[str],
    arguments: Mapping[str, Any],
    budget: int,
) -> EachText | None:
    """Return the tokens that the measures explain, if layers restricted to them are enough, or
    None.
    """
    follows = all(spec_of(name).follows_output for name in measures)
    if follows and arguments.get("targets") is None:
        with contextlib.suppress(MixlensError, *_RAISED_BY_MODELS):  # raised again by the recording
            return find_explained_targets(model, ready, arguments, budget)
    return None


@contextlib.contextmanager
def _refusal_explained(model: nn.Module, ready: Prepared) -> Iterator[None]:
    """If recording fails while the context is open, raise the underlying reason: a weight that is
    not finite, or an input that the unmodified model rejects.
    """
    try:
        yield
    except UnsupportedModel as error:
        require_sound_weights(model)
        raise error from None
    except MixlensError:
        raise
    except _RAISED_BY_MODELS as error:
        model_error = _own_refusal(model, ready)
        if model_error is None:
            raise
        raise model_error from error


def _require_independent_texts(
    model: nn.Module, ready: Prepared, targets: Any, measures: Sequence[str]
) -> None:
    if batch_size(ready.tensors) < 2:
        return
    lengths = text_lengths(ready.tensors, ready.rows, ready.decoder_rows)
    needs_output = any(spec_of(name).explains_output for name in measures)
    require_independent_texts(
        model,
        ready.tensors,
        lengths,
        model_structure(model, ready.tensors),
        output=needs_output or (targets is None and not measures),
    )


def _own_refusal(model: nn.Module, ready: Prepared) -> InvalidInput | None:
    """Return the error that the unmodified model raises for an input, or None if the model accepts
    the input.
    """
    try:
        with torch.no_grad():
            model(**ready.tensors)
    except _RAISED_BY_MODELS as error:
        kind = InvalidInput if batch_size(ready.tensors) < 2 else DependentTexts
        return kind(f"{type(model).__name__} rejects this input: {in_short(error)}")
    return None


def _record_targets(
    lens: Lens,
    ready: Prepared,
    site: str | None,
    targets: Sequence[int | str] | EachText,
    budget: int,
) -> Recording:
    """Return a recording of these targets, which runs the model only when something is measured.

    If the model does not support this, return a recording of all targets.
    """
    structure, words = structure_of_targets(lens.model, site, ready.tensors)
    attention = structure.site(site)
    try:
        if not len(targets):
            raise TargetsUnavailable("no targets were passed")
        require_cuttable(structure, attention)
        tokens = tokens_before_pass(structure, ready)
        needed = 2 if attention.kind is AttentionKind.CROSS else 1
        if len(tokens) < needed or attention.stack.name not in tokens:
            raise TargetsUnavailable(
                f"the tokens of {attention.name} are known only after the model has run"
            )
    except TargetsUnavailable as error:
        _log.info("using whole maps for these targets: %s", error)
        whole = record(lens, ready, targets=None, site=None, memory_budget=budget)
        labels_by_text = [whole.named_targets(site, text) for text in range(whole.rows(site))]
        return replace(
            whole,
            targets=positions_by_text(targets, labels_by_text),
            site=whole.structure.site(site).name,
            not_cut=str(error),
        )
    stack_tokens = tokens[attention.stack.name]
    last = attention.stack is structure.calls[-1][0]
    produced = ready.produced if last else None
    labels = stack_tokens if produced is None else [text.tokens for text in produced]
    input_name = "decoder_input_ids" if stack_tokens == ready.decoder_rows else "input_ids"
    return Recording(
        model=lens.model,
        structure=structure,
        inputs=ready.tensors,
        output=None,
        lengths={name: [len(text) for text in all_tokens] for name, all_tokens in tokens.items()},
        tokens=tokens,
        memory_budget=budget,
        stack_layers={},
        source_counts={},
        targets=positions_by_text(targets, labels),
        site=attention.name,
        produced=ready.produced,
        width=int(ready.tensors[input_name].shape[1]),
        lens=lens,
        prepared=ready,
        words=words,
    )


def structure_of_targets(
    model: nn.Module, site: str | None, inputs: Inputs
) -> tuple[ModelStructure, Inputs | None]:
    """Return the structure for recording a few targets, and the inputs from which it was inferred.

    If `site` belongs to a language model with image inputs, its structure is inferred from the text
    alone, and these text inputs are returned. Otherwise the structure is that of the whole model,
    and the inputs are None. Without `site`, the whole model is needed to find its first attention.
    """
    language_part = None if site is None else language_structure(model, site, inputs)
    return language_part or (model_structure(model, inputs), None)


def _record_as_probed(
    lens: Lens,
    ready: Prepared,
    budget: int,
    measures: Sequence[str],
    arguments: Mapping[str, Any] | None,
) -> Recording:
    """Return a recording that uses the structure found by a short probe.

    If the structure for the whole input differs from the probe's, the recording uses the structure
    for the whole input.
    """
    specs = [spec_of(name) for name in measures]
    options = arguments if any(spec.explains_output for spec in specs) else None
    structure = model_structure(lens.model, ready.tensors)
    try:
        return _record_layers(lens, structure, ready, budget, specs, options)
    except StructureDiffers:
        if structure.whole or not may_be_whole(ready.tensors):
            raise
    structure = model_structure(lens.model, ready.tensors, whole=True)
    return _record_layers(lens, structure, ready, budget, specs, options)


def _record_layers(
    lens: Lens,
    structure: ModelStructure,
    ready: Prepared,
    budget: int,
    specs: Sequence[Spec],
    options: Mapping[str, Any] | None,
) -> Recording:
    model, tensors = lens.model, ready.tensors
    reads = {spec.reads for spec in specs}
    reads_attention = not specs or "attention" in reads
    logits_at = None
    if options is not None:
        logits_at = find_read_positions(model, structure, ready, options)
    if reads_attention:
        captured = capture_layers(
            model,
            structure,
            tensors,
            memory_budget=budget,
            output=not specs or any(spec.explains_output for spec in specs),
            blocks_only=bool(specs)
            and all(spec.within_blocks for spec in specs)
            and not ready.masks_more_than_padding,
            logits_at=logits_at,
        )
    else:
        captured = capture_inputs(
            model,
            structure,
            tensors,
            memory_budget=budget,
            graph="gradient" in reads,
            logits_at=logits_at,
        )
    recording = Recording(
        model=model,
        structure=structure,
        inputs=tensors,
        output=captured.output,
        lengths={},
        tokens={},
        memory_budget=budget,
        stack_layers=captured.stack_layers,
        source_counts=captured.source_counts,
        entering_states=captured.entering_states,
        produced=ready.produced,
        logits_at=logits_at,
    )
    if reads_attention and ready.masks_more_than_padding:
        require_same_natively(recording)
    recording.ids_read = find_ids_read(recording)
    recording.tokens = token_rows(recording, ready, lens.processor)
    recording.lengths = {
        stack: [len(row) for row in rows] for stack, rows in recording.tokens.items()
    }
    return recording


def _estimate(
    lens: Lens,
    ready: Prepared,
    targets: int | None,
    measures: Sequence[str],
    arguments: Mapping[str, Any] | None,
) -> Estimate:
    """Estimate the memory of a recording, or of a measure if the measure's `arguments` are
    known.
    """
    id_tensors = [value for name, value in ready.tensors.items() if name.endswith("input_ids")]
    texts, tokens = id_tensors[0].shape[:2] if id_tensors and id_tensors[0].dim() == 2 else (1, 1)
    if arguments is None:
        reads_attention = [name for name in measures if spec_of(name).reads == "attention"]
        like = "attention" if reads_attention or not measures else measures[0]
        return estimate_of_recording(
            lens.model, int(tokens), targets=targets, texts=int(texts), like=like
        )
    return estimate_of(
        lens.model,
        measures[0],
        int(tokens),
        targets=_count(arguments.get("targets")),
        layers=_count(arguments.get("layers")),
        texts=int(texts),
        options=arguments,
    )


def _count(items: Any) -> int | None:
    """Return the number of named targets or layers, or None for all.

    The names are validated later. A zero-dimensional tensor counts as one.
    """
    several = isinstance(items, Sized) and not isinstance(items, str)
    has_axes = getattr(items, "ndim", None) != 0
    return None if items is None else len(items) if several and has_axes else 1


@once_per_state  # a hybrid model skips layers in every call
def require_sound_weights(model: nn.Module) -> None:
    """Raise `NonFiniteActivations` if a weight of the model is NaN or infinite."""
    damage = damaged_weights(model)
    if damage is not None:
        raise NonFiniteActivations(damage)


def _bytes_to_keep(lens: Lens, memory_budget: int | None) -> int:
    budget = lens.memory_budget if memory_budget is None else memory_budget
    if budget is None:
        return smallest(lens.model, free_memory(entry_device(lens.model))) // 4
    if not isinstance(budget, Real) or not budget >= 0:
        raise InvalidInput(
            f"memory_budget={budget!r} is not a number of bytes. Pass 0 or more, or None."
        )
    return int(budget)
