"""Choose the output that a measure explains: an answer, a word or class, or an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.contracts import Spec
from mixlens.errors import InvalidInput
from mixlens.replay.explained_answer import explained_answer
from mixlens.replay.explained_embedding import explained_embedding
from mixlens.replay.explained_output import Explained, explained, no_logits

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording

_EMBEDDINGS = ("embedding", "similarity")  # values of the option `of`
_OF_EMBEDDINGS, _OF_ANSWERS = ("to", "pooling"), ("answer", "reduce", "weights")


def resolve_output(
    name: str, spec: Spec, recording: Recording, options: dict[str, Any]
) -> Explained:
    """Return the output that the options name, or the model's own prediction.

    Parameters
    ----------
    name, spec
        The measure that explains it.
    recording
        A recording with the output of the model.
    options
        Those of `measures.OUTPUT_OPTIONS` and `of` that were passed.

    Raises
    ------
    InvalidInput
        If the options contradict each other, or the model has no such output.
    """
    named = {key: value for key, value in options.items() if value is not None}
    of = named.pop("of", None)
    if named.get("answer", False) is not False:
        return _answer(spec, recording, of, named)
    named.pop("answer", None)
    for key in _OF_ANSWERS:
        if key in named:
            raise InvalidInput(f"{key} is for an answer. Pass answer=… as well.")
    of = spec.explains_by_default if of is None else of
    chosen = {key: named.pop(key, None) for key in _OF_EMBEDDINGS}
    if of not in _EMBEDDINGS:
        if any(value is not None for value in chosen.values()):
            raise InvalidInput(
                "The options to and pooling need of='similarity' or 'embedding'. Drop them, "
                "or set of."
            )
        _require_logits(recording, spec)
        return explained(recording, of=of, **named)
    if not spec.explains_embedding:
        raise InvalidInput(
            f"{name} splits a logit and cannot explain an embedding. Use a gradient measure "
            "or blank_out."
        )
    if named:
        raise InvalidInput(
            f"of={of!r} explains an embedding, but {', '.join(named)} name a word. Drop one "
            "of them."
        )
    return explained_embedding(recording, of=of, **chosen)


def _answer(spec: Spec, recording: Recording, of: str | None, named: dict[str, Any]) -> Explained:
    """Return the answer's log-probability, or the sum of its logits for measures that split
    logits.
    """
    others = [key for key in named if key not in _OF_ANSWERS]
    if others:
        raise InvalidInput(
            f"{', '.join(others)} cannot be combined with an answer. Drop it, or drop answer "
            "to explain one word."
        )
    _require_logits(recording, spec)
    splits_logits = spec.explains_by_default == "logit" and not spec.explains_embedding
    if of is None:
        of = "logit" if splits_logits else "log_probability"
    return explained_answer(recording, named.pop("answer"), of=of, **named)


def _require_logits(recording: Recording, spec: Spec) -> None:
    reason = no_logits(recording.output, or_embedding=spec.explains_embedding)
    if reason is not None:
        raise InvalidInput(reason)
