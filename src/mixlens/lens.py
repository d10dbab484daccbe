"""Lens: a model with its tokenizer or processor, and everything that you can measure on it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any, overload

import torch

from mixlens.errors import InvalidInput
from mixlens.maps.one_row import DEFAULT_READING
from mixlens.measuring.context_citing import TEMPLATE, ContextCitation, context_cite
from mixlens.measuring.measure_many import measure_batch, measure_given
from mixlens.measuring.recorder import generate, record
from mixlens.measuring.timing import Budget
from mixlens.measuring.verifying import verify
from mixlens.model.loading import loaded, quiet_loading, tokenizer_doubt
from mixlens.model.model_cache import weights_unchanged
from mixlens.model.precision import matmul_precision, outside_inference_mode
from mixlens.model.uncompiled import uncompiled
from mixlens.model.wrappers import processor_of, unwrapped
from mixlens.recording.recording import Recording
from mixlens.recording.verification import Report
from mixlens.text.inputs import Text
from mixlens.text.suggestions import no_such

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

    from mixlens.datasets import Dataset
    from mixlens.maps.comparison import Comparison
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.maps.route_graph import Routes
    from mixlens.measuring.comparing import Progress
    from mixlens.measuring.measure_many import MeasuredTexts
    from mixlens.measuring.measured_batch import MeasuredBatch
    from mixlens.text.prompts import Given
    from mixlens.text.segments import Spans

BUNDLED = ("masked", "causal")
_BUNDLED_AT = "mixlens/bundled/"  # what such a model is called, wherever it lies


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
        processor = processor_of(model) if processor is None else processor
        tokenizer = getattr(processor, "tokenizer", None) if tokenizer is None else tokenizer
        self.model: nn.Module
        self.tokenizer: Any
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

        The class is the one that the checkpoint names, else the bare model. The dtype is float32;
        `dtype="auto"` keeps that of the checkpoint. Code from the checkpoint is run only with
        `trust_remote_code=True`. A bundled model is loaded by its name, mixlens/bundled/causal.
        """
        if isinstance(name, str) and name.startswith(_BUNDLED_AT):
            return cls.bundled(name.removeprefix(_BUNDLED_AT), **options)
        model, tokenizer, processor = loaded(name, tokenizer, options)
        return cls(model, tokenizer, processor=processor)

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
        config._name_or_path = f"{_BUNDLED_AT}{name}"  # not where this machine keeps it
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

        `memory_budget` (bytes; default: a quarter of what is free) bounds what is kept next to the
        layers' inputs and outputs. With `targets` (of one `site`) only these are taken apart, and
        the model keeps its own attention: for a few targets of a long prompt. The pass then runs
        when something is measured.
        """
        return record(self, given, targets=targets, site=site, memory_budget=memory_budget)

    def generate(
        self,
        prompt: Given,
        *,
        answer: str | Sequence[int] | None = None,
        site: str | None = None,
        memory_budget: int | None = None,
        explain_end: bool = True,
        **options: Any,
    ) -> Recording:
        """A recording of the positions that produced the tokens after a prompt.

        The prompt is a text, or the messages of a chat ([{"role": "user", "content": …}]), which
        the tokenizer's chat template writes out. What follows it is `answer`, or what the model
        generates: its likeliest token at every step (do_sample=False), 20 of them, unless `options`
        (as `model.generate` takes them, such as max_new_tokens) say otherwise. The recording's
        `answer` is its text. Without `explain_end`, special tokens at its end are left out.
        Encoder-decoder models: the prompt is the encoder's, and `site` is "cross" by default.
        """
        how: dict[str, Any] = {"memory_budget": memory_budget, "explain_end": explain_end}
        return generate(self, prompt, answer=answer, site=site, options=options, **how)

    def verify(self, given: Text | Sequence[Text] | Mapping[str, Any] | None = None) -> Report:
        """Compares every part of the model with what the model computes; see `Report`."""
        return verify(self, given)

    # ------------------------------------------------------------------------------------- measures

    @overload
    def measure(
        self,
        name: str,
        given: Text | Sequence[Text] | Mapping[str, Any],
        *,
        device: str | torch.device,
        **chosen: Any,
    ) -> MeasuredBatch: ...

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
        device: str | torch.device | None = None,
        **options: Any,
    ) -> MixingMaps | list[MixingMaps] | MeasuredBatch:
        """Scores of one measure: `MixingMaps` for one text (or a dict with one row), a list of them
        for several texts or the texts of a data set.

        `precision`: float32, tf32 or bf16 for the products of this call, the recording's included;
        by default torch's own setting. `on_error="skip"` leaves out texts that cannot be measured;
        the list then has their names and the reasons in `errors`. Texts of similar length are
        recorded together, as many as fit the memory budget, or `batch_size`. With `device` the
        scores stay a tensor on that device, as from `measure_batch`.
        """
        chosen = {"site": site, "layers": layers, "targets": targets, "per_head": per_head}
        with matmul_precision(precision), outside_inference_mode():
            return measure_given(
                self,
                name,
                given,
                chosen,
                options,
                on_error=on_error,
                batch_size=batch_size,
                device=device,
            )

    def measure_batch(
        self,
        name: str,
        given: Text | Sequence[Text] | Mapping[str, Any],
        *,
        device: str | torch.device | None = None,
        site: str | None = None,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
        per_head: bool = False,
        precision: str | None = None,
        **options: Any,
    ) -> MeasuredBatch:
        """Scores of one measure as a tensor that stays where the model is, or goes to `device`:
        `batch.scores.values` is [layer, text, (head,) target, source], padding still inside, and
        `batch.maps()` makes maps of it. All texts are recorded together.
        """
        chosen = {"site": site, "layers": layers, "targets": targets, "per_head": per_head}
        with matmul_precision(precision), outside_inference_mode():
            return measure_batch(self, name, given, chosen, options, device=device)

    def rollout(
        self,
        name: str,
        given: Text | Mapping[str, Any] | Recording,
        targets: int | str | Sequence[int | str] | None = None,
        *,
        site: str | None = None,
        residual: float | int | None = None,
        normalise: bool | None = None,
        budget: float | None = None,
        **options: Any,
    ) -> MixingMaps:
        """How much of each input token is in a few targets, up to each layer: the rows that
        `measure(…).rollout()` would have, without storing a map. A recording (of `generate`, say)
        has targets of its own. If that takes over a minute, a warning gives the estimated time;
        with `budget` (seconds) an error is raised if the estimate exceeds it. Another warning names
        the source onto which a rollout has collapsed.
        """
        from mixlens.maps.collapse import warn_of_collapse
        from mixlens.measuring.rollout_of_targets import roll_out_targets
        from mixlens.measuring.rollout_time import check_rollout_time

        how: dict[str, Any] = {"residual": residual, "normalise": normalise, **options}
        if not isinstance(given, Recording):
            if targets is None:
                raise InvalidInput("name the targets that are rolled out; all: measure().rollout()")
            given, targets = self.record(given, targets=targets, site=site), None
        check_rollout_time(name, given, partial(self.record, targets=-1, site=site), budget, how)
        return warn_of_collapse(roll_out_targets(name, given, targets=targets, **how))

    def compare(
        self,
        given: Text | Mapping[str, Any] | Recording,
        target: int | str | None = None,
        *,
        site: str | None = None,
        aggregate: str | int = DEFAULT_READING,
        only: Sequence[str] | None = None,
        words: bool = False,
        explain: Mapping[str, Any] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        cue: int | str | None = None,
        budget: float | None = None,
        progress: Progress | None = None,
    ) -> Comparison:
        """Every measure that applies, side by side for one target, from one recording, which may be
        given (`record`, `generate`).

        Default target: the last that was generated or recorded by name, else the mask, the first
        token of a classifier that sees the whole text, or the last token. With a `budget`
        (seconds), measures that would take longer are left out. If a target is named and all of
        `only` are measured by rows, no map is formed.
        See `mixlens.measuring.comparing.compare`.
        """
        from mixlens.measuring.compared_target import by_rows, default_target, site_of
        from mixlens.measuring.comparing import compare

        with outside_inference_mode(), weights_unchanged(self.model):
            if isinstance(given, Recording):
                recording = given
            else:
                rows = target is not None and by_rows(only, aggregate)
                recording = self.record(given, targets=target if rows else None, site=site)
            site = site_of(recording, site)
            return compare(
                recording,
                default_target(recording, site) if target is None else target,
                site=site,
                aggregate=aggregate,
                only=only,
                words=words,
                explain=explain,
                options=options,
                cue=cue,
                budget=None if budget is None else Budget.of(budget, recording, self.record),
                progress=progress,
            )

    def routes(
        self,
        given: Text | Mapping[str, Any],
        target: int | str = -1,
        *,
        site: str | None = None,
        threshold: float = 0.04,
        renormalise: bool = True,
        value_bias: bool = False,
    ) -> Routes:
        """What one token's last state is made of, as a graph of edges above a threshold; see
        `mixlens.maps.routes`.
        """
        from mixlens.maps.routes import routes

        how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": None}
        with outside_inference_mode(), weights_unchanged(self.model):
            return routes(
                # no logits: the model is left after its last layer
                record(self, given, **how, measures=["flow_routes"]),
                target,
                site=site,
                threshold=threshold,
                renormalise=renormalise,
                value_bias=value_bias,
            )

    def context_cite(
        self,
        context: str,
        query: str,
        answer: str | Sequence[int] | None = None,
        segments: str | Mapping[str, tuple[int, int] | str] | Spans = "sentences",
        ablations: int = 64,
        seed: int = 0,
        *,
        held_out: int = 32,
        template: str = TEMPLATE,
        batch_size: int | None = None,
        **options: Any,
    ) -> ContextCitation:
        """Which parts of a context an answer rests on, by leaving parts out; see
        `mixlens.measuring.context_citing`.

        The answer is given, or generated after the whole context (`options` as for `generate`).
        Segments are sentences, paragraphs, or named by their text or characters.
        """
        with outside_inference_mode(), uncompiled(self.model):
            return context_cite(
                self.model,
                self.tokenizer,
                context,
                query,
                answer=answer,
                segments=segments,
                ablations=ablations,
                seed=seed,
                held_out=held_out,
                template=template,
                batch_size=batch_size,
                options=options,
            )

    def predictions(
        self, text: Text, *, top: int = 5, position: int | None = None
    ) -> list[tuple[str, float]]:
        """The model's likeliest words with their probabilities: at a position, by default at the
        [MASK] or after the last token. For a classifier, its classes.
        """
        from mixlens.replay.predictions import predicted

        return predicted(self.record(text), top, position)

    def identifiability(
        self, given: Text | Mapping[str, Any], *, site: str | None = None
    ) -> xr.Dataset | list[xr.Dataset]:
        """How far the attention weights of each head are determined by what they do; see
        `mixlens.identifiability`.
        """
        from mixlens.maps.attention_identifiability import identifiability

        return identifiability(self.record(given), site=site)
