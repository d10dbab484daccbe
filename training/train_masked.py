"""Trains the masked language model: running text, single sentences and generated sentences in every
step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from .graphs import graphed, optimizer_for, set_rate
from .lexicon import load_lexicon
from .masking import MaskedBatch, mask_aimed, mask_text
from .rows import LONG, MIDDLE, SHORT, SentenceRows
from .schedule import Schedule
from .vocabulary import FUNCTION_WORDS, PAD_ID


@dataclass(frozen=True)
class MaskedSettings:
    """Size of the model and of its training."""

    layers: int = 6
    hidden: int = 256
    heads: int = 8
    inner: int = 1024
    dropout: float = 0.05
    steps: int = 7672
    seconds: float | None = None
    rate: float = 1e-3
    long_rows: int = 64
    short_rows: tuple[int, int] = (512, 320)  # generated, natural
    middle_rows: tuple[int, int] = (128, 256)
    encyclopedia: float = 0.5  # share of WikiText in the running text


@dataclass
class MaskedData:
    """Rows by source; the generated ones know their targets."""

    encyclopedia: np.ndarray
    stories: np.ndarray
    natural_short: SentenceRows
    natural_middle: SentenceRows
    generated_short: SentenceRows
    generated_middle: SentenceRows


def build_masked(settings: MaskedSettings, vocabulary: int) -> BertForMaskedLM:
    """A fresh BERT with heads 32 wide (at the default size)."""
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.inner,
        max_position_embeddings=LONG,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD_ID,
        tie_word_embeddings=True,
    )
    return BertForMaskedLM(config)


def token_weights(vocabulary: dict[str, int]) -> Tensor:
    """How readily each token is hidden in running text: words that carry number three times as
    readily.
    """
    lexicon = load_lexicon()
    weights = torch.ones(len(vocabulary))
    numbered = set(FUNCTION_WORDS.split())
    for pool in lexicon.verbs.values():
        numbered.update(form for entry in pool for form in (entry.forms.base, entry.forms.third))
    for word in numbered:
        if word in vocabulary:
            weights[vocabulary[word]] = 3.0
    return weights


class MaskedTrainer:
    """Holds the rows on the device and takes steps."""

    def __init__(
        self,
        settings: MaskedSettings,
        data: MaskedData,
        vocabulary: dict[str, int],
        device: str,
        seed: int,
    ):
        torch.manual_seed(seed)
        self.settings, self.device = settings, device
        self.model = build_masked(settings, len(vocabulary)).to(device)
        self.weights = token_weights(vocabulary).to(device)
        self.size = len(vocabulary)
        put: Callable[[np.ndarray], Tensor] = lambda array: torch.from_numpy(array).to(device)  # noqa: E731
        self.long = [put(data.encyclopedia), put(data.stories)]
        self.natural = {SHORT: put(data.natural_short.ids), MIDDLE: put(data.natural_middle.ids)}
        self.generated = {
            SHORT: (put(data.generated_short.ids), put(data.generated_short.targets)),
            MIDDLE: (put(data.generated_middle.ids), put(data.generated_middle.targets)),
        }
        self.optimizer = optimizer_for(self.model, settings.rate, (0.9, 0.98), 0.01, device)

    def _some(self, rows: Tensor, count: int) -> Tensor:
        return torch.randint(0, len(rows), (count,), device=self.device)

    def _losses(self, batches: list[MaskedBatch]) -> list[Tensor]:
        """Mean loss of each batch; batches of one width share a pass through the layers."""
        inputs = torch.cat([batch.inputs for batch in batches])
        attention_mask = None  # long rows are full
        if inputs.shape[1] < LONG:
            attention_mask = (inputs != PAD_ID)[:, None, None].expand(-1, -1, inputs.shape[1], -1)
        hidden = self.model.bert(inputs, attention_mask=attention_mask).last_hidden_state
        losses = []
        for batch, states in zip(
            batches, hidden.split([len(batch.inputs) for batch in batches]), strict=True
        ):
            index = batch.positions[..., None].expand(-1, -1, states.shape[-1])
            logits = self.model.cls(states.gather(1, index))
            losses.append(cross_entropy(logits.flatten(0, 1).float(), batch.labels.flatten()))
        return losses

    def _batches(self, width: int, counts: tuple[int, int]) -> list[MaskedBatch]:
        ids, targets = self.generated[width]
        places = self._some(ids, counts[0])
        natural = self.natural[width][self._some(self.natural[width], counts[1])]
        numbered = self.weights[natural.long()] > 1
        return [
            mask_aimed(ids[places], targets[places], self.weights, alone=0.55, with_target=0.75),
            mask_aimed(natural, numbered, self.weights, alone=0.3, with_target=0.4),
        ]

    def step(self) -> tuple[Tensor, ...]:
        """One update; returns the losses on running text, generated and natural sentences."""
        settings = self.settings
        first = round(settings.long_rows * settings.encyclopedia)
        rows = torch.cat(
            [
                source[self._some(source, count)]
                for source, count in zip(
                    self.long, (first, settings.long_rows - first), strict=True
                )
            ]
        )
        self.optimizer.zero_grad(set_to_none=True)
        with self._precision():
            (running,) = self._losses([mask_text(rows, self.weights)])
        running.backward()
        with self._precision():
            short, natural_short = self._losses(self._batches(SHORT, settings.short_rows))
        (0.6 * short + 0.4 * natural_short).backward()
        with self._precision():
            middle, natural_middle = self._losses(self._batches(MIDDLE, settings.middle_rows))
        (0.4 * middle + 0.5 * natural_middle).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return running.detach(), short.detach(), natural_short.detach()

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if self.device != "cuda":
            return contextlib.nullcontext()
        return torch.autocast(
            "cuda", torch.bfloat16, cache_enabled=False
        )  # the cache would outlive a recording

    def run(self, log: Callable[[str], None]) -> tuple[BertForMaskedLM, int]:
        """Trains to the end of the schedule; returns the model and the number of steps taken."""
        self.model.train()
        take = graphed(self.step, self.optimizer, self.device)
        schedule = Schedule(self.settings.rate, self.settings.steps, self.settings.seconds)
        step = 0
        while (progress := schedule.progress(step)) < 1.0:
            set_rate(self.optimizer, schedule.rate(step, progress))
            losses = take()
            step += 1
            if step % 500 == 0 or step <= 2:
                figures = ", ".join(f"{loss.item():.3f}" for loss in losses)
                log(f"masked step {step}: running, generated, natural {figures}")
            elif step % 20 == 0 and self.device == "cuda":
                torch.cuda.synchronize()  # so that the clock of the schedule is true
        return self.model.eval(), step
