"""Which models of the zoo that read images and texts are measured for a few targets without maps.

python -m tests.zoo.images                 one class of each type; the number and the reasons
python -m tests.zoo.images qwen llava      only types whose name contains one of these

Four measures of two targets, the last token and another, are compared with the maps of all targets.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from mixlens import Lens, MixingMaps, measure
from mixlens.errors import in_short
from tests.zoo.models import Entry, entries

MEASURES = ("attention", "attention_norm", "alti", "value_zeroing")
TARGETS = (-1, 2)
LARGEST = 1e-5


def image_text_entries(names: Sequence[str]) -> list[Entry]:
    """The first class of each type that takes images and a text, and generates."""
    chosen: dict[str, Entry] = {}
    for entry in entries():
        takes = {"pixel_values", "input_ids"} <= set(entry.inputs)
        if takes and "ConditionalGeneration" in entry.name:
            if not names or any(name in entry.type for name in names):
                chosen.setdefault(entry.type, entry)
    return list(chosen.values())


def compared(entry: Entry) -> tuple[str, float]:
    """How the targets were recorded ("few targets", or the reason against it), and the largest
    difference from the maps of all targets, relative to the largest score of a target.
    """
    lens, inputs = Lens(entry.build()), entry.given()
    inputs.pop("labels", None)
    whole = lens.record(inputs)
    last = whole.structure.calls[-1][0]
    site = next(name for name, own in whole.structure.sites.items() if own.stack is last)
    recording = lens.record(inputs, targets=TARGETS, site=site)
    if recording.is_kept:
        return recording.not_cut or "kept", float("nan")
    worst, how = 0.0, "few targets"
    for name in MEASURES:
        ours, theirs = (
            maps if isinstance(maps, list) else [maps]
            for maps in (measure(name, recording), measure(name, whole, site=site))
        )
        how = ours[0].provenance["recorded"]
        worst = max(worst, *map(_apart, ours, theirs))
    return how, worst


def _apart(few: MixingMaps, maps: MixingMaps) -> float:
    rows = [maps.scores[:, place] for place in few.target_positions]
    pairs = ((few.scores[:, number], row) for number, row in enumerate(rows))
    return max(float(np.abs(ours - row).max() / np.abs(row).max()) for ours, row in pairs)


def main(names: Sequence[str]) -> None:
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    verdicts: dict[str, Any] = {}
    for entry in image_text_entries(names):
        try:
            how, worst = compared(entry)
            verdicts[entry.type] = how == "rows" and worst <= LARGEST
            print(f"{entry.type}: {how}, off by {worst:.0e}", flush=True)
        except Exception as error:  # the reason is the result
            verdicts[entry.type] = False
            print(f"{entry.type}: {type(error).__name__}: {in_short(error)}", flush=True)
    print(f"{sum(verdicts.values())} of {len(verdicts)} types for a few targets")


if __name__ == "__main__":
    main(sys.argv[1:])
