"""Shared code of the gradient measures.

A gradient measure attributes one output of the model to the input of one or more layers, with one
number per token. `ModelFromWords` is the whole model as a function of its word vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import first_tensor, hooks_removed
from mixlens.contracts import Facts, Request, Scores, by_layer
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.chunks import rows_at_once
from mixlens.kernels.gradients import Hidden, Value, average_noisy_gradients, no_gradient
from mixlens.recording.batch_independence import copies_are_independent
from mixlens.recording.forward_pass import capture_inputs
from mixlens.recording.recording import Recording
from mixlens.replay.explained_answer import ExplainedAnswer
from mixlens.replay.explained_output import Explained
from mixlens.replay.intervention import (
    ModelFrom,
    inputs_of_texts,
    layer_input,
    model_output,
    token_input,
)
from mixlens.text.input_checks import check_answer_ids
from mixlens.text.vocabulary import special_id

if TYPE_CHECKING:
    from mixlens.recording.layer import Layer


Attribute = Callable[[Value, int, Hidden], Hidden]
"""The attribution for a layer's hidden states, one copy per text of the batch."""

REDUCTIONS = ("sum", "l1", "l2")
_PROVED_ROWS = 256  # copies in one batch through the whole model


def explained_layers(recording: Recording, request: Request) -> list[Layer]:
    """Return the layers for which attributions with respect to the layer input are computed. By
    default, this is only the first layer.
    """
    positions = request.layers if request.layers_named else (0,)
    layers = [recording.layers(request.site)[position] for position in positions]
    number = layers[0].structure.number
    if not request.layers_named and number != 0:
        raise UnsupportedModel(
            f"Layer {number} is the first that can be measured, but earlier layers have already "
            f"mixed the tokens. Pass layer {number} or a later one."
        )
    return layers


def attribute_output(
    recording: Recording,
    request: Request,
    output: Explained,
    attribute: Attribute,
    reduction: str,
    model: ModelFrom | ModelFromWords | None = None,
) -> Scores:
    """Return attributions with respect to the input of the explained layers, one number per token.

    `model` is the function to differentiate. By default, it computes the model's output from the
    input of a layer.
    """
    if reduction not in REDUCTIONS:
        raise InvalidInput(
            f"Unknown reduction {reduction!r}. Choose one of: {', '.join(REDUCTIONS)}."
        )
    layers = explained_layers(recording, request)
    model = ModelFrom(recording, request.site) if model is None else model
    narrow = output.only_what_is_read(recording.model)
    attributions = []
    for layer in (layer.index for layer in layers):

        def value(
            hidden: Hidden, texts: Int[Tensor, " copies"], layer: int = layer
        ) -> Float[Tensor, " copies"]:
            return output(model(layer, hidden, texts, narrow), texts)

        parts = attribute(value, layer, model.hidden(layer))
        parts = parts.float() if parts.element_size() < 4 else parts
        attributions.append(
            parts.sum(-1)
            if reduction == "sum"
            else parts.norm(p=1 if reduction == "l1" else 2, dim=-1)
        )
    return Scores(
        by_layer(attributions)[:, :, None],
        layers=[layer.structure.number for layer in layers],
        target_labels=output.names,
        facts=Facts(signed=reduction == "sum"),
    )


def smooth_gradients(
    recording: Recording,
    request: Request,
    output: Explained,
    explain: Callable[[Hidden, Hidden], Hidden],
    reduction: str,
    *,
    smooth: int,
    noise: float,
    seed: int,
) -> Scores:
    """Return the attributions `explain(gradient, hidden)`. If `smooth` is positive, average them
    over this number of noisy copies of the hidden states.
    """
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    size = copies_at_once(recording, request, output) if smooth else 1
    plain = {} if smooth else plain_gradients(recording, request, output)

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        if not smooth:
            return explain(*plain[layer])
        return average_noisy_gradients(
            value, hidden, explain, lengths, smooth=smooth, noise=noise, seed=seed, size=size
        )

    return attribute_output(recording, request, output, attribute, reduction)


def plain_gradients(
    recording: Recording, request: Request, output: Explained
) -> dict[int, tuple[Hidden, Hidden]]:
    """Return, for each layer, the gradient of each text's output with respect to the layer's input,
    and that input.

    A single backward pass computes the gradients for all layers. It uses the autograd graph of the
    recorded forward pass, or runs the model again if no graph was kept.
    """
    stack = recording.structure.stack_of(request.site).name
    layers = [layer.index for layer in explained_layers(recording, request)]
    graph, output_of_graph = recording.entering_states, recording.output
    if not graph:
        once_more = capture_inputs(
            recording.model,
            recording.structure,
            recording.inputs,
            memory_budget=recording.memory_budget,
            graph=True,
            logits_at=output.only_what_is_read(recording.model).get("logits_to_keep"),
        )
        graph, output_of_graph = once_more.entering_states, once_more.output
    layer_inputs = [graph[stack, layer] for layer in layers]
    texts = torch.arange(recording.batch, device=layer_inputs[0].device)
    with torch.enable_grad():
        total = output(output_of_graph, texts).sum()
    recording.entering_states = {}  # a graph is used once: the backward pass frees its tensors
    if not total.requires_grad:
        raise UnsupportedModel(no_gradient(stack))
    slopes = torch.autograd.grad(total, layer_inputs, allow_unused=True)
    if any(slope is None for slope in slopes):
        raise UnsupportedModel(no_gradient(stack))
    points = [tensor.detach() for tensor in layer_inputs]
    return dict(zip(layers, zip(slopes, points, strict=True), strict=True))


def copies_at_once(recording: Recording, request: Request, output: Explained | None = None) -> int:
    """Return how many copies of a text fit in memory with the autograd graph of a full forward
    pass.

    Return 1 if the copies in a batch are not independent. If you pass `output`, the model computes
    only the logits that this output reads.
    """
    layers = recording.layers(request.site)
    tokens, d_model = layers[0].native_input.shape[1:]
    module = layers[0].submodule("")
    widest = max((max(p.shape) for p in module.parameters() if p.dim() > 1), default=d_model)
    heads = layers[0].structure.sites[0].heads
    size = rows_at_once(
        4 * len(layers) * tokens * (12 * d_model + 3 * widest + 3 * heads * tokens),
        recording.memory_budget,
    )
    needs_single_copies = size > 1 and not _has_independent_copies(
        recording, request, output, size * tokens
    )
    return 1 if needs_single_copies else size


def _has_independent_copies(
    recording: Recording, request: Request, output: Explained | None, vectors_at_once: int
) -> bool:
    """Return whether copies of a text in one batch are independent of each other in the whole
    model.
    """
    model = ModelFrom(recording, request.site)
    narrow = {} if output is None else output.only_what_is_read(recording.model)

    def run(hidden: Hidden) -> Tensor:
        first = torch.zeros(len(hidden), dtype=torch.long, device=hidden.device)
        return first_tensor(model(0, hidden, first, narrow))

    hidden = model.hidden(0)
    key = (request.site, hidden.shape[1] == 1)
    return copies_are_independent(
        recording.model, key, run, hidden[0], min(vectors_at_once, _PROVED_ROWS)
    )


# ---------------------------------------------------------------------------------------- baselines


MOVES = ("prompt", "all")


def moving_counts(
    recording: Recording, request: Request, output: Explained, moves: str
) -> list[int]:
    """Return how many tokens of each text are replaced by the baseline.

    With `moves="prompt"`, only the tokens before the answer are replaced; with "all", every token
    is. In an encoder, or if the explained output is not an answer, all tokens belong to the prompt.
    """
    if moves not in MOVES:
        raise InvalidInput(f"Unknown moves={moves!r}. Choose {' or '.join(MOVES)}.")
    stack = recording.structure.stack_of(request.site)
    lengths = list(recording.lengths[stack.name])
    is_held = moves == "prompt" and stack is recording.last_stack
    if not is_held or not isinstance(output, ExplainedAnswer):
        return lengths
    return [
        min(length, prompt_length)
        for length, prompt_length in zip(lengths, output.prompts, strict=True)
    ]


def baseline(
    recording: Recording,
    request: Request,
    layer: int,
    kind: str | int,
    like: Hidden,
    moving: Sequence[int],
) -> Hidden:
    """Return hidden states in which the first `moving` tokens of each text are replaced by the
    baseline.

    With `kind="zero"`, the baseline is zero. With "pad", "mask" or a token id, it is the hidden
    states of a text in which this token replaces the words. Later tokens keep their states.
    """
    if kind == "zero":
        base = torch.zeros_like(like)
    else:
        token = baseline_token(recording, kind)
        name, ids = token_input(recording, request.site)
        moves = word_places(recording, request, ids) & _first_tokens(moving, ids)
        edits = {name: torch.where(moves, token, ids)}
        base = layer_input(recording, request.site, layer, edits)
    if list(moving) == list(recording.lengths[recording.structure.stack_of(request.site).name]):
        return base
    return torch.where(_first_tokens(moving, like)[..., None], base, like)


def _first_tokens(counts: Sequence[int], like: Tensor) -> Bool[Tensor, "batch token"]:
    ends = torch.tensor(counts, device=like.device)[:, None]
    return torch.arange(like.shape[1], device=like.device) < ends


def baseline_token(recording: Recording, kind: str | int) -> int:
    """Return the id of the baseline token. `kind` is "pad", "mask" or a token id, which is checked
    and converted to an integer.
    """
    if isinstance(kind, int) or kind.isdigit():
        check_answer_ids(recording.model, [int(kind)])
        return int(kind)
    if kind not in ("pad", "mask"):
        raise InvalidInput(f"Unknown baseline {kind!r}. Choose zero, pad, mask or a token id.")
    token = special_id(recording, kind)
    if token is None:
        raise InvalidInput(
            f"The tokenizer and the config have no {kind} token. Pass baseline='zero'."
        )
    return token


def word_places(
    recording: Recording, request: Request, ids: Int[Tensor, "batch token"]
) -> Bool[Tensor, "batch token"]:
    """Return a mask of the tokens that are neither special tokens nor padding."""
    places = torch.zeros_like(ids, dtype=torch.bool)
    for text in range(recording.batch):
        tokens = recording.target_tokens(request.site, text)
        special = tokens.special or (False,) * len(tokens)
        places[text, : len(tokens)] = ~torch.tensor(special, device=ids.device)
    return places


class ModelFromWords:
    """The whole model as a function of word vectors, which replace the output of the word
    embedding.
    """

    def __init__(self, recording: Recording, site: str) -> None:
        self.recording = recording
        self.site = site
        self.name, self.ids = token_input(recording, site)
        self.embedding = self._embedding()

    def hidden(self, layer: int) -> Float[Tensor, "batch token width"]:
        """Return the word vectors of the text itself."""
        if layer != 0:
            raise UnsupportedModel(
                "A path through words replaces word embeddings, which only the first layer reads. "
                "Drop `layers`, or choose a different path."
            )
        with torch.no_grad():
            vectors: Tensor = self.embedding(self.ids)
        return vectors

    def vocabulary(self) -> Float[Tensor, "vocabulary width"]:
        """Return the vectors of all words in the vocabulary."""
        with torch.no_grad():
            words = self.embedding.num_embeddings
            vectors: Tensor = self.embedding(torch.arange(words, device=self.ids.device))
        return vectors

    def __call__(
        self,
        layer: int,
        vectors: Float[Tensor, "copies token width"],
        texts: Int[Tensor, " copies"],
        edits: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the model with `vectors` as word vectors, and return the model's output. `texts`
        contains, for each copy, the index of its text in the batch.
        """
        ids, handles = inputs_of_texts(self.recording, texts)[self.name], list[Any]()

        def replaced(module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
            return vectors.to(output.dtype) if _looks_up(args, ids) else None

        with hooks_removed(handles):
            handles.append(self.embedding.register_forward_hook(replaced))
            return model_output(self.recording, texts, edits or {})

    def _embedding(self) -> nn.Embedding:
        """Find the module that looks up the words, in a forward pass that stops at the first
        layer.
        """
        calls, handles = list[nn.Embedding](), list[Any]()

        def called(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if isinstance(module, nn.Embedding) and _looks_up(args, self.ids):
                calls.append(module)

        with hooks_removed(handles):
            for module in self.recording.model.modules():
                if isinstance(module, nn.Embedding):
                    handles.append(module.register_forward_hook(called))
            layer_input(self.recording, self.site, 0, {})
        if len(calls) != 1:
            raise UnsupportedModel(
                f"{type(self.recording.model).__name__} looks up its tokens in {len(calls)} "
                "embeddings, so words do not have a single vector. Choose a different path."
            )
        return calls[0]


def _looks_up(args: tuple[Any, ...], ids: Tensor) -> bool:
    return len(args) > 0 and isinstance(args[0], Tensor) and torch.equal(args[0], ids)
