"""Cost of imports: `import mixlens` beyond torch, and `mixlens --help`, which must not import
torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.report import ROOT, Figure

_BEYOND_TORCH = (
    "import torch, time; start = time.perf_counter(); import mixlens; print(time.perf_counter() -"
    " start)"
)
_LENS = (
    "import torch, time; start = time.perf_counter(); from mixlens import Lens;"
    " print(time.perf_counter() - start)"
)
_HELP = "import sys; sys.argv = ['mixlens', '--help']; from mixlens.cli import main; main()"


def import_figures(repeats: int = 5) -> list[Figure]:
    """Best of several fresh processes."""
    return [
        Figure(
            "import mixlens beyond torch",
            min(_printed(_BEYOND_TORCH) for _ in range(repeats)),
            0.5,
            unit=" s",
        ),
        Figure(
            "from mixlens import Lens beyond torch",
            min(_printed(_LENS) for _ in range(repeats)),
            None,
            unit=" s",
        ),
        Figure("mixlens --help", min(_seconds_of_help() for _ in range(repeats)), 1.0, unit=" s"),
        Figure("torch modules loaded by mixlens --help", float(_torch_modules()), 0.0),
    ]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    source = str(ROOT / "src")
    environment = {
        **os.environ,
        "PYTHONPATH": source + os.pathsep + os.environ.get("PYTHONPATH", ""),
    }
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment
    )


def _printed(program: str) -> float:
    return float(_run("-c", program).stdout)


def _seconds_of_help() -> float:
    start = time.perf_counter()
    _run("-c", _HELP)
    return time.perf_counter() - start


def _torch_modules() -> int:
    """How many lines of the interpreter's own import log name torch."""
    log = _run("-X", "importtime", "-c", _HELP).stderr
    loaded = [line.rsplit("|", 1)[-1].strip() for line in log.splitlines()]
    return sum(name == "torch" or name.startswith("torch.") for name in loaded)
