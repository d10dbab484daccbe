"""Support models that are spread over several processes by tensor parallelism, and reject models
that are spread in other ways. With the tensor-parallel plans of transformers, each process has a
shard of most weights (a `DTensor`, or a parameter that `plain_shards` finds) and, inside attention,
some of the heads. Every process has the full hidden states. The model runs as it was loaded.
mixlens gathers the heads when it records an attention call (`AttentionCall.with_heads`), and the
weights when it copies a layer (`readable_weights.make_readable`). After that, every process
computes the same numbers as a single process would. With FSDP or pipeline parallelism, a process
cannot access the layers or shards of other processes. mixlens detects this without communication,
so it raises the same error in every process.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.model.module_walk import parts_of, tensors_in, tensors_of
from mixlens.model.plain_shards import find_plain_shards, plain_shard
from mixlens.model.processes import Processes

_FSDP = {"FSDPModule", "FullyShardedDataParallel"}
_INSTEAD = (
    "Load the model with tensor parallelism (tp_plan='auto'), or in one process: with "
    "device_map='auto', transformers spreads its layers over several GPUs"
)
_SUMS = 64  # weighted sums of scores, which the processes compare
_APART = 1e-2  # of the norm of all scores; kernels of GPUs may round differently in each process
_LOADING = datetime.timedelta(hours=2)  # as in transformers: processes load at different speeds
_groups: dict[str, Processes] = {}
_current: contextvars.ContextVar[Processes | None] = contextvars.ContextVar(
    "mixlens_processes", default=None
)


def require_measurable(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if mixlens does not support how a model is spread over processes."""
    spread = _explain_refusal(model) if "torch.distributed" in sys.modules else None
    if spread is not None:
        raise UnsupportedModel(f"{type(model).__name__} is distributed with {spread}. {_INSTEAD}")


def _explain_refusal(model: nn.Module) -> str | None:
    """Return how a model is spread over processes, or None if mixlens can measure the model."""
    parts = parts_of(model)
    stages = (vars(part).get("_pp_stage") for part in parts)
    sizes = [getattr(stage, "pp_size", 0) for stage in stages if stage is not None]
    if max(sizes, default=0) > 1:
        return f"pipeline parallelism (pp_size={max(sizes)}), so this process has only some layers"
    if any(_FSDP & {each.__name__ for each in kind.__mro__} for kind in set(map(type, parts))):
        return "FSDP, so this process has only a part of every weight"
    spread = [part for part in parts if any(map(is_spread, part._parameters.values()))]
    if not all(vars(part).get("_is_hooked") for part in spread):
        return "torch's parallelize_module, whose hooks mixlens does not know"
    if any(map(_is_distributed_tensor, tensors_in(spread, buffers=False))):
        return None
    find_plain_shards(model)
    tp_size: Any = max((vars(part).get("_tp_size") or 0 for part in parts), default=0)
    has_plan = any(vars(part).get("_tp_plan") for part in parts)  # else every process has it whole
    if tp_size > 1 and has_plan and not any(map(is_spread, tensors_in(parts, buffers=False))):
        return f"tensor parallelism (tp_size={tp_size}), but mixlens does not find its shards"
    return None


def is_spread(weight: Any) -> bool:
    """Return whether a weight is sharded across processes."""
    return _is_distributed_tensor(weight) or plain_shard(weight) is not None


def _is_distributed_tensor(weight: Any) -> bool:
    tensor = sys.modules.get("torch.distributed.tensor")  # it is slow to import
    return tensor is not None and isinstance(weight, tensor.DTensor)


def _as_distributed_tensor(weight: Any) -> Any:
    """Return a sharded weight as a `DTensor`, which shares its memory."""
    shard = plain_shard(weight)
    if shard is None:
        return weight
    from torch.distributed.tensor import DTensor, Shard

    shape = list(weight.shape)
    lengths = torch.tensor([shape[shard.axis]], device=weight.device)  # the last part may be short
    shape[shard.axis] = int(_processes(shard.mesh).gather(lengths, 0).sum())
    full, place = torch.empty(shape, device="meta"), [Shard(shard.axis)]
    return DTensor.from_local(
        weight.detach(), shard.mesh, place, shape=full.shape, stride=full.stride()
    )


def processes_of(model: nn.Module) -> Processes | None:
    """Return the processes over which tensor parallelism spreads a model, or None if there is only
    one.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    weight: Any = next(filter(is_spread, tensors_of(model, buffers=False)), None)
    if weight is None or _explain_refusal(model) is not None:
        return None
    shard = plain_shard(weight)
    return _processes(weight.device_mesh if shard is None else shard.mesh)


def _processes(mesh: Any) -> Processes:
    group = mesh.get_group()
    return _groups.setdefault(group.group_name, Processes(group))


@contextlib.contextmanager
def synchronise(model: nn.Module) -> Iterator[None]:
    """Synchronise this process with the model's other processes while the context is open."""
    processes = processes_of(model)
    if processes is None or _current.get() is processes:
        yield
        return
    token = _current.set(processes)
    try:
        with processes.in_step():
            yield
    finally:
        _current.reset(token)


def require_same(**parts: Any) -> None:
    """Raise `ProcessesDiffer` in all processes of the model if any of these values differs between
    processes.

    Call it while a session is open.
    """
    processes = _current.get()
    if processes is not None:
        processes.require_same(**parts)


def agree_on_errors(errors: list[float]) -> list[float]:
    """Return the largest value of each error over all processes of the current model."""
    processes = _current.get()
    return errors if processes is None else processes.largest(errors)


def require_equal_scores(name: str, scores: Tensor) -> None:
    """Raise `UnsupportedModel` in all processes of the current model if they computed different
    scores.

    The processes compare weighted sums. Every process computes the same scores from gathered
    tensors. Backward passes through the model itself depend on the hooks of its parallel plan, some
    of which return gradients of a part of the model.
    """
    processes = _current.get()
    if processes is None:
        return
    flat = scores.detach().double().flatten().nan_to_num(nan=0.0)
    each = torch.nn.functional.pad(flat, (0, -len(flat) % _SUMS)).view(_SUMS, -1)
    sums = (each * torch.arange(each.shape[1], device=flat.device).cos()).sum(1).tolist()
    *largest, size = processes.largest([*sums, *(-each for each in sums), float(flat.norm())])
    apart = [high + low for high, low in zip(largest[:_SUMS], largest[_SUMS:], strict=True)]
    if max(apart) > _APART * size:
        import transformers

        raise UnsupportedModel(
            f"the processes computed different scores of {name}, so the gradients of transformers "
            f"{transformers.__version__} for the parallel plan of this model are wrong. Load the "
            "model in one process, or choose a measure without gradients"
        )


def smallest(model: nn.Module, number: int) -> int:
    """Return the smallest value of a number, such as the free memory, over all processes of a
    model.

    All processes then make the same decision.
    """
    processes = processes_of(model)
    return number if processes is None else processes.smallest(number)


def spread_options(count: int) -> dict[str, Any]:
    """Return the `from_pretrained` options that spread a model over `count` processes."""
    if count == 1:
        return {}
    from transformers.distributed import DistributedConfig

    if not hasattr(DistributedConfig(), "tp_size"):  # before 5.15, which takes all processes
        return {"tp_plan": "auto"}
    return {"distributed_config": DistributedConfig(tp_size=count)}


def join_group(address: tuple[str, int], rank: int, count: int, device: str) -> None:
    """Open torch's process group in this process. All processes of the group use the same
    `address`.

    The first GPU that a process sees must be the GPU that it uses.
    """
    has_gpu = device.startswith("cuda")
    if not has_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # transformers takes every GPU that it sees
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(count)}
    store = torch.distributed.TCPStore(*address, is_master=False)
    torch.distributed.init_process_group(
        "nccl" if has_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=count,
        device_id=torch.device("cuda", 0) if has_gpu else None,
        timeout=_LOADING,
    )


def gather_tensor(part: Tensor, dim: int, size: int) -> Tensor:
    """Gather a tensor whose axis `dim` is divided equally among the processes of the current model.

    `size` is the full length of this axis. A tensor that already has this length is returned
    unchanged.
    """
    processes = _current.get()
    if processes is None or part.shape[dim] * processes.size != size:
        return part
    return processes.gather(part, dim)


def whole(weight: Any) -> Tensor:
    """Return the full tensor of a weight that is sharded across processes."""
    processes = _current.get()
    with torch._C._DisableFuncTorch(), torch.no_grad():
        shard, weight = plain_shard(weight), _as_distributed_tensor(weight)
        if processes is not None and not all(each.is_replicate() for each in weight.placements):
            processes.count(weight._local_tensor)
        plain: Tensor = weight.full_tensor().detach()
        return plain if shard is None else shard.in_order(plain)


def keep_weight(weight: Any) -> Tensor:
    """Return the full weight as a parameter.

    All copies of a layer share this parameter until the call to mixlens ends.
    """
    processes = _current.get()
    cache = {} if processes is None else processes.weights
    if id(weight) not in cache:
        cache[id(weight)] = nn.Parameter(whole(weight), requires_grad=False)
    return cache[id(weight)]


def keep_copy(
    module: nn.Module, copy: Callable[[nn.Module], nn.Module], free: Callable[[], int]
) -> nn.Module:
    """Return a copy of a layer with full (gathered) weights.

    The copy is kept until the call to mixlens ends. If all kept weights need more than a quarter of
    the smallest free memory, earlier copies are dropped.
    """
    processes = _current.get()
    if processes is None:
        return copy(module)
    if id(module) not in processes.copies:
        module_copy = copy(module)
        weights = {id(weight) for weight in tensors_of(module, buffers=False)}
        processes.limit_kept(processes.smallest(free()) // 4, weights)
        processes.copies[id(module)] = module_copy
    return processes.copies[id(module)]


class OwnColumns(NamedTuple):
    """The columns of a linear layer's matrix whose products this process computes."""

    matrix: Tensor  # [d_in, d_out / processes]
    bias: Tensor | None  # of all columns
    start: int  # the place of the first of these columns among all
    gather: Callable[[Tensor], Tensor]  # the results of all processes, [process, ...]


def own_columns(module: nn.Module, free: Callable[[], int]) -> OwnColumns | None:
    """Return this process's share of the columns of a linear layer's matrix.

    Return None unless each process has an equal part of the rows. The columns are kept until the
    call to mixlens ends.

    To obtain columns, the processes exchange blocks of their rows. All processes together send as
    much data as a single process would send to gather the whole matrix.
    """
    processes, local_weight = _current.get(), module._parameters.get("weight")
    shard = plain_shard(local_weight)
    if processes is None or local_weight is None or (shard is not None and shard.is_packed):
        return None
    weight = _as_distributed_tensor(local_weight)
    if not _has_equal_rows(module, weight, processes.size):
        return None
    part: Tensor = weight._local_tensor.detach()
    count, key = len(part) // processes.size, ("columns", id(local_weight))
    if key not in processes.weights:
        with torch._C._DisableFuncTorch(), torch.no_grad():
            received = processes.exchange(part.view(processes.size, count, -1))
            processes.weights[key] = received.transpose(0, 1).flatten(1).T
        processes.limit_kept(processes.smallest(free()) // 4, {key})
    parameters = module._parameters
    bias = parameters.get("_bias", parameters.get("bias"))  # see `plain_shards.remove_exchange`
    return OwnColumns(
        processes.weights[key],
        whole(bias) if is_spread(bias) else bias,
        processes.rank * count,
        lambda result: processes.gather(result[None], 0),
    )


def _has_equal_rows(module: nn.Module, weight: Any, count: int) -> bool:
    """Return whether the rows and columns of a linear layer's matrix W, in x -> x W + b, can be
    divided equally.

    Each process must have a contiguous part of the rows, in order, and the number of columns must
    be divisible by the number of processes.
    """
    if not _is_distributed_tensor(weight) or type(module).forward is not nn.Linear.forward:
        return False
    part, (outputs, inputs) = weight._local_tensor, weight.shape
    return (
        type(part) is Tensor  # not packed
        and weight.device_mesh.ndim == len(weight.placements) == 1
        and type(weight.placements[0]).__name__ == "Shard"  # in order, unlike _StridedShard
        and weight.placements[0].dim == 1
        and part.shape == (outputs, inputs // count)
        and inputs % count == outputs % count == 0
    )
