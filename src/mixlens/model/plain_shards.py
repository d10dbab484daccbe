"""Find the shards of tensor-parallel models that transformers 5.2 to 5.15 has loaded.

In these versions, each process has its shard of a weight as an ordinary parameter, and hooks of
modules exchange activations. The plan of the model determines the axis along which each weight is
sharded. From transformers 5.16 on, sharded weights are `DTensor`s, which describe themselves.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from mixlens.errors import UnsupportedModel
from mixlens.model.module_walk import parts_of

_EXCHANGE = "transformers.integrations.tensor_parallel"  # the module that defines the hooks
# Styles of a plan, with the sharded axis of matrices and of vectors. None: every process has all.
_AXES: dict[str, tuple[int | None, int | None]] = {
    "colwise": (-2, -1),
    "colwise_gather_output": (-2, -1),
    "packed_colwise": (-2, -1),
    "rowwise": (-1, None),
    "rowwise_split_input": (-1, None),
    "packed_rowwise": (-1, None),
    "embedding_rowwise": (0, -1),
    "embedding_colwise": (1, -1),
    "grouped_gemm": (0, 0),
    "ep_router": (None, None),
    "moe_tp_experts": (None, None),
    "moe_identity_expert": (None, None),
    "mla_kv_a_proj": (None, None),
    "replicated_with_grad_allreduce": (None, None),
    "all_reduce": (None, None),
}


class PlainShard(NamedTuple):
    """The place of an ordinary parameter in the weight of which it is a shard."""

    mesh: Any
    axis: int
    is_packed: bool  # two matrices in one tensor, each of which is sharded

    def in_order(self, gathered: Tensor) -> Tensor:
        """Return the weight, given the shards of all processes, concatenated by rank."""
        if not self.is_packed:
            return gathered
        shards = gathered.chunk(self.mesh.size(), self.axis)
        halves = zip(*(shard.chunk(2, self.axis) for shard in shards), strict=True)
        return torch.cat([part for half in halves for part in half], self.axis)


_shards: Any = WeakTensorKeyDictionary()  # the PlainShard of each such parameter


def find_plain_shards(model: nn.Module) -> None:
    """Find the ordinary parameters of a model that are shards, for `plain_shard`.

    Raise `UnsupportedModel` if mixlens does not support the plan of the model.
    """
    parts, name = parts_of(model), type(model).__name__
    if not any("_hf_tp_plan" in vars(part) for part in parts):
        return
    loaded: Any = next((each for each in parts if vars(each).get("_device_mesh") is not None), None)
    if loaded is None:
        raise UnsupportedModel(
            f"{name} is only a part of a model that is distributed with tensor parallelism. Pass "
            "the model that from_pretrained returned, or install transformers 5.16 or newer"
        )
    mesh, plan = loaded._device_mesh, loaded.tp_plan or {}
    unknown = sorted(set(plan.values()) - _AXES.keys())
    if unknown or mesh.ndim > 1:
        why = f"the styles {', '.join(unknown)}" if unknown else f"a mesh of {mesh.ndim} axes"
        raise UnsupportedModel(
            f"{name} is distributed by a tensor-parallel plan with {why}, which mixlens does not "
            "support before transformers 5.16. Install transformers 5.16 or newer, or load the "
            "model in one process"
        )
    for path, weight in loaded.named_parameters():
        name = re.sub(r"\.\d+(?=\.)", ".*", path)
        style: str | None = plan.get(name) or plan.get(name.rpartition(".")[0])
        axis = None if style is None else _AXES[style][weight.dim() == 1]
        if style is not None and axis is not None:
            packed = style.startswith("packed") and weight.dim() > 1
            _shards[weight] = PlainShard(mesh, axis % weight.dim(), packed)


def plain_shard(weight: Any) -> PlainShard | None:
    """Return the place of a parameter in a weight, or None if it is not such a shard."""
    return _shards.get(weight) if _shards and isinstance(weight, Tensor) else None


def remove_exchange(module: nn.Module) -> None:
    """Change the copy of a layer with whole weights so that it runs without other processes."""
    for part in parts_of(module):
        attributes = vars(part)
        if attributes.pop("_hf_tp_plan", None) is None:
            continue
        for hooks in (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks):
            for number in [n for n, hook in hooks.items() if hook.__module__ == _EXCHANGE]:
                del hooks[number]
        if "_bias" in part._parameters:  # where a hook keeps it until the parts are summed
            part._parameters["bias"] = part._parameters.pop("_bias")
        if isinstance(part, nn.Linear):
            part.out_features, part.in_features = part.weight.shape
        elif "num_experts" in attributes:
            attributes["num_experts"] = len(next(part.parameters()))
