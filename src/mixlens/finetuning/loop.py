"""Train a model on a cross-entropy loss with AdamW, linear warm-up and linear decay.

All randomness of an epoch (the order of the examples, dropout) depends only on the seed and the
epoch number. On a CPU the same seed therefore gives the same weights, and an interrupted run
resumes exactly after its last complete epoch.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mixlens.errors import NonFiniteActivations
from mixlens.finetuning.scoring import Item, Objective, Settings, compute_choices, score_choices

_POOL = 16  # number of batches that are sorted by length together


class Training:
    """A training run in progress, with its weights, optimizer and a summary of each finished epoch.

    Training modifies the model in place.
    """

    def __init__(
        self,
        model: Any,
        items: Sequence[Item],
        held_out: Sequence[Item],
        task: Objective,
        settings: Settings,
    ) -> None:
        self.model = model
        self.items = items
        self.held_out = held_out
        self.task = task
        self.settings = settings
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] | None = None
        self.optimizer = _optimizer(model, settings)

    @property
    def finished(self) -> bool:
        """Return whether all epochs are done, or early stopping has ended the run."""
        if len(self.history) >= self.settings.epochs:
            return True
        return (
            self.settings.patience is not None
            and len(self.history) - self.best_epoch >= self.settings.patience
        )

    @property
    def best_epoch(self) -> int:
        """Return the epoch (from 1) with the lowest held-out loss."""
        losses = [epoch["held_out_loss"] for epoch in self.history]
        return losses.index(min(losses)) + 1 if losses else 0

    def run(self, save: Callable[[Training], None] | None = None) -> None:
        """Train until the run is finished, and call `save` after every epoch. The model is left in
        eval mode.
        """
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
            outcome = score_choices(self.model, self.held_out, self.task, self.settings)
        summary = {
            "loss": loss,
            "accuracy": accuracy,
            "held_out_loss": outcome.loss,
            "held_out_accuracy": outcome.accuracy(self.held_out),
            "seconds": round(time.monotonic() - began, 1),
        }
        self.history.append(summary)
        if self.settings.patience is not None and self.best_epoch == len(self.history):
            self.best = {
                name: value.detach().clone() for name, value in self.model.state_dict().items()
            }
        log(
            f"epoch {number + 1} of {self.settings.epochs}: loss {loss:.4f}, held-out loss"
            f" {outcome.loss:.4f}, accuracy {summary['held_out_accuracy']:.4f},"
            f" {summary['seconds']} s"
        )

    def _steps(self, epoch: int) -> tuple[float, float]:
        """Train for one pass over the examples, and return the mean loss and accuracy."""
        from rich.console import Console
        from rich.progress import track

        self.model.train()
        total, right = 0.0, 0
        batches = batches_of(self.items, self.settings, epoch)
        steps = len(batches) * self.settings.epochs
        batches_with_progress = track(
            batches,
            f"epoch {epoch + 1}",
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        for step, batch in enumerate(batches_with_progress, epoch * len(batches)):
            rate = self.settings.rate * rate_share(step, steps, self.settings.warmup)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            logits, answers = compute_choices(self.model, batch, self.task, self.settings)
            loss = cross_entropy(logits, answers)
            if not math.isfinite(loss.item()):
                raise NonFiniteActivations(
                    f"The loss became {loss.item()} in epoch {epoch + 1}. Use a lower learning"
                    " rate."
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            total += loss.item() * len(batch)
            right += int((logits.argmax(-1) == answers).sum())
        return total / len(self.items), right / len(self.items)


def rate_share(step: int, steps: int, warmup: float) -> float:
    """Return the learning-rate multiplier at a step.

    The multiplier rises linearly during the warm-up, then falls linearly to zero.
    """
    rise = warmup * steps
    return (step + 1) / (rise + 1) if step < rise else (steps - step) / max(1.0, steps - rise)


def _optimizer(model: Any, settings: Settings) -> torch.optim.AdamW:
    """Return an AdamW optimizer without weight decay for biases and norm weights."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate)


def batches_of(items: Sequence[Item], settings: Settings, epoch: int) -> list[list[Item]]:
    """Return the batches of an epoch in random order.

    Texts of similar length are batched together to reduce padding.
    """
    chance = random.Random(f"{settings.seed} {epoch}")
    order = chance.sample(list(items), len(items))
    batches = []
    for start in range(0, len(order), _POOL * settings.batch):
        pool = sorted(
            order[start : start + _POOL * settings.batch],
            key=lambda item: len(item.inputs["input_ids"]),
        )
        batches += [pool[i : i + settings.batch] for i in range(0, len(pool), settings.batch)]
    chance.shuffle(batches)
    return batches


@contextlib.contextmanager
def _reproducible(device: torch.device, seed: int, epoch: int) -> Iterator[None]:
    """Seed PyTorch for one epoch, and use deterministic algorithms on a CPU.

    The previous random state and settings are restored afterwards.
    """
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
    """Print a progress line to stderr."""
    print(message, file=sys.stderr, flush=True)
