"""Check that batch elements are independent: a text must give the same result in a batch as alone.
Three kinds of models do not satisfy this. Experts whose capacity is shared by the whole batch
(NLLB-MoE) drop tokens of a text depending on the other texts. Convolutions over tokens (ConvBERT,
MobileBERT) and heads that read the last position (XLNet) are affected by the padding after a text.
Rotary frequencies that depend on the longest text (longrope, dynamic NTK) change the rotation in
shorter texts. On such models, mixlens runs one text at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.layer_calls import Inputs, batch_size, layer_calls
from mixlens.errors import InvalidInput
from mixlens.kernels.differences import difference, rounding
from mixlens.model.fingerprint import settings_of
from mixlens.model.placement import raise_if_out_of_memory
from mixlens.model.restore_model import restore_on_exit
from mixlens.model.rotary import depends_on_length, frequencies_at
from mixlens.model.session import ModuleCache
from mixlens.structure.model_structure import ModelStructure
from mixlens.text.input_checks import padding_token, position_limit
from mixlens.text.padding import row_lengths

ROWS = 1024  # tokens of one batch: more than a fixed capacity of an expert


@dataclass(frozen=True)
class _BatchCheck:
    """Result of comparing texts in a batch with the same texts alone."""

    error: float  # infinite if a text does not run, or has NaN in the batch alone
    failure: str | None = None  # the exception of a text that does not run


_comparisons: ModuleCache[_BatchCheck] = ModuleCache()
_copies: ModuleCache[bool] = ModuleCache()
_TOKENS, _PADDING, _TIMES = 12, 2, 5  # 180 tokens in all: more than a fixed capacity of an expert
_TEXT = ("input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids")
_STACKS = ("", "decoder_")


class DependentTexts(InvalidInput):
    """Raised if the scores of a text would depend on the other texts of its batch."""


def require_independent_texts(
    model: nn.Module,
    inputs: Inputs,
    lengths: Mapping[str, Sequence[int]],
    structure: ModelStructure | None,
    *,
    output: bool,
) -> None:
    """Raise `DependentTexts` if a text of this batch would give a different result when run alone.

    `lengths` contains the number of tokens of each text, by input-name prefix ("" or "decoder_").
    With `output`, the model's output is compared too; otherwise only the layers in `structure` are.
    """
    if batch_size(inputs) < 2:
        return
    if depends_on_length(model):
        sizes = [n for text_sizes in _extents(inputs, lengths) for n in text_sizes]
        if len({frequencies_at(model, n) for n in sizes}) > 1:
            raise DependentTexts(
                f"Texts of {min(sizes)} to {max(sizes)} tokens would get different scores in a "
                f"batch, because {type(model).__name__} chooses its rotary frequencies by the "
                f"longest text. {_ADVICE}"
            )
    padded = {prefix for prefix, text_sizes in lengths.items() if len(set(text_sizes)) > 1}
    probes = [_probe_texts(model, inputs, lengths, padded, whole=whole) for whole in (False, True)]
    if probes[0] is None:
        return
    key = (frozenset(inputs), frozenset(padded), output, structure is None)
    bar = rounding(next(model.parameters()))
    check = _comparisons.of(
        model, key, lambda: _compare(model, structure, probes, output), settings_of(model)
    )
    if check.failure is not None:
        raise DependentTexts(
            f"mixlens could not check that {type(model).__name__} gives a text the same result in "
            f"a batch as alone, because the model raised {check.failure}. {_ADVICE}"
        )
    if not check.error <= bar:
        raise DependentTexts(
            f"{type(model).__name__} computes a text differently in a batch than alone "
            f"({_size(check.error)}), because a text's result "
            f"depends on {'padding or ' if padded else ''}other texts. {_ADVICE}"
        )


def _size(error: float) -> str:
    return f"relative error {error:.1e}" if error < float("inf") else "NaN in the batch only"


_ADVICE = (
    "Pass one text at a time. `Lens.measure` and corpus runs do this automatically for a list."
)


def text_lengths(
    inputs: Inputs, tokens: Sequence[Any] | None = None, decoder_tokens: Sequence[Any] | None = None
) -> dict[str, list[int]]:
    """Return the number of tokens of each text, by input-name prefix ("" or "decoder_").

    If you pass the tokenized texts as `tokens`, their tokens are counted. Otherwise, the numbers
    are read from the attention masks.
    """
    counts_by_prefix = {}
    for prefix, stack_tokens in zip(_STACKS, (tokens, decoder_tokens), strict=True):
        main = inputs.get(prefix + "input_ids", inputs.get(prefix + "inputs_embeds"))
        if isinstance(main, Tensor) and main.dim() > 1:
            counts = (
                row_lengths(inputs, prefix)
                if stack_tokens is None
                else [len(text) for text in stack_tokens]
            )
            counts_by_prefix[prefix] = counts or [int(main.shape[1])] * len(main)
    return counts_by_prefix


def _extents(inputs: Inputs, lengths: Mapping[str, Sequence[int]]) -> Iterator[list[int]]:
    """Yield one list per input-name prefix, with the largest position id of each text plus one."""
    for prefix, text_sizes in lengths.items():
        positions = inputs.get(prefix + "position_ids")
        if not isinstance(positions, Tensor) or positions.dim() < 2:
            yield list(text_sizes)
            continue
        texts = (
            positions
            if len(positions) == len(text_sizes)
            else positions[:1].expand(len(text_sizes), -1)
        )
        yield [int(text[..., :n].max()) + 1 for text, n in zip(texts, text_sizes, strict=True)]


Text = dict[str, Any]


def _probe_texts(
    model: nn.Module,
    inputs: Inputs,
    lengths: Mapping[str, Sequence[int]],
    padded: set[str],
    *,
    whole: bool,
) -> list[Text] | None:
    """Return probe texts made from tokens of the first text, or None if the inputs are not plain
    text.

    One probe repeats a single token, so that one expert exceeds its capacity, and another contains
    many different tokens. If the batch is padded, there is a third, shorter probe. All probes begin
    and end like the first text. With `whole`, the probes are built from the entire first text.
    """
    if not set(inputs) <= {prefix + name for prefix in _STACKS for name in _TEXT}:
        return None
    texts: list[Text] = [{}, {}, {}] if padded and not whole else [{}, {}]
    names = {
        prefix: prefix + ("input_ids" if prefix + "input_ids" in inputs else "inputs_embeds")
        for prefix in lengths
    }
    batch = min((len(inputs[name]) for name in names.values()), default=0)
    for prefix, counts in lengths.items():
        name = names[prefix]
        original, types = inputs[name], inputs.get(prefix + "token_type_ids")
        each = (
            len(original) // batch
        )  # MusicGen's decoder takes a sequence of ids for each codebook
        if original.dim() != (3 if original.is_floating_point() else 2):
            return None
        mask = inputs.get(prefix + "attention_mask")
        limit = position_limit(model, prefix)
        count = _TOKENS if limit is None else min(_TOKENS, limit)
        places_by_text = _places(counts[0], count, _PADDING if prefix in padded else 0)
        if whole:
            longest = counts[0] + _TOKENS if limit is None else min(counts[0] + _TOKENS, limit)
            places_by_text = _whole_places(counts[0], longest, padded=prefix in padded)
        for text, places in zip(texts, places_by_text, strict=False):
            text[name] = original[:each, places]
            if isinstance(mask, Tensor) and mask.dim() == 2:
                text[prefix + "attention_mask"] = mask.new_ones(1, len(places))
            if isinstance(types, Tensor):
                kinds = types.shape[2:]  # TAPAS has seven types for each token
                text[prefix + "token_type_ids"] = types.new_zeros(1, len(places), *kinds)
    return texts


def _places(tokens: int, count: int, shorter: int) -> list[list[int]]:
    """Return the token positions of each probe text. Every probe contains the first and the last
    position exactly once.
    """
    inner = [1 + i % (tokens - 2) if tokens > 2 else 0 for i in range(max(0, count - 2))]
    crowd = [tokens // 2] * len(inner)
    return [
        [0, *inner_places, tokens - 1][-count:] for inner_places in (crowd, inner, inner[shorter:])
    ]


def _whole_places(tokens: int, longest: int, *, padded: bool) -> list[list[int]]:
    """Return the token positions of two probe texts that contain the whole first text.

    The first one also contains copies of the middle token. The second one reverses the order, or is
    shorter, without the copies, if texts are padded.
    """
    inner, crowd = list(range(1, tokens - 1)), [tokens // 2] * (longest - tokens)
    second = inner if padded else [*reversed(inner), *crowd]
    return [
        [0, *inner_places, tokens - 1][-longest:] for inner_places in ([*inner, *crowd], second)
    ]


def _batch_texts(model: nn.Module, texts: Sequence[Text]) -> Text:
    """Return a batch that contains each text several times."""
    batch: Text = {}
    for name in texts[0]:
        values = [value for text in texts for value in text[name]] * _TIMES
        fill = _fill(model, name, values[0])
        batch[name] = nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)
    return batch


def _fill(model: nn.Module, name: str, ids: Tensor) -> float:
    """Return the padding value of an input.

    Ids use the model's padding token. Embeddings use a non-zero value, because zeros could hide
    that the model is affected by padding.
    """
    if name.endswith("input_ids"):
        token = padding_token(model, name.removesuffix("input_ids"))
        return int(ids[0]) if token is None else token
    return 1.0 if name.endswith("inputs_embeds") else 0


@torch.no_grad()
def _compare(
    model: nn.Module,
    structure: ModelStructure | None,
    probes: Sequence[Sequence[Text] | None],
    output: bool,
) -> _BatchCheck:
    """Compare probe texts in a batch with the same texts alone, and return the largest relative
    error.

    mixlens uses the first set in `probes` whose texts all run alone, because a model may reject a
    probe text (Splinter needs a question token in every text).
    """
    failure: Exception | None = None
    for texts in probes:
        if texts is None:
            continue
        try:
            single = [_answers(model, structure, text, output) for text in texts]
        except Exception as error:
            raise_if_out_of_memory(error)
            failure = failure or error
            continue
        try:
            batched = _answers(model, structure, _batch_texts(model, texts), output)
        except Exception as error:  # a classifier without a padding token takes one at a time
            raise_if_out_of_memory(error)
            return _BatchCheck(float("inf"), _describe(error))
        each = {1, *(len(value) for value in texts[0].values())}
        return _BatchCheck(max(_errors_of(single, batched, each), default=0.0))
    return _BatchCheck(float("inf"), None if failure is None else _describe(failure))


def _describe(failure: Exception) -> str:
    lines = str(failure).splitlines()
    return f"{type(failure).__name__}: {lines[0].rstrip('.')}" if lines else type(failure).__name__


def _errors_of(
    single: Sequence[Sequence[Tensor]], batched: Sequence[Tensor], each: set[int]
) -> Iterator[float]:
    """Yield the error of each output tensor of each text. Tensors without a batch axis are skipped.

    `each` contains the possible lengths of the batch axis for a single text: 1, or the number of id
    sequences per text (MusicGen has one for each codebook).
    """
    count = len(single)
    for number, tensors in enumerate(single):
        for one, many in zip(tensors, batched, strict=True):
            if len(one) in each and len(many) == _TIMES * count * len(one):
                by_text = many.reshape(_TIMES, count, len(one), *many.shape[1:])
                yield _error(one, by_text[:, number])


def _error(single: Tensor, copies: Tensor) -> float:
    """Return the largest error of a text's copies in a batch, compared with the text alone. Padding
    is ignored.

    If the text alone already gives NaN, the error is 0, because batching is not the cause. Other
    checks report the NaN.
    """
    if not bool(single.isfinite().all()):
        return 0.0
    inside = tuple(slice(size) for size in single.shape)
    copies = copies[(slice(None), *inside)]
    error = difference(copies, single.expand_as(copies))
    return error if error >= 0 else float("inf")  # NaN in the batch


def _answers(
    model: nn.Module, structure: ModelStructure | None, inputs: Inputs, output: bool
) -> list[Tensor]:
    """Return the outputs of the layers and, with `output`, also the outputs of the model."""
    order = () if structure is None else structure.calls
    paths = {stack.layers[index].path for stack, index in order}
    with restore_on_exit(model):
        calls, outputs = layer_calls(
            model,
            inputs,
            paths,
            None,
            stop_after=None if output else len(order),
            layouts=None if structure is None else structure.layouts,
        )
    values = outputs.values() if isinstance(outputs, Mapping) else outputs or ()
    tensors = [call.hidden_out for call in calls]
    tensors += [value for value in values if isinstance(value, Tensor)]
    return [tensor for tensor in tensors if tensor.is_floating_point() and tensor.dim() > 1]


def copies_are_independent(
    model: nn.Module,
    key: Hashable,
    run: Callable[[Float[Tensor, "copies target d_model"]], Tensor],
    hidden: Float[Tensor, "target d_model"],
    vectors_at_once: int = ROWS,
) -> bool:
    """Return whether copies of a text in one batch are independent of each other.

    The result is cached for each `key` and model state. `run` computes the output of a layer, or of
    the whole model, from hidden states.
    """
    return _copies.of(model, key, lambda: _compare_copies(run, hidden, vectors_at_once))


@torch.no_grad()
def _compare_copies(
    run: Callable[[Float[Tensor, "copies target d_model"]], Tensor],
    hidden: Float[Tensor, "target d_model"],
    vectors_at_once: int,
) -> bool:
    """Return whether a text, and a variant with one repeated token, give the same results in a
    batch as alone.
    """
    crowd = hidden[len(hidden) // 2].expand_as(hidden)
    pair = torch.stack([crowd, hidden])
    times = max(1, vectors_at_once // (2 * len(hidden)))
    try:
        single = torch.cat([run(pair[:1]), run(pair[1:])])
        batched = run(pair.repeat(times, 1, 1))
    except Exception as failure:  # a layer may raise anything on unexpected states
        raise_if_out_of_memory(failure)
        return False
    single = single.repeat(times, *[1] * (single.dim() - 1))
    return difference(batched, single) <= rounding(single)  # a lost token is more than rounding
