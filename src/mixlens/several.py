"""Several texts: recorded in batches of like length, and a text that cannot be measured named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mixlens.batching import halve_until_it_fits
from mixlens.errors import (
    InvalidInput,
    MissingExtra,
    MissingTokenizer,
    MixlensError,
    UnsupportedModel,
    about,
)

if TYPE_CHECKING:
    from mixlens.maps import MixingMaps

ON_ERROR = ("raise", "skip")


class MeasuredTexts(list["MixingMaps"]):
    """The maps of those texts that could be measured, in their order.

    `names` says which text each is of; `errors` holds (name, reason) of each that was left out.
    """

    def __init__(
        self,
        maps: Sequence[MixingMaps],
        names: Sequence[str],
        errors: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(maps)
        self.names, self.errors = tuple(names), tuple(errors)


def measure_several(
    measure: Callable[[list[int]], list[MixingMaps]],
    groups: Iterable[list[int]],
    names: Sequence[str],
    on_error: str,
) -> MeasuredTexts:
    """Measures groups of texts, given by their places.

    If a group fails, its texts are measured one by one. One that fails is named in the error, or
    left out with the reason.
    """
    if on_error not in ON_ERROR:
        raise InvalidInput(f"on_error={on_error!r}: choose one of {', '.join(ON_ERROR)}")
    maps: dict[int, MixingMaps] = {}
    errors: dict[int, MixlensError] = {}
    for group in groups:
        try:
            maps.update(zip(group, halve_until_it_fits(measure, group), strict=True))
        except (MissingTokenizer, MissingExtra):  # no text can change that
            raise
        except MixlensError as error:
            if on_error == "raise" and isinstance(error, UnsupportedModel):
                raise
            alone, failed = _one_by_one(measure, group, until_known=on_error == "raise")
            if len(failed) == len(names) > 1 and len({str(e) for e in failed.values()}) == 1:
                raise about("every text", error) from None
            if failed and on_error == "raise":
                place, reason = next(iter(failed.items()))
                raise about(names[place], reason) if len(names) > 1 else reason from None
            maps.update(alone)
            errors.update(failed)
    return MeasuredTexts(
        [maps[place] for place in sorted(maps)],
        [names[place] for place in sorted(maps)],
        [(names[place], str(errors[place])) for place in sorted(errors)],
    )


def _one_by_one(
    measure: Callable[[list[int]], list[MixingMaps]], group: list[int], *, until_known: bool
) -> tuple[dict[int, MixingMaps], dict[int, MixlensError]]:
    """The maps of each text, or the reason why it has none; `until_known`: stop when some fail and
    others do not, which shows that it is the text's fault.
    """
    maps: dict[int, MixingMaps] = {}
    failed: dict[int, MixlensError] = {}
    for place in sorted(group):
        try:
            (maps[place],) = measure([place])
        except MixlensError as error:
            failed[place] = error
        if until_known and maps and failed:
            break
    return maps, failed
