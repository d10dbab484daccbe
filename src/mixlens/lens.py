"""Lens: a model and its tokenizer, the front door."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, overload

import torch

from mixlens.batching import plan_batches, token_counts
from mixlens.errors import InvalidInput, NonFiniteActivations, RowsUnavailable, UnsupportedModel
from mixlens.explained import no_logits
from mixlens.loading import damaged_weights, loaded, own_processor, quiet_loading, tokenizer_doubt
from mixlens.precision import matmul_precision, outside_inference_mode
from mixlens.recording.checks import main_inputs, takes_decoder_ids
from mixlens.recording.inputs import Prepared, Text, is_pair, prepared, texts_of
from mixlens.recording.labels import token_rows
from mixlens.recording.model_discovery import model_structure
from mixlens.recording.model_structure import ModelStructure
from mixlens.recording.padding import is_padded_sound, unpadded_row
from mixlens.recording.probe import may_be_whole
from mixlens.recording.processing import is_raw, processed
from mixlens.recording.recording import Recording, StructureDiffers, recorded
from mixlens.recording.rows import row_recording
from mixlens.recording.stand_in import stand_in_inputs
from mixlens.recording.verification import Report, report
from mixlens.several import measure_several
from mixlens.suggestions import no_such
from mixlens.timing import first_tokens
from mixlens.tokens import listed
from mixlens.wrappers import uncompiled, unwrapped

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

    from mixlens.comparing import Budget, Progress
    from mixlens.comparison import Comparison
    from mixlens.corpus import Dataset
    from mixlens.maps import MixingMaps
    from mixlens.several import MeasuredTexts

BUNDLED = ("masked", "causal")
_log = logging.getLogger(__name__)


class Lens:
    """Records a transformers model and measures how its tokens mix.

    The model must be in eval mode; it is left exactly as it was. PEFT, `torch.compile`,
    DataParallel, SentenceTransformer and pipelines are unwrapped. Without a tokenizer, inputs are
    dicts of tensors. With a processor they may be pictures, sounds and texts: a PIL image, or
    {"images": …, "text": …}, {"audio": …}.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any = None,
        *,
        processor: Any = None,
        memory_budget: int | None = None,
    ) -> None:
        tokenizer = getattr(processor, "tokenizer", None) if tokenizer is None else tokenizer
        self.model, self.tokenizer = unwrapped(model, tokenizer)
        self.processor = processor
        self.memory_budget = memory_budget
        doubt = tokenizer_doubt(self.model, self.tokenizer)
        if doubt is not None:
            warnings.warn(doubt, stacklevel=2)

    def __repr__(self) -> str:
        config: Any = self.model.config
        name = getattr(config, "_name_or_path", "")
        layers = getattr(config, "num_hidden_layers", None)
        parameter = next(self.model.parameters())
        parts = [type(self.model).__name__ + (f" {name!r}" if name else "")]
        parts += [f"{layers} layers"] if layers is not None else []
        parts += [f"{str(parameter.dtype).removeprefix('torch.')} on {parameter.device}"]
        parts += ["no tokenizer"] if self.tokenizer is None else []
        return f"<Lens {', '.join(parts)}>"

    @classmethod
    def from_pretrained(cls, name: str, *, tokenizer: Any = None, **options: Any) -> Lens:
        """Loads a model and its tokenizer by hub name or folder; `options` go to `from_pretrained`.

        The class is the one that the checkpoint names (masked LM, causal LM, classifier ...), else
        the bare model. Code from the checkpoint is run only with `trust_remote_code=True`.
        """
        model, found = loaded(name, tokenizer, options)
        return cls(model, found, processor=own_processor(name, model, options))

    @classmethod
    def bundled(cls, name: str = "masked", **options: Any) -> Lens:
        """A small model that ships with the package: "masked" (BERT) or "causal" (Llama)."""
        if name not in BUNDLED:
            raise InvalidInput(no_such("bundled model", name, BUNDLED))
        folder = resources.files("mixlens") / "bundled" / name
        options.setdefault("dtype", torch.float32)
        with quiet_loading():
            lens = cls.from_pretrained(os.fspath(folder), **options)  # type: ignore[call-overload]
        config: Any = lens.model.config
        config._name_or_path = (  # not where this machine happens to keep it
            f"mixlens/bundled/{name}"
        )
        return lens

    # ------------------------------------------------------------------------------------ recording

    def record(
        self,
        given: Text | Sequence[Text] | Mapping[str, Any],
        *,
        targets: int | str | Sequence[int | str] | None = None,
        site: str | None = None,
        memory_budget: int | None = None,
    ) -> Recording:
        """One verified forward pass of a text, a list of texts, or a dict of input tensors.

        `memory_budget` (bytes; default: a quarter of what is free) bounds what is kept beside the
        layers' inputs and outputs. With `targets` (of one `site`) only these are taken apart, and
        the model keeps its own attention: for a few targets of a long prompt. The pass then runs
        when something is measured.
        """
        self._require_eval()
        with outside_inference_mode(), uncompiled(self.model):
            given = processed(self.processor, given) if is_raw(given) else given
            ready = prepared(self.model, self.tokenizer, given)
            try:
                if targets is not None:
                    structure = model_structure(self.model, ready.tensors)
                    return self._recorded_rows(structure, ready, site, targets, memory_budget)
                recording = self._recorded_as_probed(ready, memory_budget)
                if recording.structure.left_out:  # NaN weights are not a kind of layer
                    self._require_sound_weights()
                return recording
            except UnsupportedModel as error:
                damage = damaged_weights(self.model)
                raise (error if damage is None else NonFiniteActivations(damage)) from None

    def _require_sound_weights(self) -> None:
        damage = damaged_weights(self.model)
        if damage is not None:
            raise NonFiniteActivations(damage)

    def verify(self, given: Text | Sequence[Text] | Mapping[str, Any] | None = None) -> Report:
        """Takes the model apart on this input and compares every part with what the model computes;
        see `Report`.
        """
        from mixlens.measures import list_measures, refusal

        recording = self.record(self._default_input() if given is None else given)
        refusals = {}
        for name, spec in list_measures().items():
            reasons = [refusal(name, recording.structure, site) for site in recording.sites]
            refusals[name] = None if None in reasons else reasons[0]
            if spec.explains_output and refusals[name] is None:
                refusals[name] = no_logits(recording.output)
        return report(recording, refusals)

    def _default_input(self) -> Any:
        takes_text = main_inputs(self.model)[0] == "input_ids"
        if self.tokenizer is None or not takes_text or hasattr(self.model.config, "vision_config"):
            return stand_in_inputs(self.model)
        translated = takes_decoder_ids(self.model)
        return (_DEFAULT_TEXT, _DEFAULT_TARGET) if translated else _DEFAULT_TEXT

    def _require_eval(self) -> None:
        if any(module.training for module in self.model.modules()):
            raise UnsupportedModel(
                "the model is in training mode, where dropout makes every run different: call"
                " model.eval() first"
            )

    def _recorded_as_probed(self, ready: Prepared, memory_budget: int | None) -> Recording:
        """With the structure of a short probe, or of the whole input if that shows more."""
        structure = model_structure(self.model, ready.tensors)
        try:
            return self._recorded(structure, ready, memory_budget)
        except StructureDiffers:
            if structure.whole or not may_be_whole(ready.tensors):
                raise
        structure = model_structure(self.model, ready.tensors, whole=True)
        return self._recorded(structure, ready, memory_budget)

    def _budget(self, memory_budget: int | None) -> int:
        budget = self.memory_budget if memory_budget is None else memory_budget
        if budget is None:
            budget = free_memory(next(self.model.parameters()).device) // 4
        return budget

    def _recorded_rows(
        self,
        structure: ModelStructure,
        ready: Prepared,
        site: str | None,
        targets: int | str | Sequence[int | str],
        memory_budget: int | None,
    ) -> Recording:
        recording = row_recording(
            self.model,
            structure,
            ready,
            site=site,
            targets=listed(targets, "targets") or [],
            memory_budget=self._budget(memory_budget),
        )
        recording.tokenizer = self.tokenizer
        return recording

    def _recorded(
        self, structure: ModelStructure, ready: Prepared, memory_budget: int | None
    ) -> Recording:
        budget = self._budget(memory_budget)
        recording = recorded(
            self.model, structure, ready.tensors, lengths={}, tokens={}, memory_budget=budget
        )
        rows = token_rows(recording, ready, self.processor)
        recording.tokens, recording.tokenizer = rows, self.tokenizer
        recording.lengths = {name: [len(row) for row in found] for name, found in rows.items()}
        return recording

    # ------------------------------------------------------------------------------------- measures

    @overload
    def measure(self, name: str, given: Text, **chosen: Any) -> MixingMaps: ...

    @overload
    def measure(
        self,
        name: str,
        given: Dataset | list[Text] | list[str] | list[tuple[str, str]],
        **chosen: Any,
    ) -> MeasuredTexts: ...

    @overload
    def measure(
        self, name: str, given: Mapping[str, Any], **chosen: Any
    ) -> MixingMaps | list[MixingMaps]: ...

    def measure(
        self,
        name: str,
        given: Text | Sequence[Text] | Dataset | Mapping[str, Any],
        *,
        site: str | None = None,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
        per_head: bool = False,
        precision: str | None = None,
        on_error: str = "raise",
        batch_size: int | None = None,
        **options: Any,
    ) -> MixingMaps | list[MixingMaps]:
        """Scores of one measure: `MixingMaps` for one text (or a dict with one row), a list of them
        for several texts or the texts of a data set.

        `precision`: float32, tf32 or bf16 for the products of this call, the recording's included;
        by default torch's own setting. `on_error="skip"` leaves out texts that cannot be measured;
        the list then has their names and the reasons in `errors`. Texts of like length are recorded
        together, as many as fit the memory budget, or `batch_size`.
        """
        chosen = {"site": site, "layers": layers, "targets": targets, "per_head": per_head}
        with matmul_precision(precision), outside_inference_mode():
            return self._measured(
                name, given, {**chosen, **options}, set(options), on_error, batch_size
            )

    def _measured(
        self,
        name: str,
        given: Any,
        chosen: dict[str, Any],
        own: set[str],
        on_error: str,
        batch_size: int | None,
    ) -> MixingMaps | list[MixingMaps]:
        from mixlens.corpus import Example

        if is_raw(given):
            given = processed(self.processor, given)
        if isinstance(given, str) or is_pair(given):
            return self._measured_at_once(name, given, chosen)
        if isinstance(given, Mapping):
            if not is_padded_sound(given):
                return self._measured_at_once(name, given, chosen)
            texts: list[Any] = [unpadded_row(given, i) for i in range(len(given["attention_mask"]))]
            groups = [[i] for i in range(len(texts))]
        else:
            texts, groups = texts_of(given), []
        names = [
            text.name if isinstance(text, Example) else f"text {i}" for i, text in enumerate(texts)
        ]
        texts = [text.given if isinstance(text, Example) else text for text in texts]
        if not groups:
            lengths, memory = token_counts(self.tokenizer, texts), self.memory_budget
            groups = plan_batches(lengths, self.model, memory=memory, batch_size=batch_size)

        def measured(places: list[int]) -> list[MixingMaps]:
            # An option may be a list with one entry for each text.
            mine: dict[str, Any] = {
                key: (
                    [value[place] for place in places]
                    if key in own and isinstance(value, (list, tuple)) and len(value) == len(texts)
                    else value
                )
                for key, value in chosen.items()
            }
            part = [texts[place] for place in places]
            maps = self._measured_at_once(
                name, part[0] if isinstance(part[0], Mapping) else part, mine
            )
            return maps if isinstance(maps, list) else [maps]

        return measure_several(measured, groups, names, on_error)

    def _measured_at_once(
        self, name: str, given: Any, chosen: dict[str, Any]
    ) -> MixingMaps | list[MixingMaps]:
        """From one recording: of the wanted targets alone if the measure and the model allow it."""
        from mixlens.measures import spec_of
        from mixlens.measuring import measure

        targets = chosen.get("targets")
        if targets is not None and spec_of(name).row_by_row:
            rest = {key: value for key, value in chosen.items() if key != "targets"}
            try:
                rows = self.record(given, targets=targets, site=chosen.get("site"))
                return measure(name, rows, **rest)
            except RowsUnavailable as error:  # the present path is always right
                _log.debug("%s: whole maps are recorded for these targets: %s", name, error)
        return measure(name, self.record(given), **chosen)

    def compare(
        self,
        given: Text | Mapping[str, Any],
        target: int | str | None = None,
        *,
        site: str | None = None,
        aggregate: str | int = "mean",
        only: Sequence[str] | None = None,
        words: bool = False,
        explain: Mapping[str, Any] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        cue: int | str | None = None,
        budget: float | None = None,
        progress: Progress | None = None,
    ) -> Comparison:
        """Every measure that applies, side by side for one target, from one recording.

        Default target: the mask, the first token of a classifier that sees the whole text, else the
        last token. With a `budget` (seconds), measures that would take longer are left out.
        See `mixlens.comparing.compare`.
        """
        from mixlens.comparing import Budget, compare

        with outside_inference_mode(), uncompiled(self.model):
            recording = self.record(given)
            return compare(
                recording,
                self._default_target(recording, site) if target is None else target,
                site=site,
                aggregate=aggregate,
                only=only,
                words=words,
                explain=explain,
                options=options,
                cue=cue,
                budget=self._time_budget(recording, budget, Budget),
                progress=progress,
            )

    def _default_target(self, recording: Recording, site: str | None) -> int:
        labels = recording.target_tokens(site, 0).labels
        mask = getattr(self.tokenizer, "mask_token", None)
        if labels.count(mask) == 1:
            return labels.index(mask)
        logits = getattr(recording.output, "logits", None)
        attention = recording.structure.site(site).stack.layers[0].sites[0]
        reads_first = logits is not None and logits.dim() == 2 and not attention.causal
        return 0 if reads_first else len(labels) - 1

    def _time_budget(self, recording: Recording, seconds: float | None, make: type[Budget]) -> Any:
        if seconds is None or first_tokens(recording.inputs, 1) is None:
            return None
        shorter = functools.cache(
            lambda count: self.record(first_tokens(recording.inputs, count) or {})
        )
        return make(seconds=seconds, shorter=shorter)

    def predictions(
        self, text: Text, *, top: int = 5, position: int | None = None
    ) -> list[tuple[str, float]]:
        """The model's likeliest words with their probabilities: at a position, by default at the
        [MASK] or after the last token. For a classifier, its classes.
        """
        from mixlens.predictions import predicted

        return predicted(self.record(text), top, position)

    def identifiability(
        self, given: Text | Mapping[str, Any], *, site: str | None = None
    ) -> xr.Dataset | list[xr.Dataset]:
        """How far the attention weights of each head are determined by what they do; see
        `mixlens.identifiability`.
        """
        from mixlens.identifiability.attention import identifiability

        return identifiability(self.record(given), site=site)


_DEFAULT_TARGET = "Les clefs de la vieille armoire sont sur la table."
_DEFAULT_TEXT = (
    "The keys to the old cabinet near the door are on the kitchen table, and nobody has touched"
    " them since."
)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31
