"""Explain a whole answer with one backward pass: F = sum of log p(t_k | prompt, t_<k) over its
tokens.

The model reads the whole answer (teacher forcing), so one pass explains all of its tokens. Only the
logits that predict these tokens are used, in float32 or better. `of="logit"` explains the sum of
the tokens' logits instead, which is linear in the final states. `weights` multiply the terms of the
tokens and are not normalised; with `reduce="mean"`, the weights are divided by their sum.

The probability of the whole answer is not supported, because its gradient is the gradient of F
times the probability, which underflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput, MixlensError, NonFiniteActivations, UnsupportedModel, about
from mixlens.model.loading import require_head
from mixlens.replay.explained_output import Explained, logits_of
from mixlens.replay.intervention import token_input
from mixlens.text.answer_tokens import (
    AnswerTokens,
    answer_for_each,
    find_answer,
    following_tokens,
)
from mixlens.text.tokens import Produced
from mixlens.text.vocabulary import predicts_classes

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

REDUCTIONS = ("sum", "mean")
EXPLAINS = ("log_probability", "logit")


def answer_log_probabilities(
    logits: Float[Tensor, "*text token word"], ids: Int[Tensor, "*text token"]
) -> Float[Tensor, "*text token"]:
    """Return the log-probability of each token, computed in float32 or better from the logits at
    the position that predicts the token.
    """
    wide = logits.float() if logits.element_size() < 4 else logits
    return wide.log_softmax(-1).gather(-1, ids[..., None])[..., 0]


@dataclass(frozen=True)
class ExplainedAnswer(Explained):
    """The score of each text's answer as one number, such as its log-probability.

    Shorter answers are padded with tokens of weight zero.
    """

    places: Int[Tensor, "batch token"]  # positions that produce the tokens
    ids: Int[Tensor, "batch token"]
    weights: Float[Tensor, "batch token"]
    prompts: tuple[int, ...]  # number of tokens before each answer

    def __call__(self, output: Any, texts: Int[Tensor, " copies"]) -> Float[Tensor, " copies"]:
        """Compute the explained number from a model's output. `texts` contains, for each copy, the
        index of its text in the batch.
        """
        logits = logits_of(output)
        texts = texts.to(logits.device)
        at_places = self.logits_at(logits, texts, self.places.to(logits.device)[texts])
        ids, weights = (t.to(logits.device)[texts] for t in (self.ids, self.weights))
        if self.of == "logit":
            by_token = at_places.gather(-1, ids[..., None])[..., 0]
        else:
            by_token = answer_log_probabilities(at_places, ids)
        by_token = by_token.float() if by_token.element_size() < 4 else by_token
        return (by_token * weights.to(by_token)).sum(-1)

    @property
    def places_read(self) -> Int[Tensor, "batch place"]:
        """Return the positions of the logits that predict the answer."""
        return self.places

    @property
    def terms(self) -> tuple[Int[Tensor, "batch place term"], Float[Tensor, "batch place term"]]:
        """Return the token id whose logit is read at each position, and the weight of this
        logit.
        """
        return self.ids[..., None], self.weights[..., None]


def explained_answer(
    recording: Recording,
    answer: Any,
    *,
    of: str = "log_probability",
    reduce: str | None = None,
    weights: Any = None,
) -> ExplainedAnswer:
    """Return the explained answer of each text of a recording.

    Parameters
    ----------
    recording
        A recording of a causal or encoder-decoder language model.
    answer
        True for the whole answer, some words of it, or the positions (first, end) of its tokens.
        Pass a list to set it for each text.
    of
        "log_probability" or "logit".
    reduce
        "sum" (default) or "mean" over the tokens.
    weights
        A number for each token of the answer. Pass a list of lists to set them for each text.

    Raises
    ------
    InvalidInput
        If the requested answer is not in the text.
    UnsupportedModel
        If the model does not predict the next token.
    """
    _check_choices(of, reduce)
    require_head(recording.model)
    logits = logits_of(recording.output)
    _require_next_tokens(recording, logits)
    parts = answer_parts(recording, answer)
    most = max(len(part.ids) for part in parts)
    text_weights = _weights(parts, weights, reduce or "sum")
    output = ExplainedAnswer(
        chosen=torch.tensor([part.ids[0] for part in parts], device=logits.device),
        foils=None,
        positions=None,
        of=of,
        names=tuple(part.name for part in parts),
        link=None,
        places=_pad_lists([part.positions for part in parts], most, logits.device),
        ids=_pad_lists([part.ids for part in parts], most, logits.device),
        weights=torch.stack([nn.functional.pad(w, (0, most - len(w))) for w in text_weights]),
        prompts=tuple(part.prompt for part in parts),
    )
    _require_finite(recording, output)
    return output


def answer_parts(recording: Recording, answer: Any) -> list[AnswerTokens]:
    """Return the answer tokens to explain in each text of a recording."""
    parts = []
    for text, text_answer in enumerate(answer_for_each(answer, recording.batch)):
        try:
            parts.append(
                find_answer(
                    text_answer,
                    produced_tokens(recording, text),
                    is_continued=recording.produced is not None,
                )
            )
        except MixlensError as error:
            raise about(f"text {text}", error) if recording.batch > 1 else error from None
    return parts


def produced_tokens(recording: Recording, text: int) -> Produced:
    """Return the token that follows each position of a text, as the model's prediction target.

    In a plain text, this is the next token of the text. In a generated continuation, it is the
    token that was generated at this position.
    """
    if recording.produced is not None:
        return recording.produced[text]
    last = recording.last_stack
    text_tokens = recording.tokens[last.name][text]
    site = next(
        name
        for name, place in recording.structure.sites.items()
        if place.stack is last and place.kind is AttentionKind.SELF
    )
    ids = token_input(recording, site)[1][text, : len(text_tokens)].tolist()
    return following_tokens(text_tokens, ids)


def _check_choices(of: str, reduce: str | None) -> None:
    if of == "probability":
        raise InvalidInput(
            "of='probability' is not supported for an answer, because the probability of a "
            "whole answer underflows. Use of='log_probability', the default."
        )
    if of not in EXPLAINS:
        raise InvalidInput(f"Unknown of={of!r} for an answer. Choose {' or '.join(EXPLAINS)}.")
    if reduce not in (None, *REDUCTIONS):
        raise InvalidInput(f"Unknown reduce={reduce!r}. Choose {' or '.join(REDUCTIONS)}.")


def _require_next_tokens(recording: Recording, logits: Tensor) -> None:
    """Raise an error unless the model predicts the next token at every position of its last
    stack.
    """
    name, stack = type(recording.model).__name__, recording.last_stack
    if logits.dim() != 3 or predicts_classes(recording, logits):
        raise InvalidInput(f"{name} predicts classes, so it has no answer. Pass a class as label=…")
    if not stack.layers[0].sites[0].causal:
        raise UnsupportedModel(
            f"{name} is bidirectional, so no position predicts the next token. Use a causal or "
            "encoder-decoder language model."
        )
    width = recording.tokens_of(stack)
    if recording.logits_at is None and logits.shape[1] != width:
        raise InvalidInput(
            f"The logits have {int(logits.shape[1])} positions, but the last layer has "
            f"{width} tokens. Use a model with one logit per token."
        )


def _weights(
    parts: Sequence[AnswerTokens], passed_weights: Any, reduce: str
) -> list[Float[Tensor, " token"]]:
    """Return the weight of every answer token, for each text."""
    each = _weights_by_text(passed_weights, len(parts))
    by_text = []
    for part, text_weights in zip(parts, each, strict=True):
        count = len(part.ids)
        weights = (
            np.ones(count) if text_weights is None else np.asarray(text_weights, dtype=np.float64)
        )
        if weights.shape != (count,):
            raise InvalidInput(
                f"weights has {weights.size} numbers, but the answer has {count} tokens. Pass "
                "one number per token."
            )
        if not np.isfinite(weights).all() or not weights.any():
            raise InvalidInput(
                f"weights={passed_weights!r} are out of range. "
                "Pass finite numbers that are not all zero."
            )
        if reduce == "mean":
            if weights.sum() == 0:
                raise InvalidInput(
                    f"weights={passed_weights!r} sum to zero, so the mean is undefined. Pass "
                    "weights with a non-zero sum."
                )
            weights = weights / weights.sum()
        by_text.append(torch.from_numpy(weights))
    return by_text


def _weights_by_text(weights: Any, texts: int) -> list[Any]:
    if weights is None:
        return [None] * texts
    try:
        if isinstance(weights, (Mapping, set, frozenset)):
            raise TypeError
        entries = list(weights)
        nested = bool(entries) and all(np.ndim(entry) == 1 for entry in entries)
        np.asarray(entries if not nested else entries[0], dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"weights={weights!r} is not a list of numbers. Pass one number per token."
        ) from None
    if nested and len(entries) != texts:
        raise InvalidInput(
            f"weights has {len(entries)} lists for {texts} texts. Pass one list per text."
        )
    return entries if nested else [entries] * texts


def _pad_lists(lists: Sequence[Sequence[int]], most: int, device: torch.device) -> Tensor:
    """Pad each list with its first entry to the length `most`."""
    return torch.tensor(
        [[*numbers, *[numbers[0]] * (most - len(numbers))] for numbers in lists], device=device
    )


@torch.no_grad()
def _require_finite(recording: Recording, output: ExplainedAnswer) -> None:
    numbers = output(recording.output, torch.arange(recording.batch))
    if not bool(numbers.isfinite().all()):
        raise NonFiniteActivations(
            f"The {output.of.replace('_', '-')} of an answer is not finite. Check the weights "
            "of the model's head, and whether the model masks out a token of the answer."
        )
