"""Settings, training items, objective and evaluation of fine-tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mixlens.errors import InvalidInput
from mixlens.replay.explained_output import logits_of

DTYPES = ("float32", "float64", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of a training run.

    If `patience` is set, training stops after this many epochs without a lower held-out loss, and
    the weights of the best epoch are restored.

    Texts with more than `longest` tokens are truncated or skipped. If the dtype is "bfloat16",
    matrix multiplications run in bfloat16 (autocast), and the weights stay in float32.
    """

    epochs: int
    rate: float
    batch: int
    warmup: float = 0.1  # fraction of all steps
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
                raise InvalidInput(f"{name}={value} is out of range. Pass at least 1.")
        if not 0 < self.rate < 1:
            raise InvalidInput(
                f"rate={self.rate} is out of range. Pass a learning rate between 0 and 1, such"
                " as 2e-5."
            )
        if not 0 <= self.warmup < 1:
            raise InvalidInput(
                f"warmup={self.warmup} is out of range. Pass a fraction of the steps in [0, 1)."
            )
        if self.dtype not in DTYPES:
            raise InvalidInput(
                f"Unsupported dtype {self.dtype!r} for fine-tuning. Choose one of:"
                f" {', '.join(DTYPES)}."
            )


@dataclass(frozen=True)
class Item:
    """One example as model input.

    The model chooses one of several classes, and `answer` is the index of the right class.
    """

    name: str
    inputs: dict[str, list[int]]  # token ids, and segments if the model uses them
    answer: int
    group: str | None = None
    words: tuple[int, ...] = ()  # candidate tokens of a language model
    place: int = -1  # and their position


@dataclass(frozen=True)
class Objective:
    """The training objective, which computes the logits of the classes from a model output.

    `choices` returns these logits as [batch, classes]. `padding` is the id of the padding token.
    """

    choices: Callable[[Tensor, Sequence[Item]], Tensor]
    padding: int


@dataclass(frozen=True)
class ClassChoices:
    """The mean loss over all items, and the index of the class chosen for each item."""

    loss: float
    choices: tuple[int, ...]

    def accuracy(self, items: Sequence[Item]) -> float:
        """Return the accuracy: the fraction of items for which the right class was chosen."""
        return sum(c == item.answer for c, item in zip(self.choices, items, strict=True)) / len(
            items
        )


def score_choices(
    model: Any, items: Sequence[Item], task: Objective, settings: Settings
) -> ClassChoices:
    """Evaluate the model on all items, and leave it in eval mode."""
    model.eval()
    choices, total = [0] * len(items), 0.0
    order = sorted(range(len(items)), key=lambda i: len(items[i].inputs["input_ids"]))
    with torch.inference_mode():
        for start in range(0, len(order), 4 * settings.batch):
            places = order[start : start + 4 * settings.batch]
            batch = [items[i] for i in places]
            logits, answers = compute_choices(model, batch, task, settings)
            total += float(cross_entropy(logits, answers, reduction="sum"))
            for place, choice in zip(places, logits.argmax(-1).tolist(), strict=True):
                choices[place] = choice
    return ClassChoices(total / len(items), tuple(choices))


def compute_choices(
    model: Any, batch: Sequence[Item], task: Objective, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Return the logits of the classes, in float32 or float64, and the indices of the right
    classes.
    """
    inputs = {
        name: value.to(model.device) for name, value in pad_batch(batch, task.padding).items()
    }
    with _precision(model.device, settings.dtype):
        logits = task.choices(logits_of(model(**inputs)), batch)
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits, torch.tensor([item.answer for item in batch], device=logits.device)


def pad_batch(batch: Sequence[Item], padding: int) -> dict[str, Tensor]:
    """Pad the token ids of a batch on the right to the same length, and add the attention mask."""
    lengths = [len(item.inputs["input_ids"]) for item in batch]
    width = max(lengths)
    tensors = {
        name: torch.tensor(
            [[*item.inputs[name], *[fill] * (width - len(item.inputs[name]))] for item in batch]
        )
        for name, fill in (("input_ids", padding), ("token_type_ids", 0))
        if name in batch[0].inputs
    }
    tensors["attention_mask"] = torch.tensor(
        [[1] * length + [0] * (width - length) for length in lengths]
    )
    return tensors


def _precision(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    return (
        torch.autocast(device.type, torch.bfloat16)
        if dtype == "bfloat16"
        else contextlib.nullcontext()
    )
