"""Generate an answer, and record the positions that produced its tokens."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from mixlens.errors import InvalidInput, NonFiniteActivations, UnsupportedModel
from mixlens.measuring.estimates import estimate_of_prompt, memory_advice
from mixlens.measuring.recorder import record, require_sound_weights
from mixlens.model.linearity import require_linear_modules
from mixlens.model.loading import require_head
from mixlens.model.placement import available_to
from mixlens.model.session import open_session
from mixlens.structure.language_structure import language_structure
from mixlens.structure.model_discovery import model_structure
from mixlens.text.continuation import Continued, continue_prompt
from mixlens.text.generation import require_generation
from mixlens.text.input_checks import is_plain_text, takes_decoder_ids
from mixlens.text.media_prompts import is_per_token

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
    if answer is None:
        require_generation(model)
        require_head(model)
    available = available_to(model)
    with open_session(model) as session:
        session.memory_advice = lambda: memory_advice(
            estimate_of_prompt(model, lens.tokenizer, prompt), available
        )
        try:
            continuation = continue_prompt(
                model,
                lens.tokenizer,
                prompt,
                answer=answer,
                options=options,
                explain_end=explain_end,
                processor=lens.processor,
            )
        except NonFiniteActivations:
            require_sound_weights(model)
            raise
        if not is_plain_text(continuation.ready.tensors):
            require_same_logits(model, continuation)
        require_linear_modules(model)
        language_part = language_structure(model, site, continuation.ready.tensors)
        structure = (
            language_part[0]
            if language_part
            else model_structure(model, continuation.ready.tensors)
        )
    stack = structure.calls[-1][0]
    require_causal_stack(model, stack)
    fits = [name for name, attention in structure.sites.items() if attention.stack is stack]
    if site is None:  # cross-attention, if there is any: the contribution of the prompt to a word
        site = fits[-1]
    elif structure.stack_of(site) is not stack:
        raise InvalidInput(
            f"{site!r} does not read generated tokens, which belong to the {stack.name}. "
            f"Choose {' or '.join(map(repr, fits))}."
        )
    return record(
        lens,
        continuation.ready,
        targets=continuation.targets,
        site=site,
        memory_budget=memory_budget,
    )


_STEPS = 2  # of generation, which show how the inputs grow with the answer
_LARGEST = {True: 5e-2, False: 1e-3}  # difference of logits in half precision, and in others


@torch.no_grad()
def require_same_logits(model: Any, continuation: Continued) -> None:
    """Raise `UnsupportedModel` unless generation and a single pass compute the same logits.

    The logits can differ because models have other inputs besides token ids (types, masks and
    positions of images), which generation may prepare differently.
    """
    inputs, places = continuation.ready.tensors, continuation.targets[:_STEPS]
    if takes_decoder_ids(model) or not hasattr(model, "generate"):
        return
    assert continuation.ready.produced is not None
    ids, width, count = (
        continuation.ready.produced[0].ids,
        inputs["input_ids"].shape[1],
        places[0] + 1,
    )
    prompt = {
        name: value[:, :count] if is_per_token(name, value, width) else value
        for name, value in inputs.items()
    }
    options: dict[str, Any] = {"max_new_tokens": len(places), "do_sample": False, "num_beams": 1}
    options |= {"output_logits": True, "return_dict_in_generate": True}
    options["pad_token_id"] = ids[places[0]]
    stepwise = model.generate(
        **prompt,
        **options,
        prefix_allowed_tokens_fn=lambda _, ids_before: [ids[len(ids_before) - 1]],
    ).logits
    output_options = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        output_options = {"logits_to_keep": torch.tensor(places, device=inputs["input_ids"].device)}
    logits = model(**inputs, **output_options, use_cache=False).logits[0]
    logits = logits if output_options else logits[list(places)]
    for single_pass, step in zip(logits.float(), stepwise, strict=False):
        error = float((single_pass - step[0].float()).abs().max() / step.float().abs().max())
        if not error <= _LARGEST[logits.element_size() < 4]:
            raise UnsupportedModel(
                f"{type(model).__name__} computes different logits for prompt and answer in one "
                f"pass than during generation (relative difference {error:.1e}), so a recording "
                "would not match the generated answer. Measure the prompt and the answer as one "
                "input of tensors."
            )


def require_causal_stack(model: nn.Module, stack: StackStructure) -> None:
    """Raise `UnsupportedModel` if these layers are bidirectional, because bidirectional layers do
    not predict the next token.
    """
    if not stack.layers[0].sites[0].causal:
        raise UnsupportedModel(
            f"{type(model).__name__} is bidirectional, so no position predicts the next "
            "token. Use a causal or encoder-decoder language model."
        )
