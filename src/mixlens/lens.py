"""Wrap a model and its tokenizer or processor in a `Lens`, the main interface of mixlens."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any, overload

import torch

from mixlens.errors import InvalidInput, no_such
from mixlens.maps.one_row import DEFAULT_READING
from mixlens.measuring.context_citing import TEMPLATE, ContextCitation, context_cite
from mixlens.measuring.generate import generate
from mixlens.measuring.measure_many import measure_batch, measure_inputs
from mixlens.measuring.recorder import record
from mixlens.measuring.timing import Budget
from mixlens.measuring.verifying import verify
from mixlens.model.loading import load_model, quiet_loading
from mixlens.model.session import (
    ModelSession,
    open_session,
    outside_inference_mode,
    whole_state_of,
)
from mixlens.model.wrappers import processor_of, unwrap_model
from mixlens.recording.recording import Recording, require_own
from mixlens.recording.verification import Report
from mixlens.text.inputs import Text
from mixlens.text.vocabulary import tokenizer_mismatch

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

    from mixlens.answers.answer import Answer
    from mixlens.answers.hops import Hops
    from mixlens.answers.knockout import Knockout
    from mixlens.answers.passage_scores import PassageScores
    from mixlens.datasets import Dataset
    from mixlens.maps.comparison import Comparison
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.maps.route_graph import Routes
    from mixlens.measuring.comparing import Progress
    from mixlens.measuring.measure_many import MeasuredTexts
    from mixlens.measuring.measured_batch import MeasuredBatch
    from mixlens.text.prompts import Given
    from mixlens.text.segments import By, Spans

BUNDLED = ("masked", "causal")
_BUNDLED_AT = "mixlens/bundled/"  # names of bundled models, independent of their location


class Lens:
    """Measure how tokens mix inside a transformers model.

    The model must be in eval mode, and mixlens leaves it unchanged. PEFT, `torch.compile`,
    DataParallel, SentenceTransformer and pipelines are unwrapped. Without a tokenizer, inputs are
    dicts of tensors. With a processor you can also pass images and audio: a PIL image,
    `{"images": …, "text": …}` or `{"audio": …}`.

    Parameters
    ----------
    model
        A transformers model, or one of the wrappers above.
    tokenizer
        Its tokenizer. By default that of the processor or pipeline, if there is one.
    processor
        The processor of a model that takes images or audio.
    memory_budget
        Bytes that a recording may keep in addition to the inputs and outputs of the layers. By
        default a quarter of the free memory.

    Raises
    ------
    InvalidInput
        If `model` is not a transformers model.

    Examples
    --------
    The examples of the methods use this lens.

    >>> from mixlens import Lens
    >>> lens = Lens.bundled()
    >>> lens
    <Lens BertForMaskedLM 'mixlens/bundled/masked', 6 layers, float32 on cpu>
    >>> text = "The keys to the cabinet [MASK] here."
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
        self.model, self.tokenizer = unwrap_model(model, tokenizer)
        self.processor = processor
        self.memory_budget = memory_budget
        check = tokenizer_mismatch(self.model, self.tokenizer)
        if check is not None:
            warnings.warn(check, stacklevel=2)

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
        """Load a model and its tokenizer by hub name or folder.

        mixlens uses the model class that the checkpoint names, or the base model if it names none.
        It runs code from the checkpoint only with `trust_remote_code=True`.

        Parameters
        ----------
        name
            A hub name, a folder, or a bundled model such as `mixlens/bundled/causal`.
        tokenizer
            A tokenizer, or its name or folder, if it is not stored with the model.
        **options
            Passed to `from_pretrained` of transformers. The dtype is float32 unless you pass
            `dtype`; `dtype="auto"` keeps the dtype of the checkpoint.

        Returns
        -------
        Lens
            The loaded model with its tokenizer, and its processor if it has one.

        Raises
        ------
        CannotLoad
            If the model or its tokenizer cannot be loaded.

        Examples
        --------
        >>> Lens.from_pretrained("mixlens/bundled/causal")
        <Lens LlamaForCausalLM 'mixlens/bundled/causal', 6 layers, float32 on cpu>
        """
        if isinstance(name, str) and name.startswith(_BUNDLED_AT):
            return cls.bundled(name.removeprefix(_BUNDLED_AT), **options)
        model, tokenizer, processor = load_model(name, tokenizer, options)
        return cls(model, tokenizer, processor=processor)

    @classmethod
    def bundled(cls, name: str = "masked", **options: Any) -> Lens:
        """Load a small model that ships with the package.

        Parameters
        ----------
        name
            "masked" (BERT) or "causal" (Llama).
        **options
            Passed to `from_pretrained`.

        Returns
        -------
        Lens
            The bundled model with its tokenizer.

        Raises
        ------
        InvalidInput
            If there is no bundled model of this name.

        Examples
        --------
        >>> Lens.bundled("masked").model.config.num_hidden_layers
        6
        """
        if name not in BUNDLED:
            raise InvalidInput(no_such("bundled model", name, BUNDLED))
        folder = resources.files("mixlens") / "bundled" / name
        options.setdefault("dtype", torch.float32)
        with quiet_loading():
            lens = cls.from_pretrained(os.fspath(folder), **options)  # type: ignore[call-overload]
        config: Any = lens.model.config
        config._name_or_path = f"{_BUNDLED_AT}{name}"  # not its location on this machine
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
        """Record one verified forward pass, from which you can compute several measures.

        With `targets`, mixlens analyses only these targets, and the model keeps its own attention
        implementation. Use this for a few targets of a long prompt. The forward pass then runs when
        you measure, not when you record.

        Parameters
        ----------
        given
            A text, a list of texts, or a dict of input tensors.
        targets
            Targets of one attention, as positions or tokens. By default all.
        site
            The attention to which `targets` belong and that is measured by default, such as
            "decoder" or "cross". By default the first one of the model.
        memory_budget
            Bytes to keep in addition to the inputs and outputs of the layers. By default the budget
            of the lens.

        Returns
        -------
        Recording
            The recording, for `mixlens.measure`, `lens.compare` and `lens.rollout`.

        Raises
        ------
        InvalidInput
            If the input is empty, too long, or not an input of the model.
        UnsupportedModel
            If the model is in training mode, or mixlens cannot verify its layers.

        Examples
        --------
        >>> lens.record(text)
        <Recording of BertForMaskedLM: encoder: 6 layers, 10 tokens>
        """
        how: dict[str, Any] = {"site": site, "memory_budget": memory_budget}
        recording = record(self, given, targets=targets, **how)
        recording.state = whole_state_of(self.model)
        return recording

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
        """Generate an answer, and record the positions that produced its tokens.

        Each target of the maps is labelled with the token that it produced. In encoder–decoder
        models the prompt is the input of the encoder.

        Parameters
        ----------
        prompt
            A text, or the messages of a chat (`[{"role": "user", "content": …}]`), to which mixlens
            applies the chat template of the tokenizer. With a processor, messages may have parts
            such as `{"type": "image", "image": picture}`, and a prompt may be
            `{"images": …, "text": …}` or the input tensors of the model. Models with an audio
            encoder take `{"audio": waveform, "sampling_rate": …}`.
        answer
            The answer as a text or token ids. By default the model generates it.
        site
            The attention to record. By default "cross" in encoder–decoder models.
        memory_budget
            Bytes to keep in addition to the inputs and outputs of the layers. By default the budget
            of the lens.
        explain_end
            False leaves out special tokens at the end of a generated answer.
        **options
            Passed to `model.generate`. By default `do_sample=False` and `max_new_tokens=20`.

        Returns
        -------
        Recording
            The recording. Its `answer` is the text of the answer.

        Raises
        ------
        InvalidInput
            If an option changes the input of the model, or the prompt is not a text or a chat.

        Examples
        --------
        >>> recording = Lens.bundled("causal").generate("The keys to the cabinet", max_new_tokens=3)
        >>> recording.answer
        ' of the other'
        """
        how: dict[str, Any] = {"memory_budget": memory_budget, "explain_end": explain_end}
        recording = generate(self, prompt, answer=answer, site=site, options=options, **how)
        recording.state = whole_state_of(self.model)
        return recording

    def answer(
        self,
        prompt: str | Sequence[Mapping[str, Any]],
        *,
        documents: Mapping[str, str] | Sequence[str] | None = None,
        answer: str | Sequence[int] | None = None,
        methods: str | Sequence[str] | None = None,
        chat_template: bool = True,
        memory_budget: int | None = None,
        **options: Any,
    ) -> Answer:
        """Generate an answer, and rank the passages of the prompt that it rests on.

        Documents are marked by lines such as `=== document 1 ===` in the prompt, or passed as
        `documents`. Layer measures score all sentences and words of the answer in one forward pass.
        `flow_routes` and `alti` score sentences of more than 16 tokens with `span="sum"`; all other
        scores of sentences and words are means over their tokens. Output measures, such as
        gradients, explain each sentence as one output, and a word gets the scores of its sentence.

        Parameters
        ----------
        prompt
            A text, or the messages of a chat (`[{"role": "user", "content": …}]`). With a
            processor, messages may contain images. Each image is ranked as a document, such as
            "image 1".
        documents
            A dict from names to texts, or a list of texts. Each text must occur in the prompt
            exactly once. Alternatively, write `{documents}` in the prompt, which mixlens replaces
            by all documents.
        answer
            The answer as a text or token ids. By default the model generates it.
        methods
            One or several measures, "leave_one_out" or "context_cite". By default "alti", or
            "flow_routes" if the model does not support "alti". The leaderboard in the documentation
            compares methods on prompts with known evidence.
        chat_template
            False passes a plain text to the model without a chat template. By default mixlens
            applies the chat template of the tokenizer, if it has one.
        memory_budget
            Bytes to keep in addition to the inputs and outputs of the layers. By default the budget
            of the lens.
        **options
            Passed to `model.generate`. By default `do_sample=False` and `max_new_tokens=64`.

        Returns
        -------
        Answer
            The text, and ranked passages for the answer, its sentences and its words.

        Raises
        ------
        EmptyInput
            If the prompt, a document or the answer is empty.
        InputTooLong
            If the prompt does not fit the positions of the model.
        InvalidInput
            If a document is not in the prompt or occurs twice in it, or if the method is unknown.

        Examples
        --------
        >>> answer = Lens.bundled("causal").answer(
        ...     "{documents}\\nLily likes to play with her",
        ...     documents={"Tom": "Tom has a red ball.", "Lily": "Lily has a blue car."},
        ...     answer=" blue car.",
        ... )
        >>> answer.top()[0].document
        'Lily'
        """
        from mixlens.answers.explain_answer import explain_answer

        with outside_inference_mode():
            return explain_answer(
                self,
                prompt,
                documents=documents,
                answer=answer,
                methods=methods,
                chat_template=chat_template,
                memory_budget=memory_budget,
                options=options,
            )

    def verify(self, given: Text | Sequence[Text] | Mapping[str, Any] | None = None) -> Report:
        """Verify that mixlens reproduces the computation of the model, layer by layer.

        Parameters
        ----------
        given
            The input on which to verify the model, as in `record`. By default a text that mixlens
            chooses for the model.

        Returns
        -------
        Report
            Structure, numerical errors, and the measures that the model supports.

        Raises
        ------
        UnsupportedModel
            If a layer cannot be reproduced.

        Examples
        --------
        >>> report = lens.verify()
        >>> report.native_error < report.tolerance
        True
        >>> report.measures["value_zeroing"] is None  # no reason against it
        True
        """
        return verify(self, given)

    # ------------------------------------------------------------------------------------- measures

    @overload
    def measure(self, name: str, given: Text, **options: Any) -> MixingMaps: ...

    @overload
    def measure(
        self,
        name: str,
        given: Dataset | list[Text] | list[str] | list[tuple[str, str]],
        **options: Any,
    ) -> MeasuredTexts: ...

    @overload
    def measure(
        self, name: str, given: Mapping[str, Any] | Recording, **options: Any
    ) -> MixingMaps | list[MixingMaps]: ...

    def measure(
        self,
        name: str,
        given: Text | Sequence[Text] | Dataset | Mapping[str, Any] | Recording,
        *,
        site: str | None = None,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
        per_head: bool = False,
        span: str | bool | None = None,
        weights: Any = None,
        precision: str | None = None,
        on_error: str = "raise",
        batch_size: int | None = None,
        **options: Any,
    ) -> MixingMaps | list[MixingMaps]:
        """Measure how much each source token contributes to each target token.

        Parameters
        ----------
        name
            The measure, such as "attention" or "value_zeroing". See `mixlens.list_measures`.
        given
            A text, a list of texts, a data set, a dict of input tensors, or a recording
            (`record`, `generate`).
        site
            The attention to measure in models with several: "encoder", "decoder" or "cross". By
            default the first one.
        layers
            The numbers of the layers to measure. By default all.
        targets
            Targets, as positions or tokens. Measuring only a few targets of a long text takes less
            time and memory.
        per_head
            True returns scores for each head, if the measure supports it.
        span
            Score the targets as one, [layer, 1, source]: "sum" adds their vectors before measuring,
            "joint" stacks them, "mean" takes the weighted mean of their scores. True chooses the
            definition that suits the measure.
        weights
            One weight for each target of the span. mixlens does not normalise the weights. By
            default 1.
        precision
            "float32", "tf32" or "bf16" for the matrix products of this call. By default PyTorch's
            current setting.
        on_error
            "raise", or "skip" to leave out texts that cannot be measured. The attribute `errors` of
            the returned list then gives their names and the reasons.
        batch_size
            Number of texts to run at once. By default as many as fit the memory budget.
        **options
            Options of the measure, such as `word` and `foil` of measures that explain an output.

        Returns
        -------
        MixingMaps or list of MixingMaps
            The maps of one text, or a list for several texts.

        Raises
        ------
        InvalidInput
            If the measure, option, layer or target does not exist, or if the input is invalid.
        UnsupportedModel
            If the scores would not be correct for this model.
        OutOfMemory
            If the input cannot fit into memory.

        Examples
        --------
        >>> lens.measure("value_zeroing", text)
        <MixingMaps value_zeroing of mixlens/bundled/masked: 6 layers × 10 targets × ...>
        >>> lens.measure("attention", [text, "The dogs bark."], targets=-1)[1].tokens
        ('[SEP]',)
        """
        selection = {"site": site, "layers": layers, "targets": targets, "per_head": per_head}
        selection |= {"span": span, "weights": weights}
        if "device" in options:
            return self._measure_on(  # type: ignore[return-value]
                name, given, selection, precision, on_error, batch_size, options
            )
        with self._session(given, precision):
            how: dict[str, Any] = {"on_error": on_error, "batch_size": batch_size}
            return measure_inputs(self, name, given, selection, options, **how)

    def _session(
        self, inputs: Any, precision: str | None = None
    ) -> contextlib.AbstractContextManager[ModelSession]:
        """Open a session with the model.

        If `inputs` is a recording, the model must not have changed since it was recorded.
        """
        recorded = None
        if isinstance(inputs, Recording):
            require_own(inputs, self.model)
            recorded = inputs.state
        return open_session(self.model, precision=precision, restores=False, recorded=recorded)

    def _measure_on(
        self,
        name: str,
        inputs: Any,
        selection: dict[str, Any],
        precision: str | None,
        on_error: str,
        batch_size: int | None,
        options: dict[str, Any],
    ) -> MeasuredBatch:
        """Measure with the deprecated option `device=`, as `measure` did before version 0.2."""
        warnings.warn(
            "lens.measure(device=...) is deprecated and will be removed in mixlens 0.3. Call"
            " lens.measure_batch(..., device=...), which returns the same scores.",
            DeprecationWarning,
            stacklevel=3,
        )
        if on_error != "raise" or batch_size is not None:
            raise InvalidInput(
                "With device=, all texts form one batch. Leave out on_error and batch_size."
            )
        return self.measure_batch(name, inputs, **selection, precision=precision, **options)

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
        span: str | bool | None = None,
        weights: Any = None,
        precision: str | None = None,
        **options: Any,
    ) -> MeasuredBatch:
        """Measure a batch of texts and keep the scores as one padded tensor.

        All texts run in one batch. The tensor stays on the device of the model unless you pass
        `device`.

        Parameters
        ----------
        name
            The measure. See `mixlens.list_measures`.
        given
            A text, a list of texts, or a dict of input tensors.
        device
            The device of the scores. By default the device of the model.
        site, layers, targets, per_head, span, weights, precision
            As in `measure`.
        **options
            Options of the measure.

        Returns
        -------
        MeasuredBatch
            `batch.scores.values` is [layer, text, (head,) target, source], padding included.
            `batch.maps()` gives the maps of each text.

        Raises
        ------
        UnsupportedModel
            If the scores would not be correct for this model, or would depend on the other texts of
            the batch.

        Examples
        --------
        >>> batch = lens.measure_batch("attention", [text, "The dogs bark."])
        >>> tuple(batch.scores.values.shape)
        (6, 2, 10, 10)
        """
        selection = {"site": site, "layers": layers, "targets": targets, "per_head": per_head}
        selection |= {"span": span, "weights": weights}
        with self._session(given, precision):
            return measure_batch(self, name, given, selection, options, device=device)

    def rollout(
        self,
        name: str,
        given: Text | Mapping[str, Any] | Recording,
        targets: int | str | Sequence[int | str] | None = None,
        *,
        site: str | None = None,
        residual: float | int | None = None,
        normalise: bool | None = None,
        span: str | bool | None = None,
        weights: Any = None,
        budget: float | None = None,
        **options: Any,
    ) -> MixingMaps:
        """Compute the rollout of a few targets, without storing whole maps.

        The result equals the rows of these targets in `measure(…).rollout()`. If it would take more
        than a minute, a warning gives the estimated time. Another warning tells you if the rollout
        has collapsed onto a single source.

        Parameters
        ----------
        name
            The measure. See `mixlens.list_measures`.
        given
            A text, a dict of input tensors, or a recording of a few targets (`generate`, `record`).
        targets
            Targets, as positions or tokens. By default those of the recording.
        site
            The attention to measure if the model has several, such as "decoder" or "cross".
        residual, normalise
            As in `MixingMaps.rollout`.
        span
            "mean" or True returns the weighted mean of the rollouts of all targets, at the cost of
            one target.
        weights
            One weight for each target of the span. By default 1.
        budget
            Time limit in seconds. The call raises an error if the estimated time exceeds it.
        **options
            Options of the measure.

        Returns
        -------
        MixingMaps
            The contribution of each input token to the targets, up to each layer.

        Raises
        ------
        InvalidInput
            If you pass no targets, or if the estimated time exceeds `budget`.

        Examples
        --------
        >>> lens.rollout("value_zeroing", text, "[MASK]").scores.shape
        (6, 1, 10)
        """
        from mixlens.maps.rollout import warn_of_collapse
        from mixlens.measuring.rollout_of_targets import roll_out_targets
        from mixlens.measuring.timing import check_rollout_time

        how: dict[str, Any] = {"residual": residual, "normalise": normalise, **options}
        if not isinstance(given, Recording):
            if targets is None:
                raise InvalidInput(
                    "No targets were passed. Pass at least one, or use measure().rollout() for "
                    "all tokens."
                )
            given, targets = self.record(given, targets=targets, site=site), None
        require_own(given, self.model)
        check_rollout_time(name, given, partial(self.record, targets=-1, site=site), budget, how)
        how |= {"span": span, "weights": weights}
        return warn_of_collapse(roll_out_targets(name, given, targets=targets, **how))

    def compare(
        self,
        given: Text | Mapping[str, Any] | Recording,
        target: int | str | Sequence[int | str] | None = None,
        *,
        span: str | bool | None = None,
        answer: bool | str | tuple[int, int] | None = None,
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
        """Compare the scores of all supported measures for one target, using one recording.

        Parameters
        ----------
        given
            A text, a dict of input tensors, or a recording.
        target
            A position or a token. By default the last generated or recorded target. If there is
            none, the default is the mask token, the first token of a bidirectional classifier, or
            the last token. A list of targets needs `span`.
        span
            Score several targets as one: "sum", "joint", "mean", or True for the default of each
            measure. Without `target`, mixlens uses the targets of a recording of `lens.generate`.
        answer
            Compare the measures for an answer: True for the answer of `lens.generate`, some of its
            words as a text, or the positions (first, end) of its tokens. Layer measures score the
            positions that produced these tokens as a span, and output measures explain the
            log-probability or the logits of these tokens.
        site
            The attention to measure if the model has several, such as "decoder" or "cross".
        aggregate
            How to aggregate layers: "mean" of the normalised scores of all layers, "rollout",
            "last", or the number of a layer.
        only
            Names of the measures to compare. By default all measures that the model supports.
        words
            True merges sub-words into words.
        explain
            The output that gradients and erasure explain, such as `{"word": "are", "foil": "is"}`.
        options
            Options of the measures, as a dict from the name of a measure to its options.
        cue
            A source token whose rank you want to compare.
        budget
            Time limit for each measure, in seconds. Slower measures are left out.
        progress
            A function that is called before each measure with its name, the number of finished
            measures, and the total number of measures.

        Returns
        -------
        Comparison
            Scores of each measure, and their rank agreement.

        Raises
        ------
        InvalidInput
            If the target, the cue or a measure does not exist.

        Examples
        --------
        >>> comparison = lens.compare(text, "[MASK]", only=["attention", "blank_out"], cue="keys")
        >>> comparison.rank_of("keys")
        {'attention': 6, 'blank_out': 1}
        """
        from mixlens.measuring.compared_target import by_rows
        from mixlens.measuring.comparing import compare

        with self._session(given):
            if isinstance(given, Recording):
                recording = given
            else:
                is_single_target = target is not None and by_rows(only, aggregate)
                recording = self.record(
                    given, targets=target if is_single_target else None, site=site
                )
            return compare(
                recording,
                target,
                span=span,
                answer=answer,
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
        """Find the information flow routes to one token (Ferrando & Voita 2024).

        Parameters
        ----------
        given
            A text or a dict of input tensors.
        target
            A position or a token. By default the last token.
        site
            The attention to follow if the model has several, such as "decoder" or "cross".
        threshold
            Edges with a smaller normalised score are left out.
        renormalise
            True divides the scores of the remaining edges by their sum.
        value_bias
            True adds the bias of the values to each source.

        Returns
        -------
        Routes
            The graph from the target down to the input tokens.

        Raises
        ------
        InvalidInput
            If the target does not exist, or the threshold is outside [0, 1).

        Examples
        --------
        >>> lens.routes(text, "[MASK]", threshold=0.1).tokens[6]
        '[MASK]'
        """
        from mixlens.maps.routes import routes

        how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": None}
        with self._session(given):
            return routes(
                # no logits: the pass stops after the last layer
                record(self, given, **how, measures=["flow_routes"]),
                target,
                site=site,
                threshold=threshold,
                renormalise=renormalise,
                value_bias=value_bias,
            )

    def hops(
        self,
        given: Text | Mapping[str, Any] | Recording,
        *,
        answer: Sequence[int] | None = None,
        reasoning: Sequence[int] | None = None,
        hops: int = 1,
        variant: str = "normalised",
        recursion: str = "reasoning",
        left_out: Sequence[int] | None = None,
        aggregation: str = "sum",
        threshold: float = 0.0,
    ) -> Hops:
        """Trace an answer to the tokens of its prompt, through the reasoning between them.

        The first span is the answer (`flow_routes` with `span="sum"`). The scores that fall on the
        reasoning are traced further in the next hop: its span is the reasoning, and each target in
        this span is weighted by its score. All hops share one forward pass.

        Parameters
        ----------
        given
            A text, a dict of input tensors, or a recording of `generate`, whose answer is used.
        answer, reasoning
            Positions that produced the tokens of the answer and of the reasoning, which are one
            before the tokens themselves. With `variant="released"` the positions of the tokens
            themselves.
        hops
            Number of hops after the answer.
        variant
            "normalised" divides the scores of each hop by their sum. "released" adds the scores
            without dividing them, like the authors' FlashTrace code.
        recursion
            "reasoning" passes scores on only through the reasoning. The other values are variants
            in the authors' code: "stop_words" leaves out commas, full stops and white space, "both"
            also leaves these out and passes scores on through the answer, "in_all_gen" starts from
            reasoning and answer together, and "split_hop" goes through `hops` segments of the
            reasoning, starting with the last one.
        left_out
            Positions of tokens to ignore, as targets and as sources. By default those that
            `recursion` leaves out.
        aggregation
            "sum" adds the hops up. "avg" divides this sum by the number of hops, as the authors'
            code does, and needs `variant="released"`.
        threshold
            Drop contributions of a head and source that are smaller than this number, measured in
            the L1 norm of the hidden states, before normalisation. It needs `variant="released"`.

        Returns
        -------
        Hops
            Scores of all tokens, the contribution of each hop, and the unexplained part.

        Raises
        ------
        InvalidInput
            If a position is outside the text, or in both spans, or if the variant is unknown.
        UnsupportedModel
            If the model has no information flow routes.

        Examples
        --------
        >>> hops = Lens.bundled("causal").hops(
        ...     "The dogs are old. So they", answer=[5, 6], reasoning=[3, 4]
        ... )
        >>> hops.scores.shape
        (9,)
        """
        from mixlens.answers.hops import trace_hops

        with outside_inference_mode():
            return trace_hops(
                self,
                given,
                answer=answer,
                reasoning=reasoning,
                hops=hops,
                variant=variant,
                recursion=recursion,
                left_out=left_out,
                aggregation=aggregation,
                threshold=threshold,
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
        within: str | Mapping[str, tuple[int, int] | str] | Spans | None = None,
        best: int = 3,
        max_passes: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> ContextCitation:
        """Score how much an answer depends on each part of a context (Cohen-Wang et al. 2024).

        mixlens leaves out random parts of the context and fits the log-odds of the answer with a
        sparse linear model. The model must be causal, and the extra `eval` must be installed.

        Parameters
        ----------
        context
            The text whose parts are scored.
        query
            The question that follows the context.
        answer
            The answer as a text or token ids. By default the model generates it from the whole
            context.
        segments
            "sentences", "paragraphs", or `{name: text or (start, end)}`.
        ablations
            Number of ablated prompts used to fit the linear model.
        seed
            Seed of the ablations.
        held_out
            Number of additional ablated prompts on which the fit is tested.
        template
            The template of the prompt, with `{context}` and `{query}`.
        within
            Larger parts, such as "paragraphs", for a hierarchical search: mixlens fits these first,
            and then the segments inside the highest-scoring ones, with twice as many prompts in
            total. This search can miss an important segment in a larger part with a low score.
        best
            Number of larger parts whose segments are scored.
        max_passes
            The maximum number of forward passes. The call raises an error if it may need more.
        batch_size
            Number of prompts to run at once.
        progress
            A function that is called with the number of finished passes and the total number of
            passes. Repeated prompts run only once, so the last call may report fewer passes than
            expected.
        **options
            Passed to `model.generate`.

        Returns
        -------
        ContextCitation
            A score for each part, and the rank correlation of the fit on held-out prompts.

        Raises
        ------
        InvalidInput
            If the context or the answer is empty, or an argument is out of range.
        UnsupportedModel
            If the model is in training mode or not causal.
        MissingExtra
            If the extra `eval` is not installed.

        Examples
        --------
        >>> citation = Lens.bundled("causal").context_cite(
        ...     "The dogs bark. The cat sleeps.", "Who barks?", "The dogs", ablations=8, held_out=4
        ... )
        >>> citation.texts
        ('The dogs bark.', 'The cat sleeps.')
        """
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
            within=within,
            best=best,
            max_passes=max_passes,
            batch_size=batch_size,
            progress=progress,
            options=options,
        )

    def leave_one_out(
        self,
        prompt: Given | Recording,
        segments: By = "sentences",
        *,
        answer: str | Sequence[int] | None = None,
        score: str = "log_probability",
        variant: str | None = None,
        within: By = None,
        best: int | None = None,
        max_passes: int | None = None,
        reuse: bool = True,
        batch_size: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> PassageScores:
        """Score each passage of a prompt by how much the answer changes without it.

        mixlens deletes the tokens of one passage at a time and runs the model on the rest with the
        same answer. This takes one forward pass for each passage and one for the whole prompt. In
        causal models, only the tokens after the passage are re-run.

        Parameters
        ----------
        prompt
            A text, the messages of a chat, `{"input_ids": …}`, or a recording of `generate`.
        segments
            "sentences", "paragraphs", "turns", or `{name: text or (start, end)}`, in
            characters. For a prompt of token ids, pass ranges of positions in `input_ids`, counting
            padding. None uses the segments that the prompt already has, such as the turns of a
            chat.
        answer
            The answer as a text or token ids. By default the model generates it.
        score
            "log_probability" gives the drop in the log-probability of the answer, "arc_jsd" the
            Jensen–Shannon divergence of the next-token distributions.
        variant
            "released" computes "arc_jsd" by the formula in the authors' code.
        within
            Larger passages, such as "paragraphs", for a hierarchical search: mixlens removes these
            first, and then only the segments inside the highest-scoring ones. This search can miss
            an important segment in a larger passage with a low score.
        best
            Number of larger passages whose segments are scored. By default 3, or as many as
            `max_passes` allows.
        max_passes
            The maximum number of forward passes. The call raises an error if it needs more.
        reuse
            False runs every shortened prompt from its first token.
        batch_size
            Number of shortened prompts to run at once, if they run from their first token.
        progress
            A function that is called with the number of finished passes and the total number of
            passes.
        **options
            Passed to `model.generate`.

        Returns
        -------
        PassageScores
            A score for each passage and each token of the answer.

        Raises
        ------
        InvalidInput
            If the answer is empty, a segment is outside the prompt or overlaps with another one, or
            `max_passes` is too small.
        UnsupportedModel
            If the model is in training mode or not causal.

        Examples
        --------
        >>> causal = Lens.bundled("causal")
        >>> scores = causal.leave_one_out("The dogs bark. The cat sleeps.", answer=" The dogs")
        >>> scores.texts, scores.passes
        (('The dogs bark.', 'The cat sleeps.'), 3)
        """
        from mixlens.answers.leave_one_out import leave_one_out

        return leave_one_out(
            self.model,
            self.tokenizer,
            prompt,
            segments=segments,
            answer=answer,
            score=score,
            variant=variant,
            within=within,
            best=best,
            max_passes=max_passes,
            reuse=reuse,
            batch_size=batch_size,
            progress=progress,
            options=options,
        )

    def knockout(
        self,
        prompt: Given | Recording,
        segments: By = "sentences",
        *,
        answer: str | Sequence[int] | None = None,
        windows: int | str | Sequence[Collection[int]] = 9,
        max_passes: int | None = None,
        batch_size: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Knockout:
        """Block the attention from the answer to each passage, in windows of layers (Geva et al.
        2023).

        The positions that produce the answer cannot read the passage in these layers. Other tokens
        still can, and may carry it to the answer. In causal models, only the positions of the
        answer are re-run, on cached keys and values.

        Parameters
        ----------
        prompt
            A text, the messages of a chat, `{"input_ids": …}`, or a recording of `generate`.
        segments
            As in `leave_one_out`.
        answer
            The answer as a text or token ids. By default the model generates it.
        windows
            The width of the windows, one around each layer; "all" for one window of all layers; or
            the layers of each window, such as `[[0, 1], [2, 3]]`.
        max_passes
            The maximum number of passes over the answer. The call raises an error if it needs more.
        batch_size
            Number of passages and windows to run at once.
        progress
            A function that is called with the number of finished passes and the total number of
            passes.
        **options
            Passed to `model.generate`.

        Returns
        -------
        Knockout
            The drop in the answer's log-probability for each passage and window.

        Raises
        ------
        InvalidInput
            If a segment or layer does not exist, or a position of the answer would have no visible
            source.
        UnsupportedModel
            If the attention of the model cannot be blocked layer by layer.

        Examples
        --------
        >>> causal = Lens.bundled("causal")
        >>> documents = "The dogs bark. The cat sleeps."
        >>> causal.knockout(documents, answer=" The dogs", windows="all").scores.shape
        (2, 1)
        """
        from mixlens.answers.knockout import knockout

        return knockout(
            self.model,
            self.tokenizer,
            prompt,
            segments=segments,
            answer=answer,
            windows=windows,
            max_passes=max_passes,
            batch_size=batch_size,
            progress=progress,
            options=options,
        )

    def predictions(
        self, text: Text, *, top: int = 5, position: int | None = None
    ) -> list[tuple[str, float]]:
        """Return the most probable words or classes of the model.

        Parameters
        ----------
        text
            One text.
        top
            Number of words or classes to return.
        position
            The position of a language model's prediction. By default the mask, or the last token.

        Returns
        -------
        list of (str, float)
            Words (or the classes of a classifier) with their probabilities, highest first.

        Raises
        ------
        InvalidInput
            If you pass several texts, or the model has no output from which words or classes can be
            predicted.

        Examples
        --------
        >>> [word for word, probability in lens.predictions(text, top=2)]
        ['are', 'live']
        """
        from mixlens.replay.explained_output import predict_top

        return predict_top(self.record(text), top, position)

    def identifiability(
        self, given: Text | Mapping[str, Any], *, site: str | None = None
    ) -> xr.Dataset | list[xr.Dataset]:
        """Compute the identifiability of each head's attention weights (Brunner et al. 2020).

        Parameters
        ----------
        given
            A text or a dict of input tensors.
        site
            The attention to analyse if the model has several, such as "decoder" or "cross".

        Returns
        -------
        xarray.Dataset, or a list of them for several texts
            For each layer and head: the rank, the dimension of the null space, the share of the
            attention weights in the null space, and the correlation of the weights with effective
            attention.

        Raises
        ------
        UnsupportedModel
            If the output projection of the heads is not known.

        Examples
        --------
        >>> int(lens.identifiability(text)["null_dimension"].max())  # identifiable
        0
        """
        from mixlens.maps.attention_identifiability import identifiability

        return identifiability(self.record(given), site=site)
