"""The measures on one GPU, next to their bars: `PYTHONPATH=src python benchmarks/gpu.py --out DIR`,
at most six minutes on an H200.

Needs torch and transformers only. Every row is on its own: one that fails is printed with its
traceback and the next one runs. Results and log go to DIR (gpu.json, gpu.txt); `python -m
benchmarks.gpu --publish DIR` takes them into benchmarks/results and the docs.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks import gpu_outputs, gpu_rows, gpu_targets
from benchmarks.gpu_rows import Bench, Sizes
from benchmarks.report import RESULTS, circumstances, described, save, table, write_section

ROWS = [*gpu_rows.ROWS, *gpu_targets.ROWS, *gpu_outputs.ROWS]


def shown(bench: Bench) -> str:
    lines = [[f.key, f.shown, f.bar_shown, f.verdict, why] for f, why in bench.figures]
    lines += [[name, "failed", "", "MISS", reason] for name, reason in bench.failed]
    return table(["on one GPU", "measured", "bar", "", "from"], lines)


def written(bench: Bench, folder: Path) -> None:
    """After every row, so that a run that is cut short leaves what it has."""
    words = bench.device if bench.device == "cpu" else torch.cuda.get_device_name()
    facts = circumstances(
        "PYTHONPATH=src python benchmarks/gpu.py --out DIR",
        accelerator=words,
        cuda=torch.version.cuda,
    )
    details = {figure.key: why for figure, why in bench.figures}
    save(
        folder / "gpu.json",
        facts,
        [f for f, _ in bench.figures],
        details=details,
        failed=dict(bench.failed),
        table=shown(bench),
    )


def run(bench: Bench, folder: Path, seconds: float, only: Sequence[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with (folder / "gpu.txt").open("w") as log:
        bench.log = log
        for row in ROWS:
            if only and not any(part in row.__name__ for part in only):
                continue
            name, spent = row.__name__.replace("_", " "), time.perf_counter() - start
            if spent > seconds:
                bench.failed.append((name, f"not run: {spent:.0f} s were spent"))
                continue
            bench.say(f"[{spent:.0f} s] {name}: {(row.__doc__ or '').strip().splitlines()[0]}")
            try:
                row(bench)
            except Exception as error:  # whatever breaks one row must not take the others with it
                bench.failed.append(
                    (
                        name,
                        (
                            f"{type(error).__name__}:"
                            f" {str(error).splitlines()[0] if str(error) else ''}"
                        ),
                    )
                )
                bench.say(traceback.format_exc())
            gc.collect()
            if bench.device != "cpu":
                torch.cuda.empty_cache()
            written(bench, folder)
        bench.say(f"\n{shown(bench)}\n\n{time.perf_counter() - start:.0f} s")
    return 1 if bench.failed else 0


def publish(folder: Path, section: str) -> int:
    facts = json.loads((folder / "gpu.json").read_text())
    for kind in ("json", "txt"):
        shutil.copyfile(folder / f"gpu.{kind}", RESULTS / f"{section}.{kind}")
    write_section(section, f"{described(facts)}\n\n{facts['table']}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for gpu.json and gpu.txt")
    parser.add_argument(
        "--publish", type=Path, metavar="DIR", help="take the results in DIR into the repository"
    )
    parser.add_argument("--section", default="gpu", help="table of the page for --publish")
    parser.add_argument(
        "--only", nargs="+", default=[], help="rows whose name contains one of these"
    )
    parser.add_argument("--seconds", type=float, default=330, help="no new row after these")
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    parser.add_argument(
        "--tiny", action="store_true", help="very small sizes, on the CPU too: tests the code"
    )
    chosen = parser.parse_args(arguments)
    if chosen.publish is not None:
        return publish(chosen.publish, chosen.section)
    if chosen.out is None:
        parser.error("--out is needed")
    if not chosen.tiny and not torch.cuda.is_available():
        parser.error("there is no GPU; --tiny runs on the CPU")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bench = Bench(device, Sizes.tiny() if chosen.tiny else Sizes(), profiled=chosen.profile)
    return run(bench, chosen.out, chosen.seconds, chosen.only)


if __name__ == "__main__":
    sys.exit(main())
