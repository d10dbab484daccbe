"""Rollout: the product of the layers' maps, R_l = M_l R_(l-1) with R_0 = M_0, so that R_l maps the
targets of layer l to the input tokens.

Abnar & Zuidema (2020), "Quantifying Attention Flow in Transformers", ACL, section 3, equation 1.
Their M is the mean of the attention weights and the identity, which stands for the residual stream.
Maps of measures that include the residual are multiplied as they are. The authors' code adds the
identity and divides by the sum over sources, which gives the same numbers, because attention
weights sum to one. If they do not (because of an attention sink), mixlens divides the mixed scores
by their sum, as that code does.

In a causal model, the first token attends to no other token, so it is an absorbing state of the
product: with every layer, more of each target's score moves to the first token. If it holds almost
all of the score, the rollout has collapsed and does not distinguish targets.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.maps.target_row import shares

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.maps.mixing_maps import MixingMaps


def row_normalised(
    maps: Float[np.ndarray, "*layers target source"],
) -> Float[np.ndarray, "*layers target source"]:
    """Return scores divided by their sum over sources, in float64.

    Scores that sum to zero stay as they are.
    """
    wide = maps.astype(np.float64)
    sums = wide.sum(-1, keepdims=True)
    shares: np.ndarray = np.divide(wide, sums, out=wide, where=sums != 0)
    return shares


def normalise(maps: MixingMaps, absolute: bool) -> MixingMaps:
    """Compute `MixingMaps.normalised`."""
    if maps.facts.signed and not absolute:
        raise InvalidInput(
            "These scores are signed, so their sum may be close to zero. Use "
            "normalised(absolute=True)."
        )
    shares = row_normalised(np.abs(maps.scores) if absolute else maps.scores)
    facts = replace(maps.facts, signed=False, rows_sum_to_one=True).of(shares)
    return maps.derived(shares, f"normalised({'absolute' if absolute else ''})", facts)


def transitions(
    maps: Float[np.ndarray, "layer token token"],
    *,
    residual: float | int = 0.0,
    normalise: bool = True,
) -> Float[np.ndarray, "layer token token"]:
    """Return the transition matrix of each layer.

    A transition matrix is the sum of the map, weighted by 1 - `residual`, and the identity,
    weighted by `residual`. With `normalise`, its rows are then divided by their sums.
    """
    if not 0 <= residual <= 1:
        raise InvalidInput(f"residual={residual} is out of range. Pass a fraction in [0, 1].")
    mixed = (1 - residual) * maps.astype(np.float64) + residual * np.eye(maps.shape[-1])
    return row_normalised(mixed) if normalise else mixed


def rollout(
    maps: Float[np.ndarray, "layer token token"],
    *,
    residual: float | int = 0.0,
    normalise: bool = True,
) -> Float[np.ndarray, "layer token token"]:
    """Return the product of the transition matrices up to each layer.

    `maps` contains the maps of all layers, from the first to the last.
    """
    steps = transitions(maps, residual=residual, normalise=normalise)
    for layer in range(1, len(steps)):
        steps[layer] = steps[layer] @ steps[layer - 1]
    return steps


def roll_out(
    maps: MixingMaps, residual: float | int | None = None, normalise: bool | None = None
) -> MixingMaps:
    """Compute `MixingMaps.rollout`."""
    require_whole_stack(maps)
    rule = Rule.of(maps, residual, normalise)
    passed = rule.passed_on(maps.scores, np.arange(maps.scores.shape[-1]))
    product = rollout(passed, normalise=False)
    step = f"rollout({rule})"
    return maps.derived(product, step, join_facts(maps.facts, rule, step, product))


class Transitions(NamedTuple):
    """Transition matrices of all layers, with the options used to compute them."""

    steps: np.ndarray  # [layer, token, token]
    rule: str
    with_identity: bool
    normalised: bool


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Options that define the transition matrix of a layer, for all or some of its targets."""

    residual: float  # parts of the identity
    normalise: bool
    adds_identity: bool
    divides_first: (
        bool  # otherwise the fraction of the identity would depend on the unit of the scores
    )
    divides_last: bool

    @classmethod
    def of(
        cls, about: MixingMaps | Spec, residual: float | int | None, normalise: bool | None
    ) -> Rule:
        """Return the rollout options. If an option is None, use the default of the measure."""
        normalise = about.rollout_normalised if normalise is None else normalise
        adds_identity = about.rollout_adds_identity and residual is None
        residual = about.rollout_residual or 0.0 if residual is None else residual
        if not isinstance(residual, Real) or not 0 <= residual <= 1:
            raise InvalidInput(f"residual={residual!r} is out of range. Pass a fraction in [0, 1].")
        residual = float(residual)
        signed_shares = about.facts.signed and about.facts.rows_sum_to_one
        if about.facts.signed and normalise and not signed_shares and not adds_identity:
            raise InvalidInput(
                "These scores are signed, so their sum may be close to zero and cannot be used to "
                "normalise them. Choose a measure with non-negative scores, turn normalisation "
                "off, or aggregate absolute values with normalised(absolute=True)."
            )
        # If a measure has its own residual, scores and identity are on one scale.
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
        """Return whether the transition includes the residual stream."""
        return self.adds_identity or self.residual > 0

    def passed_on(
        self,
        scores: Float[np.ndarray, "*layers target source"],
        positions: Int[np.ndarray, " target"],
    ) -> Float[np.ndarray, "*layers target source"]:
        """Return the rows of the transition matrix for these targets, in float64.

        If all scores of a target are zero, the row of the identity matrix is returned for this
        target.
        """
        identity = np.zeros(scores.shape[-2:])
        identity[np.arange(len(positions)), positions] = 1
        if self.adds_identity:
            added = scores.astype(np.float64) + identity
            return row_normalised(added) if self.normalise else added
        shares = row_normalised(scores) if self.divides_first else scores.astype(np.float64)
        mixed = (1 - self.residual) * shares + self.residual * identity
        mixed = row_normalised(mixed) if self.divides_last else mixed
        return np.where(scores.any(-1, keepdims=True), mixed, identity)


def layer_transitions(
    maps: MixingMaps, residual: float | int | None, normalise: bool | None
) -> Transitions:
    """Return the transition matrix of every layer of the maps.

    If `residual` or `normalise` is None, the default of the measure is used.
    """
    require_whole_stack(maps)
    rule = Rule.of(maps, residual, normalise)
    steps = rule.passed_on(maps.scores, np.arange(maps.scores.shape[-1]))
    return Transitions(steps, str(rule), rule.with_identity, rule.normalise)


def join_facts(
    facts: Facts, rule: Rule, step: str, product: Float[np.ndarray, "*layers target source"]
) -> Facts:
    """Return the properties of the scores after a rollout."""
    return replace(
        facts,
        rows_sum_to_one=rule.normalise or facts.rows_are_shares,
        sums_vary=False,
        residual_included=facts.residual_included or rule.with_identity,
        joined_by=step,
    ).of(product)


def require_whole_stack(maps: MixingMaps) -> None:
    """Raise an error unless each layer's targets are the next layer's sources."""
    if maps.per_head:
        raise InvalidInput(
            "Heads cannot be aggregated over layers. Merge them with maps.heads('mean'), or "
            "select one with maps.head(k)."
        )
    facts = maps.facts
    if facts.joined_by is not None:
        raise InvalidInput(
            f"These maps are already aggregated ({facts.joined_by}). Use the maps of all "
            "layers that the measure returned."
        )
    if facts.reaches_input:
        raise InvalidInput(
            f"Each layer of {maps.provenance.get('measure')} already refers to the input "
            "tokens. Use a single layer instead."
        )
    if not facts.same_tokens or maps.target_row.labels != maps.source_row.labels:
        raise InvalidInput(
            "Targets and sources of these maps are different tokens. Layers can be "
            "aggregated only for self-attention."
        )
    if list(maps.target_positions) != list(range(len(maps.target_row))):
        raise InvalidInput(
            "These maps hold only some targets, but every token of a layer contributes to "
            "the next one. Measure all targets."
        )
    if list(maps.layers) != list(range(len(maps.layers))):
        raise InvalidInput(
            f"These maps hold the layers {', '.join(map(str, maps.layers))}, but aggregation "
            "needs every layer from 0 on. Measure all layers, then select some. If the model has "
            "unsupported layers (`mixlens doctor` lists them), its layers cannot be "
            "aggregated."
        )


MEAN_SHARE = 0.75  # of all other targets, on average
LEAST_SHARE = 0.5  # of each of them
FEWEST = 3  # sources; with two, one always has half


class Collapse(NamedTuple):
    """The source onto which a rollout has collapsed, with its mean score over all other targets.

    The scores are normalised, so the mean lies between 0 and 1.
    """

    source: int
    token: str
    share: float

    def __str__(self) -> str:
        return (
            f"The rollout has collapsed onto the token {self.token!r} (position "
            f"{self.source}), which receives {self.share:.0%} of the scores of other targets on "
            "average. It hardly distinguishes targets. Use the mean of the layers instead."
        )


def collapse_of(maps: MixingMaps, place: int = -1) -> Collapse | None:
    """Return the source onto which a rollout of tokens has collapsed, or None if it has not.

    `place` is the index of the layer in the maps.
    """
    is_rollout = (maps.facts.joined_by or "").startswith("rollout")
    of_tokens = maps.facts.same_tokens and len(maps.source_row) == len(maps.target_row)
    if not is_rollout or not of_tokens or len(maps.source_row) < FEWEST:
        return None
    positions = np.array(maps.target_positions)
    target_shares = np.abs(shares(maps.scores[place]))
    source = int(target_shares.sum(0).argmax())
    shares_of_source = target_shares[positions != source, source]
    if (
        not len(shares_of_source)
        or shares_of_source.mean() < MEAN_SHARE
        or shares_of_source.min() < LEAST_SHARE
    ):
        return None
    return Collapse(source, maps.source_tokens[source], float(shares_of_source.mean()))


def warn_of_collapse(maps: MixingMaps) -> MixingMaps:
    """Emit a `UserWarning` if the maps are a rollout that has collapsed, and return the maps."""
    collapse = collapse_of(maps)
    if collapse is not None:
        warnings.warn(str(collapse), stacklevel=3)
    return maps
