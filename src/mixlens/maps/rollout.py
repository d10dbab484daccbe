"""Rollout: the maps of the layers multiplied, R_l = M_l R_(l-1) with R_0 = M_0, so that R_l reads
from layer l down to the input.

Abnar & Zuidema (2020), "Quantifying Attention Flow in Transformers", ACL, section 3, equation 1.
Their M is attention with half of the identity mixed in for the residual stream; measures that hold
the residual already are multiplied as they are. Their own code adds a whole identity and divides
each row by its sum: the same numbers, because rows of attention sum to one. If they do not (a sink
took its part), the rows are divided by their sum after the mixing, as in that code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.maps.mixing_maps import MixingMaps


def row_normalised(
    maps: Float[np.ndarray, "*layers target source"],
) -> Float[np.ndarray, "*layers target source"]:
    """Rows divided by their sum, in float64.

    A row that sums to zero has nothing to share out and stays as it is.
    """
    wide = maps.astype(np.float64)
    sums = wide.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(wide, sums, out=wide, where=sums != 0)
    return shares


def normalise(maps: MixingMaps, absolute: bool) -> MixingMaps:
    """`MixingMaps.normalised`."""
    if maps.facts.signed and not absolute:
        raise InvalidInput(
            "these scores have both signs, so a row may sum to almost nothing: use"
            " normalised(absolute=True)"
        )
    shares = row_normalised(np.abs(maps.scores) if absolute else maps.scores)
    facts = replace(maps.facts, signed=False, rows_sum_to_one=True).of(shares)
    return maps.derived(shares, f"normalised({'absolute' * absolute})", facts)


def transitions(
    maps: Float[np.ndarray, "layer token token"],
    *,
    residual: float | int = 0.0,
    normalise: bool = True,
) -> Float[np.ndarray, "layer token token"]:
    """What one layer passes on: `residual` parts of the identity, the rest of the map; then rows
    are made to sum to one.
    """
    if not 0 <= residual <= 1:
        raise InvalidInput(f"residual={residual}: the identity's share lies between 0 and 1")
    mixed = (1 - residual) * maps.astype(np.float64) + residual * np.eye(maps.shape[-1])
    return row_normalised(mixed) if normalise else mixed


def rollout(
    maps: Float[np.ndarray, "layer token token"],
    *,
    residual: float | int = 0.0,
    normalise: bool = True,
) -> Float[np.ndarray, "layer token token"]:
    """The product up to each layer, from maps of all layers in order."""
    steps = transitions(maps, residual=residual, normalise=normalise)
    for layer in range(1, len(steps)):
        steps[layer] = steps[layer] @ steps[layer - 1]
    return steps


def roll_out(
    maps: MixingMaps, residual: float | int | None = None, normalise: bool | None = None
) -> MixingMaps:
    """`MixingMaps.rollout`."""
    require_whole_stack(maps)
    rule = Rule.of(maps, residual, normalise)
    passed = rule.passed_on(maps.scores, np.arange(maps.scores.shape[-1]))
    product = rollout(passed, normalise=False)
    step = f"rollout({rule})"
    return maps.derived(product, step, joined_facts(maps.facts, rule, step, product))


class Transitions(NamedTuple):
    """What each layer of maps passes on, and by which rule."""

    steps: np.ndarray  # [layer, token, token]
    rule: str
    with_identity: bool
    normalised: bool


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a layer passes on, row by row."""

    residual: float  # parts of the identity
    normalise: bool
    adds_identity: bool
    divides_first: bool  # else the identity's share would depend on the unit of the scores
    divides_last: bool

    @classmethod
    def of(
        cls, about: MixingMaps | Spec, residual: float | int | None, normalise: bool | None
    ) -> Rule:
        """The defaults of the measure, unless they are overridden."""
        normalise = about.rollout_normalised if normalise is None else normalise
        adds_identity = about.rollout_adds_identity and residual is None
        residual = about.rollout_residual or 0.0 if residual is None else residual
        if not isinstance(residual, Real) or not 0 <= residual <= 1:
            raise InvalidInput(f"residual={residual!r}: the identity's share lies between 0 and 1")
        residual = float(residual)
        signed_shares = about.facts.signed and about.facts.rows_sum_to_one
        if about.facts.signed and normalise and not signed_shares and not adds_identity:
            raise InvalidInput(
                "these scores have both signs, so a row may sum to almost nothing and dividing by"
                " that sum means nothing. Choose a measure without signs, take the plain product"
                " (not normalised), or join the sizes alone (normalised, absolute)."
            )
        # With a residual of its own, a measure has scores and identity on one scale.
        one_scale = about.rollout_residual is not None
        return cls(
            residual=residual,
            normalise=normalise,
            adds_identity=adds_identity,
            divides_first=normalise and residual > 0 and not one_scale,
            divides_last=normalise and not signed_shares,
        )

    def __str__(self) -> str:
        if self.adds_identity:
            return f"identity added, normalise={self.normalise}"
        return f"residual={self.residual:g}, normalise={self.normalise}"

    @property
    def with_identity(self) -> bool:
        """Is the residual stream in what is passed on?"""
        return self.adds_identity or self.residual > 0

    def passed_on(
        self,
        scores: Float[np.ndarray, "*layers target source"],
        positions: Int[np.ndarray, " target"],
    ) -> Float[np.ndarray, "*layers target source"]:
        """What these targets pass on, in float64; a target that takes nothing keeps what it had."""
        own = np.zeros(scores.shape[-2:])
        own[np.arange(len(positions)), positions] = 1
        if self.adds_identity:
            added = scores.astype(np.float64) + own
            return row_normalised(added) if self.normalise else added
        shares = row_normalised(scores) if self.divides_first else scores.astype(np.float64)
        mixed = (1 - self.residual) * shares + self.residual * own
        mixed = row_normalised(mixed) if self.divides_last else mixed
        return np.where(scores.any(-1, keepdims=True), mixed, own)


def layer_transitions(
    maps: MixingMaps, residual: float | int | None, normalise: bool | None
) -> Transitions:
    """`transitions` of maps, checked, with the defaults of their measure filled in."""
    require_whole_stack(maps)
    rule = Rule.of(maps, residual, normalise)
    steps = rule.passed_on(maps.scores, np.arange(maps.scores.shape[-1]))
    return Transitions(steps, str(rule), rule.with_identity, rule.normalise)


def joined_facts(
    facts: Facts, rule: Rule, step: str, product: Float[np.ndarray, "*layers target source"]
) -> Facts:
    """What is true of a rollout."""
    return replace(
        facts,
        rows_sum_to_one=rule.normalise or facts.rows_are_shares,
        sums_vary=False,
        residual_included=facts.residual_included or rule.with_identity,
        joined_by=step,
    ).of(product)


def require_whole_stack(maps: MixingMaps) -> None:
    """Layers can be joined only if each one's targets are the next one's sources."""
    if maps.per_head:
        raise InvalidInput(
            "heads cannot be followed from layer to layer: merge them with maps.heads('mean'), or"
            " take one with maps.head(k)"
        )
    facts = maps.facts
    if facts.joined_by is not None:
        raise InvalidInput(
            f"these maps already join layers ({facts.joined_by}): start from the measure's own maps"
        )
    if facts.reaches_input:
        raise InvalidInput(
            f"each layer of {maps.provenance.get('measure')} already speaks of the input tokens:"
            " there is nothing to join"
        )
    if not facts.same_tokens or maps.target_row.labels != maps.source_row.labels:
        raise InvalidInput(
            "layers can be joined only if targets and sources are the same tokens"
            " (self-attention), which is not so here"
        )
    if list(maps.target_positions) != list(range(len(maps.target_row))):
        raise InvalidInput(
            "these maps hold only some targets, and every token of a layer feeds the next one:"
            " measure all targets"
        )
    if list(maps.layers) != list(range(len(maps.layers))):
        raise InvalidInput(
            f"these maps hold the layers {', '.join(map(str, maps.layers))}, and joining them needs"
            " every layer from 0 on: measure all layers, then take what you need. If the model"
            " itself leaves out layers (`mixlens doctor` names them), its layers cannot be joined."
        )
