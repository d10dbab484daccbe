"""FSDP and pipeline parallelism raise an error in each process, and no process waits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from tests.conformance.zoo import built
from tests.recording.process_group import run_in_processes

PROCESSES = 2
GIVEN = {"input_ids": torch.arange(3, 11)[None]}
KINDS = {
    "pp_size": r"pipeline parallelism \(pp_size=2\)",
    "fsdp_size": "FSDP",
    "later": "FSDP",
    "parallelize_module": "torch's parallelize_module",
}


def load_in_every_way(folder: Path) -> dict[str, list[str]]:
    """The errors of mixlens for a model that is spread in each way."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    from transformers.distributed import DistributedConfig

    kind: Any = transformers.LlamaForCausalLM
    errors: dict[str, list[str]] = {}
    for name in ("pp_size", "fsdp_size"):
        options: Any = {name: PROCESSES}
        model = kind.from_pretrained(folder, distributed_config=DistributedConfig(**options))
        errors[name] = [_error(lambda model=model: Lens(model.eval()))]
    mesh = torch.distributed.init_device_mesh("cpu", (PROCESSES,))
    model = kind.from_pretrained(folder).eval()
    parallelize_module(model, mesh, {"model.layers.0.mlp.up_proj": ColwiseParallel()})
    errors["parallelize_module"] = [_error(lambda: Lens(model))]
    lens = Lens(kind.from_pretrained(folder).eval())
    fully_shard(lens.model, mesh=mesh)  # after the lens was made
    errors["later"] = [
        _error(lambda: lens.measure("attention", GIVEN)),
        _error(lambda: lens.measure("alti", GIVEN, targets=[-1])),
        _error(lambda: lens.generate(GIVEN, max_new_tokens=2)),
    ]
    return errors


def _error(call: Any) -> str:
    try:
        call()
    except UnsupportedModel as error:
        return str(error)
    return "no error"


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """The errors of each process, by the way in which the model is spread."""
    pytest.importorskip("transformers.distributed.pipeline_parallel")
    folder = tmp_path_factory.mktemp("spread")
    sizes: Any = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(
        vocab_size=64, num_attention_heads=2, num_key_value_heads=2, **sizes
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return run_in_processes(PROCESSES, load_in_every_way, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spread_model_is_refused_in_every_process(
    errors: list[dict[str, list[str]]], kind: str
) -> None:
    for each in errors:
        for error in each[kind]:
            assert re.search(rf"distributed with {KINDS[kind]}.*device_map", error), error
    assert errors[0][kind] == errors[1][kind]


def test_plans_without_shards_are_refused() -> None:
    """Weights that a library shards in its own way."""
    model = built("llama")
    model._tp_size = 1
    lens = Lens(model)
    model._tp_size = 2
    for call in (lambda: Lens(model), lambda: lens.measure("attention", GIVEN)):
        with pytest.raises(
            UnsupportedModel,
            match=r"tensor parallelism \(tp_size=2\), but mixlens does not find its shards",
        ):
            call()
