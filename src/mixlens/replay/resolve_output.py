"""Choose the output that a measure explains: an answer, a word or class, or an embedding.

Measures can explain the embedding of a text, or its similarity to another text:

* `of="similarity"`: the cosine similarity between the text's embedding and the embedding of the
  text `to`, which is held constant.
* `of="embedding"`: the component of the embedding along its own direction, which is held constant.
  For the unchanged text, this is the norm of the embedding.

The embedding is pooled from the token states of the encoder (`mixlens.model.sentence_folder`), or
computed by the modules of a SentenceTransformer (`mixlens.model.sentence_encoder`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import forward
from mixlens.contracts import Spec
from mixlens.errors import InputTooLong, InvalidInput, UnsupportedModel
from mixlens.model.sentence_encoder import (
    SentenceEmbedding,
    SentenceTokenizer,
    encoder_of,
    require_own_embedding,
)
from mixlens.model.sentence_folder import (
    SIMILARITY,
    length_limit,
    pool_states,
    pooling_of,
    require_cosine,
    require_saved_cosine,
)
from mixlens.replay.explained_answer import explained_answer
from mixlens.replay.explained_output import NO_OUTPUT, Explained, no_logits, select_explained
from mixlens.text.inputs import prepare_inputs

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


Embed = Callable[[Tensor, Tensor], Tensor]
"""A function from states [text, token, d_model] and the mask of real tokens to one vector per
text.
"""

_SHOWN = 40  # characters of a text in a label


@dataclass(frozen=True)
class ExplainedEmbedding(Explained):
    """The embedding of each text, reduced to one number: its norm or its similarity to another
    text.
    """

    real: Bool[Tensor, "batch token"]
    embed: Embed
    directions: Float[Tensor, "batch d_embedding"]  # unit vectors

    def __call__(self, output: Any, texts: Int[Tensor, " copies"]) -> Float[Tensor, " copies"]:
        """Compute the explained number from a model's output. `texts` contains, for each copy, the
        index of its text in the batch.
        """
        states = _states(output)
        texts = texts.to(states.device)
        vectors = self.embed(states, self.real[texts])
        along = (vectors * self.directions[texts]).sum(-1)
        return along if self.of == "embedding" else along / (vectors * vectors).sum(-1).sqrt()


def explained_embedding(
    recording: Recording, *, of: str, to: str | Sequence[str] | None, pooling: str | None
) -> ExplainedEmbedding:
    """Return the embedding as the explained output, or its similarity to the text `to`.

    Pass a list as `to` to compare each text of the batch with a different text.
    """
    if (to is None) != (of == "embedding"):
        raise InvalidInput(
            "of='similarity' needs `to`. Pass the text to compare with."
            if to is None
            else "`to` needs of='similarity'. Drop it, or set `of`."
        )
    uses_encoder = pooling is None and isinstance(recording.tokenizer, SentenceTokenizer)
    encoder = encoder_of(recording.model) if uses_encoder else None
    embed = _embed(recording.model, pooling) if encoder is None else SentenceEmbedding(encoder)
    states = _states(recording.output)
    stack = recording.structure.calls[-1][0].name
    lengths = torch.tensor(list(recording.lengths[stack]), device=states.device)
    real = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
    if encoder is None and pooling is None:
        _require_short(recording.model, int(lengths.max()))
    if to is None:
        vectors, names = embed(states, real), ["the embedding"] * recording.batch
    else:
        texts = [to] * recording.batch if isinstance(to, str) else list(to)
        if len(texts) != recording.batch:
            raise InvalidInput(
                f"`to` has {len(texts)} texts, but the batch has {recording.batch}. Pass "
                "one text to compare for each text of the batch."
            )
        vectors = _embeddings(recording, texts, embed, limited=encoder is None and pooling is None)
        if encoder is not None:
            require_own_embedding(encoder, texts[0], vectors[0])
            cut = getattr(encoder, "truncate_dim", None)  # after the last step
            steps = [] if cut else [type(step).__name__ for step in encoder]
            require_cosine(getattr(encoder, SIMILARITY, None), steps)
        elif pooling is None:
            require_saved_cosine(recording.model)
        names = [f"similarity to {_short(text)}" for text in texts]
    directions = vectors.detach() / vectors.detach().norm(dim=-1, keepdim=True)
    nobody = torch.zeros(recording.batch, dtype=torch.long, device=states.device)
    return ExplainedEmbedding(nobody, None, None, of, tuple(names), None, real, embed, directions)


def _embed(model: nn.Module, pooling: str | None) -> Embed:
    kind = pooling_of(model, pooling)
    return lambda states, real: pool_states(states, real, kind)


def _require_short(model: nn.Module, tokens: int) -> None:
    limit = length_limit(model)
    if limit is not None and tokens > limit:
        raise InputTooLong(
            f"The text has {tokens} tokens, but this encoder reads {limit} (max_seq_length). "
            "Shorten the text, or set `pooling` to explain all of it."
        )


def _embeddings(
    recording: Recording, texts: list[str], embed: Embed, *, limited: bool
) -> Float[Tensor, "text d_embedding"]:
    tensors = prepare_inputs(recording.model, recording.tokenizer, texts).tensors
    with torch.no_grad():
        states = _states(forward(recording.model, tensors))
    mask = tensors.get("attention_mask")
    ones = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    real = ones if mask is None else mask.to(states.device).bool()
    if limited:
        _require_short(recording.model, int(real.sum(1).max()))
    return embed(states, real)


def _states(output: Any) -> Float[Tensor, "text token d_model"]:
    if output is None:
        raise InvalidInput(NO_OUTPUT)
    states = getattr(output, "last_hidden_state", None)
    if not isinstance(states, Tensor):
        raise UnsupportedModel(
            "this model does not return the hidden states of its tokens, so there is no embedding "
            "to explain. Load the encoder without a head (AutoModel)"
        )
    return states.float() if states.element_size() < 4 else states


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


_EMBEDDINGS = ("embedding", "similarity")  # values of the option `of`
_OF_EMBEDDINGS, _OF_ANSWERS = ("to", "pooling"), ("answer", "reduce", "weights")


def resolve_output(
    name: str, spec: Spec, recording: Recording, options: dict[str, Any]
) -> Explained:
    """Return the output that the options select. The default is the model's own prediction.

    Parameters
    ----------
    name, spec
        The name and spec of the measure that explains the output.
    recording
        A recording that includes the model's output.
    options
        The options from `measures.OUTPUT_OPTIONS`, and `of`, that the user passed.

    Raises
    ------
    InvalidInput
        If the options contradict each other, or the model has no such output.
    """
    output_options = {key: value for key, value in options.items() if value is not None}
    of = output_options.pop("of", None)
    if output_options.get("answer", False) is not False:
        return _answer(spec, recording, of, output_options)
    output_options.pop("answer", None)
    for key in _OF_ANSWERS:
        if key in output_options:
            raise InvalidInput(f"`{key}` needs an answer. Pass answer=… as well.")
    of = spec.explains_by_default if of is None else of
    embedding_options = {key: output_options.pop(key, None) for key in _OF_EMBEDDINGS}
    if of not in _EMBEDDINGS:
        if any(value is not None for value in embedding_options.values()):
            raise InvalidInput(
                "`to` and `pooling` need of='similarity' or 'embedding'. Drop them, or set `of`."
            )
        _require_logits(recording, spec)
        return select_explained(recording, of=of, **output_options)
    if not spec.explains_embedding:
        raise InvalidInput(
            f"{name} splits a logit and cannot explain an embedding. Use a gradient measure "
            "or blank_out."
        )
    if output_options:
        raise InvalidInput(
            f"of={of!r} explains an embedding, but {', '.join(output_options)} name a word. "
            "Drop one of them."
        )
    return explained_embedding(recording, of=of, **embedding_options)


def _answer(
    spec: Spec, recording: Recording, of: str | None, output_options: dict[str, Any]
) -> Explained:
    """Return the answer as the explained output.

    By default, the answer's log-probability is explained, or the sum of its logits if the measure
    splits logits.
    """
    extras = [key for key in output_options if key not in _OF_ANSWERS]
    if extras:
        raise InvalidInput(
            f"{', '.join(extras)} cannot be combined with an answer. Drop it, or drop answer "
            "to explain one word."
        )
    _require_logits(recording, spec)
    of = spec.explains_of_answer if of is None else of
    return explained_answer(recording, output_options.pop("answer"), of=of, **output_options)


def _require_logits(recording: Recording, spec: Spec) -> None:
    reason = no_logits(recording.output, or_embedding=spec.explains_embedding)
    if reason is not None:
        raise InvalidInput(reason)
