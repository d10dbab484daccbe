"""Synthetic cases: a hand-built model, a text of eight tokens, a target, and its true sources."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mixlens.evaluating.planted_models import (
    CHANNELS,
    MARKS,
    TOKENS,
    Blueprint,
    PlantedHead,
    PlantedLayer,
    block,
    channels,
    copying,
    looking,
    ones,
    weighing,
)

A, B, C = (
    2,
    4,
    1,
)  # positions of the decoy, of another decoy or intermediate token, and of the true source
TARGET = TOKENS - 1  # the last one, so that a causal model sees all of them


@dataclass(frozen=True, eq=False, kw_only=True)
class Planted:
    """A hand-built model with its true sources.

    `sources` are the positions of the words that contribute to the final state of the target,
    except the target itself. If no other word contributes, `sources` contains only the target.
    """

    name: str
    planted: str  # the construction and its true sources
    plan: Blueprint
    ids: tuple[int, ...]
    sources: frozenset[int]
    architecture: str = "bert"
    target: int = TARGET

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Return the tokens of the case as model inputs."""
        ids = torch.tensor([self.ids])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _text(*words: tuple[int, int]) -> tuple[int, ...]:
    """Return the token ids of a text with words at the given positions, and markers elsewhere."""
    ids = [MARKS[place % 2] for place in range(TOKENS)]
    for place, word in words:
        ids[place] = word
    return tuple(ids)


def _to(source: int) -> dict[int, int]:
    return {TARGET: source}


def _copy(architecture: str, name: str) -> Planted:
    return Planted(
        name=name,
        planted="four heads copy the word at position 1, the source, into the target",
        plan=Blueprint([PlantedLayer([copying(_to(C))] * 4)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
        architecture=architecture,
    )


def _empty_value() -> Planted:
    return Planted(
        name="empty value",
        planted=(
            "three heads attend to a marker whose value vector is zero. The fourth head copies"
            " the word at position 1"
        ),
        plan=Blueprint([PlantedLayer([copying(_to(A))] * 3 + [copying(_to(C))])]),
        ids=_text((C, 0), (B, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _cancelled() -> Planted:
    heads = [
        copying(_to(A), strength=3.0),
        copying(_to(A), strength=-3.0),
        copying(_to(C)),
        PlantedHead(*looking(_to(A)), block("word"), 0 * ones()),
    ]
    return Planted(
        name="cancelled heads",
        planted=(
            "two heads add the word at position 2 with opposite signs, and the output projection"
            " removes the output of a third head. The fourth head copies the word at position 1"
        ),
        plan=Blueprint([PlantedLayer(heads)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _residual() -> Planted:
    return Planted(
        name="residual only",
        planted=(
            "all heads of the target attend to a marker whose value vector is zero, so the target"
            " contains only its own word"
        ),
        plan=Blueprint([PlantedLayer([copying(_to(A))] * 4)], reads="word"),
        ids=_text((C, 0), (TARGET, 2)),
        sources=frozenset({TARGET}),
    )


def _relay(architecture: str, name: str, *, passes: str = "middle") -> Planted:
    """Return a case in which an intermediate token stores its own word and, with equal strength, a
    copied word, and the target copies one of these two words.
    """
    strength = 0.25 / (
        1 if architecture == "bert" else (CHANNELS / 2) ** 0.5
    )  # four heads; GPT-2 normalises their input
    first = PlantedLayer([copying({B: C}, writes="middle", strength=strength)] * 4)
    second = PlantedLayer([copying(_to(B), reads=passes)] * 4)
    copies_own = passes == "word"
    content = "position 4's own word" if copies_own else "the copied word"
    return Planted(
        name=name,
        planted=(
            "position 4 copies the word at position 1 and keeps its own word with the same"
            f" strength. In the next layer, the target copies only {content}"
        ),
        plan=Blueprint([first, second]),
        ids=_text((C, 0), (B, 1), (TARGET, 2)),
        sources=frozenset({B if copies_own else C}),
        architecture=architecture,
    )


def _null_space() -> Planted:
    weights = [1e-9] * TOKENS
    weights[A], weights[B], weights[C] = 0.45, 0.45, 0.1
    constant = torch.zeros(1, TOKENS, dtype=torch.float64)
    constant[0, A], constant[0, B] = 3.0, -3.0
    value = torch.cat([constant @ block("place"), block("word")[:2]])
    output = torch.cat([channels() @ block("middle")[:1].T, channels() @ block("got")[:2].T], 1)
    head = PlantedHead(*weighing(TARGET, weights, 3), value, output)
    return Planted(
        name="null space",
        planted=(
            "the text has more tokens than d_head. The values at two positions do not depend on"
            " the word. They have large weights and cancel each other. Only the word at position 1,"
            " which has a small weight, remains"
        ),
        plan=Blueprint([PlantedLayer([head] * 12)], d_head=3),
        ids=_text((C, 0)),
        sources=frozenset({C}),
    )


def _normed_away() -> Planted:
    decoy = PlantedHead(
        *looking(_to(A)),
        torch.tensor([[1.0, 9.0, 1.0]], dtype=torch.float64) @ block("word"),
        ones(),
    )
    return Planted(
        name="removed by the norm",
        planted=(
            "three heads encode the word at position 2 as one number and add it to all channels."
            " The layer norm removes it. The fourth head copies the word at position 1"
        ),
        plan=Blueprint([PlantedLayer([decoy] * 3 + [copying(_to(C))])]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _erased() -> Planted:
    erasing = -block("middle").T @ block("middle")
    heads = [copying(_to(A), writes="middle")] * 3 + [copying(_to(C))]
    return Planted(
        name="erased by the MLP",
        planted=(
            "three heads add the word at position 2, and the MLP of the same layer erases it. The"
            " fourth head copies the word at position 1"
        ),
        plan=Blueprint([PlantedLayer(heads, erasing)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _redundant() -> Planted:
    query = torch.eye(TOKENS, dtype=torch.float64)[TARGET][None] @ block("place")
    head = PlantedHead(
        40.0 * query, block("word").sum(0)[None], block("word"), channels() @ block("got").T
    )
    return Planted(
        name="redundant sources",
        planted=(
            "the heads of the target attend equally to all words. The same word is at positions 1"
            " and 2, so either alone is enough. Both are sources"
        ),
        plan=Blueprint([PlantedLayer([head] * 4)]),
        ids=_text((C, 0), (A, 0)),
        sources=frozenset({A, C}),
    )


def planted_cases() -> tuple[Planted, ...]:
    """Build and return all cases."""
    return (
        _copy("bert", "copy"),
        _copy("gpt2", "copy, causal"),
        _empty_value(),
        _cancelled(),
        _residual(),
        _relay("bert", "relay"),
        _relay("gpt2", "relay, causal"),
        _relay("bert", "not relayed", passes="word"),
        _null_space(),
        _normed_away(),
        _erased(),
        _redundant(),
    )
