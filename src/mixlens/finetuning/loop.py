"""The training loop that every kind of fine-tuning shares: AdamW with linear warm-up and decay on
the cross-entropy of a choice.

Everything random in an epoch (the order of the examples, dropout) follows from the seed and the
epoch's number alone. On a CPU the same seed therefore gives the same weights, and a run that was
killed goes on from its last whole epoch as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mixlens.errors import InvalidInput, NonFiniteActivations
from mixlens.explained import logits_of

DTYPES = ("float32", "float64", "bfloat16")
_POOL = 16  # batches whose examples are put together by length


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train.

    `patience`: stop after so many epochs without a lower held-out loss, and keep the weights of the
    best epoch.

    Texts of more than `longest` tokens are cut or left out. With dtype bfloat16 the products are
    taken in bfloat16, weights stay float32.
    """

    epochs: int
    rate: float
    batch: int
    warmup: float = 0.1  # share of all steps
    weight_decay: float = 0.0
    clip: float | None = None  # largest norm of the gradient
    patience: int | None = None
    longest: int = 128
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "longest", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name}={value}: one at least is needed")
        if not 0 < self.rate < 1:
            raise InvalidInput(
                f"rate={self.rate}: a learning rate lies between 0 and 1, such as 2e-5"
            )
        if not 0 <= self.warmup < 1:
            raise InvalidInput(
                f"warmup={self.warmup}: a share of the steps is needed, from 0 to below 1"
            )
        if self.dtype not in DTYPES:
            raise InvalidInput(f"dtype={self.dtype!r}: fine-tuning takes {', '.join(DTYPES)}")


@dataclass(frozen=True)
class Item:
    """One example as the model takes it.

    The model chooses among classes; `answer` is the right one.
    """

    name: str
    inputs: dict[str, list[int]]  # token ids, and segments where the model takes them
    answer: int
    group: str | None = None
    words: tuple[int, ...] = ()  # a language model: the tokens to choose from
    place: int = -1  # and where


@dataclass(frozen=True)
class Objective:
    """How the logits of the classes, [batch, classes], are found in what the model puts out."""

    choices: Callable[[Tensor, Sequence[Item]], Tensor]
    padding: int


@dataclass(frozen=True)
class Scores:
    """Mean loss, and the class chosen for each item in order."""

    loss: float
    chosen: tuple[int, ...]

    def accuracy(self, items: Sequence[Item]) -> float:
        """The share of right answers."""
        return sum(c == item.answer for c, item in zip(self.chosen, items, strict=True)) / len(
            items
        )


def scored(model: Any, items: Sequence[Item], task: Objective, settings: Settings) -> Scores:
    """What the model chooses, in eval mode."""
    model.eval()
    chosen, total = [0] * len(items), 0.0
    order = sorted(range(len(items)), key=lambda i: len(items[i].inputs["input_ids"]))
    with torch.inference_mode():
        for start in range(0, len(order), 4 * settings.batch):
            places = order[start : start + 4 * settings.batch]
            batch = [items[i] for i in places]
            logits, answers = _answered(model, batch, task, settings)
            total += float(cross_entropy(logits, answers, reduction="sum"))
            for place, choice in zip(places, logits.argmax(-1).tolist(), strict=True):
                chosen[place] = choice
    return Scores(total / len(items), tuple(chosen))


# ----------------------------------------------------------------------------------------- training


class Training:
    """A model on its way: weights, optimizer, and what each finished epoch said.

    The model is changed.
    """

    def __init__(
        self,
        model: Any,
        items: Sequence[Item],
        held_out: Sequence[Item],
        task: Objective,
        settings: Settings,
    ) -> None:
        self.model, self.items, self.held_out, self.task, self.settings = (
            model,
            items,
            held_out,
            task,
            settings,
        )
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] | None = None
        self.optimizer = _optimizer(model, settings)

    @property
    def finished(self) -> bool:
        """Are all epochs done, or has patience run out?"""
        if len(self.history) >= self.settings.epochs:
            return True
        return (
            self.settings.patience is not None
            and len(self.history) - self.best_epoch >= self.settings.patience
        )

    @property
    def best_epoch(self) -> int:
        """The epoch (from 1) with the lowest held-out loss."""
        losses = [epoch["held_out_loss"] for epoch in self.history]
        return losses.index(min(losses)) + 1 if losses else 0

    def run(self, save: Callable[[Training], None] | None = None) -> None:
        """Trains to the end; `save` is called after every epoch. The model is left in eval mode."""
        while not self.finished:
            self._epoch()
            if save is not None:
                save(self)
        if self.best is not None:
            self.model.load_state_dict(self.best)
        self.model.eval()

    def _epoch(self) -> None:
        number, began = len(self.history), time.monotonic()
        with _reproducible(self.model.device, self.settings.seed, number):
            loss, accuracy = self._steps(number)
            held = scored(self.model, self.held_out, self.task, self.settings)
        found = {
            "loss": loss,
            "accuracy": accuracy,
            "held_out_loss": held.loss,
            "held_out_accuracy": held.accuracy(self.held_out),
            "seconds": round(time.monotonic() - began, 1),
        }
        self.history.append(found)
        if self.settings.patience is not None and self.best_epoch == len(self.history):
            self.best = {
                name: value.detach().clone() for name, value in self.model.state_dict().items()
            }
        log(
            f"epoch {number + 1} of {self.settings.epochs}: loss {loss:.4f}, held-out loss"
            f" {held.loss:.4f}, accuracy {found['held_out_accuracy']:.4f}, {found['seconds']} s"
        )

    def _steps(self, epoch: int) -> tuple[float, float]:
        """One pass over the examples: mean loss and accuracy on the way."""
        from rich.console import Console
        from rich.progress import track

        self.model.train()
        total, right = 0.0, 0
        batches = _batches(self.items, self.settings, epoch)
        steps = len(batches) * self.settings.epochs
        shown = track(
            batches,
            f"epoch {epoch + 1}",
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        for step, batch in enumerate(shown, epoch * len(batches)):
            rate = self.settings.rate * _share(step, steps, self.settings.warmup)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            logits, answers = _answered(self.model, batch, self.task, self.settings)
            loss = cross_entropy(logits, answers)
            if not math.isfinite(loss.item()):
                raise NonFiniteActivations(
                    f"the loss became {loss.item()} in epoch {epoch + 1}: use a lower learning rate"
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            total += loss.item() * len(batch)
            right += int((logits.argmax(-1) == answers).sum())
        return total / len(self.items), right / len(self.items)


def _share(step: int, steps: int, warmup: float) -> float:
    """How much of the learning rate is used: a linear rise, then a linear fall to zero."""
    rise = warmup * steps
    return (step + 1) / (rise + 1) if step < rise else (steps - step) / max(1.0, steps - rise)


def _optimizer(model: Any, settings: Settings) -> torch.optim.AdamW:
    """Biases and norm gains do not decay."""
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in wanted if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in wanted if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate)


def _batches(items: Sequence[Item], settings: Settings, epoch: int) -> list[list[Item]]:
    """Shuffled; within a pool of batches texts of like length stand together, so that little is
    computed for padding.
    """
    chance = random.Random(f"{settings.seed} {epoch}")
    order = chance.sample(list(items), len(items))
    found = []
    for start in range(0, len(order), _POOL * settings.batch):
        pool = sorted(
            order[start : start + _POOL * settings.batch],
            key=lambda item: len(item.inputs["input_ids"]),
        )
        found += [pool[i : i + settings.batch] for i in range(0, len(pool), settings.batch)]
    chance.shuffle(found)
    return found


def _answered(
    model: Any, batch: Sequence[Item], task: Objective, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Logits of the classes in at least float32, and the right classes."""
    inputs = {name: value.to(model.device) for name, value in padded(batch, task.padding).items()}
    with _precision(model.device, settings.dtype):
        logits = task.choices(logits_of(model(**inputs)), batch)
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits, torch.tensor([item.answer for item in batch], device=logits.device)


def padded(batch: Sequence[Item], padding: int) -> dict[str, Tensor]:
    """Token rows of one width, padded on the right, with their mask."""
    lengths = [len(item.inputs["input_ids"]) for item in batch]
    width = max(lengths)
    made = {
        name: torch.tensor(
            [[*item.inputs[name], *[fill] * (width - len(item.inputs[name]))] for item in batch]
        )
        for name, fill in (("input_ids", padding), ("token_type_ids", 0))
        if name in batch[0].inputs
    }
    made["attention_mask"] = torch.tensor(
        [[1] * length + [0] * (width - length) for length in lengths]
    )
    return made


def _precision(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    return (
        torch.autocast(device.type, torch.bfloat16)
        if dtype == "bfloat16"
        else contextlib.nullcontext()
    )


@contextlib.contextmanager
def _reproducible(device: torch.device, seed: int, epoch: int) -> Iterator[None]:
    """Chance for one epoch; the caller's generators and settings are as before afterwards."""
    before, warned = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(random.Random(f"{seed} {epoch} dropout").getrandbits(63))
        if device.type == "cpu":
            torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warned)


def log(message: str) -> None:
    """A line for the person who waits, on the error stream."""
    print(message, file=sys.stderr, flush=True)
