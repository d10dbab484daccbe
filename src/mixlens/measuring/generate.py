"""Generate an answer, and record the positions that produced its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.capture.attention_capture import runnable_experts
from mixlens.errors import InvalidInput, NonFiniteActivations, UnsupportedModel
from mixlens.measuring.estimates import estimate_of_prompt, memory_in_words
from mixlens.measuring.recorder import record, require_sound_weights
from mixlens.model.loading import require_head
from mixlens.model.placement import available_to
from mixlens.model.session import open_session, require_eval
from mixlens.structure.model_discovery import model_structure
from mixlens.text.continuation import continued

if TYPE_CHECKING:
    from torch import nn

    from mixlens.lens import Lens
    from mixlens.recording.recording import Recording
    from mixlens.structure.model_structure import StackStructure
    from mixlens.text.prompts import Given


def generate(
    lens: Lens,
    prompt: Given,
    *,
    answer: str | Sequence[int] | None,
    site: str | None,
    memory_budget: int | None,
    explain_end: bool,
    options: Mapping[str, Any],
) -> Recording:
    """Implement `Lens.generate`."""
    model = lens.model
    require_eval(model)
    if answer is None:
        require_head(model)
    in_words = memory_in_words(
        lambda: estimate_of_prompt(model, lens.tokenizer, prompt),
        available_to(model),
    )
    with open_session(model), in_words:
        try:
            with runnable_experts(model):
                made = continued(
                    model,
                    lens.tokenizer,
                    prompt,
                    answer=answer,
                    options=options,
                    explain_end=explain_end,
                )
        except NonFiniteActivations:
            require_sound_weights(model)
            raise
        structure = model_structure(model, made.ready.tensors)
    stack = structure.calls[-1][0]
    require_causal_stack(model, stack)
    fits = [name for name, known in structure.sites.items() if known.stack is stack]
    if site is None:  # cross-attention, if there is any: the contribution of the prompt to a word
        site = fits[-1]
    elif structure.stack_of(site) is not stack:
        raise InvalidInput(
            f"Generated tokens belong to {stack.name}, not to the site {site}. Choose "
            f"{' or '.join(fits)}."
        )
    return record(lens, made.ready, targets=made.targets, site=site, memory_budget=memory_budget)


def require_causal_stack(model: nn.Module, stack: StackStructure) -> None:
    """Raise `UnsupportedModel` if no position of these layers produces the next token."""
    if not stack.layers[0].sites[0].causal:
        raise UnsupportedModel(
            f"{type(model).__name__} reads a text in both directions, so no position produces "
            "the next token. Use a causal or encoder-decoder language model."
        )
