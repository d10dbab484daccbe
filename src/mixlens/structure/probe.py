"""Build small batches for structure discovery.

Plain text is truncated to a dozen tokens, from which the structure can be inferred as well as from
a long prompt. Other inputs (an image next to its text, boxes, audio) are truncated as well at
first. If the model cannot run on a truncated input, or shows a different structure, the whole input
is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import Inputs
from mixlens.errors import UnsupportedModel
from mixlens.text.input_checks import TEXT_INPUTS, position_limit

_TOKENS = 12
_MOST_TOKENS = 4096  # a longer text is never probed whole
_SIZED = tuple(name for name in TEXT_INPUTS if not name.endswith("input_ids"))


@dataclass(frozen=True)
class Probe:
    """Stores an input, and the same input with a different batch size.

    Axes whose size changes with the batch size are batch axes.
    """

    inputs: Inputs
    resized: Inputs
    whole: bool


def probes(inputs: Inputs, model: nn.Module) -> Iterator[Probe]:
    """Yield a short probe, then the whole input if it is not too long."""
    yield short_probe(inputs, model)
    if may_be_whole(inputs):
        yield whole_probe(inputs)


def may_be_whole(inputs: Inputs) -> bool:
    """Return whether the whole input is short enough to serve as a probe."""
    return _width(inputs) <= _MOST_TOKENS


def too_long_to_probe(inputs: Inputs) -> UnsupportedModel:
    """Return the error for an input that cannot be truncated and is too long to be analysed as a
    whole.
    """
    listed = ", ".join(sorted(set(inputs) - set(TEXT_INPUTS)))
    return UnsupportedModel(
        f"{_width(inputs):,} tokens with {listed} are too many to analyse. The first few tokens of "
        f"this input do not match its {listed}, and mixlens can analyse a whole input of at most "
        f"{_MOST_TOKENS:,} tokens. Shorten the text, or use fewer or smaller images"
    )


def _width(inputs: Inputs) -> int:
    widths = [
        value.shape[1]
        for name, value in inputs.items()
        if isinstance(value, Tensor) and value.dim() > 1 and name.endswith(("ids", "embeds"))
    ]
    return max(widths, default=0)


def short_probe(inputs: Inputs, model: nn.Module) -> Probe:
    """Return a probe of two texts with a dozen tokens each, or fewer if the model does not accept a
    dozen.

    One of the texts is padded, so that masks can be tested.
    """
    probe: dict[str, Any] = {}
    tokens = {
        name: value
        for name, value in inputs.items()
        if name.endswith("input_ids") and isinstance(value, Tensor)
    }
    texts = max(1, min((len(ids) for ids in tokens.values()), default=1))
    for name, ids in tokens.items():
        each = len(ids) // texts  # MusicGen's decoder takes a sequence of ids for each codebook
        limit = position_limit(model, name.removesuffix("input_ids"))
        count = _TOKENS if limit is None else min(_TOKENS, limit)
        first_text = ids[:each, :count]
        repeats = -(-count // max(1, first_text.shape[1]))
        first_text = first_text.repeat(1, repeats, *[1] * (first_text.dim() - 2))[:, :count]
        probe[name] = torch.cat([first_text, first_text.roll(1, 1)])
        mask = first_text.new_ones(2, count)
        if name == "input_ids":
            mask[1, -2:] = 0
        mask_name = name.replace("input_ids", "attention_mask")
        if mask_name in inputs:
            probe[mask_name] = mask
        types = name.replace("input_ids", "token_type_ids")
        if types in inputs:
            kinds = inputs[types].shape[2:]  # TAPAS has seven types for each token
            probe[types] = first_text.new_zeros(2, count, *kinds)
    for name, value in inputs.items():
        if name in probe or (name in _SIZED and _ids_of(name) in tokens):
            continue
        if isinstance(value, Tensor) and value.dim() > 0:
            first_text = value[:1]
            other = first_text.roll(1, -1) if value.is_floating_point() else first_text
            probe[name] = torch.cat([first_text, other])
        else:
            probe[name] = value
    padded = {
        name: value[len(value) // 2 :] if _has_rows(value) else value
        for name, value in probe.items()
    }
    return Probe(probe, padded, whole=False)


def _ids_of(name: str) -> str:
    """Return the name of the token ids that a mask, token types or positions refer to."""
    return "decoder_input_ids" if name.startswith("decoder_") else "input_ids"


def whole_probe(inputs: Inputs) -> Probe:
    """Return a probe with the whole input and, for the other batch size, the input repeated twice.

    Removing a text would not work, because the tensors of packed images cannot be split by text.
    """
    doubled = {
        name: torch.cat([value, value])
        if _has_rows(value)
        else value + value
        if isinstance(value, list)
        else value
        for name, value in inputs.items()
    }
    return Probe(inputs, doubled, whole=True)


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0
