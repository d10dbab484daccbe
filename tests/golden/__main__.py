"""`python -m tests.golden write FILE`, or `compare FILE`."""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch

from tests.golden.scores import golden_scores

torch.set_num_threads(1)


def main() -> int:
    """Write golden scores, or compare the present ones with those of a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=main.__doc__)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("file")
    parser.add_argument("--only", default="", help="part of the model names to run")
    parser.add_argument("--tolerance", type=float, default=0.0, help="of the largest score")
    chosen = parser.parse_args()
    scores = dict(golden_scores(chosen.only))
    if chosen.action == "write":
        np.savez_compressed(chosen.file, allow_pickle=False, **scores)
        print(f"{len(scores)} arrays written to {chosen.file}")
        return 0
    before = np.load(chosen.file)
    wanted = [key for key in before.files if chosen.only in key.split("/")[0]]
    differing = 0
    for key in wanted:
        message = _difference(before[key], scores.get(key), chosen.tolerance)
        if message is not None:
            differing += 1
            print(f"{key}: {message}")
    print(f"{len(wanted)} arrays compared, {differing} differ, {len(scores)} computed")
    return int(differing > 0)


def _difference(before: np.ndarray, after: np.ndarray | None, tolerance: float) -> str | None:
    """Describe how two arrays differ; return None if they are equal."""
    if after is None:
        return "missing"
    if before.dtype.kind == "U" or after.dtype.kind == "U" or before.shape != after.shape:
        same = before.dtype.kind == after.dtype.kind == "U" and str(before) == str(after)
        return None if same else f"{_in_short(before)} became {_in_short(after)}"
    if np.array_equal(before, after, equal_nan=True):
        return None
    largest = float(np.nanmax(np.abs(before), initial=0)) or 1.0
    distance = float(np.nanmax(np.abs(before - after), initial=0)) / largest
    same_gaps = bool((np.isnan(before) == np.isnan(after)).all())
    return None if same_gaps and distance <= tolerance else f"off by {distance:.1e} of the largest"


def _in_short(array: np.ndarray) -> str:
    return str(array) if array.dtype.kind == "U" else f"scores {array.shape}"


if __name__ == "__main__":
    sys.exit(main())
