"""Render the maps of one text in the viewer, for the report of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from mixlens.datasets.examples import Example
from mixlens.errors import MixlensError
from mixlens.evaluating.case import Case
from mixlens.measures import ready_measures
from mixlens.views.viewer.page import frame
from mixlens.views.viewer.payload import payload_of

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps

MEASURES = ("value_zeroing", "attention", "attention_norm", "alti")

_LOOKED_AT = 50  # number of texts from which the shortest is shown
_MOST = 6  # measures


def example_frame(lens: Lens, examples: Sequence[Example], measures: Sequence[str]) -> str:
    """Return an HTML frame in which the viewer shows the shortest of the first few texts.

    Return an empty string if there are no texts, or if no measure has maps for this model.
    """
    if not examples:
        return ""
    shortest = min(examples[:_LOOKED_AT], key=lambda each: len(each.text) + len(each.pair or ""))
    try:
        case = Case(lens, shortest)
        maps = list(islice(_maps(case, measures), _MOST))
        if not maps:
            return ""
        target = case.target if case.target in maps[0].target_positions else None
        return frame(payload_of(maps, target=target, title=shortest.name))
    except MixlensError:  # a report without an example is still useful
        return ""


def _maps(case: Case, measures: Sequence[str]) -> Iterator[MixingMaps]:
    specs = ready_measures()
    for name in measures:
        spec = specs.get(name)
        if spec is None or spec.gives != "maps" or spec.explains_output:
            continue
        try:
            yield case.maps(name)
        except MixlensError:
            continue
