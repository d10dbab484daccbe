"""Models that transformers 5.2 to 5.15 spreads over processes, with shards as ordinary parameters.

If one of these versions is installed, `test_tensor_parallel.py` tests it. These tests shard a Llama
of the installed version by hand in the same way.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from mixlens.maps.provenance import weights_digest
from mixlens.model import plain_shards
from mixlens.model.distributed import whole
from mixlens.model.plain_shards import PlainShard, find_plain_shards, plain_shard
from mixlens.text.input_checks import vocabulary_size
from tests.conformance.zoo import built
from tests.recording.parallel_models import load, save
from tests.recording.process_group import run_in_processes

PROCESSES = 2
GIVEN = {"input_ids": torch.arange(3, 12)[None]}
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
LAYERS = {"self_attn": (*COLUMNS[:3], ROWS[0]), "mlp": (*COLUMNS[3:], ROWS[1])}
PLAN = {
    f"model.layers.*.{block}.{name}": "colwise" if name in COLUMNS else "rowwise"
    for block, names in LAYERS.items()
    for name in names
}


def keep_bias(module: Any, _: Any) -> None:
    """As transformers does before it sums the outputs of all processes."""
    if module._parameters.get("bias") is not None:
        module._bias = module._parameters["bias"]
        module.bias = None


def sum_outputs(module: Any, _: Any, output: torch.Tensor) -> Any:
    """The sum of the outputs of all processes, whose gradient is that of one process."""
    with torch.no_grad():
        others = output.detach().clone()
        torch.distributed.all_reduce(others)
        others -= output
    summed = output + others
    return summed if module._parameters.get("_bias") is None else summed + module._bias


for hook in (keep_bias, sum_outputs):
    hook.__module__ = "transformers.integrations.tensor_parallel"


def spread(model: Any, mesh: Any) -> Any:
    """Shard a model without the exchange of gradients."""
    rank, size = mesh.get_local_rank(), mesh.size()
    for path, part in model.named_modules():
        style = PLAN.get(re.sub(r"\.\d+\.", ".*.", path))
        part._is_hooked = True
        if style is None:
            continue
        part._hf_tp_plan = style
        for name, weight in part._parameters.items():
            if style == "colwise" or name == "weight":
                axis = 0 if style == "colwise" else 1
                part._parameters[name] = nn.Parameter(weight.data.chunk(size, axis)[rank].clone())
        if style == "rowwise":
            part.register_forward_pre_hook(keep_bias)
            part.register_forward_hook(sum_outputs)
    model._tp_plan, model._tp_size, model._device_mesh = PLAN, size, mesh
    return model


def measured(lens: Lens) -> dict[str, np.ndarray[Any, Any]]:
    """Whole maps, a few targets, a span and a rollout."""
    results: dict[str, Any] = {
        "norms": lens.measure("attention_norm", GIVEN, targets=[-1], per_head=True),
        "alti": lens.measure("alti", GIVEN),
        "span": lens.measure("alti", GIVEN, targets=[4, 5], span="joint"),
        "value_zeroing": lens.measure("value_zeroing", GIVEN, targets=[-1, 5]),
        "rollout": lens.rollout("attention_norm_res_ln", GIVEN, targets=[-1]),
    }
    return {name: np.asarray(maps.scores) for name, maps in results.items()}


def measure_shards(folder: Path) -> dict[str, Any]:
    """Save the scores of a sharded model, and gather each style."""
    mesh = torch.distributed.init_device_mesh("cpu", (PROCESSES,))
    model = spread(load("llama", folder, torch.float64), mesh)
    part = _error(lambda: Lens(model.model))
    lens = Lens(model)
    scores: Any = measured(lens)
    np.savez(folder / f"{mesh.get_local_rank()}.npz", **scores)
    digest = weights_digest(model)
    model(**GIVEN)  # which moves biases
    return {
        "part": part,
        "gradient": _error(lambda: lens.measure("gradient_x_input", GIVEN)),
        "digests": [digest, weights_digest(model)],
        "after": float(np.abs(measured(lens)["alti"] - scores["alti"]).max()),
        "wrong": [style for style in plain_shards._AXES if not _is_gathered(style, mesh)],
    }


def _is_gathered(style: str, mesh: Any) -> bool:
    """Whether a matrix and a vector of 9 entries, or 12 if packed, are gathered from shards."""
    model: Any = nn.ModuleDict({"layers": nn.ModuleList([nn.Module()])})
    part, packed = model["layers"][0], style.startswith("packed")
    part._hf_tp_plan, model._device_mesh, model.tp_plan = style, mesh, {"layers.*": style}
    size = 12 if packed else 9
    weights = {"weight": torch.arange(size * size).view(size, size) * 1.0, "bias": torch.ones(size)}
    for name, weight in weights.items():
        axis = plain_shards._AXES[style][weight.dim() == 1]
        if axis is not None:
            blocks = weight.chunk(2, axis) if packed and weight.dim() > 1 else (weight,)
            own = [block.chunk(mesh.size(), axis)[mesh.get_local_rank()] for block in blocks]
            weight = torch.cat(own, axis)
        part.register_parameter(name, nn.Parameter(weight))
    find_plain_shards(model)
    return all(
        torch.equal(whole(own) if plain_shard(own) is not None else own, weights[name])
        for name, own in part.named_parameters()
    )


def _error(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except UnsupportedModel as error:
        return str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    save("llama", folder)
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> list[dict[str, Any]]:
    """What each process returns."""
    return run_in_processes(PROCESSES, measure_shards, folder)


def test_scores_are_those_of_one_process(folder: Path, said: list[dict[str, Any]]) -> None:
    first, second = (np.load(folder / f"{rank}.npz") for rank in range(PROCESSES))
    for key, expected in measured(Lens(load("llama", folder, torch.float64))).items():
        assert np.abs(first[key] - expected).max() <= 1e-12 * np.abs(expected).max(), key
        assert first[key].tobytes() == second[key].tobytes(), key
    assert [each["after"] for each in said] == [0, 0]


def test_every_style_is_gathered(said: list[dict[str, Any]]) -> None:
    assert [each["wrong"] for each in said] == [[], []]


def test_the_digest_is_that_of_one_process(folder: Path, said: list[dict[str, Any]]) -> None:
    digest = weights_digest(load("llama", folder, torch.float64))
    assert [each["digests"] for each in said] == [[digest] * 2] * PROCESSES


def test_gradients_of_a_part_of_the_model_are_refused(said: list[dict[str, Any]]) -> None:
    for each in said:
        assert "processes computed different scores of gradient_x_input" in each["gradient"]
    assert said[0]["gradient"] == said[1]["gradient"]


def test_a_part_of_a_sharded_model_is_refused(said: list[dict[str, Any]]) -> None:
    for each in said:
        assert "LlamaModel is only a part of a model that is distributed" in each["part"]


@pytest.mark.parametrize(
    ("style", "axes", "words"),
    [("sequence_parallel", 1, "the styles sequence_parallel"), ("colwise", 2, "a mesh of 2 axes")],
)
def test_other_plans_are_refused(style: str, axes: int, words: str) -> None:
    model: Any = built("llama")
    model._tp_plan, model._device_mesh = {"embed_tokens": style}, SimpleNamespace(ndim=axes)
    model.embed_tokens._hf_tp_plan = style
    with pytest.raises(UnsupportedModel, match=f"{words}, .* Install transformers 5.16"):
        Lens(model)


def test_the_vocabulary_is_that_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = built("llama")
    table, size = model.get_input_embeddings(), model.config.vocab_size
    table.num_embeddings = size // PROCESSES  # as transformers 5.15 sets it
    assert vocabulary_size(model) == size // PROCESSES
    monkeypatch.setitem(plain_shards._shards, table.weight, PlainShard(None, 0, False))
    assert vocabulary_size(model) == size
