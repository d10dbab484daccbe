"""Models that are spread over processes are refused in each of them, and no process waits."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from tests.conformance.zoo import built

PROCESSES = 2
GIVEN = {"input_ids": torch.arange(3, 11)[None]}
KINDS = {
    "tp_size": r"tensor parallelism \(tp_size=2\)",
    "pp_size": r"pipeline parallelism \(pp_size=2\)",
    "fsdp_size": "FSDP",
    "later": "FSDP",
}


def in_one_process(folder: str) -> None:
    """Load the model in every way, and print the errors of mixlens."""
    import torch.distributed
    from torch.distributed.fsdp import fully_shard
    from transformers.distributed import DistributedConfig

    torch.distributed.init_process_group("gloo")
    kind: Any = transformers.LlamaForCausalLM
    errors: dict[str, list[str]] = {}
    for name in ("tp_size", "pp_size", "fsdp_size"):
        options: Any = {name: PROCESSES}
        model = kind.from_pretrained(folder, distributed_config=DistributedConfig(**options))
        errors[name] = [_error(lambda model=model: Lens(model.eval()))]
    lens = Lens(kind.from_pretrained(folder).eval())
    mesh = torch.distributed.init_device_mesh("cpu", (PROCESSES,))
    fully_shard(lens.model, mesh=mesh)  # after the lens was made
    errors["later"] = [
        _error(lambda: lens.measure("attention", GIVEN)),
        _error(lambda: lens.measure("alti", GIVEN, targets=[-1])),
        _error(lambda: lens.generate(GIVEN, max_new_tokens=2)),
    ]
    print(json.dumps(errors), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _error(call: Any) -> str:
    try:
        call()
    except UnsupportedModel as error:
        return str(error)
    return "no error"


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """The errors of each process, by the way in which the model is spread."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("NOT RUN: torch was built without gloo")
    pytest.importorskip("transformers.distributed.pipeline_parallel")
    folder = tmp_path_factory.mktemp("spread")
    sizes: Any = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(
        vocab_size=64, num_attention_heads=2, num_key_value_heads=2, **sizes
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(PROCESSES)}
    code = f"from tests.recording.test_distributed import *; in_one_process({str(folder)!r})"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(PROCESSES)
    ]
    printed = []
    try:
        for process in running:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err.decode()[-2000:]
            printed.append(json.loads(out.decode().strip().splitlines()[-1]))
    finally:
        for process in running:
            process.kill()
    return printed


@pytest.mark.parametrize("kind", KINDS)
def test_a_spread_model_is_refused_in_every_process(
    errors: list[dict[str, list[str]]], kind: str
) -> None:
    for each in errors:
        for error in each[kind]:
            assert re.search(rf"spread by {KINDS[kind]}.*device_map", error), error
    assert errors[0][kind] == errors[1][kind]


def test_plain_weights_of_tensor_parallelism_are_refused_too() -> None:
    """As transformers before 5.17 spreads a model: the weights are ordinary parameters."""
    model = built("llama")
    model._tp_size = 1
    lens = Lens(model)
    model._tp_size = 2
    with pytest.raises(UnsupportedModel, match=KINDS["tp_size"]):
        Lens(model)
    with pytest.raises(UnsupportedModel, match=KINDS["tp_size"]):
        lens.measure("attention", GIVEN)
