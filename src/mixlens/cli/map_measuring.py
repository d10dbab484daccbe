"""What `mixlens map` measures: the options of the command as arguments of a measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mixlens.cli.prompting import Prompting
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording
    from mixlens.text.inputs import Text


@dataclass(frozen=True, kw_only=True)
class MapChoice:
    """What of a measure is shown, as the options say."""

    measure: str
    spec: Spec
    target: int | str | None
    layer: int | None
    head: int | None
    rollout: bool
    words: bool
    site: str | None
    every_target: bool  # files and pictures have all of them

    def __post_init__(self) -> None:
        """What can be seen to be wrong before a model is loaded."""
        if self.head is not None and not self.spec.per_head:
            raise InvalidInput(f"{self.measure} is not defined per head. Drop --head.")
        if self.rollout and self.spec.gives != "maps":
            raise InvalidInput(
                f"{self.measure} explains an output and has no layers to aggregate. Drop --rollout."
            )
        if self.rollout and self.spec.facts.signed:
            raise InvalidInput(
                f"{self.measure} has scores of both signs, which rollout cannot multiply. Drop"
                " --rollout or choose another measure."
            )

    @property
    def one_row(self) -> bool:
        """Is one row of maps shown?"""
        return self.target is not None and self.spec.gives == "maps"

    def row_of(self, maps: MixingMaps) -> int | None:
        """The position of the row that is shown, if it is one."""
        return maps.row(self.target).target if self.target is not None and self.one_row else None

    def at_target(self, maps: MixingMaps) -> MixingMaps:
        """The row that is shown, if it is one. Before words: a position is a token's."""
        if self.target is None or not self.one_row:
            return maps
        return maps.at(targets=[self.target])

    def grouped(self, maps: MixingMaps, prompt: Prompting) -> MixingMaps:
        """By words and segments, as the options say."""
        return prompt.grouped(maps.words() if self.words else maps)


def measure_arguments(
    wanted: MapChoice, own_options: Mapping[str, Any], lens: Lens, prompt: Prompting
) -> dict[str, Any]:
    """What the measure is called with: its own options, and what is wanted of it."""
    options = dict(own_options)
    if wanted.target is not None and wanted.spec.explains_output and not prompt.continues:
        # they explain what the model says there
        options.setdefault("position", _position(lens, prompt.given, wanted.target))
    options["site"] = wanted.site
    options["layers"] = None if wanted.layer is None or wanted.rollout else [wanted.layer]
    options["per_head"] = wanted.head is not None
    alone = wanted.one_row or prompt.continues
    if wanted.target is not None and alone and not wanted.every_target:
        options["targets"] = [wanted.target]
    return options


def measure_wanted(
    wanted: MapChoice, options: Mapping[str, Any], measured: TakeMeasure, *, by_rows: bool
) -> MixingMaps:
    """The maps, rolled out if that is wanted: `by_rows` without forming maps of all targets."""
    rolls_rows = wanted.rollout and wanted.head is None and by_rows
    maps = measured(wanted.measure, options, rollout=rolls_rows)
    maps = maps if wanted.head is None else maps.head(wanted.head)
    maps = maps.rollout() if wanted.rollout and not rolls_rows else maps
    return maps.at(layers=[wanted.layer]) if wanted.layer is not None and wanted.rollout else maps


class TakeMeasure(Protocol):
    """How a measure of any name is taken of what was given."""

    def __call__(
        self, name: str, options: Mapping[str, Any], *, rollout: bool = False
    ) -> MixingMaps:
        """The maps of one measure; `rollout`: rolled out by rows."""


def measure_by(lens: Lens, given: Any, recording: Recording | None) -> TakeMeasure:
    """Measure what was given, or the recording of what follows it if there is one."""
    from mixlens.measuring.measure import measure

    def measured(name: str, options: Mapping[str, Any], *, rollout: bool = False) -> MixingMaps:
        if rollout:
            own = {k: v for k, v in options.items() if k not in ("layers", "per_head")}
            if recording is not None:
                own.pop("site")
            return lens.rollout(name, given if recording is None else recording, **own)
        maps: MixingMaps | list[MixingMaps] = (
            lens.measure(name, given, **options)
            if recording is None
            else measure(name, recording, **options)
        )
        assert not isinstance(maps, list)
        return maps

    return measured


def _position(lens: Lens, given: Text, target: int | str) -> int:
    """Where the target is in the text that the model predicts words for."""
    from mixlens.text.positions import position_of

    recording = lens.record(given)
    row = recording.tokens[recording.structure.stacks[-1].name][0]
    return position_of(target, row, range(len(row)))
