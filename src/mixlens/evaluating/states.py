"""Extract the hidden states of a recorded text, and assign its tokens to categories."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

CATEGORIES = ("cls", "sep", "punctuation", "other")


def hidden_states(
    case: Case, site: str | None = None, layers: Sequence[int] | None = None
) -> np.ndarray:
    """Return the hidden states [layer + 1, token, d_model] of a text.

    Entry 0 is the input of the first layer. The other entries are the outputs of the layers, before
    any final norm of the stack. `layers` selects some of the entries.
    """
    recorded = case.recording.layers(site)
    count = len(case.recording.target_tokens(site, 0))
    numbers = list(range(len(recorded) + 1)) if layers is None else list(layers)
    if any(not 0 <= layer <= len(recorded) for layer in numbers):
        raise InvalidInput(
            f"Layers {numbers} are out of range. "
            f"Pass numbers from 0 (the input) to {len(recorded)}."
        )
    states = [recorded[0].input if layer == 0 else recorded[layer - 1].output for layer in numbers]
    return np.stack([state[0, :count].detach().cpu().numpy() for state in states])


def categories(case: Case, site: str | None = None) -> np.ndarray:
    """Return the index of each token's category in `CATEGORIES`.

    Punctuation is the comma and the full stop, as in Kobayashi (2020).

    If a tokenizer has no [CLS] or [SEP], its begin and end tokens are used.
    """
    tokens = case.recording.target_tokens(site, 0)
    tokenizer = case.lens.tokenizer
    special = tokens.special or (False,) * len(tokens)
    marks = [
        getattr(tokenizer, f"{a}_token", None) or getattr(tokenizer, f"{b}_token", None)
        for a, b in (("cls", "bos"), ("sep", "eos"))
    ]
    kinds = np.full(len(tokens), CATEGORIES.index("other"))
    for place, (label, outside) in enumerate(zip(tokens.labels, special, strict=True)):
        if outside and label in marks:
            # Some tokenizers have one token for both; the first one of a text is then the [CLS].
            kinds[place] = 0 if label == marks[0] and (marks[0] != marks[1] or place == 0) else 1
        elif label.lstrip("Ġ▁") in (",", "."):
            kinds[place] = CATEGORIES.index("punctuation")
    return kinds


def generator_of(case: Case, seed: int) -> np.random.Generator:
    """Return a random generator that depends only on the text and the seed."""
    key = hashlib.sha256(repr((case.example.text, case.example.pair)).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(key[:8], "big")])


def shuffle_order(contents: Sequence[bytes], seed: int) -> np.ndarray:
    """Return a random order that depends on the items and the seed, but not on the input order."""
    keys = [hashlib.sha256(b"%d " % seed + content).digest() for content in contents]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), int)
