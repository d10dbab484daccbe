"""Training: Marian (post-norm, as in the paper), label smoothing, batches of similar length. A
killed run resumes where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from ..schedule import Schedule
from .pairs import Pair
from .vocabulary import END_ID, PAD_ID

IGNORED = -100


@dataclass(frozen=True)
class Settings:
    """Size of the model and of its training."""

    vocabulary: int = 8000
    layers: int = 6
    hidden: int = 256
    heads: int = 4
    inner: int = 1024
    positions: int = 256
    dropout: float = 0.3
    smoothing: float = 0.1
    steps: int = 6000
    seconds: float | None = (
        None  # the learning rate falls to zero by then, if the steps are not done before
    )
    warmup: int = 600
    rate: float = 7e-4
    tokens: int = 4096  # of the longer side, padding included, in a batch
    every: int = 250  # steps between validations and saved states
    seed: int = 0


SMOKE = Settings(
    vocabulary=120, layers=2, hidden=32, heads=2, inner=64, steps=6, warmup=2, tokens=128, every=3
)

Batch = tuple[Tensor, Tensor, Tensor]  # source ids, decoder ids, labels


def build(settings: Settings, vocabulary: int) -> MarianMTModel:
    """A fresh model with one embedding for both languages and the output."""
    sizes = {
        "layers": settings.layers,
        "attention_heads": settings.heads,
        "ffn_dim": settings.inner,
    }
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=settings.hidden,
        max_position_embeddings=settings.positions,
        activation_function="relu",
        dropout=settings.dropout,
        attention_dropout=0.1,
        scale_embedding=True,
        tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PAD_ID,
        decoder_start_token_id=PAD_ID,
        eos_token_id=END_ID,
        bos_token_id=None,
        forced_eos_token_id=None,
        **{
            f"{side}_{name}": size
            for side in ("encoder", "decoder")
            for name, size in sizes.items()
        },
    )
    model = MarianMTModel(config)
    model.generation_config.update(
        decoder_start_token_id=PAD_ID,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        max_length=settings.positions,
    )
    return model


def batches(
    tokenizer: Tokenizer, pairs: Sequence[Pair], settings: Settings, device: str
) -> list[Batch]:
    """Pairs of similar length together, as many as the tokens allow."""
    sides = [
        [line.ids for line in tokenizer.encode_batch(list(texts))]
        for texts in zip(*pairs, strict=True)
    ]
    rows = [row for row in zip(*sides, strict=True) if max(map(len, row)) <= settings.positions]
    rows.sort(key=lambda row: (max(map(len, row)), len(row[0])))
    groups: list[list[tuple[list[int], ...]]] = [[]]
    for row in rows:
        if groups[-1] and (len(groups[-1]) + 1) * max(map(len, row)) > settings.tokens:
            groups.append([])
        groups[-1].append(row)
    return [_batch(group, device) for group in groups]


def _batch(rows: Sequence[tuple[list[int], ...]], device: str) -> Batch:
    def padded(side: Sequence[list[int]], fill: int) -> Tensor:
        width = max(map(len, side))
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in side], device=device)

    sources, targets = zip(*rows, strict=True)
    return (
        padded(sources, PAD_ID),
        padded([[PAD_ID, *row[:-1]] for row in targets], PAD_ID),
        padded(targets, IGNORED),
    )


class Trainer:
    """A run that can stop anywhere: with the same settings it goes on from the last state in
    `folder`.
    """

    def __init__(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        train: list[Pair],
        valid: list[Pair],
        folder: Path,
        device: str,
    ):
        torch.manual_seed(settings.seed)
        self.settings, self.device, self.folder = settings, device, folder
        self.model = build(settings, tokenizer.get_vocab_size()).to(device)
        self.train, self.valid = (
            batches(tokenizer, pairs, settings, device) for pairs in (train, valid)
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=settings.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=device == "cuda",
        )
        self.step, self.best, self.history = 0, float("inf"), list[dict[str, float]]()
        self.best_weights, self.last_loss = self._weights(), torch.tensor(float("inf"))
        if self._state.exists():
            self._resume()

    # ---------------------------------------------------------------------------------------- steps

    def run(self, log: Callable[[str], None], stop_at: int | None = None) -> MarianMTModel:
        """Trains to the end (or to a step, for a run in parts); gives the model with the lowest
        validation loss, in eval mode.
        """
        settings, began = self.settings, time.monotonic()
        schedule = Schedule(settings.rate, settings.steps, settings.seconds, settings.warmup)
        while (
            self.step < (stop_at or settings.steps)
            and (progress := schedule.progress(self.step)) < 1
        ):
            for group in self.optimizer.param_groups:
                group["lr"] = schedule.rate(self.step, progress)
            self._train_on(self._next())
            self.step += 1
            if self.step % settings.every == 0 or self.step == settings.steps:
                self._validate(float(self.last_loss))
                self._save()
                minutes = (time.monotonic() - began) / 60
                log(
                    f"step {self.step} of {settings.steps}, {minutes:.1f} min: "
                    + _shown(self.history[-1])
                )
        if stop_at is None:
            if not self.history or self.history[-1]["step"] != self.step:  # the clock ended it
                self._validate(float(self.last_loss))
                self._save()
            self._put(self.best_weights)
        return self.model.eval()

    def _next(self) -> Batch:
        """The batches in an order that the seed and the epoch fix."""
        epoch, place = divmod(self.step, len(self.train))
        generator = torch.Generator().manual_seed(1_000_003 * self.settings.seed + epoch)
        return self.train[int(torch.randperm(len(self.train), generator=generator)[place])]

    def _train_on(self, batch: Batch) -> None:
        self.model.train()
        torch.manual_seed(
            1_000_003 * self.settings.seed + self.step
        )  # dropout, so that a resumed run goes the same way
        loss, _ = self._loss(batch, self.settings.smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.last_loss = loss.detach()

    def _loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        source, decoder, labels = batch
        precise = (
            torch.autocast("cuda", torch.bfloat16)
            if self.device == "cuda"
            else contextlib.nullcontext()
        )
        with precise:
            logits = self.model(
                input_ids=source,
                attention_mask=(source != PAD_ID).long(),
                decoder_input_ids=decoder,
                use_cache=False,
            ).logits
        flat, targets = logits.flatten(0, 1).float(), labels.flatten()
        return (
            cross_entropy(flat, targets, ignore_index=IGNORED, label_smoothing=smoothing),
            (flat.argmax(-1) == targets).sum(),
        )

    @torch.no_grad()
    def _validate(self, training_loss: float) -> None:
        self.model.eval()
        loss = right = count = 0.0
        for batch in self.valid:
            tokens = int((batch[2] != IGNORED).sum())
            mean, correct = self._loss(batch, 0.0)
            loss, right, count = loss + float(mean) * tokens, right + float(correct), count + tokens
        summary = {
            "training_loss": training_loss,
            "validation_loss": loss / count,
            "token_accuracy": right / count,
        }
        self.history.append({"step": self.step, **summary})
        if summary["validation_loss"] < self.best:
            self.best, self.best_weights = summary["validation_loss"], self._weights()

    # ---------------------------------------------------------------------------------------- state

    @property
    def _state(self) -> Path:
        return self.folder / "state.safetensors"

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.named_parameters()}

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{name}": value for name, value in self._weights().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for number, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in entry.items()}
        about = {
            "step": self.step,
            "best": self.best,
            "history": self.history,
            "settings": asdict(self.settings),
        }
        part = self._state.with_suffix(".part")
        save_file(
            {name: value.contiguous() for name, value in tensors.items()},
            part,
            {"about": json.dumps(about)},
        )
        os.replace(part, self._state)  # a kill leaves the old state or the new one

    def _resume(self) -> None:
        with safe_open(self._state, "pt", device=self.device) as file:
            about: dict[str, Any] = json.loads(file.metadata()["about"])
            if about["settings"] != asdict(self.settings):
                raise ValueError(
                    f"{self._state} is of a run with other settings: name a different --out, or"
                    " remove it"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self._put(_under("model.", tensors))
        self.best_weights = _under("best.", tensors)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("optimizer.", tensors).items():
            number, key = name.split(".")
            state.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        self.step, self.best, self.history = about["step"], about["best"], about["history"]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _shown(figures: dict[str, float]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.3f}" for name, value in figures.items() if name != "step"
    )
