"""Offloaded and packed weights give the same scores as plain weights on the device."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from torch import nn

from mixlens import Lens
from mixlens.errors import NonFiniteActivations, UnsupportedModel
from mixlens.measures import ready_measures
from mixlens.model import placement
from mixlens.model.placement import available_to
from tests.conformance.zoo import built, inputs
from tests.two_devices import TwoDevices, spread

# Weights inside layers, tails that run again, tangents, vectors, gradients, the head.
MEASURES = ["attention_norm", "value_zeroing", "hidden_token_attribution", "gradient_x_input"]


def scores(model: nn.Module) -> dict[str, np.ndarray]:
    lens, given = Lens(model), {"input_ids": inputs("llama")["input_ids"][:1]}
    chosen: dict[str, dict[str, Any]] = {"hidden_token_attribution": {"probes": 2}}
    by_name = {m: lens.measure(m, given, **chosen.get(m, {})) for m in MEASURES}
    by_name["rows"] = lens.measure("alti", given, targets=[-1])
    return {name: np.asarray(getattr(maps, "scores")) for name, maps in by_name.items()}  # noqa: B009


def cpu_offload(model: Any, folder: Path) -> Any:
    return accelerate.cpu_offload(model, execution_device=torch.device("cpu"))


def disk_offload(model: Any, folder: Path) -> Any:
    return accelerate.disk_offload(model, folder, execution_device=torch.device("cpu"))


@pytest.mark.parametrize("away", [cpu_offload, disk_offload])
def test_weights_that_accelerate_brings_when_they_are_needed(
    away: Callable[[Any, Path], Any], tmp_path: Path
) -> None:
    expected = scores(built("llama", head=True))
    model = away(built("llama", head=True), tmp_path)
    assert all(parameter.is_meta for parameter in model.parameters())
    measured = scores(model)
    for name, values in expected.items():
        np.testing.assert_allclose(measured[name], values, atol=1e-6, err_msg=name)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert Lens(model).verify({"input_ids": torch.arange(3, 9)[None]}).device == "cpu"


@pytest.mark.parametrize("away", [cpu_offload, disk_offload])
def test_damaged_weights_that_are_away_are_named(
    away: Callable[[Any, Path], Any], tmp_path: Path
) -> None:
    model = built("llama", head=True)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
    lens, given = Lens(away(model, tmp_path)), {"input_ids": torch.arange(3, 9)[None]}
    for targets in (None, [-1]):
        with pytest.raises(
            NonFiniteActivations, match=r"`model\.layers\.1\.mlp\.down_proj\.weight`"
        ):
            lens.measure("alti", given, targets=targets)


@pytest.mark.parametrize("path", ["lm_head", "model.layers.1.mlp", "model.layers.0", "model.norm"])
def test_a_part_that_is_nowhere_is_refused(path: str) -> None:
    model = built("llama", head=True)
    model.get_submodule(path).to("meta")
    lens, given = Lens(model), {"input_ids": torch.arange(3, 9)[None]}
    words = rf"`{path}\..*` are on the meta device"
    for ask in (
        lambda: lens.measure("attention", given),
        lambda: lens.measure("gradient_norm", given),
        lambda: lens.measure("alti", given, targets=[-1]),
        lambda: lens.generate(given, max_new_tokens=2),
        lambda: lens.verify(given),
    ):
        with pytest.raises(UnsupportedModel, match=words):
            ask()


def test_memory_of_all_devices_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"cpu": 1, "cuda:0": 10, "cuda:1": 100}
    monkeypatch.setattr(placement, "available_memory", lambda device: free[str(device)])
    model = built("bert")
    for named in ("cuda", 0):  # what a device map says may not be there
        model.hf_device_map = {"": named}
        assert available_to(model) == 1
    places = [torch.device(name) for name in ("cuda:0", "cuda:1", "cuda:0", "cpu")]
    weights = [SimpleNamespace(device=place, is_meta=False) for place in places]
    monkeypatch.setattr(placement, "tensors_of", lambda model: weights)
    monkeypatch.setattr(placement, "entry_device", lambda model: places[0])
    assert available_to(model) == 110


def test_a_device_map_with_layers_in_two_places(tmp_path: Path) -> None:
    """As `from_pretrained(device_map=...)` spreads a model: each layer where the map says."""
    expected = scores(built("llama", head=True))
    model = built("llama", head=True)
    places: dict[str, Any] = {
        "model.embed_tokens": "cpu",
        "model.rotary_emb": "cpu",
        "model.norm": "cpu",
    }
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "lm_head": "cpu"}
    known = {f"model.layers.{i}" for i in range(len(model.model.layers))}
    places |= dict.fromkeys(known - set(places), "cpu")
    main: Any = "cpu"  # accelerate's annotation asks for a device, its code for a name
    spread = accelerate.dispatch_model(
        model, places, main_device=main, offload_dir=tmp_path, force_hooks=True
    )
    away = [parameter.is_meta for parameter in spread.parameters()]
    assert any(away)
    assert not all(away)
    measured = scores(spread)
    for name, values in expected.items():
        np.testing.assert_allclose(measured[name], values, atol=1e-6, err_msg=name)


THROUGH_LAYERS = ["alti_logit", "decompx", "decompx_logit", "logit_update", "flow_routes"]
BY_LAYER = ["hidden_token_attribution", "attention_gradient", "integrated_gradients", "alti"]


@pytest.mark.parametrize(
    ("family", "measures"), [("llama", [*THROUGH_LAYERS, *BY_LAYER]), ("bart", BY_LAYER)]
)
def test_layers_on_two_devices(family: str, measures: list[str]) -> None:
    given, model = inputs(family), built(family, head=True)
    given = {name: tensor[:1] for name, tensor in given.items()}
    expected = _by_name(Lens(model), given, measures)
    far = built(family, head=True)
    spread(far, [part for part in far.modules() if type(part).__name__.endswith("Layer")])
    with TwoDevices():
        made = _by_name(Lens(far), given, measures)
    for name, values in expected.items():
        np.testing.assert_allclose(made[name], values, atol=1e-6, err_msg=name)


def _by_name(lens: Lens, given: dict[str, Any], measures: list[str]) -> dict[str, np.ndarray]:
    made: dict[str, Any] = {}
    specs, sites = ready_measures(), lens.record(given).sites
    for name in measures:
        for site in sites if name in ("alti", "hidden_token_attribution") else sites[:1]:
            made[f"{name} {site}"] = lens.measure(name, given, site=site, **specs[name].least)
    if "decompx_logit" in measures:
        made["linear"] = lens.measure("decompx_logit", given, bias="equal")
    made["rows"] = lens.measure("value_zeroing", given, targets=[-1])
    made["rollout"] = lens.rollout("alti", given, [-1])
    return {name: np.asarray(maps.scores) for name, maps in made.items()}


def quanto(model: nn.Module) -> None:
    library = pytest.importorskip("optimum.quanto")
    library.quantize(model, weights=library.qint8)
    library.freeze(model)


def torchao(model: nn.Module) -> None:
    library: Any = importlib.import_module("torchao.quantization")
    library.quantize_(model, library.Int8WeightOnlyConfig())


@pytest.mark.filterwarnings("ignore")
def test_int8_weights_are_measured_as_the_numbers_that_they_stand_for() -> None:
    int8_weights_are_plain_numbers(quanto)


def dynamic_activations_of_torchao_are_refused() -> None:
    library: Any = importlib.import_module("torchao.quantization")
    model, given = built("llama", torch.bfloat16), {"input_ids": torch.arange(3, 15)[None]}
    library.quantize_(model, library.Int8DynamicActivationInt8WeightConfig())
    with torch.no_grad():
        before = model(**given)[0]
        with pytest.raises(UnsupportedModel, match="quantises activations"):
            Lens(model).measure("attention", given)
        assert torch.equal(model(**given)[0], before)


def test_torchao() -> None:
    """In a process of its own: the environment has it in a folder that is not searched, because
    transformers loads it wherever it is found, with warnings.
    """
    folder = Path(sys.prefix, "torchao")
    if not folder.exists() and importlib.util.find_spec("torchao") is None:
        pytest.skip("NOT RUN: there is no torchao; `make test` puts it into the environment")
    own = "from tests.recording.test_placement import *; int8_weights_are_plain_numbers(torchao)"
    own += "; dynamic_activations_of_torchao_are_refused()"
    paths = os.pathsep.join([*sys.path, str(folder)])
    made = subprocess.run(
        [sys.executable, "-c", own], env={**os.environ, "PYTHONPATH": paths}, capture_output=True
    )
    assert made.returncode == 0, made.stderr.decode()[-2000:]


def int8_weights_are_plain_numbers(pack: Callable[[nn.Module], None]) -> None:
    model, plain = built("llama", head=True), built("llama", head=True)
    pack(model)
    packed = 0
    with torch.no_grad():
        for ours, theirs in zip(plain.parameters(), model.parameters(), strict=True):
            if type(theirs) is not nn.Parameter:
                ours.copy_(theirs.dequantize())
                packed += 1
    assert packed > 8
    measured = scores(model.eval())
    for name, values in scores(plain).items():
        np.testing.assert_allclose(measured[name], values, atol=1e-5, err_msg=name)


def test_a_cache_in_the_configuration_stays_and_is_not_used() -> None:
    model = built("llama", head=True)
    assert model.config.use_cache
    lens, given = Lens(model), {"input_ids": torch.arange(3, 9)[None]}
    before = lens.measure("attention_norm", given).scores
    assert np.array_equal(lens.measure("attention_norm", given).scores, before)
    assert model.config.use_cache
