"""Compare the scores of several measures for one target by rank correlation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import format_count
from mixlens.maps import view
from mixlens.maps.one_row import shares
from mixlens.maps.segment_sums import sum_segments
from mixlens.text.segments import By, group_tokens, split_segments
from mixlens.text.tokens import TokenRow, position_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Scores of several measures for one target, and their rank agreement.

    Attributes
    ----------
    target : int
        The position of the target.
    target_token : str
        The label of the target.
    sources : tuple of str
        Labels of the sources.
    own_source : int or None
        The position of the target among the sources, or None for cross-attention.
    aggregate : str
        How layers are aggregated.
    scores : mapping
        Scores of each measure, normalised so that their absolute values sum to one.
    left_out : mapping
        Measures that could not be computed, with the reason for each.
    explained : str or None
        The output that gradients and erasure explain.
    cue : int or None
        The position of a source whose rank you want to compare.
    model : str
        The name of the model, or its class.
    row : TokenRow or None
        The sources with their offsets in the text.
    by_layer : mapping
        Scores of each measure by layer.
    provenance : mapping
        The provenance of each measure.
    warnings : mapping
        Warnings about collapsed rollouts, by measure.

    Examples
    --------
    The examples of the methods use this comparison.

    >>> from mixlens import Lens
    >>> names = ["attention", "value_zeroing", "blank_out"]
    >>> text = "The keys to the cabinet [MASK] here."
    >>> comparison = Lens.bundled().compare(text, "[MASK]", only=names, cue="keys")
    >>> comparison
    <Comparison of 3 measures for '[MASK]' (token 6), mean of the layers, 10 sources; ...>
    """

    target: int
    target_token: str
    sources: tuple[str, ...]
    own_source: int | None  # the source that is the target itself; None in cross-attention
    aggregate: str
    scores: Mapping[str, np.ndarray]
    left_out: Mapping[str, str]  # measure -> reason for its absence
    explained: str | None = None  # the output that gradients and erasure explain
    cue: int | None = None  # a source whose rank is of interest
    model: str = ""  # name of the model, or its class
    row: TokenRow | None = None  # the sources with their text
    by_layer: Mapping[str, np.ndarray] = field(default_factory=dict)  # measure -> [layer, source]
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by measure
    warnings: Mapping[str, str] = field(default_factory=dict)  # by measure, for collapsed rollouts

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table of the scores.

        Returns
        -------
        pandas.DataFrame
            A table with one row per source and one column per measure.

        Examples
        --------
        >>> list(comparison.to_dataframe().columns)
        ['source', 'attention', 'value_zeroing', 'blank_out']
        """
        from mixlens.maps.tables import make_table

        return make_table({"source": self.sources, **self.scores})

    def __repr__(self) -> str:
        about = f"{self.target_token!r} (token {self.target}), {self.reading}"
        explained = f"; explains {self.explained}" if self.explained else ""
        left_out = f"; skipped: {', '.join(self.left_out)}" if self.left_out else ""
        return (
            f"<Comparison of {format_count(len(self.scores), 'measure')} for {about},"
            f" {format_count(len(self.sources), 'source')}"
            f"{explained}{left_out}>"
        )

    @property
    def reading(self) -> str:
        """Return a readable name of the layer aggregation, such as "mean of the layers"."""
        names = {"mean": "mean of the layers", "rollout": "rollout", "last": "last layer"}
        return names.get(self.aggregate, f"layer {self.aggregate}")

    @property
    def others(self) -> np.ndarray:
        """Return the positions of all sources except the target itself."""
        places = np.arange(len(self.sources))
        return places if self.own_source is None else np.delete(places, self.own_source)

    def agreement(self) -> pd.DataFrame:
        """Compute Spearman's rank correlation between each pair of measures.

        The correlation uses the absolute scores of all sources except the target itself.

        Returns
        -------
        pandas.DataFrame
            A table with one row and one column per measure.

        Examples
        --------
        >>> comparison.agreement().shape
        (3, 3)
        """
        frame = self.to_dataframe().drop(columns="source").abs()
        agreement: pd.DataFrame = frame.iloc[self.others].corr(method="spearman")
        return agreement

    def rank_of(self, source: int | str) -> dict[str, int]:
        """Return the rank of one source in each measure. The target itself is not ranked.

        Parameters
        ----------
        source
            The position or the token of the source.

        Returns
        -------
        dict of str to int
            The rank for each measure. Rank 1 is the largest absolute score.

        Raises
        ------
        InvalidInput
            If the source does not exist, or if several match.

        Examples
        --------
        >>> comparison.rank_of("keys")["blank_out"]
        1
        """
        place = position_of(source, TokenRow(self.sources), range(len(self.sources)))
        ranks = {}
        for name, values in self.scores.items():
            other_scores = np.abs(values[self.others])
            ranks[name] = int((other_scores > abs(values[place]) * (1 + 1e-9)).sum()) + 1
        return ranks

    def segments(self, by: By = None, *, sink: bool = True) -> Comparison:
        """Sum scores by segment, as `MixingMaps.segments` does.

        Parameters
        ----------
        by
            "sentences", "paragraphs", "turns", or `{name: text or (start, end)}` with
            half-open ranges of characters. By default, the segments of the text.
        sink
            If False, leave out the first token and normalise the other scores again.

        Returns
        -------
        Comparison
            A comparison with one source for each segment.

        Raises
        ------
        InvalidInput
            If the text has no such segments.

        Examples
        --------
        >>> comparison.segments({"subject": "keys"}).sources
        ('(first token)', '(other)', 'subject')
        """
        tokens = self.row or TokenRow(self.sources)
        groups = group_tokens(split_segments(tokens, by), sink=sink)

        def merged(values: np.ndarray) -> np.ndarray:
            without_sink = values.astype(np.float64)
            if not sink:
                without_sink[..., 0] = 0
                without_sink = shares(without_sink)
            return sum_segments(without_sink, groups)

        return replace(
            self,
            sources=tuple(groups),
            own_source=None,
            cue=None,
            row=TokenRow(tuple(groups)),
            scores={name: merged(values) for name, values in self.scores.items()},
            by_layer={name: merged(values) for name, values in self.by_layer.items()},
        )

    def plot(self, kind: str | None = None, *, most: int = 40) -> Figure:
        """Draw a matplotlib figure. Needs the extra `plot`.

        Parameters
        ----------
        kind
            "sources" (scores of each measure) or "agreement" (rank correlation).
        most
            The maximum number of sources to show. Those with the largest scores are shown.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        InvalidInput
            If the kind is unknown.
        MissingExtra
            If the extra `plot` is not installed.

        Examples
        --------
        >>> comparison.plot("agreement").savefig("agreement.png")
        """
        figure: Figure = view("compared").plot(self, kind, most=most)
        return figure

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page that compares the measures.

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
        >>> comparison.to_html("comparison.html")
        """
        view("viewer.page").write(self._payload(), path)

    def _repr_html_(self) -> str:
        frame: str = view("viewer.page").frame(self._payload())
        return frame

    def _payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = view("viewer.payload").comparison_payload(
            self.scores,
            self.row or TokenRow(self.sources),
            self.target_token,
            own_source=self.own_source,
            aggregate=self.aggregate,
            by_layer=self.by_layer,
            provenance=self.provenance,
            left_out=self.left_out,
            warnings=self.warnings,
            cue=self.cue,
        )
        return payload

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dict that can be written as JSON.

        Returns
        -------
        dict
            Scores, agreement, reasons and warnings.

        Examples
        --------
        >>> comparison.to_dict()["target_token"]
        '[MASK]'
        """
        return {
            "target": self.target,
            "target_token": self.target_token,
            "sources": list(self.sources),
            "own_source": self.own_source,
            "aggregate": self.aggregate,
            "reading": self.reading,
            "explained": self.explained,
            "cue": self.cue,
            "scores": {
                name: [float(value) for value in values] for name, values in self.scores.items()
            },
            "agreement": self.agreement().round(6).where(lambda x: x == x, None).to_dict(),
            "left_out": dict(self.left_out),
            "warnings": dict(self.warnings),
        }
