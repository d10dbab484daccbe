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
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens import storage
from mixlens.aggregation.flow import flow_through
from mixlens.aggregation.merging import merge_spans, merge_words
from mixlens.aggregation.rollout import roll_out, row_normalized
from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.measures import known_spec
from mixlens.provenance import plain
from mixlens.row import Extra, Row, frozen, head_index, layer_index, position_of
from mixlens.tokens import TokenRow, listed, whole_numbers
from mixlens.views import view

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
    rollout_normalized: bool = True
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
        own = np.array(self.scores, dtype=np.result_type(self.scores.dtype, np.float32), order="C")
        object.__setattr__(self, "scores", frozen(own))

    # --------------------------------------------------------------------------------- construction

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
        rollout_normalized: bool | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> MixingMaps:
        """Maps of numbers that you have: [layer, (head,) target, source].

        Without `source_tokens` the sources are the targets.

        If mixlens knows the `measure`, its facts and its way of rolling out hold unless you say
        otherwise.
        """
        array = np.asarray(scores)
        if not np.isfinite(array).all():
            raise InvalidInput("the scores hold NaN or infinity")
        spec = known_spec(measure)
        targets = _row(tokens, array.shape[-2] if array.ndim > 1 else 0)
        sources = targets if source_tokens is None else _row(source_tokens, array.shape[-1])
        if spec is not None:
            facts = spec.facts if facts is None else facts
            rollout_residual = (
                spec.rollout_residual if rollout_residual is None else rollout_residual
            )
            rollout_normalized = (
                spec.rollout_normalized if rollout_normalized is None else rollout_normalized
            )
        facts = facts or Facts()
        about = {"measure": measure, "options": {}, "steps": [], **(provenance or {})}
        return cls(
            scores=array,
            layers=tuple(range(len(array))),
            target_row=targets,
            source_row=sources,
            target_positions=tuple(range(len(targets))),
            facts=replace(facts, same_tokens=facts.same_tokens and sources == targets),
            provenance=plain(about),
            rollout_residual=rollout_residual,
            rollout_normalized=rollout_normalized is not False,
            rollout_adds_identity=spec is not None and spec.rollout_adds_identity,
        )

    # ---------------------------------------------------------------------------------------- views

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
        from mixlens.tables import labelled

        return labelled(self, str(self.provenance.get("measure")), self.dims, self.scores)

    @cached_property
    def extras(self) -> dict[str, xr.DataArray]:
        """What was measured next to the scores, by name."""
        from mixlens.tables import labelled

        return {
            name: labelled(self, name, extra.dims, extra.values)
            for name, extra in self.measured.items()
        }

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each score: layer, (head,) target, target_token, source, source_token,
        score.
        """
        from mixlens.tables import long_table

        return long_table(self)

    def row(self, target: int | str) -> Row:
        """One target, by its position (negative: from the end), or by its label if only one token
        has it.
        """
        position = position_of(target, self.target_row, self.target_positions)
        values = self.scores[..., self.target_positions.index(position), :]
        return Row(
            position, self.target_row.labels[position], values, self.layers, self.source_tokens
        )

    def __eq__(self, other: object) -> bool:
        """The same numbers, bit by bit, and everything that is known about them."""
        if not isinstance(other, MixingMaps):
            return NotImplemented
        mine, theirs = storage.arrays(self), storage.arrays(other)
        same = storage.description(self) == storage.description(other)
        return (same and mine.keys() == theirs.keys()) and all(
            a.dtype == b.dtype and a.tobytes() == b.tobytes()
            for a, b in zip(mine.values(), theirs.values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

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

    # ----------------------------------------------------------------------------------- selections

    def at(
        self,
        *,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
    ) -> MixingMaps:
        """Some layers (by number; negative: from the end of those held) and some targets (as in
        `row`).
        """
        places = list(range(len(self.layers)))
        numbers, named = whole_numbers(layers, "layers"), listed(targets, "targets")
        if numbers is not None:
            places = [layer_index(layer, self.layers) for layer in numbers]
        rows = list(range(len(self.target_positions)))
        if named is not None:
            rows = [
                self.target_positions.index(position_of(t, self.target_row, self.target_positions))
                for t in named
            ]

        def taken(values: np.ndarray, dims: tuple[str, ...]) -> np.ndarray:
            values = values.take(places, 0)
            return values.take(rows, dims.index("target")) if "target" in dims else values

        extras = {
            name: replace(extra, values=taken(extra.values, extra.dims))
            for name, extra in self.measured.items()
        }
        return replace(
            self,
            scores=taken(self.scores, self.dims),
            layers=tuple(self.layers[i] for i in places),
            measured=extras,
            target_positions=tuple(self.target_positions[i] for i in rows),
        )

    def head(self, number: int) -> MixingMaps:
        """The maps of one head."""
        self._require_heads()
        index = head_index(number, self.scores.shape[1])
        return self.derived(self.scores[:, index], f"head({index})")

    def heads(self, how: str = "mean") -> MixingMaps:
        """All heads merged: "mean", "sum" or "max".

        For measures of vectors this is not the measure of the whole layer.
        """
        self._require_heads()
        if how not in ("mean", "sum", "max"):
            raise InvalidInput(f"heads are merged by mean, sum or max, not {how!r}")
        facts = replace(self.facts, rows_sum_to_one=self.facts.rows_sum_to_one and how == "mean")
        return self.derived(getattr(self.scores.astype(np.float64), how)(1), f"heads({how})", facts)

    def _require_heads(self) -> None:
        if not self.per_head:
            raise InvalidInput(
                "these maps are of whole layers: measure with per_head=True for single heads"
            )

    def derived(
        self, scores: np.ndarray, step: str, facts: Facts | None = None, **changes: Any
    ) -> MixingMaps:
        """New scores in the dtype of these, with the step noted."""
        about = {**self.provenance, "steps": [*self.provenance.get("steps", []), step]}
        changes = {"facts": facts or self.facts, "provenance": about, "measured": {}, **changes}
        return replace(self, scores=scores.astype(self.scores.dtype), **changes)

    # --------------------------------------------------------------------------------- computations

    def normalized(self, *, absolute: bool = False) -> MixingMaps:
        """Rows that sum to one over the sources. A row of zeros stays so.

        `absolute` takes the sizes of signed scores.
        """
        if self.facts.signed and not absolute:
            raise InvalidInput(
                "these scores have both signs, so a row may sum to almost nothing: use"
                " normalized(absolute=True)"
            )
        shares = row_normalized(np.abs(self.scores) if absolute else self.scores)
        full = bool((shares.sum(-1) > 0.5).all())
        facts = replace(self.facts, signed=False, rows_sum_to_one=full)
        return self.derived(shares, f"normalized({'absolute' * absolute})", facts)

    def rollout(
        self, residual: float | int | None = None, normalize: bool | None = None
    ) -> MixingMaps:
        """The product of the maps up to each layer: how much of each input token is there (Abnar &
        Zuidema 2020).

        `residual` is the share of the identity mixed into each layer (0: none), `normalize` makes
        rows sum to one. By default as the measure's own authors do: half the identity for
        attention, none for others; rows normalised except for GlobEnc.
        """
        return roll_out(self, residual, normalize)

    def flow(
        self,
        targets: Sequence[int | str] | None = None,
        layers: Sequence[int] | str | None = None,
        *,
        residual: float | int | None = None,
        normalize: bool | None = None,
    ) -> MixingMaps:
        """The maximum flow from each target to every input token, through the layers as pipes
        (Abnar & Zuidema 2020).

        From the last layer only, since it is slow; `layers` names others, "all" takes each. The
        rest as in `rollout`.
        """
        return flow_through(self, targets, layers, residual, normalize)

    def mean(self) -> MixingMaps:
        """The mean over layers, as one map under the number of the last layer."""
        mean = self.scores.astype(np.float64).mean(0, keepdims=True)
        facts = replace(self.facts, joined_by="mean()")
        return self.derived(mean, "mean()", facts, layers=self.layers[-1:])

    def last(self) -> MixingMaps:
        """The last layer alone."""
        return self.at(layers=[self.layers[-1]])

    def words(self, sources: str = "sum", targets: str = "mean") -> MixingMaps:
        """Sub-words merged into words, over columns and rows: "sum", "mean", "max" or "first".

        If only some targets were measured, a word is merged from those of its pieces that were.
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
        as they are.
        """
        return merge_spans(self, sources, targets, merge_sources, merge_targets)

    # --------------------------------------------------------------------------------------- shown

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

    def to_html(self, path: str | os.PathLike[str], *others: MixingMaps, **shown: Any) -> None:
        """Writes one self-contained page that shows these maps, and those of other measures next
        to them; `shown` as in `mixlens.viewer.payload.payload_of` (target, title, image, seconds).
        """
        from mixlens.viewer import page, payload

        page.write(payload.payload_of([self, *others], **shown), path)

    def _repr_html_(self) -> str:
        from mixlens.viewer import page, payload

        return page.frame(payload.payload_of(self))


def load(path: str | os.PathLike[str]) -> MixingMaps:
    """Maps as they were saved, bit by bit."""
    return storage.load(path, MixingMaps)


def _row(tokens: Sequence[str] | TokenRow | None, count: int) -> TokenRow:
    if tokens is None:
        return TokenRow.numbered(count)
    return tokens if isinstance(tokens, TokenRow) else TokenRow(tuple(tokens))
