"""Support commands that `torchrun` starts in several processes to spread one model over them. Every
process runs the command. Only the first process prints output and writes the requested files. The
other processes print nothing, and write to a temporary folder that is deleted at the end.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mixlens.errors import InvalidInput

_LINGER = 10.0  # seconds
_SPREAD = ("map", "compare", "routes", "answer", "context-cite", "doctor")


def rank() -> int:
    """Return the rank of this process, or 0 without torchrun."""
    return int(os.environ.get("RANK", "0")) if process_count() > 1 else 0


def process_count() -> int:
    """Return the number of processes that torchrun started, or 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextlib.contextmanager
def one_voice() -> Iterator[None]:
    """Print only in the first process.

    After an error, every other process waits for `_LINGER` seconds, because torchrun ends all
    processes as soon as one of them fails. If a process has not been ended by then, the first
    process did not fail, so the waiting process prints its own error.
    """
    if rank() == 0:
        yield
        return
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            yield
    except SystemExit as end:
        if end.code:
            time.sleep(_LINGER)
            print(f"process {rank()}: {errors.getvalue()}", end="", file=sys.stderr)
        raise


def require_command(name: str | None) -> None:
    """Raise if torchrun has started a command that supports only one process."""
    if process_count() > 1 and name not in _SPREAD:
        raise InvalidInput(
            f"mixlens {name} does not run in several processes. Start it without torchrun, or use "
            f"one of {', '.join(_SPREAD)}."
        )


def written_paths(params: Iterable[Any], values: dict[str, Any], panel: str) -> dict[str, Any]:
    """Return the arguments of a command, with temporary paths for outputs unless this is the first
    process.

    `panel` is the group of options for outputs.
    """
    if rank() == 0:
        return values
    folder = Path(tempfile.mkdtemp(prefix="mixlens-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    outputs = {each.name for each in params if getattr(each, "rich_help_panel", None) == panel}
    return {
        name: folder / value.name if name in outputs and isinstance(value, Path) else value
        for name, value in values.items()
    }


def loading_options() -> dict[str, Any]:
    """Return the options of `from_pretrained` that spread a model over the processes."""
    if process_count() == 1:
        return {}
    import torch

    from mixlens.model.distributed import spread_options

    if not torch.distributed.is_initialized():  # transformers opens the group
        atexit.register(_leave_group)
    return spread_options(process_count())


def _leave_group() -> None:
    """Close the process group. Otherwise Python may abort at exit."""
    distributed = sys.modules["torch.distributed"]
    if distributed.is_initialized():
        distributed.destroy_process_group()
