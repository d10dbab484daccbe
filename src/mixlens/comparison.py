"""Every measure side by side for one target: what each says about the sources, and how far they
agree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.aggregation.target_row import (
    AGGREGATES,
    layer_rows,
    rolled_out_absolute,
    target_row,
)
from mixlens.contracts import Spec
from mixlens.errors import InvalidInput, MixlensError
from mixlens.measures import list_measures, names
from mixlens.measuring import measure
from mixlens.provenance import model_name
from mixlens.row import position_of
from mixlens.tokens import TokenRow
from mixlens.views import view
from mixlens.words import words as merged_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mixlens.maps import MixingMaps
    from mixlens.recording.recording import Recording


@dataclass(frozen=True)
class Comparison:
    """Scores of every measure for one target, each row summing to one (in absolute value), and
    their rank agreement.
    """

    target: int
    target_token: str
    sources: tuple[str, ...]
    aggregate: str
    scores: Mapping[str, np.ndarray]
    left_out: Mapping[str, str]  # measure -> why it is not there
    model: str = ""  # its name, or its class
    row: TokenRow | None = None  # the sources with their text
    by_layer: Mapping[str, np.ndarray] = field(default_factory=dict)  # measure -> [layer, source]
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by measure

    def to_dataframe(self) -> pd.DataFrame:
        """Sources down, measures across."""
        import pandas as pd

        frame = pd.DataFrame(dict(self.scores))
        frame.insert(0, "source", list(self.sources))
        return frame

    def agreement(self) -> pd.DataFrame:
        """Spearman's rank correlation of every two measures' sizes (signs left out), over all
        sources but the target itself.
        """
        frame = self.to_dataframe().drop(columns="source").abs()
        agreement: pd.DataFrame = frame.drop(index=self.target, errors="ignore").corr(
            method="spearman"
        )
        return agreement

    def rank_of(self, source: int) -> dict[str, int]:
        """The place of one source in each measure's order (1 = largest), the target itself left
        out.
        """
        found = {}
        for name, values in self.scores.items():
            others = np.abs(np.delete(values, [self.target] if self.target < len(values) else []))
            found[name] = int((others > abs(values[source]) * (1 + 1e-9)).sum()) + 1
        return found

    def plot(self, kind: str | None = None, *, most: int = 40) -> Figure:
        """A matplotlib figure: "sources" (what each measure says about the sources, of a long text
        about the `most` largest) or "agreement" (rank correlation of the measures). Needs the extra
        `plot`.
        """
        figure: Figure = view("compared").plot(self, kind, most=most)
        return figure

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page that shows the measures side by side."""
        from mixlens.viewer import page

        page.write(self._payload(), path)

    def _repr_html_(self) -> str:
        from mixlens.viewer import page

        return page.frame(self._payload())

    def _payload(self) -> dict[str, Any]:
        from mixlens.viewer.payload import comparison_payload

        return comparison_payload(
            self.scores,
            self.row or TokenRow(self.sources),
            self.target,
            self.target_token,
            aggregate=self.aggregate,
            by_layer=self.by_layer,
            provenance=self.provenance,
            left_out=self.left_out,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "target": self.target,
            "target_token": self.target_token,
            "sources": list(self.sources),
            "aggregate": self.aggregate,
            "scores": {
                name: [float(value) for value in values] for name, values in self.scores.items()
            },
            "agreement": self.agreement().round(6).where(lambda x: x == x, None).to_dict(),
            "left_out": dict(self.left_out),
        }


def comparison(
    recording: Recording,
    target: int | str,
    *,
    site: str | None = None,
    aggregate: str | int = "mean",
    only: Sequence[str] | None = None,
    words: bool = False,
    explain: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Measures one recording by every measure that applies to it.

    `explain` says which output the gradients and the erasure explain (`word` and `foil`, or
    `label`; default: the model's own prediction at the target); `options` holds further options by
    measure. Hidden token attribution is estimated with 32 probes unless they say else.

    `aggregate` is how layers become one row: "mean" of the normalised layers, "rollout", "last", or
    a layer's number. Measures of the whole model (hidden token attribution and those that explain
    an output) have a single natural row and use that.
    """
    if recording.batch != 1:
        raise InvalidInput("compare one text at a time")
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"aggregate {aggregate!r}: choose one of {', '.join(AGGREGATES)}, or a layer's number"
        )
    row = recording.target_tokens(site, 0)
    place = position_of(target, row, range(len(row)))
    layers = len(recording.layers(site))
    if isinstance(aggregate, int) and not -layers <= aggregate < layers:
        raise InvalidInput(f"layer {aggregate}: there are {layers} layers, 0 to {layers - 1}")
    specs = list_measures()
    scores: dict[str, np.ndarray] = {}
    left_out: dict[str, str] = {}
    if words:
        ranges, merged_row = merged_words(row)
        chosen = next(
            number for number, (start, stop) in enumerate(ranges) if start <= place < stop
        )
        label = merged_row.labels[chosen]
    else:
        chosen, label = place, row.labels[place]
    by_layer: dict[str, np.ndarray] = {}
    provenance: dict[str, dict[str, Any]] = {}
    tokens = TokenRow(())
    for name in only or names():
        if name not in specs:
            raise InvalidInput(f"there is no measure {name!r}; choose one of: {', '.join(specs)}")
        try:
            given = {**specs[name].quick, **(options or {}).get(name, {})}
            if specs[name].explains_output:
                given = {**_explained(recording, site, place), **(explain or {}), **given}
            found = measure(name, recording, site=site, **given)
            assert not isinstance(found, list)
            scores[name], sources = _one_row(found, specs[name], chosen, aggregate, words)
            provenance[name] = found.provenance
            if specs[name].gives == "maps":
                merged = found.words() if words else found
                by_layer[name] = layer_rows(merged, specs[name], chosen)
            tokens = sources if not specs[name].explains_output or not len(tokens) else tokens
        except (MixlensError, ImportError) as error:
            left_out[name] = str(error)
    if not scores:
        raise InvalidInput(
            "no measure applies: "
            + "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        )
    model = model_name(recording.model)
    return Comparison(
        chosen,
        label,
        tokens.labels,
        str(aggregate),
        scores,
        left_out,
        model,
        tokens,
        by_layer,
        provenance,
    )


def _explained(recording: Recording, site: str | None, place: int) -> dict[str, Any]:
    """Output measures explain the prediction at the target's position, where the model predicts a
    word at each position of the site.
    """
    logits = getattr(recording.output, "logits", None)
    stack = recording.structure.stack_of(site)
    predicts = (
        logits is not None and logits.dim() == 3 and (stack is recording.structure.stacks[-1])
    )
    return {"position": place} if predicts else {}


def _one_row(
    maps: MixingMaps, spec: Spec, chosen: int, aggregate: str | int, words: bool
) -> tuple[np.ndarray, TokenRow]:
    """One number for each source, adding up to one in absolute value, and the sources."""
    if words and aggregate == "rollout" and spec.gives == "maps" and not maps.facts.reaches_input:
        maps = rolled_out_absolute(maps)  # layers are joined token by token, then merged into words
        aggregate = "last"
    maps = maps.words() if words else maps
    return target_row(maps, spec, chosen, aggregate), maps.source_row
