"""Handle rotary embeddings whose frequencies depend on the length of the input.

`longrope` (Phi-3) has two sets of frequencies and uses the second for inputs longer than
`original_max_position_embeddings`. `dynamic` (dynamic NTK) stretches the frequencies with every
token beyond `max_position_embeddings`. In a batch, both depend on the longest text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from torch import nn

from mixlens.errors import InvalidInput
from mixlens.model.module_walk import configs_of

# For these, `max_position_embeddings` changes no frequency.
_WITHOUT_LENGTH = frozenset({"default", "linear", "llama3", "proportional"})
_SWITCHED = frozenset({"longrope", "su"})  # "su" in the first configs of Phi-3


def frequencies_at(model: nn.Module, length: int) -> Hashable:
    """Return a key that differs between two input lengths if the model uses different frequencies
    for them.
    """
    return tuple(
        length > limit if kind in _SWITCHED else max(length, limit)
        for kind, limit in _length_dependent(model)
    )


def depends_on_length(model: nn.Module) -> bool:
    """Return whether the model's rotary frequencies depend on the length of the input."""
    return any(True for _ in _length_dependent(model))


def require_same_frequencies(model: nn.Module, prompt: int, tokens: int) -> None:
    """Raise `InvalidInput` if the rotary frequencies change while the continuation is generated.

    `prompt` and `tokens` are the lengths of the prompt and of all tokens that the model reads. If
    the frequencies change, a single pass cannot reproduce the generation.
    """
    first = frequencies_at(model, prompt)
    if frequencies_at(model, tokens) == first:
        return
    same = next(n for n in range(tokens - 1, prompt - 1, -1) if frequencies_at(model, n) == first)
    raise InvalidInput(
        f"The model reads {tokens} tokens for this continuation of a prompt of {prompt}, but "
        f"{type(model).__name__} changes its rotary frequencies after {same}, so a single forward "
        f"pass cannot reproduce the generation. Continue by at most {same - prompt + 1} tokens, "
        "or record prompt and continuation as one text."
    )


def may_be_extended(config: Any) -> bool | None:
    """Return whether `max_position_embeddings` can be raised without changing the rotary
    frequencies.

    Return None if the model has no rotary embeddings.
    """
    kinds = [_kind(settings) for settings in _rotary_settings(config)]
    return all(kind in _WITHOUT_LENGTH for kind in kinds) if kinds else None


def _length_dependent(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the type of each rotary embedding, and the length at which its frequencies change."""
    for config in configs_of(model):
        for settings in _rotary_settings(config):
            kind = _kind(settings)
            if kind not in _SWITCHED and "dynamic" not in kind:
                continue
            limits_of_config = (
                settings.get("original_max_position_embeddings"),
                getattr(config, "original_max_position_embeddings", None),
                getattr(config, "max_position_embeddings", None),
            )
            limits = [limit for limit in limits_of_config if isinstance(limit, int)]
            yield kind, (limits[0] if kind in _SWITCHED else min(limits)) if limits else 0


def _rotary_settings(config: Any) -> list[Mapping[str, Any]]:
    """Return the rotary settings, one for the model or one for each type of layer.

    Remote code may still use their older name `rope_scaling`.
    """
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(settings, Mapping):
        return []
    nested = [part for part in settings.values() if isinstance(part, Mapping)]
    return nested or [settings]


def _kind(settings: Mapping[str, Any]) -> str:
    return str(settings.get("rope_type", settings.get("type", "default")))
