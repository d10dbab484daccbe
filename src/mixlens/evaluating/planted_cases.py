"""The planted cases: a model with a plan, a text of eight tokens, a target, and the sources that
are truly in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from mixlens.evaluating.planted_models import (
    CHANNELS,
    MARKS,
    TOKENS,
    Blueprint,
    PlantedHead,
    PlantedLayer,
    block,
    build_model,
    channels,
    copying,
    looking,
    ones,
    weighing,
)
from mixlens.lens import Lens
from mixlens.recording.recording import Recording

A, B, C = (
    2,
    4,
    1,
)  # places: of the decoy, of another decoy or go-between, and of what the target truly gets
TARGET = TOKENS - 1  # the last, so that a causal model sees all of them


@dataclass(frozen=True, eq=False, kw_only=True)
class Planted:
    """A case.

    `sources` are the places whose word is in the target's final state; the target's own place is
    left aside.

    If `sources` is the target alone, nothing else is in it.
    """

    name: str
    planted: str  # what was done, and what is true
    plan: Blueprint
    ids: tuple[int, ...]
    sources: frozenset[int]
    architecture: str = "bert"
    target: int = TARGET

    @cached_property
    def recording(self) -> Recording:
        """The hand-built model, recorded on its tokens."""
        ids = torch.tensor([self.ids])
        return Lens(build_model(self.architecture, self.plan)).record(
            {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        )


def _text(*words: tuple[int, int]) -> tuple[int, ...]:
    """Marks, with words at the given places."""
    ids = [MARKS[place % 2] for place in range(TOKENS)]
    for place, word in words:
        ids[place] = word
    return tuple(ids)


def _to(source: int) -> dict[int, int]:
    return {TARGET: source}


def _copy(architecture: str, name: str) -> Planted:
    return Planted(
        name=name,
        planted="four heads copy the word at place 1 into the target: it is the source",
        plan=Blueprint([PlantedLayer([copying(_to(C))] * 4)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
        architecture=architecture,
    )


def _empty_value() -> Planted:
    return Planted(
        name="empty value",
        planted=(
            "three heads look at a mark, which has nothing that they carry (its value is zero)."
            " One copies the word at place 1"
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
            "two heads bring the word at place 2 with opposite signs, and the output projection"
            " drops what a third brings from there. The fourth copies the word at place 1"
        ),
        plan=Blueprint([PlantedLayer(heads)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _residual() -> Planted:
    return Planted(
        name="residual only",
        planted=(
            "all heads of the target look at a mark and bring nothing: only its own word is in it"
        ),
        plan=Blueprint([PlantedLayer([copying(_to(A))] * 4)], reads="word"),
        ids=_text((C, 0), (TARGET, 2)),
        sources=frozenset({TARGET}),
    )


def _relay(architecture: str, name: str, *, passes: str = "middle") -> Planted:
    """A go-between has its own word and, with the same strength, one that it took. The target takes
    one of the two.
    """
    strength = 0.25 / (
        1 if architecture == "bert" else (CHANNELS / 2) ** 0.5
    )  # four heads; GPT-2 norms what they read
    first = PlantedLayer([copying({B: C}, writes="middle", strength=strength)] * 4)
    second = PlantedLayer([copying(_to(B), reads=passes)] * 4)
    own = passes == "word"
    taken = "the word of place 4 itself" if own else "what place 4 copied"
    return Planted(
        name=name,
        planted=(
            "place 4 copies the word at place 1 and keeps its own with the same strength. In the"
            f" next layer the target takes only {taken}"
        ),
        plan=Blueprint([first, second]),
        ids=_text((C, 0), (B, 1), (TARGET, 2)),
        sources=frozenset({B if own else C}),
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
            "there are more tokens than d_head. Two places have constant values, whatever is"
            " there, that cancel under large weights. The word at place 1 has a small weight and"
            " is what remains"
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
        name="normed away",
        planted=(
            "three heads bring the word at place 2 as one number added to all channels, which the"
            " layer norm takes away. The fourth copies the word at place 1"
        ),
        plan=Blueprint([PlantedLayer([decoy] * 3 + [copying(_to(C))])]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _erased() -> Planted:
    erasing = -block("middle").T @ block("middle")
    heads = [copying(_to(A), writes="middle")] * 3 + [copying(_to(C))]
    return Planted(
        name="erased by the perceptron",
        planted=(
            "three heads bring the word at place 2, and the feed-forward network of the same"
            " layer erases it. The fourth copies the word at place 1"
        ),
        plan=Blueprint([PlantedLayer(heads, erasing)]),
        ids=_text((C, 0), (A, 1), (TARGET, 2)),
        sources=frozenset({C}),
    )


def _understudies() -> Planted:
    query = torch.eye(TOKENS, dtype=torch.float64)[TARGET][None] @ block("place")
    head = PlantedHead(
        40.0 * query, block("word").sum(0)[None], block("word"), channels() @ block("got").T
    )
    return Planted(
        name="understudies",
        planted=(
            "the heads of the target share their weight among all words. The same word is at"
            " places 1 and 2, so either alone would do. Both are sources"
        ),
        plan=Blueprint([PlantedLayer([head] * 4)]),
        ids=_text((C, 0), (A, 0)),
        sources=frozenset({A, C}),
    )


def planted_cases() -> tuple[Planted, ...]:
    """All cases, freshly built."""
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
        _understudies(),
    )
