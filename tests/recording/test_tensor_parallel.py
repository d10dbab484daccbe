"""Tensor-parallel models have the scores of the same model in one process, and processes that do
not make the same calls raise the same error.

One group of two processes makes nearly all checks. `benchmarks/tensor_parallel.py` compares every
measure on more models.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib.util
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.mixtral import modeling_mixtral

from mixlens import Lens
from mixlens.cli import torchrun
from mixlens.measuring import recorder
from mixlens.model import distributed, placement, processes
from mixlens.model.distributed import processes_of
from mixlens.recording import deferred_checks, target_pass
from mixlens.recording.deferred_checks import raise_if_true
from tests.cli.running import run
from tests.recording.parallel_models import MODELS, load, save, save_reader
from tests.recording.process_group import run_in_processes

TEXT = {"input_ids": torch.randint(3, 90, (1, 11), generator=torch.Generator().manual_seed(3))}
OTHER = {"input_ids": TEXT["input_ids"].flip(1)}
PADDED = {
    "input_ids": torch.cat([TEXT["input_ids"], OTHER["input_ids"]]),
    "attention_mask": torch.tensor([[1] * 11, [1] * 7 + [0] * 4]),
}
CORE: tuple[str, ...] = ("llama", "qwen3", "mixtral", "gemma3", "gpt_neox")
if importlib.util.find_spec("transformers.distributed.expert_parallel"):
    CORE = (*CORE, "gpt_oss")  # whose gradients are wrong before transformers 5.16
SENTENCE = "The keys to the cabinet are here."
RUNS = {
    2: [(name, "float64") for name in CORE] + [("llama", "float32")],
    4: [("qwen3", "float64"), ("gemma3", "float64")],
}
BARS = {"float64": 1e-12, "float32": 1e-5}  # of the largest score
# The router of Mixtral computes in float32, and each process rounds its part of the gradient there
# (`test_gradients_differ_by_the_float32_router_alone`).
ROUTED = {("mixtral", "gradient_x_input"): 1e-6, ("mixtral", "attention_gradient"): 1e-6}
_PATIENCE = 12.0  # seconds that the processes wait for each other where one of them is missing


def measured(lens: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Whole maps, a few targets, a span, a rollout and gradients."""
    results = {
        "whole maps": lens.measure("alti", TEXT),
        "recomputed maps": lens.measure("value_zeroing", lens.record(TEXT, memory_budget=0)),
        "padded": lens.measure("attention_norm", PADDED)[1],
        "rollout": lens.rollout("attention_norm_res_ln", TEXT, targets=[-1]),
        "heads": lens.measure("attention", TEXT, targets=[-1], per_head=True),
    }
    for name in ("value_zeroing", "flow_routes", "contribution_weights"):
        results[name] = lens.measure(name, TEXT, targets=[-1, 5])
    for name in ("gradient_x_input", "attention_gradient"):
        results[name] = lens.measure(name, TEXT)
    return {name: np.asarray(maps.scores) for name, maps in results.items()} | few_targets(lens)


def few_targets(lens: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Measures of which every process computes some channels of the vectors."""
    results = {
        "norms of heads": lens.measure("attention_norm", TEXT, targets=[-1], per_head=True),
        "released": lens.measure("alti", TEXT, targets=[5, 7, 9, 10], variant="released"),
        "rollout from the last layer": lens.rollout("alti", TEXT, targets=[-1, 5]),
    }
    for name in ("attention_norm", "attention_norm_res", "attention_norm_res_ln", "alti"):
        results[f"{name}, one"] = lens.measure(name, TEXT, targets=[7])
        results[f"{name}, two"] = lens.measure(name, TEXT, targets=[-1, 5])
        for span in ("sum", "joint"):
            results[f"{name}, {span}"] = lens.measure(name, TEXT, targets=[4, 5, 6], span=span)
    scores = {name: np.asarray(maps.scores) for name, maps in results.items()}
    ratios = results["attention_norm_res_ln, two"].extras["mixing_ratio"]
    return {**scores, "mixing ratios": np.asarray(ratios)}


def centred(model: Any) -> Any:
    """Gemma 3 with a norm after its output projection that mixes channels."""
    drawn = torch.Generator().manual_seed(4)
    for layer in model.model.layers:
        width = len(layer.post_attention_layernorm.weight)
        norm = torch.nn.LayerNorm(width, dtype=torch.float64).eval()
        norm.weight.data = torch.randn(width, generator=drawn, dtype=torch.float64)
        norm.bias.data = torch.randn(width, generator=drawn, dtype=torch.float64)
        layer.post_attention_layernorm = norm
    return model


def sent_to_each(lens: Lens) -> dict[str, list[int]]:
    """Bytes that this process sends to each other one for the last token, how many weights are
    gathered whole, and how often one of them.
    """
    spread_over, gathered, sent = processes_of(lens.model), collections.Counter[int](), {}
    assert spread_over is not None

    def whole(weight: Any, gather: Any = distributed.whole) -> torch.Tensor:
        placements = getattr(weight, "placements", None)  # a plain shard has none
        gathered[id(weight)] += placements is None or not placements[0].is_replicate()
        result: torch.Tensor = gather(weight)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "whole", whole)
        for name in ("attention", "attention_norm", "alti", "value_zeroing"):
            before = spread_over.sent
            lens.measure(name, TEXT, targets=[-1])
            most = max(gathered.values(), default=0)
            sent[name] = [spread_over.sent - before, (+gathered).total(), most]
            gathered.clear()
    return sent


def routed_gradients(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Gradient times input of the largest logit, by mixlens and by the model alone."""
    maps = Lens(model).measure("gradient_x_input", TEXT, of="logit")
    model.set_experts_implementation("batched_mm")  # the default one has no float64
    embedded = model.get_input_embeddings()(TEXT["input_ids"]).detach().requires_grad_()
    logit = model(inputs_embeds=embedded).logits[0, -1].max()
    (gradient,) = torch.autograd.grad(logit, embedded)
    return {
        "mixlens": maps.scores.ravel(),
        "native": (gradient * embedded).detach().sum(-1).numpy(),
    }


def route_in_float64(router: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The router of Mixtral without its conversion to float32."""
    logits = torch.nn.functional.linear(hidden.reshape(-1, router.hidden_dim), router.weight)
    top, experts = logits.softmax(-1).topk(router.top_k, -1)
    return logits, top / top.sum(-1, keepdim=True), experts


def norm_in_float64(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The norm of Mixtral without its conversion to float32."""
    size = hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon
    scaled: torch.Tensor = norm.weight * (hidden * size.rsqrt())
    return scaled


def by_router(folder: Path, size: int = 1) -> dict[str, np.ndarray[Any, Any]]:
    """Gradients of Mixtral with its own router and with one in float64. Float32 norms round small
    differences away, so the last case has norms in float64 too.
    """
    router = (modeling_mixtral.MixtralTopKRouter, route_in_float64)
    norm = (modeling_mixtral.MixtralRMSNorm, norm_in_float64)
    cases: dict[str, list[Any]]
    cases = {"float32": [], "float64": [router], "float64 norms": [router, norm]}
    results: dict[str, np.ndarray[Any, Any]] = {}
    for case, changes in cases.items():
        with pytest.MonkeyPatch.context() as patch:
            for kind, forward in changes:
                patch.setattr(kind, "forward", forward)
            scores = routed_gradients(load("mixtral", folder, torch.float64, size))
        results |= {f"{by} {case}": np.asarray(each).ravel() for by, each in scores.items()}
    return results


def measure_in_step(folder: Path) -> Any:
    """Save the scores of every model, and return the errors of calls that differ."""
    size, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    sent: dict[str, Any] = {}
    for name, dtype in RUNS[size]:
        lens = Lens(load(name, folder, getattr(torch, dtype), size))
        scores: Any = measured(lens)
        np.savez(folder / f"{name} {dtype} {size} {rank}.npz", **scores)
        sent[f"{name} {dtype}"] = sent_to_each(lens)
    lens = Lens(load("llama", folder, torch.float64, size))
    if size == 2:
        gradients: Any = by_router(folder, size)
        np.savez(folder / f"router {rank}.npz", **gradients)
        lens = Lens(centred(load("gemma3", folder, torch.float64, size)))
        scores = few_targets(lens)
        np.savez(folder / f"centred {rank}.npz", **scores)
        sent["centred"] = sent_to_each(lens)
        return {
            "sent": sent,
            **differing_calls(Lens(load("llama", folder, torch.float64, size)), rank),
        }
    page = folder / "page.html"
    ran = run("map", SENTENCE, "--model", str(folder / "reader"), "--html", str(page))
    torchrun._LINGER = 0.0
    refused = run("measures")
    return {
        "sent": sent,
        "command": [ran.status, ran.out, ran.err],
        "refused": [refused.status, refused.out, refused.err],
        "missing": missing_call(lens, rank),
    }


def missing_call(lens: Lens, rank: int) -> str | None:
    """A call that the first process does not make."""
    processes.WAIT = _PATIENCE
    return _error(lambda: lens.measure("attention", TEXT)) if rank else None


def differing_calls(lens: Lens, rank: int) -> dict[str, Any]:
    """What the processes say if they do not make the same calls."""

    def targets(text: Any, targets: Any = (-1,), **options: Any) -> Any:
        return lens.measure("attention_norm", text, targets=list(targets), **options).scores

    def caught() -> Any:
        with contextlib.suppress(MemoryError):
            if rank == 0:
                raise MemoryError
            targets(OTHER)
        return targets(TEXT)

    def drawn() -> Any:
        torch.manual_seed(rank)
        return lens.generate(TEXT, max_new_tokens=4, do_sample=True)

    def failed_late() -> None:
        group = processes_of(lens.model)
        assert group is not None
        with group.in_step():
            group.smallest(rank)
            if rank == 1:
                raise ValueError("after the last exchange")

    results = {
        "late": _error(failed_late),
        "inputs": _error(lambda: targets([TEXT, OTHER][rank])),
        "targets": _error(lambda: targets(TEXT, [[-1], [3]][rank])),
        "options": _error(lambda: targets(TEXT, per_head=bool(rank))),
        "caught": _error(caught),
        "seeds": _error(drawn),
        "greedy": lens.generate(TEXT, max_new_tokens=4).inputs["input_ids"].tolist(),
    }
    with pytest.MonkeyPatch.context() as patch:
        if rank == 0:
            patch.setattr(deferred_checks, "raise_if_true", _with_an_error)
        results["verdict"] = _error(lambda: targets(TEXT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "free_memory", lambda device: 2**40 if rank else 64)
        results["less to keep"] = lens.record(TEXT).memory_budget
        patch.setattr(placement, "available_memory", lambda device: 2**40 if rank else 2**10)
        results["less memory"] = _error(lambda: lens.measure("attention", TEXT))
    return results | ending_calls(lens, rank)


def ending_calls(lens: Lens, rank: int) -> dict[str, Any]:
    """An error in the middle of a pass of one process."""

    def fail(*_: Any) -> None:
        raise MemoryError

    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "WAIT", _PATIENCE)
        if rank == 0:
            patch.setattr(target_pass.LayerCut, "cut", fail)
        failed = _error(lambda: lens.measure("attention", TEXT, targets=[-1]))
    taken = time.monotonic() - start
    again = _error(lambda: lens.measure("attention", TEXT, targets=[-1]))
    return {"one fails": failed, "seconds": taken, "afterwards": again}


def _with_an_error(errors: list[float], verdicts: Any, judge: Any = raise_if_true) -> None:
    judge([0.5, *errors[1:]] if errors else [], verdicts)  # all processes have as many errors


def _error(call: Callable[[], Any]) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel")
    for name in CORE:
        save(name, folder)
    save_reader(folder)
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[int, list[Any]]:
    """What the processes of each group return."""
    return {size: run_in_processes(size, measure_in_step, folder) for size in RUNS}


@pytest.fixture(scope="module")
def alone(folder: Path) -> Callable[[str, str], dict[str, np.ndarray[Any, Any]]]:
    """The scores of a model in one process."""

    @functools.cache
    def scores(name: str, dtype: str) -> dict[str, np.ndarray[Any, Any]]:
        return measured(Lens(load(name, folder, getattr(torch, dtype))))

    return scores


@pytest.mark.parametrize(
    ("size", "name", "dtype"), [(size, *run) for size, runs in RUNS.items() for run in runs]
)
def test_scores_are_those_of_one_process(
    folder: Path, said: object, alone: Any, size: int, name: str, dtype: str
) -> None:
    ranks = [np.load(folder / f"{name} {dtype} {size} {rank}.npz") for rank in range(size)]
    for key, expected in alone(name, dtype).items():
        first, *others = (scores[key] for scores in ranks)
        bar = ROUTED.get((name, key), BARS[dtype])
        assert np.abs(first - expected).max() <= bar * np.abs(expected).max(), key
        for other in others:
            assert first.tobytes() == other.tobytes(), key


def test_steps_that_mix_channels_use_the_whole_projection(
    folder: Path, said: dict[int, list[Any]]
) -> None:
    expected = few_targets(Lens(centred(load("gemma3", folder, torch.float64))))
    first, second = (np.load(folder / f"centred {rank}.npz") for rank in range(2))
    for key, scores in expected.items():
        assert np.abs(first[key] - scores).max() <= 1e-12 * np.abs(scores).max(), key
        assert first[key].tobytes() == second[key].tobytes(), key
    gathered = {name: counts[1] for name, counts in said[2][0]["sent"]["centred"].items()}
    assert gathered["attention"] == gathered["attention_norm"] == 0
    assert gathered["alti"] == MODELS["gemma3"][1]["num_hidden_layers"]


@pytest.mark.parametrize(
    ("size", "name", "dtype"), [(size, *run) for size, runs in RUNS.items() for run in runs]
)
def test_processes_send_columns_of_the_projection(
    said: dict[int, list[Any]], size: int, name: str, dtype: str
) -> None:
    sent, *others = (results["sent"][f"{name} {dtype}"] for results in said[size])
    assert all(other == sent for other in others)
    settings, sources = MODELS[name][1], TEXT["input_ids"].shape[1]
    heads, d = settings["num_attention_heads"] // size, settings["hidden_size"]
    groups = settings.get("num_key_value_heads", settings["num_attention_heads"]) // size
    e = settings.get("head_dim", d // settings["num_attention_heads"])
    itemsize = np.dtype(dtype).itemsize * settings["num_hidden_layers"]
    rows = heads * sources + groups * sources * e + 2 * heads * e  # weights, values, outputs
    columns, output = heads * e * d // size, d // size
    if name == "gpt_oss":  # only its experts are spread
        rows = columns = output = sources = 0
    checks, rest = divmod(sent["attention"][0] - itemsize * (rows + columns + output), 8)
    assert rest == 0
    assert 0 < checks <= 6 * settings["num_hidden_layers"]
    assert sent["attention_norm"][0] - sent["attention"][0] == itemsize * sources
    own = min(sources, 1)  # the diagonal of ALTI, once more
    assert sent["alti"][0] - sent["attention"][0] == itemsize * (sources + own)
    assert [sent[each][1] for each in ("attention", "attention_norm", "alti")] == [0, 0, 0]
    assert sent["value_zeroing"][2] == 1  # no weight is gathered twice


def test_gradients_differ_by_the_float32_router_alone(folder: Path, said: object) -> None:
    spread, alone = np.load(folder / "router 0.npz"), by_router(folder)
    errors = {
        key: np.abs(spread[key] - one).max() / np.abs(one).max() for key, one in alone.items()
    }
    for by in ("mixlens", "native"):
        assert 1e-9 < errors[f"{by} float32"] < 1e-6, errors
        assert max(errors[f"{by} float64"], errors[f"{by} float64 norms"]) <= 1e-12, errors
    for scores in (spread, alone):  # mixlens returns the gradient of the model, rounding included
        for case in ("float32", "float64", "float64 norms"):
            difference = np.abs(scores[f"mixlens {case}"] - scores[f"native {case}"]).max()
            assert difference <= 1e-12, case


DIFFERENT = {
    "late": "ProcessesDiffer: .* process 0 ended without an error .*; process 1 .* last exchange",
    "inputs": "ProcessesDiffer: .* different inputs",
    "targets": "ProcessesDiffer: .* different targets",
    "options": "ProcessesDiffer: .* different options",
    "caught": "ProcessesDiffer: .* different inputs",
    "seeds": "ProcessesDiffer: .* different random states",
    "verdict": "NonFiniteActivations: layer `model.layers.0`",  # the first check of a pass
    "less memory": "OutOfMemory: ",
    "one fails": "ProcessesDiffer: .* process 0 ended .*Memory.*; process 1 ended .*Timed out",
    "afterwards": "ProcessesDiffer: .* out of sync after an earlier error",
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_processes_that_differ_raise_the_same_error(said: dict[int, list[Any]], case: str) -> None:
    first, second = (results[case] for results in said[2])
    assert re.match(DIFFERENT[case], first), first
    assert first == second


def test_processes_decide_by_the_smallest_memory(said: dict[int, list[Any]]) -> None:
    assert [results["less to keep"] for results in said[2]] == [16, 16]


def test_processes_generate_the_same(said: dict[int, list[Any]], folder: Path) -> None:
    lens = Lens(load("llama", folder, torch.float64))
    made = lens.generate(TEXT, max_new_tokens=4).inputs["input_ids"].tolist()
    assert [results["greedy"] for results in said[2]] == [made] * 2


def test_no_process_waits_for_long(said: dict[int, list[Any]]) -> None:
    assert all(results["seconds"] < 60 for results in said[2])
    none, *waiting = (results["missing"] for results in said[4])
    assert none is None
    for error in waiting:
        assert re.match("ProcessesDiffer: Another process .* did not follow within 12 s", error)


def test_a_command_prints_what_one_process_prints(
    said: dict[int, list[Any]], folder: Path, tmp_path: Path
) -> None:
    alone = run(
        "map", SENTENCE, "--model", str(folder / "reader"), "--html", str(tmp_path / "page.html")
    )
    first, *others = (results["command"] for results in said[4])
    assert alone.status == 0
    assert first == [0, alone.out, alone.err.replace(str(tmp_path), str(folder))]
    assert others == [[0, "", ""]] * 3
    assert (folder / "page.html").exists()


def test_other_commands_are_refused(said: dict[int, list[Any]]) -> None:
    first, *others = (results["refused"] for results in said[4])
    assert first[0] == 2
    assert "mixlens measures does not run in several processes" in first[2]
    assert others == [[2, "", f"process {rank}: {first[2]}"] for rank in (1, 2, 3)]
