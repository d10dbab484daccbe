"""Processes of one group, each of which runs the same function of a test module."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch


def run_in_processes(count: int, function: Any, folder: Path, seconds: int = 300) -> list[Any]:
    """What `function(folder)` returns in each process, which must be JSON."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("NOT RUN: torch was built without gloo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    module, name = function.__module__, function.__name__
    code = f"from tests.recording import process_group; process_group.work({module!r}, {name!r})"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            env={
                **os.environ,
                **place,
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            },
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(count)
    ]
    try:
        ended = [process.communicate(timeout=seconds) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (_, err) in zip(running, ended, strict=True):
        assert process.returncode == 0, err.decode()[-3000:]
    return [json.loads(out.decode().strip().splitlines()[-1]) for out, _ in ended]


def work(module: str, name: str) -> None:
    """Run the function in a group, and print what it returns."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    store: Any = torch.distributed.distributed_c10d._get_default_store()
    result = getattr(importlib.import_module(module), name)(Path(sys.argv[1]))
    print(json.dumps(result), flush=True)
    store.set(f"done {os.environ['RANK']}", "")
    if os.environ["RANK"] == "0":  # which holds the store
        store.wait([f"done {rank}" for rank in range(int(os.environ["WORLD_SIZE"]))])
    os._exit(0)  # the group may be broken, and would be waited for
