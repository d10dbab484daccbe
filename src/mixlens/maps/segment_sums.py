"""Sum the scores of sources by segment, and select the tokens of one segment.

The first token often receives much attention, whatever it is (Xiao et al. 2024, Efficient Streaming
Language Models with Attention Sinks). It is therefore kept as a separate source, and can be left
out. If it is left out, the other scores are normalised again only if the scores of the measure sum
to one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from mixlens.contracts.scores import Extra
from mixlens.errors import InvalidInput, no_such
from mixlens.maps.rollout import row_normalised
from mixlens.text.segments import FIRST, By, group_tokens, split_segments
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

_LEFT_OUT = "first token left out"  # these are names of steps
_SUMS = "segments("
_INSIDE = "inside("


def merge_segments(maps: MixingMaps, by: By, sink: bool) -> MixingMaps:
    """Compute `MixingMaps.segments`."""
    _require_tokens(maps)
    base = maps if sink else leave_out_sink(maps)
    begins = not _has_step(maps, _INSIDE)  # otherwise the first token is not among the sources
    groups = group_tokens(
        split_segments(maps.source_row, by), sink=sink and begins, separate_first=begins
    )
    dims = tuple(dim for dim in maps.dims[1:] if dim != "source")
    share = {"sink_share": Extra(("layer", *dims), sink_share(maps.scores))}
    label = by if isinstance(by, str) else "own" if by is None else "named"
    return base.derived(
        sum_segments(base.scores, groups),
        f"{_SUMS}{label})",
        replace(base.facts, same_tokens=False),
        source_row=TokenRow(tuple(groups)),
        measured=share if begins else {},
    )


def with_segments(maps: MixingMaps, by: By) -> MixingMaps:
    """Return the maps with these segments in place of the segments of the text.

    HTML pages group the sources by these segments, and `segments()` sums their scores.
    """
    _require_tokens(maps)
    divided_tokens = replace(maps.source_row, segments=split_segments(maps.source_row, by))
    same = maps.target_row == maps.source_row
    return replace(
        maps, source_row=divided_tokens, target_row=divided_tokens if same else maps.target_row
    )


def has_sums(maps: MixingMaps) -> bool:
    """Return whether the sources are segments instead of tokens."""
    return _has_step(maps, _SUMS)


def _require_tokens(maps: MixingMaps) -> None:
    if has_sums(maps):
        raise InvalidInput(
            "These scores are already summed by segment. Use the token-level maps instead."
        )


def _has_step(maps: MixingMaps, name: str) -> bool:
    return any(step.startswith(name) for step in maps.provenance.get("steps", []))


def leave_out_sink(maps: MixingMaps) -> MixingMaps:
    """Compute `MixingMaps.without_sink`."""
    if _has_step(maps, _INSIDE):
        raise InvalidInput(
            "These maps hold only the tokens of one segment. Call without_sink() before inside()."
        )
    steps = maps.provenance.get("steps", [])
    is_gone = has_sums(maps) and maps.source_tokens[0] != FIRST
    if is_gone or (steps and steps[-1].startswith(_LEFT_OUT)):
        return maps
    scores = maps.scores.astype(np.float64)
    scores[..., 0] = 0
    if not maps.facts.rows_are_shares:
        return maps.derived(scores, _LEFT_OUT)
    whole = maps.facts.rows_sum_to_one or maps.facts.whole_rows(maps.scores)[..., None]
    scores = np.where(whole, row_normalised(scores), scores)
    step = f"{_LEFT_OUT}, normalised again"
    return maps.derived(scores, step, maps.facts.of(scores))


def tokens_inside(maps: MixingMaps, name: str, by: By) -> MixingMaps:
    """Compute `MixingMaps.inside`."""
    _require_tokens(maps)
    source_tokens = maps.source_row
    groups = group_tokens(split_segments(source_tokens, by), sink=False, separate_first=False)
    if name not in groups:
        raise InvalidInput(no_such("segment", name, list(groups), "The text has"))
    places = groups[name]
    part = TokenRow(
        tuple(source_tokens.labels[i] for i in places),
        source_tokens.text,
        None if source_tokens.offsets is None else tuple(source_tokens.offsets[i] for i in places),
        None if source_tokens.special is None else tuple(source_tokens.special[i] for i in places),
    )
    facts = replace(maps.facts, same_tokens=False, rows_sum_to_one=False, sums_vary=False)
    return maps.derived(maps.scores.take(places, -1), f"{_INSIDE}{name})", facts, source_row=part)


def sum_segments(
    scores: Float[np.ndarray, "*rows source"], groups: dict[str, list[int]]
) -> Float[np.ndarray, "*rows segment"]:
    """Sum the scores of each group of sources."""
    wide = scores.astype(np.float64)
    return np.stack([wide[..., places].sum(-1) for places in groups.values()], -1)


def sink_share(scores: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows"]:
    """Return the normalised score of the first token. It is 0 for a target whose scores are all
    zero.
    """
    sizes = np.abs(scores.astype(np.float64))
    sums = sizes.sum(-1)
    share: np.ndarray = np.divide(sizes[..., 0], sums, out=np.zeros_like(sums), where=sums > 0)
    return share
