"""Every measure side by side for one target: what each says about the sources, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput, MixlensError
from mixlens.measures import measure, measures, names

if TYPE_CHECKING:
    import pandas as pd

    from mixlens.maps import MixingMaps
    from mixlens.recording.recording import Recording

AGGREGATES = ("mean", "rollout", "last")

# What a side-by-side view needs in seconds: an unbiased estimate, about 3 % off, of what takes n * d_model tangents exactly.
_DEFAULTS: dict[str, dict[str, Any]] = {"hidden_token_attribution": {"probes": 32}}

# Measures that explain an output of the model, not a target inside a layer.
OUTPUT_MEASURES = ("blank_out", "deep_lift", "gradient_norm", "gradient_x_input", "integrated_gradients")


@dataclass(frozen=True)
class Comparison:
    """Scores of every measure for one target, each row summing to one (in absolute value), and their rank agreement."""

    target: int
    target_token: str
    sources: tuple[str, ...]
    aggregate: str
    scores: Mapping[str, np.ndarray]
    left_out: Mapping[str, str]  # measure -> why it is not there

    def to_dataframe(self) -> pd.DataFrame:
        """Sources down, measures across."""
        import pandas as pd

        frame = pd.DataFrame(dict(self.scores))
        frame.insert(0, "source", list(self.sources))
        return frame

    def agreement(self) -> pd.DataFrame:
        """Spearman's rank correlation of every two measures, over all sources but the target itself."""
        frame = self.to_dataframe().drop(columns="source")
        return frame.drop(index=self.target, errors="ignore").corr(method="spearman")

    def rank_of(self, source: int) -> dict[str, int]:
        """The place of one source in each measure's order (1 = largest), the target itself left out."""
        found = {}
        for name, values in self.scores.items():
            others = np.abs(np.delete(values, [self.target] if self.target < len(values) else []))
            found[name] = int((others > abs(values[source]) * (1 + 1e-9)).sum()) + 1
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "target_token": self.target_token,
            "sources": list(self.sources),
            "aggregate": self.aggregate,
            "scores": {name: [float(value) for value in values] for name, values in self.scores.items()},
            "agreement": self.agreement().round(6).where(lambda x: x == x, None).to_dict(),
            "left_out": dict(self.left_out),
        }


def comparison(
    recording: Recording,
    target: int | str,
    *,
    aggregate: str | int = "mean",
    only: Sequence[str] | None = None,
    words: bool = False,
    explain: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Measures one recording by every measure that applies to it.

    `explain` says which output the gradients and the erasure explain (`word` and `foil`, or `label`; default: the model's own prediction
    at the target); `options` holds further options by measure. Hidden token attribution is estimated with 32 probes unless they say else.

    `aggregate` is how layers become one row: "mean" of the normalised layers, "rollout", "last", or a layer's number. Measures of the
    whole model (hidden token attribution and those that explain an output) have a single natural row and use that.
    """
    if recording.batch != 1:
        raise InvalidInput("compare one text at a time")
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(f"aggregate {aggregate!r}: choose one of {', '.join(AGGREGATES)}, or a layer's number")
    specs = measures()
    scores: dict[str, np.ndarray] = {}
    left_out: dict[str, str] = {}
    tokens: tuple[str, ...] = ()
    position, label = -1, ""
    for name in only or names():
        try:
            given = {**_DEFAULTS.get(name, {}), **(options or {}).get(name, {})}
            if name in OUTPUT_MEASURES:
                given = {**_explained(recording, target), **(explain or {}), **given}
            found = measure(name, recording, **given)
            assert not isinstance(found, list)
            if specs[name].facts.signed or found.facts.signed:
                found = found.normalized(absolute=True) if aggregate == "rollout" else found
            merged = found.words() if words else found
            row = _one_row(name, merged, target, aggregate)
        except (MixlensError, ImportError) as error:
            left_out[name] = str(error)
            continue
        scores[name] = row
        if name not in OUTPUT_MEASURES and position < 0:
            chosen = merged.row(target)
            position, label, tokens = chosen.target, chosen.token, merged.source_tokens
    if not scores:
        raise InvalidInput("no measure applies: " + "; ".join(f"{name}: {reason}" for name, reason in left_out.items()))
    return Comparison(position, label, tokens, str(aggregate), scores, left_out)


def _explained(recording: Recording, target: int | str) -> dict[str, Any]:
    """Output measures explain the model's prediction at the target's position, where the model predicts words at all."""
    from mixlens.row import position_of

    row = recording.target_tokens(None, 0)
    return {"position": position_of(target, row, tuple(range(len(row))))}


def _one_row(name: str, maps: MixingMaps, target: int | str, aggregate: str | int) -> np.ndarray:
    if name in OUTPUT_MEASURES:
        values = maps.scores[0, 0]
    elif maps.provenance.get("reaches_input") and aggregate in AGGREGATES:
        values = maps.row(target).scores[-1]
    elif aggregate == "rollout":
        values = maps.rollout().row(target).scores[-1]
    elif aggregate == "last" or isinstance(aggregate, int):
        number = -1 if aggregate == "last" else int(aggregate)
        values = maps.row(target).scores[number]
    else:
        rows = maps.row(target).scores
        sums = np.abs(rows).sum(-1, keepdims=True)
        values = np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0).mean(0)
    total = np.abs(values).sum()
    result: np.ndarray = values / total if total > 0 else values
    return result
