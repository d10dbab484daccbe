"""Every measure side by side for one target: what each says about the sources, and how far they
agree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.maps.lazy_views import view
from mixlens.maps.one_row import shares
from mixlens.maps.segment_sums import grouped, summed
from mixlens.text.plurals import counted
from mixlens.text.positions import position_of
from mixlens.text.segments import By, divided
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Scores of every measure for one target, each row summing to one (in absolute value), and
    their rank agreement.
    """

    target: int
    target_token: str
    sources: tuple[str, ...]
    own_source: int | None  # the source that is the target itself; None in cross-attention
    aggregate: str
    scores: Mapping[str, np.ndarray]
    left_out: Mapping[str, str]  # measure -> why it is not there
    explained: str | None = None  # the output that gradients and erasure explain
    cue: int | None = None  # a source whose rank is of interest
    model: str = ""  # its name, or its class
    row: TokenRow | None = None  # the sources with their text
    by_layer: Mapping[str, np.ndarray] = field(default_factory=dict)  # measure -> [layer, source]
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by measure
    warnings: Mapping[str, str] = field(default_factory=dict)  # by measure, of a collapsed rollout

    def to_dataframe(self) -> pd.DataFrame:
        """Sources down, measures across."""
        import pandas as pd

        frame = pd.DataFrame(dict(self.scores))
        frame.insert(0, "source", list(self.sources))
        return frame

    def __repr__(self) -> str:
        about = f"{self.target_token!r} (token {self.target}), {self.reading}"
        explained = f"; explains {self.explained}" if self.explained else ""
        left_out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return (
            f"<Comparison of {counted(len(self.scores), 'measure')} for {about},"
            f" {counted(len(self.sources), 'source')}"
            f"{explained}{left_out}>"
        )

    @property
    def reading(self) -> str:
        """How the layers became one row, in words."""
        names = {"mean": "mean of the layers", "rollout": "rollout", "last": "last layer"}
        return names.get(self.aggregate, f"layer {self.aggregate}")

    @property
    def others(self) -> np.ndarray:
        """Positions of all sources but the target itself."""
        places = np.arange(len(self.sources))
        return places if self.own_source is None else np.delete(places, self.own_source)

    def agreement(self) -> pd.DataFrame:
        """Spearman's rank correlation of every two measures' sizes (signs left out), over all
        sources but the target itself.
        """
        frame = self.to_dataframe().drop(columns="source").abs()
        agreement: pd.DataFrame = frame.iloc[self.others].corr(method="spearman")
        return agreement

    def rank_of(self, source: int | str) -> dict[str, int]:
        """The place of one source in each measure's order (1 = largest), the target itself left
        out.
        """
        place = position_of(source, TokenRow(self.sources), range(len(self.sources)))
        ranks = {}
        for name, values in self.scores.items():
            others = np.abs(values[self.others])
            ranks[name] = int((others > abs(values[place]) * (1 + 1e-9)).sum()) + 1
        return ranks

    def segments(self, by: By = None, *, sink: bool = True) -> Comparison:
        """The same measures with their sources summed by segment, as `MixingMaps.segments` does.

        With `sink=False` the first token is left out, and rows are divided by what is left.
        """
        row = self.row or TokenRow(self.sources)
        groups = grouped(divided(row, by), sink=sink)

        def merged(values: np.ndarray) -> np.ndarray:
            kept = values.astype(np.float64)
            if not sink:
                kept[..., 0] = 0
                kept = shares(kept)
            return summed(kept, groups)

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
        """A matplotlib figure: "sources" (what each measure says about the sources, of a long text
        about the `most` largest) or "agreement" (rank correlation of the measures). Needs the extra
        `plot`.
        """
        figure: Figure = view("compared").plot(self, kind, most=most)
        return figure

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page that shows the measures side by side."""
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
        )
        return payload

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
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
