"""`python -m benchmarks.since`: the measures since 2023 on the CPU with two threads, next to their
bars.

    python -m benchmarks.since                        # all parts, in about three minutes
    python -m benchmarks.since --only decompx,route   # these alone; what is known of others is kept

On a machine that others use too, `--cpu-seconds` counts what the processor did for this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import decoder_rows, part_rows
from benchmarks.report import (
    RESULTS,
    Figure,
    circumstances,
    described,
    figures_of,
    say,
    table,
    write_section,
)
from benchmarks.timing import threads

PARTS = {
    "decompx": part_rows.decompx,
    "scopes": part_rows.scopes,
    "decoders": decoder_rows.whole_maps,
    "route": decoder_rows.one_route,
}
HEADER = ("measures since 2023", "measured", "bar", "", "from")


def rows(known: Mapping[str, Any]) -> list[list[str]]:
    """Of the table, from what is kept of each part."""
    made = []
    for part in [part for part in PARTS if part in known]:
        for key, kept in known[part]["figures"].items():
            unit = kept["unit"] and f" {kept['unit']}"
            figure = Figure(key, kept["value"], kept["bar"], unit=unit)
            why = known[part]["details"][key]
            made.append([key, figure.shown, figure.bar_shown, figure.verdict, why])
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--tiny", action="store_true", help="a very small model: tests the program")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-seconds", action="store_true")
    chosen = parser.parse_args(arguments)
    clock = time.process_time if chosen.cpu_seconds else time.perf_counter
    place = chosen.out or RESULTS / "since.json"
    known = json.loads(place.read_text()) if place.exists() else {}
    command = f"python -m benchmarks.since --threads {chosen.threads}"
    facts = circumstances(command + " --cpu-seconds" * chosen.cpu_seconds)
    for part in chosen.only.split(","):
        with threads(chosen.threads):
            lines = PARTS[part](tiny=chosen.tiny, clock=clock)
        if lines:
            details = {figure.key: why for figure, why in lines}
            figures = figures_of([figure for figure, _ in lines])
            known[part] = {**facts, "figures": figures, "details": details}
            say(table(HEADER, rows({part: known[part]})), "\n")
    if chosen.out is not None or not chosen.tiny:
        place.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    if chosen.out is None and not chosen.tiny:
        times = dict.fromkeys(described(part) for part in known.values())
        write_section("since", "\n\n".join([*times, table(HEADER, rows(known))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
