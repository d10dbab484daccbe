"""Turn the options of `mixlens map` into arguments of a measure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
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


_SEVERAL = r"\d+\s*-\s*\d+|\d+(\s*,\s*\d+)+"


@dataclass(frozen=True, kw_only=True)
class MapChoice:
    """The measure to run and which of its scores to show, as set by the command-line options."""

    measure: str
    spec: Spec
    target: int | str | None
    layer: int | None
    head: int | None
    rollout: bool
    words: bool
    site: str | None
    every_target: bool  # files and figures always hold all of them

    def __post_init__(self) -> None:
        """Check the options before a model is loaded."""
        if self.head is not None and not self.spec.per_head:
            raise InvalidInput(f"{self.measure} is not defined per head. Drop --head.")
        if self.rollout and self.spec.gives != "maps":
            raise InvalidInput(
                f"{self.measure} explains an output and has no layers to aggregate. Drop --rollout."
            )
        if self.rollout and self.spec.facts.signed:
            raise InvalidInput(
                f"{self.measure} has positive and negative scores, which rollout does not "
                "support. Drop --rollout or choose another measure."
            )

    @property
    def one_row(self) -> bool:
        """Return whether the output shows only one target."""
        return self.target is not None and self.spec.gives == "maps"

    def row_of(self, maps: MixingMaps) -> int | None:
        """Return the position of the single target, or None if there are several targets."""
        return maps.row(self.target).target if self.target is not None and self.one_row else None

    def at_target(self, maps: MixingMaps) -> MixingMaps:
        """Return the maps of the single target. Call this before words are merged."""
        if self.target is None or not self.one_row:
            return maps
        return maps.at(targets=[self.target])

    def group(self, maps: MixingMaps, prompt: Prompting) -> MixingMaps:
        """Return the maps, with tokens merged into words or segments if the options request it."""
        return prompt.group(maps.words() if self.words else maps)


def measure_arguments(
    choice: MapChoice, own_options: Mapping[str, Any], lens: Lens, prompt: Prompting
) -> dict[str, Any]:
    """Return the arguments of the measure: its own options, layers and targets."""
    options = dict(own_options)
    if choice.target is not None and choice.spec.explains_output and not prompt.continues:
        # they explain the prediction at that position
        options.setdefault("position", _position(lens, prompt.inputs, choice.target))
    options["site"] = choice.site
    options["layers"] = None if choice.layer is None or choice.rollout else [choice.layer]
    options["per_head"] = choice.head is not None
    has_one_target = choice.one_row or prompt.continues
    if choice.target is not None and has_one_target and not choice.every_target:
        options["targets"] = [choice.target]
    return options


@contextlib.contextmanager
def explaining_ranges(target: int | str | None) -> Iterator[None]:
    """Suggest --span if a target such as 3-5 or 3,5 does not exist."""
    try:
        yield
    except InvalidInput as error:
        if target is None or not re.fullmatch(_SEVERAL, str(target)):
            raise
        raise InvalidInput(
            f"--target {target} names several targets. Pass --span sum, joint, mean or auto to"
            " score them as one."
        ) from error


def measure_wanted(
    choice: MapChoice,
    options: Mapping[str, Any],
    take_measure: TakeMeasure,
    *,
    is_single_target: bool,
) -> MixingMaps:
    """Return the maps, aggregated by rollout if requested.

    With `is_single_target`, the rollout is computed only for the requested targets.
    """
    rolls_targets = choice.rollout and choice.head is None and is_single_target
    maps = take_measure(choice.measure, options, rollout=rolls_targets)
    maps = maps if choice.head is None else maps.head(choice.head)
    maps = maps.rollout() if choice.rollout and not rolls_targets else maps
    return maps.at(layers=[choice.layer]) if choice.layer is not None and choice.rollout else maps


class TakeMeasure(Protocol):
    """Protocol of functions that run a measure, chosen by name, on the command's input."""

    def __call__(
        self, name: str, options: Mapping[str, Any], *, rollout: bool = False
    ) -> MixingMaps:
        """Return the maps of one measure. With `rollout`, aggregate them for the requested targets
        only.
        """


def measure_by(lens: Lens, inputs: Any, recording: Recording | None) -> TakeMeasure:
    """Return a function that measures the input, or its continuation if there is one."""
    from mixlens.measuring.measure import measure

    def take_measure(name: str, options: Mapping[str, Any], *, rollout: bool = False) -> MixingMaps:
        if rollout:
            rollout_options = {k: v for k, v in options.items() if k not in ("layers", "per_head")}
            if recording is not None:
                rollout_options.pop("site")
            return lens.rollout(name, inputs if recording is None else recording, **rollout_options)
        maps: MixingMaps | list[MixingMaps] = (
            lens.measure(name, inputs, **options)
            if recording is None
            else measure(name, recording, **options)
        )
        assert not isinstance(maps, list)
        return maps

    return take_measure


def _position(lens: Lens, inputs: Text, target: int | str) -> int:
    """Return the target's position among the tokens of the model's last stack.

    This is the stack that predicts words, such as the decoder of an encoder-decoder model.
    """
    from mixlens.text.tokens import position_of

    recording = lens.record(inputs)
    tokens = recording.tokens[recording.structure.stacks[-1].name][0]
    return position_of(target, tokens, range(len(tokens)))
