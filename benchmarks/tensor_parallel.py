"""Every measure on tensor-parallel models, next to the same model in one process.

    python -m benchmarks.tensor_parallel [--processes 2] [--dtype float64] [MODEL ...]
    python -m benchmarks.tensor_parallel wide_llama --dtype float32 --measures attention_norm alti

The models have random weights, biases and norms. They are tiny but for `wide_llama`, whose weights
are large enough to show in the memory. For each model it prints the largest difference from one
process, relative to the largest score; whether all processes return the same bits; the time, the
peak memory above that of an idle process, and the bytes sent by each process; and how often a
weight is gathered in one call, at most. It needs gloo and no GPU.
"""

from __future__ import annotations

import argparse
import collections
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixlens import Lens
from mixlens.errors import MixlensError
from mixlens.measures import names
from mixlens.model import distributed
from mixlens.model.distributed import processes_of
from tests.recording.parallel_models import MODELS, load, save
from tests.recording.process_group import run_in_processes

TEXT = {"input_ids": torch.randint(3, 90, (1, 24), generator=torch.Generator().manual_seed(3))}
AGGREGATED = ("attention", "attention_norm_res_ln", "alti", "value_zeroing")


class Gathers:
    """Counts how often each weight is gathered in a call."""

    def __init__(self) -> None:
        self.most = 0
        self._call: collections.Counter[int] = collections.Counter()
        self._gather = distributed.whole

    def __call__(self, weight: Any) -> torch.Tensor:
        """Gather a weight."""
        self._call[id(weight)] += not all(each.is_replicate() for each in weight.placements)
        return self._gather(weight)

    def end_call(self) -> None:
        """Start to count the next call."""
        self.most = max(self.most, *self._call.values(), 0)
        self._call.clear()


def score(lens: Any, measures: Sequence[str], gathers: Gathers | None = None) -> dict[str, Any]:
    """Return all scores of a model by name, or the error of a measure that it does not have."""
    jobs: dict[str, tuple[Any, str, Any]]
    jobs = {f"{name} maps": (lens.measure, name, None) for name in measures}
    jobs |= {f"{name} targets": (lens.measure, name, [-1, 5]) for name in measures}
    jobs |= {
        f"{name} rollout": (lens.rollout, name, [-1]) for name in AGGREGATED if name in measures
    }
    scores: dict[str, Any] = {}
    for label, (function, name, targets) in jobs.items():
        try:
            scores[label] = np.asarray(function(name, TEXT, targets=targets).scores)
        except MixlensError as error:
            scores[label] = np.array(f"{type(error).__name__}: {error}"[:60])
        if gathers is not None:
            gathers.end_call()
    return scores


def measure_in_process(folder: Path) -> dict[str, Any]:
    """Measure one model in a process of the group, and save its scores."""
    name, dtype, measures = json.loads((folder / "wanted.json").read_text())
    size, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    start = time.perf_counter()
    lens = Lens(load(name, folder, getattr(torch, dtype), size))
    distributed.whole = gathers = Gathers()
    scores = score(lens, measures, gathers)
    np.savez(folder / f"{name} {rank}.npz", **scores)
    processes = processes_of(lens.model)
    assert processes is not None
    return {
        "seconds": time.perf_counter() - start,
        "memory": _memory(),
        "sent": processes.sent * (size - 1),
        "gathers": gathers.most,
    }


def idle(_: Path) -> int:
    """Return the memory of a process that has loaded no model."""
    return _memory()


def compare(name: str, folder: Path, count: int, dtype: str, measures: Sequence[str]) -> str:
    """Return one line about a model."""
    save(name, folder)
    (folder / "wanted.json").write_text(json.dumps([name, dtype, measures]))
    start = time.perf_counter()
    alone = score(Lens(load(name, folder, getattr(torch, dtype))), measures)
    seconds = time.perf_counter() - start
    reports = run_in_processes(count, measure_in_process, folder, seconds=1800)
    ranks = [np.load(folder / f"{name} {rank}.npz") for rank in range(count)]
    same = all(
        each[label].tobytes() == ranks[0][label].tobytes() for each in ranks for label in alone
    )
    worst, label = max(_differences(alone, ranks[0]))
    refused = sum(scores.dtype.kind == "U" for scores in alone.values())
    sent, memory = (max(each[what] for each in reports) / 2**20 for what in ("sent", "memory"))
    memory -= min(run_in_processes(1, idle, folder)) / 2**20
    spread = max(each["seconds"] for each in reports)
    return (
        f"| {name} | {count} | {dtype} | {len(alone) - refused} | {worst:.1e} ({label}) | "
        f"{'yes' if same else 'NO'} | {seconds:.0f} s, {spread:.0f} s | {memory:.0f} MiB | "
        f"{sent:.1f} MiB | {max(each['gathers'] for each in reports)} |"
    )


def _differences(alone: dict[str, Any], spread: Any) -> list[tuple[float, str]]:
    """Return relative differences; one measure that is refused on one side alone is infinite."""
    made = []
    for label, expected in alone.items():
        given = spread[label]
        if given.dtype.kind == "U" or expected.dtype.kind == "U":
            made.append((0.0 if str(given) == str(expected) else np.inf, label))
        else:
            largest = np.nanmax(np.abs(expected)).clip(1e-30)
            made.append((float(np.nanmax(np.abs(given - expected)) / largest), label))
    return made


def _memory() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "models", nargs="*", default=[name for name in MODELS if name != "wide_llama"]
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--measures", nargs="*", default=list(names()))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | processes | dtype | results | largest difference | same bits", end=" ")
    print("| one process, several | memory of a process | sent by a process | gathers |")
    print("|---" * 10 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.models:
            how = (chosen.processes, chosen.dtype, chosen.measures)
            print(compare(name, Path(folder), *how), flush=True)


if __name__ == "__main__":
    from benchmarks import tensor_parallel  # whose functions the processes import by name

    tensor_parallel.main()
