"""MixingMaps: how much each source token contributes to each target token of one text, layer by
layer, with labels and provenance.

Rows are targets, columns are sources. Maps are immutable: every method returns new maps and adds
its name to `provenance["steps"]`. Extras (such as a standard error or a rank) belong to the
measured scores. Methods that select scores keep the extras, and methods that compute new scores
drop them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mixlens.contracts import Facts
from mixlens.contracts.scores import Extra, as_readonly
from mixlens.errors import InvalidInput
from mixlens.maps import storage, view
from mixlens.maps.flow import flow_through
from mixlens.maps.labelling import label_scores
from mixlens.maps.one_row import reading_of
from mixlens.maps.rollout import normalise, roll_out, warn_of_collapse
from mixlens.maps.segment_sums import leave_out_sink, merge_segments, tokens_inside, with_segments
from mixlens.maps.selection import merge_heads, merge_spans, merge_words, one_head, select
from mixlens.maps.target_row import Reading, Row
from mixlens.text.segments import By
from mixlens.text.tokens import TokenRow, position_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MixingMaps:
    """Scores of one text: how much each source contributes to each target, layer by layer.

    Maps are immutable. Every method returns new maps and adds its name to `provenance["steps"]`.

    Attributes
    ----------
    scores : numpy.ndarray
        [layer, target, source], or [layer, head, target, source].
    layers : tuple of int
        Numbers of the layers in the model.
    target_row, source_row : TokenRow
        All tokens of the target text and of the source text, with their offsets.
    target_positions : tuple of int
        Positions of the measured targets in `target_row`.
    facts : Facts
        Properties of the scores, such as `rows_sum_to_one`.
    provenance : dict
        The measure, its options, the model, and the methods that were applied to the scores.
    rollout_residual, rollout_normalised, rollout_adds_identity
        Defaults of `rollout` that the authors of the measure use.
    measured : mapping
        Arrays that were computed together with the scores. See `extras`.

    Examples
    --------
    The examples of the methods use these maps.

    >>> from mixlens import Lens
    >>> lens = Lens.bundled()
    >>> text = "The keys to the cabinet [MASK] here."
    >>> maps = lens.measure("value_zeroing", text)
    >>> maps.tokens
    ('[CLS]', 'the', 'keys', 'to', 'the', 'cabinet', '[MASK]', 'here', '.', '[SEP]')
    >>> maps.scores.shape
    (6, 10, 10)
    """

    scores: np.ndarray
    layers: tuple[int, ...]
    target_row: TokenRow
    source_row: TokenRow
    target_positions: tuple[int, ...]  # the targets of `scores`, as positions of `target_row`
    facts: Facts
    provenance: dict[str, Any]
    rollout_residual: float | int | None = None
    rollout_normalised: bool = True
    rollout_adds_identity: bool = False
    measured: Mapping[str, Extra] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scores.ndim not in (3, 4):
            raise InvalidInput(
                f"Scores have shape {self.scores.shape}. Pass [layer, target, source] or "
                "[layer, head, target, source]."
            )
        expected = (len(self.layers), len(self.target_positions), len(self.source_row))
        if (self.scores.shape[0], *self.scores.shape[-2:]) != expected:
            raise InvalidInput(
                f"Scores of shape {self.scores.shape} do not fit {expected} layers, targets "
                "and sources. Pass matching labels."
            )
        wide = np.result_type(self.scores.dtype, np.float32)
        object.__setattr__(self, "scores", as_readonly(self.scores, wide))

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
        """Create maps from scores that you already have.

        Parameters
        ----------
        scores
            An array or tensor: [layer, (head,) target, source].
        tokens
            Labels of the targets. By default, the targets are numbered.
        source_tokens
            Labels of the sources. By default, the labels of the targets.
        measure
            The name of the measure. If mixlens knows it, its properties and its rollout apply.
        facts
            Properties of the scores.
        rollout_residual, rollout_normalised
            Defaults of `rollout`.
        provenance
            Additional entries of `provenance`.

        Returns
        -------
        MixingMaps
            The labelled scores.

        Raises
        ------
        InvalidInput
            If the labels do not fit the shape of the scores.

        Examples
        --------
        >>> import numpy as np
        >>> from mixlens import MixingMaps
        >>> MixingMaps.of(np.eye(2)[None], ["one", "two"]).tokens
        ('one', 'two')
        """
        return cls(
            **label_scores(
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
        """Return True if the scores have an axis of heads."""
        return self.scores.ndim == 4

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the names of the axes of `scores`."""
        return ("layer", *(("head",) if self.per_head else ()), "target", "source")

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the labels of the targets."""
        return tuple(self.target_row.labels[i] for i in self.target_positions)

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """Return the labels of the sources."""
        return self.source_row.labels

    @cached_property
    def data(self) -> xr.DataArray:
        """Return `scores` with their labels; `target` and `source` are positions in the text."""
        from mixlens.maps.tables import label_array

        return label_array(self, str(self.provenance.get("measure")), self.dims, self.scores)

    @cached_property
    def extras(self) -> dict[str, xr.DataArray]:
        """Return the arrays that were computed together with the scores, by name."""
        from mixlens.maps.tables import label_array

        return {
            name: label_array(self, name, extra.dims, extra.values)
            for name, extra in self.measured.items()
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table with one row per score.

        Returns
        -------
        pandas.DataFrame
            Columns: layer, (head,) target, target_token, source, source_token, score.

        Examples
        --------
        >>> len(maps.to_dataframe())
        600
        """
        from mixlens.maps.tables import long_table

        return long_table(self)

    def row(self, target: int | str) -> Row:
        """Return the scores of one target.

        Parameters
        ----------
        target
            The position of the target (negative positions count from the end), or its token.
            `dogs#2` is the second token `dogs`.

        Returns
        -------
        Row
            The scores of all sources in all layers.

        Raises
        ------
        InvalidInput
            If the target does not exist, or if several tokens match.

        Examples
        --------
        >>> maps.row("[MASK]").target
        6
        """
        position = position_of(target, self.target_row, self.target_positions)
        values = self.scores[..., self.target_positions.index(position), :]
        label = self.target_row.labels[position]
        return Row(position, label, values, self.layers, self.source_tokens, self.reading)

    @property
    def reading(self) -> Reading:
        """Return the default method for aggregating layers.

        `reading.of(scores)` aggregates the scores, and `reading.name` describes the method.
        """
        return reading_of(self)

    def __eq__(self, other: object) -> bool:
        """Return whether all arrays are bitwise equal and all other fields are equal."""
        if not isinstance(other, MixingMaps):
            return NotImplemented
        return storage.same(self, other)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        about = [str(self.provenance.get("measure")), *self.provenance.get("steps", [])]
        words = " ".join(self.tokens[:8]) + (" …" if len(self.tokens) > 8 else "")
        sizes = " × ".join(
            f"{n} {dim}{'s' * (n != 1)}"
            for n, dim in zip(self.scores.shape, self.dims, strict=True)
        )
        model = self.provenance.get("name") or self.provenance.get("model")
        return (
            f"<MixingMaps {' → '.join(about)}{f' of {model}' if model else ''}: {sizes}; {words}>"
        )

    def at(
        self,
        *,
        layers: int | Sequence[int] | None = None,
        targets: int | str | Sequence[int | str] | None = None,
    ) -> MixingMaps:
        """Select layers and targets.

        Parameters
        ----------
        layers
            Numbers of layers. Negative numbers count from the last layer of these maps.
        targets
            Positions or tokens, as for `row`.

        Returns
        -------
        MixingMaps
            The selected scores.

        Raises
        ------
        InvalidInput
            If the layer or target does not exist.

        Examples
        --------
        >>> maps.at(layers=-1, targets=["keys", "[MASK]"]).scores.shape
        (1, 2, 10)
        """
        return select(self, layers, targets)

    def head(self, number: int) -> MixingMaps:
        """Select one head.

        Parameters
        ----------
        number
            The number of the head. Negative numbers count from the last head.

        Returns
        -------
        MixingMaps
            The scores of this head, without the axis of heads.

        Raises
        ------
        InvalidInput
            If the head does not exist, or the maps have no heads.

        Examples
        --------
        >>> lens.measure("attention", "The dogs bark.", per_head=True).head(0).dims
        ('layer', 'target', 'source')
        """
        return one_head(self, number)

    def heads(self, how: str = "mean") -> MixingMaps:
        """Merge all heads.

        For measures based on vector norms, the result differs from measuring the whole layer.

        Parameters
        ----------
        how
            "mean", "sum" or "max".

        Returns
        -------
        MixingMaps
            Scores without the axis of heads.

        Raises
        ------
        InvalidInput
            If the maps have no heads, or `how` is unknown.

        Examples
        --------
        >>> lens.measure("attention", "The dogs bark.", per_head=True).heads("max").dims
        ('layer', 'target', 'source')
        """
        return merge_heads(self, how)

    def derived(
        self, scores: np.ndarray, step: str, facts: Facts | None = None, **changes: Any
    ) -> MixingMaps:
        """Return a copy of these maps with new scores, converted to the same dtype.

        Parameters
        ----------
        scores
            The new scores.
        step
            The name of the step for `provenance["steps"]`.
        facts
            Properties of the new scores. By default, the properties of these maps.
        **changes
            Further attributes to replace.

        Returns
        -------
        MixingMaps
            The new maps.

        Examples
        --------
        >>> maps.derived(maps.scores * 2, "doubled").provenance["steps"]
        ['doubled']
        """
        about = {**self.provenance, "steps": [*self.provenance.get("steps", []), step]}
        changes = {"facts": facts or self.facts, "provenance": about, "measured": {}, **changes}
        return replace(self, scores=scores.astype(self.scores.dtype), **changes)

    def normalised(self, *, absolute: bool = False) -> MixingMaps:
        """Divide the scores of each target by their sum.

        Targets whose scores are all zero stay zero.

        Parameters
        ----------
        absolute
            If True, take the absolute values of signed scores first.

        Returns
        -------
        MixingMaps
            Scores that sum to one over the sources.

        Raises
        ------
        InvalidInput
            If the scores are signed and `absolute` is False.

        Examples
        --------
        >>> float(maps.normalised().scores.sum(-1).max().round(4))
        1.0
        """
        return normalise(self, absolute)

    def rollout(
        self, residual: float | int | None = None, normalise: bool | None = None
    ) -> MixingMaps:
        """Multiply the maps from the input up to each layer (Abnar & Zuidema 2020).

        In causal models, the product often collapses onto the first token. mixlens then emits a
        warning.

        Parameters
        ----------
        residual
            The weight of the identity that is mixed into each layer, from 0 to 1. The default is
            the choice of the measure's authors: 0.5 for attention, 0 for the other measures.
        normalise
            If True, the scores of each target sum to one. The default is True, except for GlobEnc.

        Returns
        -------
        MixingMaps
            The contribution of each input token to the output of each layer.

        Raises
        ------
        InvalidInput
            If the scores cannot be rolled out, for example because they belong to cross-attention
            or cover only some targets.

        Examples
        --------
        >>> maps.rollout().provenance["steps"]
        ['rollout(residual=0, normalise=True)']
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
        """Compute the maximum flow from each target to every input token (Abnar & Zuidema 2020).

        Needs the extra `eval`.

        Parameters
        ----------
        targets
            Positions or tokens. By default, all targets.
        layers
            Layers from which the flow starts, or "all". By default, only the last layer, because
            the computation is slow.
        residual, normalise
            As for `rollout`.

        Returns
        -------
        MixingMaps
            The flow from the targets to the input tokens.

        Raises
        ------
        InvalidInput
            If the scores are signed or not square.
        MissingExtra
            If the extra `eval` is not installed.

        Examples
        --------
        >>> maps.flow(["[MASK]"]).scores.shape
        (1, 1, 10)
        """
        return flow_through(self, targets, layers, residual, normalise)

    def mean(self) -> MixingMaps:
        """Average the scores over layers.

        Returns
        -------
        MixingMaps
            Maps with a single layer, which has the number of the last layer.

        Examples
        --------
        >>> maps.mean().layers
        (5,)
        """
        mean = self.scores.astype(np.float64).mean(0, keepdims=True)
        facts = replace(self.facts, joined_by="mean()", sums_vary=False)
        return self.derived(mean, "mean()", facts, layers=self.layers[-1:])

    def last(self) -> MixingMaps:
        """Select the last layer.

        Returns
        -------
        MixingMaps
            Maps with only the last layer.

        Examples
        --------
        >>> maps.last().scores.shape
        (1, 10, 10)
        """
        return self.at(layers=[self.layers[-1]])

    def words(self, sources: str = "sum", targets: str = "mean") -> MixingMaps:
        """Merge sub-words into words.

        If you measured only some targets, a target word is merged from its measured tokens. Sources
        that are segments or audio frames stay as they are.

        Parameters
        ----------
        sources
            How to merge sources: "sum", "mean", "max" or "first".
        targets
            How to merge targets, with the same choices.

        Returns
        -------
        MixingMaps
            Maps with one target and one source for each word.

        Raises
        ------
        InvalidInput
            If the tokens have no offsets in the text, or if `sources` or `targets` is unknown.

        Examples
        --------
        >>> maps.words().tokens[2]
        'keys'
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
        """Merge ranges of tokens. All other tokens stay as they are.

        Parameters
        ----------
        sources, targets
            Half-open ranges (start, end) of positions in the text.
        merge_sources, merge_targets
            "sum", "mean", "max" or "first".

        Returns
        -------
        MixingMaps
            Maps with one token for each range.

        Raises
        ------
        InvalidInput
            If ranges overlap or are outside the text.

        Examples
        --------
        >>> maps.spans(sources=[(4, 6)]).source_tokens[4]
        'the cabinet'
        """
        return merge_spans(self, sources, targets, merge_sources, merge_targets)

    def segments(self, by: By = None, *, sink: bool = True) -> MixingMaps:
        """Sum sources by segment.

        The first token often receives much attention, so it is kept as a separate source.
        `extras["sink_share"]` contains its normalised score.

        Parameters
        ----------
        by
            "sentences", "paragraphs", "turns", or `{name: text or (start, end)}` with
            half-open ranges of characters. By default, the turns of a chat, or prompt and answer.
        sink
            If False, leave out the first token, as `without_sink` does.

        Returns
        -------
        MixingMaps
            Maps with one source for each segment.

        Raises
        ------
        InvalidInput
            If the text has no such segments, or if a name is used twice.

        Examples
        --------
        >>> maps.segments({"subject": "keys", "attractor": "cabinet"}).source_tokens
        ('(first token)', '(other)', 'subject', 'attractor')
        """
        return merge_segments(self, by, sink)

    def inside(self, segment: str, by: By = None) -> MixingMaps:
        """Select the sources of one segment.

        Parameters
        ----------
        segment
            The name of the segment.
        by
            The segments, as for `segments`.

        Returns
        -------
        MixingMaps
            The scores of the tokens of this segment.

        Raises
        ------
        InvalidInput
            If the segment does not exist.

        Examples
        --------
        >>> maps.inside("place", {"place": "to the cabinet"}).source_tokens
        ('to', 'the', 'cabinet')
        """
        return tokens_inside(self, segment, by)

    def without_sink(self) -> MixingMaps:
        """Set the scores of the first source to zero.

        If the scores of each target summed to one, the remaining scores are normalised again.

        Returns
        -------
        MixingMaps
            Scores without the first token.

        Raises
        ------
        InvalidInput
            If these maps hold the tokens of one segment. Call `without_sink` before `inside`.

        Examples
        --------
        >>> float(maps.without_sink().scores[..., 0].max())
        0.0
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
        """Draw a matplotlib figure. Needs the extra `plot`.

        Parameters
        ----------
        kind
            "map", "target", "layers", "heads", "text", "curves", "alignment" or "flow". By default,
            the kind depends on the selection: one target through the layers, the map of one layer,
            or the maps of all layers or heads.
        target, layer, head
            The target, layer and head to draw.
        **options
            Options of the kind, such as `width`, `columns` and `scale`.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        InvalidInput
            If the kind or option is unknown.
        MissingExtra
            If the extra `plot` is not installed.

        Examples
        --------
        >>> maps.plot("target", target="[MASK]").savefig("mask.pdf")
        """
        figure: Figure = view("plots").plot(
            self, kind, target=target, layer=layer, head=head, **options
        )
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the maps to a safetensors file, which `mixlens.load` reads.

        Parameters
        ----------
        path
            The path of the file.

        Raises
        ------
        CannotWrite
            If the file cannot be written.

        Examples
        --------
        >>> import mixlens
        >>> maps.save("maps.safetensors")
        >>> mixlens.load("maps.safetensors") == maps
        True
        """
        storage.save(self, path)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *others: MixingMaps,
        segments: By = None,
        **options: Any,
    ) -> None:
        """Write a self-contained HTML page with an interactive viewer.

        Parameters
        ----------
        path
            The path of the file.
        *others
            Maps of other measures for the same text, to show next to these maps.
        segments
            Segments to group sources by, as for `segments`. By default, the segments of the text,
            such as the turns of a chat.
        **options
            Options of `mixlens.views.viewer.payload.payload_of`: `target`, `title`, `image` and
            `seconds`.

        Raises
        ------
        CannotWrite
            If the file cannot be written.

        Examples
        --------
        >>> maps.to_html("maps.html", lens.measure("attention", text))
        """
        all_maps = [self, *others]
        if segments is not None:
            all_maps = [with_segments(each, segments) for each in all_maps]
        view("viewer.page").write(view("viewer.payload").payload_of(all_maps, **options), path)

    def _repr_html_(self) -> str:
        frame: str = view("viewer.page").frame(view("viewer.payload").payload_of(self))
        return frame


def load(path: str | os.PathLike[str]) -> MixingMaps:
    """Read saved maps. They are bitwise equal to the maps that were saved."""
    return storage.load(path, MixingMaps)
