"""Log-probability and log-odds of an answer after each of many prompts.

The answer follows every prompt, token by token (teacher forcing). P is the joint probability of the
answer's tokens. `answer_log_probabilities` returns the log-probability of every token, and
`answer_odds` returns log P - log(1 - P). All steps are computed in float64 from the log-odds of
single tokens, so that log P - log(1 - P) stays finite if P is close to one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.layer_calls import forward
from mixlens.errors import InvalidInput, NonFiniteActivations, UnsupportedModel
from mixlens.measuring.batching import halve_until_it_fits, plan_batches
from mixlens.model.restore_model import restore_on_exit
from mixlens.model.rotary import require_same_frequencies
from mixlens.recording.batch_independence import (
    DependentTexts,
    require_independent_texts,
    text_lengths,
)
from mixlens.replay.explained_output import logits_of
from mixlens.text.decoder_inputs import start_token
from mixlens.text.encoding import pad_sequences
from mixlens.text.input_checks import takes_decoder_ids
from mixlens.text.inputs import normalise_inputs
from mixlens.text.vocabulary import gives_token_classes

_ALIKE = 100  # units of rounding by which two runs of one text may differ

Item = TypeVar("Item")


def answer_odds(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    batch_size: int | None = None,
    start: int | None = None,
) -> np.ndarray:
    """Return the log-odds of the answer after each prompt.

    `prompts` and `answer` are token ids. In an encoder-decoder model the decoder begins with
    `start`, by default the model's start token.
    """
    by_token = answer_log_probabilities(model, tokenizer, prompts, answer, batch_size, start)
    odds = log_odds(by_token.sum(1))
    _require_finite(odds)
    return odds


def answer_log_probabilities(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    batch_size: int | None = None,
    start: int | None = None,
) -> Float[np.ndarray, "prompt token"]:
    """Return the log-probability of every token of the answer after each prompt.

    The arguments are the same as for `answer_odds`.
    """

    def log_probabilities(logits: Tensor) -> np.ndarray:
        return token_log_probabilities(logits, answer)

    by_token = np.stack(
        read_answers(model, tokenizer, prompts, answer, log_probabilities, batch_size, start)
    )
    _require_finite(by_token)
    return by_token


def read_answers(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    read: Callable[[Tensor], Item],
    batch_size: int | None = None,
    start: int | None = None,
) -> list[Item]:
    """Call `read` on the logits [token, word] that predict the answer, and return one result per
    prompt.

    The other arguments are the same as for `answer_odds`.
    """
    lengths = [len(prompt) + len(answer) for prompt in prompts]
    decodes, most = takes_decoder_ids(model), len(answer) - 1
    for prompt in prompts:
        first = 1 if decodes else len(prompt)
        require_same_frequencies(model, first, first + most)
    batch_size = batch_size if _may_be_batched(model, tokenizer, prompts, answer, start) else 1
    items: dict[int, Item] = {}

    def run(places: list[int]) -> list[Item]:
        batch = [prompts[place] for place in places]
        return [read(logits) for logits in _batch_logits(model, tokenizer, batch, answer, start)]

    for places in plan_batches(lengths, model, batch_size=batch_size):
        items.update(zip(places, halve_until_it_fits(run, places), strict=True))
    return [items[place] for place in range(len(prompts))]


def _require_finite(numbers: np.ndarray) -> None:
    if not np.isfinite(numbers).all():
        raise NonFiniteActivations(
            "The logits of the answer are not finite after some prompts. Check the weights "
            "of the model's head."
        )


def log_odds(log_probability: Float[np.ndarray, " prompt"]) -> Float[np.ndarray, " prompt"]:
    """Return log P - log(1 - P) from log P."""
    odds: np.ndarray = log_probability - np.log(-np.expm1(log_probability))
    return odds


def _may_be_batched(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    start: int | None,
) -> bool:
    """Return whether a prompt has the same logits in a batch as when it runs alone."""
    tensors = normalise_inputs(model, _tensors(model, tokenizer, prompts, answer, start))
    try:
        require_independent_texts(model, tensors, text_lengths(tensors), None, output=True)
    except DependentTexts:
        return False
    return True


def _tensors(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    start: int | None,
) -> dict[str, Any]:
    """Return the model inputs: each prompt, followed by the answer without its last token."""
    decodes = takes_decoder_ids(model)
    following = [] if decodes else list(answer[:-1])
    encodings = [{"input_ids": [*prompt, *following]} for prompt in prompts]
    tensors: dict[str, Any] = pad_sequences(encodings, tokenizer, set(_parameters(model)))
    if decodes:
        first = start_token(model) if start is None else start
        begun = torch.tensor([[first, *answer[:-1]]])
        tensors["decoder_input_ids"] = begun.expand(len(prompts), -1)
    return tensors


@torch.no_grad()
def _batch_logits(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    answer: Sequence[int],
    start: int | None,
) -> list[Tensor]:
    decodes = takes_decoder_ids(model)
    tensors = _tensors(model, tokenizer, prompts, answer, start)
    firsts = [0 if decodes else len(prompt) - 1 for prompt in prompts]
    width = len(answer) if decodes else int(tensors["input_ids"].shape[1])
    logits = _logits(model, tensors, width - min(firsts))
    firsts = [first - width + int(logits.shape[1]) for first in firsts]
    return [words[first : first + len(answer)] for words, first in zip(logits, firsts, strict=True)]


def _logits(model: nn.Module, tensors: dict[str, Any], last: int) -> Tensor:
    """Return the logits. If the model supports it, only the `last` positions are computed."""
    accepted = _parameters(model)
    keep = {"logits_to_keep": last} if "logits_to_keep" in accepted else {}
    with restore_on_exit(model):  # a longer prompt may leave its rotary frequencies behind
        logits = logits_of(forward(model, {**normalise_inputs(model, tensors), **keep}))
    if logits.dim() != 3 or gives_token_classes(model.config, logits):
        raise UnsupportedModel(
            f"{type(model).__name__} predicts classes, not the next token. Use a causal or "
            "encoder-decoder language model."
        )
    return logits


def token_log_probabilities(
    logits: Float[Tensor, "token word"], answer: Sequence[int]
) -> Float[np.ndarray, " token"]:
    """Return the log-probability of each token of an answer, in float64.

    `logits` contains the logits at the positions that predict these tokens.
    """
    if max(answer) >= logits.shape[1]:
        raise InvalidInput(
            f"Token {max(answer)} is out of range (0–{logits.shape[1] - 1}). Pass token ids from "
            "the model's vocabulary."
        )
    logits = logits.double()
    places = torch.tensor(list(answer), device=logits.device)[:, None]
    answer_logits = logits.gather(1, places)[:, 0]
    other_logits = logits.scatter(1, places, -torch.inf).logsumexp(1)
    by_token: np.ndarray = nn.functional.logsigmoid(answer_logits - other_logits).cpu().numpy()
    return by_token


@torch.no_grad()
def require_causal(model: nn.Module, ids: Sequence[int]) -> None:
    """Raise `UnsupportedModel` if the last token changes predictions at earlier positions."""
    if len(ids) < 2 or takes_decoder_ids(model):
        return
    other = [*ids[:-1], ids[-1] - 1 if ids[-1] else 1]
    one, two = (
        _logits(model, {"input_ids": torch.tensor([token_ids])}, len(ids))
        for token_ids in (ids, other)
    )
    bar = _ALIKE * torch.finfo(one.dtype).eps * one.abs().max()
    if bool(((one - two)[:, :-1].abs() > bar).any()):
        raise UnsupportedModel(
            f"{type(model).__name__} is bidirectional, so no position predicts the next "
            "token. Use a causal or encoder-decoder language model."
        )


def _parameters(model: nn.Module) -> Mapping[str, Any]:
    return inspect.signature(model.forward).parameters
