"""One forward pass of a model and its layers.

A recording of all targets keeps its layers (`forward_pass`). A recording of a few targets keeps no
layers. Instead, the model runs when you measure something, and each layer is scored while the model
runs, restricted to the targets (`target_pass`). `Recording.visit` supports both kinds.
`score_layers` loops over the layers and scores each of them with every measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import Inputs, batch_size
from mixlens.contracts import AttentionKind, LayerScores, Request, Scores, Targets
from mixlens.errors import InvalidInput, TargetsUnavailable, format_count
from mixlens.model.fingerprint import ModelState
from mixlens.model.session import open_session, state_of
from mixlens.recording.layer import Layer
from mixlens.recording.span_scores import SpanPart
from mixlens.recording.target_pass import Blocks, Visitor, visit_down, visit_up
from mixlens.structure.model_structure import ModelStructure, StackStructure
from mixlens.text.encoding import token_row
from mixlens.text.inputs import Prepared
from mixlens.text.padding import row_lengths
from mixlens.text.tokens import Produced, TokenRow

if TYPE_CHECKING:
    from mixlens.recording.attention import Attention
    from mixlens.recording.passed_layers import PassedLayers
    from mixlens.recording.projection_inputs import ProjectionInputs


@dataclass(kw_only=True, repr=False)
class Recording:
    """One verified forward pass of one batch.

    `Lens.record` and `Lens.generate` return it. Real tokens come first in each text of the batch,
    and padding follows.

    Attributes
    ----------
    model : torch.nn.Module
        The recorded model.
    inputs : mapping
        A copy of the inputs of the forward pass.
    output
        The output of the model, with logits if it has a head.
    tokens : mapping
        Tokens of each text, by stack ("encoder", "decoder").
    lengths : mapping
        Numbers of real tokens of each text, by stack.
    memory_budget : int
        Bytes that the recording may keep in addition to the inputs and outputs of the layers.
    targets : tuple or None
        Targets of each text, or None if the recording contains all targets.

    Examples
    --------
    >>> from mixlens import Lens
    >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
    >>> recording.batch, recording.sites
    (2, ('encoder',))
    """

    model: nn.Module
    structure: ModelStructure
    inputs: Inputs
    output: Any
    lengths: Mapping[str, Sequence[int]]  # stack name -> number of real tokens of each text
    tokens: Mapping[str, Sequence[TokenRow]]  # stack name -> the tokens of each text
    memory_budget: int
    stack_layers: Mapping[str, Sequence[Layer]]  # stack name -> its layers
    source_counts: Mapping[tuple[str, AttentionKind], int]  # tokens that a stack's attention reads
    entering_states: Mapping[tuple[str, int], Tensor] = field(
        default_factory=dict
    )  # see `CapturedPass`
    tokenizer: Any = None  # for words that name an output to explain
    # The default targets for each text of the batch, and their attention.
    targets: tuple[tuple[int, ...], ...] | None = None
    site: str | None = None
    produced: Sequence[Produced] | None = None  # of a continued prompt, for each text of the batch
    not_cut: str | None = None  # why its layers hold all targets although some were named
    logits_at: Int[Tensor, " position"] | None = (
        None  # in order, if only some positions have logits
    )
    # The states that the head read at these positions, if no layers are kept but the model ran.
    final_states: Float[Tensor, "batch position d_model"] | None = None
    state: ModelState | None = None  # of the model at recording time
    # If no layers are kept: tokens of the targets' stack, padding included, and the arguments for
    # recording all targets, for a measure that needs them.
    width: int = 0
    lens: Any = None
    # The token ids that a stack reads, or None, if shapes do not tell (as many patches as words).
    ids_read: Mapping[str, str | None] = field(default_factory=dict)
    prepared: Prepared | None = None
    words: Inputs | None = None  # those of a text with images, if they showed the structure
    whole: Recording | None = None
    # If the layers of a pass are kept for several spans, or until a gradient is known.
    passed: PassedLayers | None = None
    projected: ProjectionInputs | None = None  # if the output belongs to a graph with these inputs

    def __post_init__(self) -> None:
        if self.state is None:
            self.state = state_of(self.model)

    @property
    def is_kept(self) -> bool:
        """Return whether the layers are kept.

        If not, the model runs when you measure something, and each layer is available only while it
        runs, restricted to the targets.
        """
        return bool(self.stack_layers)

    @property
    def target_stack(self) -> str | None:
        """Return the stack that the targets belong to, or None without targets."""
        return None if self.site is None else self.structure.stack_of(self.site).name

    def require_state(self) -> None:
        """Raise an error if the model has changed since it was recorded.

        Raises
        ------
        ModelChanged
            If weights, dtype, adapters, hooks, settings or the mode of the model changed. The error
            names the change.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record("The dogs bark.")
        >>> recording.require_state()
        """
        with open_session(self.model, restores=False, recorded=self.state):
            pass

    def __repr__(self) -> str:
        if not self.is_kept and self.targets is not None:
            targets = format_count(len(self.targets[0]), "target")
            about = f"{targets} of {self.site}{self._answer_in_repr()}"
            return f"<Recording of {type(self.model).__name__}: {about}>"
        sizes = [
            f"{name}: {format_count(len(self.stack_layers[name]), 'layer')},"
            f" {format_count(max(lengths), 'token')}"
            for name, lengths in self.lengths.items()
        ]
        texts = "" if self.batch == 1 else f"{self.batch} texts; "
        about = f"{texts}{'; '.join(sizes)}{self._answer_in_repr()}"
        return f"<Recording of {type(self.model).__name__}: {about}>"

    def _answer_in_repr(self) -> str:
        return "" if self.answer is None else f"; answer {self.answer!r:.200}"

    @property
    def answer(self) -> str | None:
        """Return the text that `Lens.generate` produced, or None if nothing was generated or the
        recording has no tokenizer.
        """
        if self.produced is None or self.targets is None or self.tokenizer is None:
            return None
        produced_tokens, ids, *_ = self.produced[0]
        places = self.targets[0]
        offsets = self.tokens[self.last_stack.name][0].offsets
        if (
            produced_tokens.text is not None
            and produced_tokens.offsets is not None
            and offsets is not None
        ):
            start = max(
                stop for _, stop in offsets[: places[0] + 1]
            )  # a space may belong to no token
            return produced_tokens.text[
                start : max(produced_tokens.offsets[place][1] for place in places)
            ]
        text: str = self.tokenizer.decode([ids[i] for i in places], skip_special_tokens=True)
        return text

    @property
    def batch(self) -> int:
        """Return the number of recorded texts."""
        return batch_size(self.inputs)

    def token_logits(
        self, logits: Float[Tensor, "batch position word"], places: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch word"]:
        """Return the logits at one token of each text.

        Parameters
        ----------
        logits
            Logits of the recorded output. They may cover a few positions only.
        places
            Position of the token in each text.

        Returns
        -------
        torch.Tensor
            Logits of the whole vocabulary, one row for each text.

        Examples
        --------
        >>> import torch
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record("The dogs [MASK].")
        >>> logits = recording.token_logits(recording.output.logits, torch.tensor([3]))
        >>> logits.shape[0]
        1
        """
        texts = torch.arange(len(logits), device=logits.device)
        if self.logits_at is None:
            return logits[texts, places]
        return logits[texts, torch.searchsorted(self.logits_at, places.contiguous())]

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the names of the attentions.

        These are "encoder", "decoder" and "cross", or the names of the towers if the model has
        several.
        """
        return tuple(self.structure.sites)

    def target_tokens(self, site: str | None, row: int) -> TokenRow:
        """Return the target tokens of an attention for one text.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.
        row
            Index of the text in the batch.

        Returns
        -------
        TokenRow
            The tokens, without padding.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> list(recording.target_tokens(None, 1).labels)
        ['[CLS]', 'the', 'cat', 'sleeps', '.', '[SEP]']
        """
        return self.tokens[self.structure.stack_of(site).name][row]

    def named_targets(self, site: str | None, row: int) -> TokenRow:
        """Return a label for each target.

        The label is the token that the target produced if the model generated it, otherwise the
        token at the position of the target.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.
        row
            Index of the text in the batch.

        Returns
        -------
        TokenRow
            The tokens, without padding.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> list(recording.named_targets(None, 0).labels)  # no text was generated
        ['[CLS]', 'the', 'dogs', 'bark', '.', '[SEP]']
        """
        if self.produced is not None and self.structure.stack_of(site) is self.last_stack:
            return self.produced[row].tokens
        return self.target_tokens(site, row)

    @property
    def last_stack(self) -> StackStructure:
        """Return the stack whose output the model's head reads."""
        return self.structure.calls[-1][0]

    def source_tokens(self, site: str | None, row: int) -> TokenRow:
        """Return the source tokens of an attention for one text.

        For cross-attention, these are the tokens of the other stack, otherwise the tokens of the
        attention's own stack.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.
        row
            Index of the text in the batch.

        Returns
        -------
        TokenRow
            The tokens, without padding.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> len(recording.source_tokens(None, 0))
        6
        """
        attention = self.structure.site(site)
        if attention.reads_own:
            return self.tokens[attention.stack.name][row]
        if not self.is_kept:
            other = next(s for s in self.structure.stacks if s is not attention.stack)  # of two
            return self.tokens[other.name][row]
        sources = self.source_counts[attention.stack.name, attention.kind]
        fitting = {
            self.tokens[other.name][row].labels: self.tokens[other.name][row]
            for other in self.structure.stacks
            if other is not attention.stack and self.tokens_of(other) == sources
        }
        if len(fitting) > 1:
            raise InvalidInput(
                f"Several stacks have {sources} positions, so the sources of {attention.name} are "
                "unknown. Add a token to the text, or drop one."
            )
        if fitting:
            return next(iter(fitting.values()))
        mask = self.inputs.get("encoder_attention_mask")  # encoder states passed as input
        if isinstance(mask, Tensor) and mask.shape[1:] == (sources,):
            return TokenRow.numbered(int(mask[row].sum()))
        ids = self.inputs.get("input_ids")  # of an encoder that is not measured (Pegasus-X)
        if isinstance(ids, Tensor) and ids.shape[1:] == (sources,):
            counts = row_lengths(self.inputs)
            end = counts[row] if counts else sources
            return token_row(self.tokenizer, ids[row, :end].tolist())
        return TokenRow.numbered(sources)

    def source_lengths(self, site: str | None) -> list[int]:
        """Return the number of sources of each text.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.

        Returns
        -------
        list of int
            Numbers of tokens, without padding.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> recording.source_lengths(None)
        [6, 6]
        """
        return [len(self.source_tokens(site, text)) for text in range(self.rows(site))]

    def tokens_of(self, stack: StackStructure) -> int:
        """Return the number of tokens of a stack's longest text.

        Parameters
        ----------
        stack
            One of `structure.stacks`.

        Returns
        -------
        int
            The width of the batch in this stack.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> recording.tokens_of(recording.last_stack)
        6
        """
        if not self.is_kept:
            return max(self.lengths[stack.name])
        return self.stack_layers[stack.name][0].width

    def rows(self, site: str | None = None) -> int:
        """Return the batch size of the stack that an attention belongs to.

        In a vision tower, this is the number of images, which may differ from the number of texts.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.

        Returns
        -------
        int
            Number of texts, images or audio clips.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
        >>> recording.rows()
        2
        """
        return len(self.tokens[self.structure.stack_of(site).name])

    def visit(self, request: Request, visitor: Visitor, blocks: Blocks | None = None) -> None:
        """Call `visitor` with every requested layer.

        Kept layers contain all targets. If the layers are not kept, the model runs, and each layer
        is visited during the forward pass, restricted to the targets. If that is not possible, the
        method raises `TargetsUnavailable`. With `blocks`, the layers are visited from the last to
        the first, and `visitor` is called once for every block of a layer's targets.

        Parameters
        ----------
        request
            The attention, its layers and the targets.
        visitor
            Function that takes the index of the layer (counting only layers with this attention),
            the layer, and the targets.
        blocks
            Function that takes the index of a layer and returns its blocks of targets.

        Raises
        ------
        InvalidInput
            If the recording was made for targets of another attention.
        ModelChanged
            If the model has changed since it was recorded.

        Examples
        --------
        >>> from mixlens import Lens
        >>> from mixlens.contracts.request import Request
        >>> recording = Lens.bundled().record("The dogs bark.", targets=[-1])
        >>> request = Request.resolved(
        ...     recording, site=None, layers=[-1], targets=[-1], per_head=False
        ... )
        >>> recording.visit(request, lambda index, layer, targets: print(index))
        5
        """
        if not self.is_kept:
            if self.structure.stack_of(request.site).name != self.target_stack:
                raise InvalidInput(
                    f"The targets of this recording are tokens of {self.target_stack}. Record "
                    f"the text again for the attention {request.site!r}."
                )
            if blocks is None and self.passed is not None:
                self.passed.visit(self, request, visitor)
            elif blocks is None:
                visit_up(self, request, visitor)
            else:
                visit_down(self, request, visitor, blocks)
            return
        layers = self.layers(request.site)
        if blocks is None:
            targets = request.chosen(self)
            for position in sorted(set(request.layers)):
                visitor(position, layers[position], targets)
            return
        for position in reversed(range(len(layers))):
            for block in blocks(position):
                block_request = replace(request, targets=(tuple(block),))
                visitor(position, layers[position], block_request.chosen(self))

    def layers(self, site: str | None = None) -> list[Layer]:
        """Return the layers that have this attention, each with all of its targets.

        Parameters
        ----------
        site
            Name of the attention, one of `sites`. Default: the first of them.

        Returns
        -------
        list of Layer
            The layers, first to last.

        Raises
        ------
        InvalidInput
            If the recording was made for a few targets.
        ModelChanged
            If the model has changed since it was recorded.

        Examples
        --------
        >>> from mixlens import Lens
        >>> recording = Lens.bundled().record("The dogs bark.")
        >>> len(recording.layers())
        6
        """
        self.require_state()
        if not self.is_kept:
            raise InvalidInput(
                "This recording was made for a few targets and keeps no layers. Record the text"
                " without targets."
            )
        attention = self.structure.site(site)
        layers = self.stack_layers[attention.stack.name]
        return [layers[position] for position in attention.stack.positions(attention.kind)]


ScoreLayer = Callable[["Layer", "Attention", Targets], LayerScores | SpanPart]


def score_layers(
    measures: Mapping[str, ScoreLayer],
    recording: Recording,
    request: Request,
    refused: dict[str, str] | None = None,
) -> dict[str, Scores]:
    """Return the scores of every measure for the requested layers and targets.

    If you pass a dict as `refused`, measures that do not support single-target mode are added to
    it, each with the reason. Otherwise, the first such measure raises `TargetsUnavailable`.
    """
    parts: dict[str, dict[int, LayerScores]] = {name: {} for name in measures}
    spans: dict[tuple[str, int], SpanPart] = {}

    def finish_spans(but: int | None = None) -> None:
        """Finish the spans of all layers except the current layer, and free the spans' tensors."""
        for name, position in list(spans):
            if position != but:
                part = spans.pop((name, position))
                if name in parts:
                    parts[name][position] = part.finished()

    def visit(position: int, layer: Layer, targets: Targets) -> None:
        finish_spans(but=position)
        with layer.hold_attention():
            attention = layer.site(request.kind)
            for name in list(parts):
                try:
                    scored_layer = measures[name](layer, attention, targets)
                except TargetsUnavailable as error:
                    if refused is None:
                        raise
                    refused[name] = str(error)
                    del parts[name]
                    continue
                if isinstance(scored_layer, LayerScores):
                    parts[name][position] = scored_layer
                else:
                    before = spans.get((name, position))
                    spans[name, position] = (
                        scored_layer if before is None else before + scored_layer
                    )
        if not parts and refused:
            raise TargetsUnavailable(refused[next(reversed(refused))])

    recording.visit(request, visit)
    finish_spans()
    return {
        name: Scores.of_layers([layer_scores[position] for position in request.layers])
        for name, layer_scores in parts.items()
    }


def require_own(recording: Recording, model: nn.Module) -> None:
    """Raise `InvalidInput` if a recording was made with a different model."""
    if recording.model is not model:
        raise InvalidInput(
            f"The recording was made with a different {type(recording.model).__name__}. Use the "
            "lens that made it."
        )
