"""Per-model session: lock, checks, settings, fingerprint and cache.

While mixlens records a model or re-runs a layer, it changes the model's hooks and configs, and
restores them afterwards. Until they are restored, other threads that use the same model with
mixlens wait. Different models can be used at the same time.

`torch.autocast` and `torch.inference_mode` are disabled, because mixlens verifies the model in the
precision of its weights. Float32 products use torch's precision setting unless you choose another
for a call: `float32` is exact, `tf32` and `bf16` trade precision for speed on hardware that
supports them.

A model must be in evaluation mode. To measure a recording, its model must be in the same state as
during the recording. If memory runs out, the session raises `OutOfMemory`, with advice if the
caller has an estimate.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import traceback
import weakref
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from mixlens.errors import InvalidInput, MixlensError, OutOfMemory, UnsupportedModel, in_short
from mixlens.model.distributed import synchronise
from mixlens.model.fingerprint import Fingerprint, ModelState, all_contents, fingerprint
from mixlens.model.model_changes import TRAINING, raise_if_changed
from mixlens.model.module_walk import parts_of
from mixlens.model.placement import is_out_of_memory
from mixlens.model.restore_model import plain_experts, restore_on_exit, run_uncompiled

Found = TypeVar("Found")

PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
_CAST_ON = ("cpu", "cuda", "mps", "xpu")
_ADVICE = (
    "memory ran out. Pass a shorter text, fewer texts, or fewer and smaller images, or load the"
    " model in half precision"
)
_IN_PLACE = "modified by an inplace operation"  # in an error of torch.autograd


class _ModuleEntry:
    """Cached data about a module."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.numbers: Hashable = None  # with which everything below was found
        self.parts: dict[int, Hashable] = {}  # fingerprints of the parts of a model, by their ids
        self.findings: dict[Any, tuple[Hashable, dict[Hashable, Any]]] = {}


_modules: weakref.WeakKeyDictionary[nn.Module, _ModuleEntry] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def _entry_of(module: nn.Module) -> _ModuleEntry:
    with _guard:
        entry = _modules.get(module)
        if entry is None:
            entry = _modules[module] = _ModuleEntry()
        return entry


# ---------------------------------------------------------------------------------------- session


class ModelSession:
    """One locked model.

    Its fingerprint is computed only once, because the lock prevents changes. Callers with a memory
    estimate set `memory_advice`, which returns the message to show if memory runs out.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.memory_advice: Callable[[], str] | None = None

    def require_state(self, recorded: ModelState) -> None:
        """Raise `ModelChanged` if the model is not in the state in which it was recorded."""
        now = self.state if recorded.contents is None else self.whole_state
        same = now.numbers is recorded.numbers and now == recorded
        if not same or now.contents != recorded.contents:
            raise_if_changed(self.model, recorded, now)

    @functools.cached_property
    def state(self) -> ModelState:
        """State of the model when this property is first accessed."""
        return self._looked_at[0]

    @functools.cached_property
    def whole_state(self) -> ModelState:
        """`state` with every value of the weights. Reading the values takes about as long as a
        short forward pass.
        """
        return replace(self.state, contents=all_contents(self.model))

    @property
    def parts(self) -> dict[int, Hashable]:
        """Fingerprints of modules, by the ids of the modules."""
        return self._looked_at[1]

    def look_again(self) -> None:
        """Drop the fingerprint. Call this after a forward pass has permanently changed the
        weights.
        """
        vars(self).pop("state", None)
        vars(self).pop("whole_state", None)
        vars(self).pop("_looked_at", None)

    @functools.cached_property
    def _looked_at(self) -> tuple[ModelState, dict[int, Hashable]]:
        """The state of the model and the fingerprints of its modules.

        Earlier fingerprints of modules are reused unless the model has changed.
        """
        state, entry = ModelState.of(self.model), _entry_of(self.model)
        before = entry.parts.get(id(self.model))
        is_offloaded = 0 in state.numbers.pointers  # offloaded, so their numbers are not read
        if before is None or before != state.numbers or is_offloaded:
            entry.parts = {id(self.model): state.numbers}
        else:  # equal; comparing the same object is instant
            assert isinstance(before, Fingerprint)
            state = replace(state, numbers=before)
        return state, entry.parts


_session: contextvars.ContextVar[ModelSession | None] = contextvars.ContextVar(
    "mixlens_session", default=None
)


@contextlib.contextmanager
def open_session(
    model: nn.Module,
    *,
    precision: str | None = None,
    restores: bool = True,
    recorded: ModelState | None = None,
) -> Iterator[ModelSession]:
    """Lock a model while the context is open. Sessions can be nested.

    Compiled code is removed, so that a model has the same fingerprint before and after
    `torch.compile`. With `restores`, the attributes and buffers that the model changes are
    restored. If `recorded` is passed, raise `ModelChanged` unless the model is in this recorded
    state.
    """
    session = _session.get()
    is_first = session is None or session.model is not model
    with contextlib.ExitStack() as stack:
        stack.enter_context(_entry_of(model).lock)
        stack.enter_context(matmul_precision(precision))
        stack.enter_context(outside_inference_mode())
        if session is None or is_first:
            stack.enter_context(synchronise(model))
            stack.enter_context(run_uncompiled(model))
            if next((each.dtype for each in model.parameters()), None) == torch.float64:
                stack.enter_context(plain_experts(model))  # grouped products do not run in float64
            session = ModelSession(model)
            stack.callback(_session.reset, _session.set(session))
            stack.enter_context(_model_errors_in_words(model))
        if recorded is not None:
            session.require_state(recorded)
        if is_first:
            require_eval(model)
        if restores:
            stack.enter_context(restore_on_exit(model))
        stack.enter_context(_torch_errors_in_words(session))
        yield session


@contextlib.contextmanager
def _torch_errors_in_words(session: ModelSession) -> Iterator[None]:
    """If memory runs out while the context is open, raise `OutOfMemory` with the session's
    advice. Raise `UnsupportedModel` if the model overwrites tensors that its gradients need.
    """
    before = session.memory_advice
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if _IN_PLACE in str(error) and not isinstance(error, MixlensError):
            raise UnsupportedModel(
                f"{type(session.model).__name__} overwrites a tensor that its gradients need, so "
                "it has no gradients. Update transformers (version 5.8 does this in mixtures of "
                "experts), or use a measure without gradients, such as value_zeroing"
            ) from error
        if isinstance(error, MixlensError) or not is_out_of_memory(error):
            raise
        advice = session.memory_advice
        raise OutOfMemory(_ADVICE if advice is None else advice()) from error
    finally:
        session.memory_advice = before


@contextlib.contextmanager
def _model_errors_in_words(model: nn.Module) -> Iterator[None]:
    """Raise an exception that leaves the context from code of the model as `InvalidInput`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MixlensError) or is_out_of_memory(error) or not _is_of_model(error):
            raise
        raise InvalidInput(
            f"{type(model).__name__} raises {in_short(error)} on this input. Check the shapes and "
            "values of the input and the options of the call."
        ) from error


def _is_of_model(error: Exception) -> bool:
    """Return whether an exception was raised while a module ran, by code other than mixlens.

    Frames of torch are skipped, because they may belong to a hook of mixlens.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [str(frame.f_globals.get("__name__")) for frame in frames]
    packages = [name.partition(".")[0] for name in names]
    last = next(package for package in reversed(packages) if package != "torch")
    return nn.Module.__module__ in names and last != "mixlens"


def require_eval(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if any module of a model is in training mode."""
    if any(part.training for part in parts_of(model)):
        raise UnsupportedModel(f"{TRAINING}. Call model.eval() first")


def state_of(model: nn.Module) -> ModelState:
    """Return the state of a model. In an open session, return its state at the start of the
    session.
    """
    with open_session(model, restores=False) as session:
        return session.state


def whole_state_of(model: nn.Module) -> ModelState:
    """Return the state of a model, including every value of its weights.

    In an open session the values are not read, because the model cannot change while the session is
    open.
    """
    session = _session.get()
    if session is not None and session.model is model:
        return session.state
    with open_session(model, restores=False) as session:
        return session.whole_state


@contextlib.contextmanager
def matmul_precision(name: str | None) -> Iterator[None]:
    """Set the precision of float32 matrix products while the context is open.

    None keeps PyTorch's setting.
    """
    if name is None:
        yield
        return
    if not isinstance(name, str) or name not in PRECISIONS:
        raise InvalidInput(f"Unknown precision {name!r}. Choose one of: {', '.join(PRECISIONS)}.")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Disable `torch.inference_mode` and `torch.autocast` while the context is open.

    Tensors created inside then support gradients, and matrix products keep their precision.
    """
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for kind in filter(torch.is_autocast_enabled, _CAST_ON):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


# ------------------------------------------------------------------------------------------ cache


def numbers_of(module: nn.Module) -> Hashable:
    """Return the fingerprint of a module, cached in an open session."""
    session = _session.get()
    if session is None:
        return fingerprint(module)
    parts = session.parts
    if id(module) not in parts:
        parts[id(module)] = fingerprint(module)
    return parts[id(module)]


class ModuleCache(Generic[Found]):
    """A cache of one kind of result about modules.

    Results are valid until the weights, submodules, code or attributes of the module change. The
    cache keeps no module alive.
    """

    def of(
        self, module: nn.Module, key: Hashable, find: Callable[[], Found], state: Hashable = None
    ) -> Found:
        """Return the cached result for `key`. If there is none, call `find` and cache its result.

        Cached results are also dropped if `state` changes.
        """
        entry, numbers = _entry_of(module), numbers_of(module)
        if entry.numbers is not numbers and entry.numbers != numbers:
            entry.numbers, entry.findings = numbers, {}
        before, entries = entry.findings.get(self, (state, {}))
        if self not in entry.findings or before != state:
            entries = {}
            entry.findings[self] = (state, entries)
        if key not in entries:
            entries[key] = find()
        finding: Found = entries[key]
        return finding


def once_per_state(function: Callable[[nn.Module], Found]) -> Callable[[nn.Module], Found]:
    """Decorate a function that takes a model, so that its result is cached until the model
    changes.
    """
    results: ModuleCache[Found] = ModuleCache()

    @functools.wraps(function)
    def cached(model: nn.Module) -> Found:
        return results.of(model, None, lambda: function(model))

    return cached
