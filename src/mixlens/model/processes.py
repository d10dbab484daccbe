"""Synchronise the processes that share a model. Every process of a tensor-parallel model must run
the same forward passes in the same order. If one process runs a different text, the results mix two
texts and still pass every check. The processes therefore compare their next call, base decisions on
the smallest free memory, and compare how each call ended. They communicate through the store of
`torch.distributed`, separately from the model's collectives. No tensors are exchanged through this
store. A process that does not respond is reported after `WAIT` seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import ProcessesDiffer, in_short

WAIT = 45.0  # seconds after which mixlens stops waiting for other processes
# Collectives give up earlier: a process that waits in one must end its call while a process that
# failed still waits to hear how the others ended.
_OF_COLLECTIVES = 0.6
_AT_WORK, _ENDED = "at work: ", "ended: "
_WELL = "without an error"


class Processes:
    """The processes of one group, from the perspective of this process.

    Attributes
    ----------
    sent : int
        Bytes that this process has sent to each other process to gather heads and weights.
    copies : dict
        Copies of layers and modules with whole weights, by the id of the original. They are kept
        until the call ends.
    weights : dict
        All gathered tensors, by key. The copies use them without duplicating their memory.
    """

    def __init__(self, group: Any) -> None:
        self.name: Any = group.group_name  # a reference would keep its threads until Python ends
        self.rank: int = torch.distributed.get_rank(group)
        self.size: int = group.size()
        self.sent: int = 0
        self.copies: dict[int, nn.Module] = {}
        self.weights: dict[Hashable, Tensor] = {}
        self._step = self._gathered = 0
        self._failure: ProcessesDiffer | None = None
        self._out_of_step = False

    @property
    def group(self) -> Any:
        """Return the group of `torch.distributed`."""
        return torch.distributed.distributed_c10d._resolve_process_group(self.name)

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """When the context closes, compare how the call ended in each process. Raise
        `ProcessesDiffer` if the outcomes differ.
        """
        if self._out_of_step:
            raise ProcessesDiffer(
                "The processes of this model are out of sync after an earlier error. Restart "
                "the program."
            )
        before, self._failure = self._step, None
        try:
            with self._short_timeout():
                yield
        except Exception as error:
            self._end(in_short(error))
            raise
        except BaseException:  # an interruption does not wait for the others
            self._post(f"{_ENDED}by an interruption")
            raise
        else:
            if self._step != before:
                self._end(f"{_WELL} ({self._gathered} tensors gathered)")
        finally:
            self._failure = None
            self.copies.clear()
            self.weights.clear()

    def require_same(self, **parts: Any) -> None:
        """Raise `ProcessesDiffer` in all processes if any of these values differs between
        processes.
        """
        digests = self._compare({name: _digest(value) for name, value in parts.items()})
        different = [name for name in parts if len({each[name] for each in digests}) > 1]
        if different:
            self._fail_apart(different)

    def smallest(self, number: int) -> int:
        """Return the smallest value of a number over all processes."""
        return min(int(each["number"]) for each in self._compare({"number": number}))

    def _compare(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the values of all processes. Raise `ProcessesDiffer` if the names of the values
        differ.
        """
        texts = self._exchange(_AT_WORK + json.dumps(values))
        entries = [json.loads(text.removeprefix(_AT_WORK)) for text in texts]
        if any(each.keys() != values.keys() for each in entries):
            self._fail_apart(["calls"])
        return entries

    def _fail_apart(self, names: Sequence[str]) -> None:
        self._fail(
            f"The processes of this model have different {' and '.join(names)}. Make the same calls"
            " with the same arguments, and the same random seed, in each of them."
        )

    def largest(self, errors: Sequence[float]) -> list[float]:
        """Return the largest value of each error over all processes. NaN counts as infinity."""
        if not errors:
            return []
        values = torch.tensor(errors, dtype=torch.float64).nan_to_num(nan=torch.inf)
        every = self.gather(values[None].to(_device(self.group)), 0)
        worst: list[float] = every.amax(0).tolist()
        return worst

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """Return the tensors of all processes, concatenated along an axis in the order of the
        ranks.
        """
        tensor = tensor.detach().contiguous()
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        torch.distributed.all_gather(parts, tensor, group=self.group)
        self.count(tensor)
        return torch.cat(parts, dim)

    def exchange(self, parts: Tensor) -> Tensor:
        """Send one part to each process, and return the parts received from all, [process, ...].

        `parts` has one entry for each process.
        """
        parts = parts.detach().contiguous()
        received = torch.empty_like(parts)
        torch.distributed.all_to_all_single(received, parts, group=self.group)
        self.count(parts[0])
        return received

    def limit_kept(self, budget: int, needed: Collection[Hashable]) -> None:
        """Free memory if the kept weights need more bytes than the budget.

        This drops all kept copies, and all kept weights except the `needed` ones.
        """
        if sum(each.numel() * each.element_size() for each in self.weights.values()) > budget:
            self.copies.clear()
            self.weights = {key: each for key, each in self.weights.items() if key in needed}

    def count(self, part: Tensor) -> None:
        """Count the bytes of a tensor that this process has sent to each other process."""
        self._gathered += 1
        self.sent += part.numel() * part.element_size()

    # ------------------------------------------------------------------------------- the exchange

    def _end(self, how: str) -> None:
        """Compare how the call ended in each process. Raise `ProcessesDiffer` if the outcomes
        differ.
        """
        if self._failure is not None:  # which all processes have raised
            raise self._failure
        texts = self._exchange(_ENDED + how)
        if len(set(texts)) > 1:
            self._out_of_step = not any(_WELL in text for text in texts)
            self._fail(_describe_texts(texts))

    def _fail(self, message: str) -> None:
        self._failure = ProcessesDiffer(message)
        raise self._failure

    def _exchange(self, text: str) -> list[str]:
        """Send a string to all processes, and return the strings of all processes in order of
        rank.
        """
        if self._failure is not None:  # caught on the way, by code that tries something else
            raise self._failure
        self._post(text)
        store, keys = _store(), [self._key(rank, self._step) for rank in range(self.size)]
        try:
            store.wait(keys, datetime.timedelta(seconds=WAIT))
        except RuntimeError as error:
            store.set(self._key(self.rank, self._step), f"{_ENDED}waiting for the others")
            self._out_of_step = True
            self._failure = ProcessesDiffer(
                f"Another process of this model did not follow within {WAIT:.0f} s. Make the same"
                " calls in each process."
            )
            raise self._failure from error
        texts = [value.decode() for value in store.multi_get(keys)]
        if text.startswith(_AT_WORK) and any(each.startswith(_ENDED) for each in texts):
            self._fail(_describe_texts(texts))
        return texts

    def _post(self, text: str) -> None:
        self._step += 1
        _store().set(self._key(self.rank, self._step), text)
        if self._step > 2:  # all others have read it
            _store().delete_key(self._key(self.rank, self._step - 2))

    def _key(self, rank: int, step: int) -> str:
        return f"mixlens/{self.name}/{step}/{rank}"

    @contextlib.contextmanager
    def _short_timeout(self) -> Iterator[None]:
        """Limit the timeout of collectives to a fraction of `WAIT`, if the backend supports it."""
        backend = self.group._get_backend(_device(self.group))
        options = getattr(backend, "options", None)
        before = getattr(options, "_timeout", None)
        if before is None or not hasattr(backend, "_set_default_timeout"):
            yield
            return
        limit = min(_OF_COLLECTIVES * WAIT, before.total_seconds())
        backend._set_default_timeout(datetime.timedelta(seconds=limit))
        try:
            yield
        finally:
            backend._set_default_timeout(before)


def _describe_texts(texts: Sequence[str]) -> str:
    ways = [
        text.removeprefix(_ENDED) if text.startswith(_ENDED) else "still at work" for text in texts
    ]
    ends = "; ".join(f"process {rank} ended {way}" for rank, way in enumerate(ways))
    return (
        f"The processes of this model did not end a call in the same way: {ends}. Remove the cause"
        " of the error, and make the same calls in each process."
    ).replace("ended still", "is still")


def _store() -> Any:
    return torch.distributed.distributed_c10d._get_default_store()


def _device(group: Any) -> torch.device:
    kinds = [device.type for device in group._device_types]
    if "cuda" in kinds and torch.distributed.get_backend(group) != "gloo":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _digest(value: Any) -> str:
    """Return a hash of nested values. Tensors are hashed by shape and values."""
    digest = hashlib.sha256()
    _add(digest, value)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        numbers = value.detach().cpu().contiguous()
        digest.update(f"{numbers.dtype}{tuple(numbers.shape)}".encode())
        digest.update(numbers.flatten().view(torch.uint8).numpy().tobytes())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _add(digest, vars(value))
    elif hasattr(value, "tobytes"):  # an array
        digest.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            digest.update(f"{name}:".encode())
            _add(digest, value[name])
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}[".encode())
        for each in value:
            _add(digest, each)
    else:  # the address of an object differs by process
        digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).encode())
