"""Tokenise and embed texts like a SentenceTransformer. The encoder's own `preprocess` method
returns the token ids, with its prompt, maximum length and lowercasing. The encoder's own modules
after the transformer (pooling, dense layers) compute the embedding, truncated to `truncate_dim`.
mixlens therefore explains the same embedding that `encode` returns. A final `Normalize` is skipped,
because the norm does not change a cosine.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.model.session import require_eval

_OFF = 1e-3  # relative difference from the encoder's own embedding; half precision has 5e-4

_encoders: weakref.WeakKeyDictionary[nn.Module, weakref.ref[Any]] = weakref.WeakKeyDictionary()


class SentenceTokenizer:
    """The tokenizer of a SentenceTransformer, which tokenises plain texts like `encode`."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._tokenizer = encoder.tokenizer

    def wraps(self, tokenizer: Any) -> bool:
        """Return whether this is the encoder's own tokenizer."""
        return tokenizer is self._tokenizer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_encoder", "_tokenizer"):
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def __call__(self, text: Any = None, **options: Any) -> Any:
        """Tokenise texts as in `encode`. Other inputs and options are passed to the original
        tokenizer.
        """
        several = isinstance(text, list) and all(isinstance(part, str) for part in text)
        plain = not set(options) - {"return_offsets_mapping"}
        if not plain or not (several or isinstance(text, str)):
            return self._tokenizer(text, **options)
        encodings = [self._read(part, **options) for part in (text if several else [text])]
        if not several:
            return encodings[0]
        names = set.intersection(*map(set, encodings)) if encodings else ()
        return {name: [encoding[name] for encoding in encodings] for name in names}

    def _read(self, text: str, return_offsets_mapping: bool = False) -> dict[str, list[Any]]:
        features, prompt = encoder_features(self._encoder, text), find_prompt(self._encoder)
        mask = features.get("attention_mask")
        real = slice(None) if mask is None else mask[0].bool()
        encoding = {
            name: features[name][0][real].tolist()
            for name in ("input_ids", "token_type_ids")
            if isinstance(features.get(name), Tensor)
        }
        count = len(encoding["input_ids"])
        encoding["attention_mask"] = [1] * count
        prompt_encoding = dict(
            self._tokenizer(prompt + text, return_offsets_mapping=return_offsets_mapping)
        )
        if len(prompt_encoding["input_ids"]) > count:
            warnings.warn(
                f"the text has {len(prompt_encoding['input_ids'])} tokens with its prompt, but the "
                f"encoder reads {count} of them. Set its max_seq_length to read more",
                stacklevel=2,
            )
        if return_offsets_mapping:
            encoding["offset_mapping"] = _places(
                prompt_encoding, encoding["input_ids"], len(prompt)
            )
        return encoding


def _places(encoding: Mapping[str, Any], ids: list[int], prompt: int) -> list[tuple[int, int]]:
    """Return the character range of each token in the text, or (0, 0) for tokens outside the text.

    Character positions are counted from the end of the encoder's prompt. A truncated text keeps its
    last special token, so tokens are compared one by one.
    """
    places = []
    for number, token in enumerate(ids):
        is_prompt_token = (
            number < len(encoding["input_ids"]) and encoding["input_ids"][number] == token
        )
        start, stop = encoding["offset_mapping"][number] if is_prompt_token else (0, 0)
        places.append((max(start - prompt, 0), stop - prompt) if stop > prompt else (0, 0))
    return places


def find_prompt(encoder: Any) -> str:
    """Return the prompt that `encode` adds to a text by default."""
    prompts = getattr(encoder, "prompts", None) or {}
    return prompts.get(getattr(encoder, "default_prompt_name", None)) or ""


def encoder_features(encoder: Any, text: str) -> dict[str, Any]:
    """Return the inputs of one text, prepared as in the encoder's own `encode`."""
    prompt = find_prompt(encoder)
    if hasattr(encoder, "preprocess"):
        return dict(encoder.preprocess([text], prompt=prompt or None))
    return dict(encoder.tokenize([prompt + text]))  # before version 5.3


def remember_encoder(model: nn.Module, encoder: Any) -> None:
    """Store which SentenceTransformer a model belongs to, as a weak reference."""
    kinds = {kind.__name__ for kind in type(encoder).__mro__}
    if "SentenceTransformer" in kinds and len(encoder) > 1:
        _encoders[model] = weakref.ref(encoder)


def encoder_of(model: nn.Module) -> Any:
    """Return the SentenceTransformer that a model belongs to, or None."""
    reference = _encoders.get(model)
    return None if reference is None else reference()


class SentenceEmbedding:
    """Compute embeddings from token states like a SentenceTransformer."""

    def __init__(self, encoder: Any) -> None:
        steps = list(encoder)[1:]
        while steps and type(steps[-1]).__name__ == "Normalize":
            steps.pop()
        for step in steps:
            require_eval(step)
        self.steps = steps
        self.dimensions = getattr(encoder, "truncate_dim", None)
        self.prompt_length = encoder_features(encoder, "a").get("prompt_length")
        if self.prompt_length is None and find_prompt(encoder):
            excluded = [step for step in steps if not getattr(step, "include_prompt", True)]
            if excluded:
                raise UnsupportedModel(
                    "the encoder excludes its prompt from the pooling, but this version of "
                    "sentence-transformers does not report the length of the prompt. Update "
                    "it"
                )

    def __call__(
        self, states: Float[Tensor, "text token d_model"], real: Bool[Tensor, "text token"]
    ) -> Float[Tensor, "text d_embedding"]:
        """Return the embedding of each text. `real` marks the tokens that are not padding, which
        come first.
        """
        weights = [weight for step in self.steps for weight in step.parameters()]
        token_states = states.to(weights[0].dtype) if weights else states
        features: dict[str, Any] = {"token_embeddings": token_states, "attention_mask": real.long()}
        if self.prompt_length is not None:
            features["prompt_length"] = self.prompt_length
        for step in self.steps:
            features = step(features)
        vectors: Tensor = features["sentence_embedding"].to(states.dtype)
        return vectors[..., : self.dimensions]


@torch.no_grad()
def require_own_embedding(encoder: Any, text: str, vector: Float[Tensor, " d_embedding"]) -> None:
    """Raise `UnsupportedModel` unless a vector has the direction of the encoder's own embedding."""
    features = encoder_features(encoder, text)
    device = next(encoder.parameters()).device
    features_on_device = {
        k: v.to(device) if isinstance(v, Tensor) else v for k, v in features.items()
    }
    encoder_vector = encoder(features_on_device)["sentence_embedding"][0].to(vector)
    encoder_vector = encoder_vector[: getattr(encoder, "truncate_dim", None)]
    off = (encoder_vector / encoder_vector.norm() - vector / vector.norm()).norm()
    if not bool(off < _OFF):
        raise UnsupportedModel(
            f"The embedding of {text[:40]!r} differs by {float(off):.1e} from the one that "
            f"{type(encoder).__name__} returns, which does more than run its modules. Set "
            "`pooling` to explain the pooled states."
        )
