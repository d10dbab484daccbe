"""MixingMaps: how much of each source token is in each target token of one text, layer by layer,
with labels and provenance.

Rows are targets, columns are sources. Maps never change: every method returns new ones and notes
what it did in `provenance["steps"]`. Extras (a standard error, a rank ...) belong to the scores as
they were measured: selections keep them, whatever computes new scores drops them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.maps import storage
from mixlens.maps.collapse import warn_of_collapse
from mixlens.maps.flow import flow_through
from mixlens.maps.labelling import labelled_scores
from mixlens.maps.lazy_views import view
from mixlens.maps.merging import merge_spans, merge_words
from mixlens.maps.one_row import reading_of
from mixlens.maps.rollout import normalise, roll_out
from mixlens.maps.segment_sums import leave_out_sink, merge_segments, tokens_inside, with_segments
from mixlens.maps.selection import merge_heads, one_head, select
from mixlens.maps.target_row import Extra, Reading, Row, owned
from mixlens.text.positions import position_of
from mixlens.text.segments import By
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixingMaps:
    """One text's scores: [layer, target, source], or [layer, head, target, source]."""

    scores: np.ndarray
    layers: tuple[int, ...]
    target_row: TokenRow
    source_row: TokenRow
    target_positions: tuple[int, ...]  # the targets that `scores` has, as positions of `target_row`
    facts: Facts
    provenance: dict[str, Any]
    rollout_residual: float | int | None = None
    rollout_normalised: bool = True
    rollout_adds_identity: bool = False
    measured: Mapping[str, Extra] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scores.ndim not in (3, 4):
            raise InvalidInput(
                "scores are [layer, target, source] or [layer, head, target, source], not"
                f" {self.scores.shape}"
            )
        expected = (len(self.layers), len(self.target_positions), len(self.source_row))
        if (self.scores.shape[0], *self.scores.shape[-2:]) != expected:
            raise InvalidInput(
                f"scores of shape {self.scores.shape} do not fit {expected} layers, targets and"
                " sources"
            )
        wide = np.result_type(self.scores.dtype, np.float32)
        object.__setattr__(self, "scores", owned(self.scores, wide))

    @classmethod
    def of(
        cls,
        scores: Any,
        tokens: Sequence[str] | TokenRow | None = None,
        source_tokens: Sequence[str] | TokenRow | None = None,
        *,
        measure: str = "unnamed",
        facts: Facts | None = None,
        rollout_residual: float | int | None = None,
        rollout_normalised: bool | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> MixingMaps:
        """Maps of numbers that you have: [layer, (head,) target, source].

        Without `source_tokens` the sources are the targets. If mixlens knows the `measure`, its
        facts and its way of rolling out hold unless you say otherwise.
        """
        return cls(
            **labelled_scores(
                scores,
                tokens,
                source_tokens,
                measure=measure,
                facts=facts,
                rollout_residual=rollout_residual,
                rollout_normalised=rollout_normalised,
                provenance=provenance,
            )
        )

    @property
    def per_head(self) -> bool:
        """Do the scores have an axis of heads?"""
        return self.scores.ndim == 4

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes of the scores."""
        return ("layer", *(("head",) if self.per_head else ()), "target", "source")

    @property
    def tokens(self) -> tuple[str, ...]:
        """Labels of the targets, one for each row."""
        return tuple(self.target_row.labels[i] for i in self.target_positions)

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """Labels of the sources, one for each column."""
        return self.source_row.labels

    @cached_property
    def data(self) -> xr.DataArray:
        """`scores` with their labels; `target` and `source` are positions in the text."""
        from mixlens.maps.tables import labelled

        return labelled(self, str(self.provenance.get("measure")), self.dims, self.scores)

    @cached_property
    def extras(self) -> dict[str, xr.DataArray]:
        """What was measured next to the scores, by name."""
        from mixlens.maps.tables import labelled

        return {
            name: labelled(self, name, extra.dims, extra.values)
            for name, extra in self.measured.items()
        }

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each score: layer, (head,) target, target_token, source, source_token,
        score.
        """
        from mixlens.maps.tables import long_table

        return long_table(self)

    def row(self, target: int | str) -> Row:
        """One target, by its position (negative: from the end), or by its label if only one token
        has it.
        """
        position = position_of(target, self.target_row, self.target_positions)
        values = self.scores[..., self.target_positions.index(position), :]
        label = self.target_row.labels[position]
        return Row(position, label, values, self.layers, self.source_tokens, self.reading)

    @property
    def reading(self) -> Reading:
        """How the layers are read as one where no layer is named: `reading.of(scores)` are the
        numbers, `reading.name` says it in words.
        """
        return reading_of(self)

    def __eq__(self, other: object) -> bool:
        """The same numbers, bit by bit, and everything that is known about them."""
        if not isinstance(other, MixingMaps):
            return NotImplemented
        return storage.same(self, other)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        about = [str(self.provenance.get("measure")), *self.provenance.get("steps", [])]
        shown = " ".join(self.tokens[:8]) + (" …" if len(self.tokens) > 8 else "")
        sizes = " × ".join(
            f"{n} {dim}{'s' * (n != 1)}"
            for n, dim in zip(self.scores.shape, self.dims, strict=True)
        )
        model = self.provenance.get("name") or self.provenance.get("model")
        return (
            f"<MixingMaps {' → '.join(about)}{f' of {model}' if model else ''}: {sizes}; {shown}>"
        )

    def at(
        self,
        *,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
    ) -> MixingMaps:
        """Some layers (by number; negative: from the end of those held) and some targets (as in
        `row`).
        """
        return select(self, layers, targets)

    def head(self, number: int) -> MixingMaps:
        """The maps of one head."""
        return one_head(self, number)

    def heads(self, how: str = "mean") -> MixingMaps:
        """All heads merged: "mean", "sum" or "max".

        For measures of vectors this is not the measure of the whole layer.
        """
        return merge_heads(self, how)

    def derived(
        self, scores: np.ndarray, step: str, facts: Facts | None = None, **changes: Any
    ) -> MixingMaps:
        """New scores in the dtype of these, with the step noted."""
        about = {**self.provenance, "steps": [*self.provenance.get("steps", []), step]}
        changes = {"facts": facts or self.facts, "provenance": about, "measured": {}, **changes}
        return replace(self, scores=scores.astype(self.scores.dtype), **changes)

    def normalised(self, *, absolute: bool = False) -> MixingMaps:
        """Rows that sum to one over the sources. A row of zeros stays so.

        `absolute` takes the sizes of signed scores.
        """
        return normalise(self, absolute)

    def rollout(
        self, residual: float | int | None = None, normalise: bool | None = None
    ) -> MixingMaps:
        """The product of the maps up to each layer: how much of each input token is there (Abnar &
        Zuidema 2020).

        `residual` is the share of the identity mixed into each layer (0: none), `normalise` makes
        rows sum to one. By default as the measure's own authors do: half the identity for
        attention, none for others; rows normalised except for GlobEnc.

        In causal models the product often collapses onto the first token, which takes from no
        other; a warning then names it.
        """
        return warn_of_collapse(roll_out(self, residual, normalise))

    def flow(
        self,
        targets: Sequence[int | str] | None = None,
        layers: Sequence[int] | str | None = None,
        *,
        residual: float | int | None = None,
        normalise: bool | None = None,
    ) -> MixingMaps:
        """The maximum flow from each target to every input token, through the layers as pipes
        (Abnar & Zuidema 2020).

        From the last layer only, since it is slow; `layers` names others, "all" takes each. The
        rest as in `rollout`.
        """
        return flow_through(self, targets, layers, residual, normalise)

    def mean(self) -> MixingMaps:
        """The mean over layers, as one map under the number of the last layer."""
        mean = self.scores.astype(np.float64).mean(0, keepdims=True)
        facts = replace(self.facts, joined_by="mean()", sums_vary=False)
        return self.derived(mean, "mean()", facts, layers=self.layers[-1:])

    def last(self) -> MixingMaps:
        """The last layer alone."""
        return self.at(layers=[self.layers[-1]])

    def words(self, sources: str = "sum", targets: str = "mean") -> MixingMaps:
        """Sub-words merged into words, over columns and rows: "sum", "mean", "max" or "first".

        If only some targets were measured, a word is merged from those of its pieces that were.
        Sources that are segments stay as they are.
        """
        return merge_words(self, sources, targets)

    def spans(
        self,
        sources: Sequence[tuple[int, int]] | None = None,
        targets: Sequence[tuple[int, int]] | None = None,
        *,
        merge_sources: str = "sum",
        merge_targets: str = "mean",
    ) -> MixingMaps:
        """The given token ranges (first, after the last) merged on each side; all other tokens stay
        as they are. Ranges are positions in the text, also for maps of a few targets.
        """
        return merge_spans(self, sources, targets, merge_sources, merge_targets)

    def segments(self, by: By = None, *, sink: bool = True) -> MixingMaps:
        """Sources summed by segment: "sentences", "paragraphs", "turns", or {name: (first
        character, after the last) or text}. By default the turns of a chat, or prompt and answer.

        The first token, which often gets much attention, is a column of its own;
        `extras["sink_share"]` has its share. `sink=False` leaves it out, as `without_sink` does.
        """
        return merge_segments(self, by, sink)

    def inside(self, segment: str, by: By = None) -> MixingMaps:
        """The tokens of one segment alone, as sources; `by` as in `segments`."""
        return tokens_inside(self, segment, by)

    def without_sink(self) -> MixingMaps:
        """The first token as a source counts as zero. Rows that summed to one are divided by what
        is left.
        """
        return leave_out_sink(self)

    def plot(
        self,
        kind: str | None = None,
        *,
        target: int | str | None = None,
        layer: int | None = None,
        head: int | None = None,
        **options: Any,
    ) -> Figure:
        """A matplotlib figure, ready for a paper: `plot("flow", target="[MASK]").savefig(…)`.

        Kinds: "map", "target", "layers", "heads", "text", "curves", "alignment", "flow". Without
        one, what was chosen decides: one target through the layers, one layer's map, or the maps of
        all layers or heads. Needs the extra `plot`.
        """
        figure: Figure = view("plots").plot(
            self, kind, target=target, layer=layer, head=head, **options
        )
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file (safetensors), which `mixlens.load` reads."""
        storage.save(self, path)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *others: MixingMaps,
        segments: By = None,
        **shown: Any,
    ) -> None:
        """Writes one self-contained page that shows these maps, and those of other measures next
        to them; `shown` as in `mixlens.views.viewer.payload.payload_of` (target, title, image,
        seconds).

        The page groups sources by `segments`, given as in `MixingMaps.segments`; by default by
        those that the text has, such as the turns of a chat.
        """
        given = [self, *others]
        if segments is not None:
            given = [with_segments(each, segments) for each in given]
        view("viewer.page").write(view("viewer.payload").payload_of(given, **shown), path)

    def _repr_html_(self) -> str:
        frame: str = view("viewer.page").frame(view("viewer.payload").payload_of(self))
        return frame


def load(path: str | os.PathLike[str]) -> MixingMaps:
    """Maps as they were saved, bit by bit."""
    return storage.load(path, MixingMaps)
