"""Trains the masked language model: running text, single sentences and generated sentences in every step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from .lexicon import load_lexicon
from .masking import MaskedBatch, mask_generated, mask_text
from .rows import LONG, SentenceRows
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
    steps: int = 9000
    seconds: float | None = None
    rate: float = 1e-3
    long_rows: int = 128
    short_rows: tuple[int, int] = (1536, 512)  # generated, natural
    middle_rows: tuple[int, int] = (256, 384)
    encyclopedia: float = 0.4  # share of WikiText in the running text


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
    """How readily each token is hidden in running text: words that carry number three times as readily."""
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
        self, settings: MaskedSettings, data: MaskedData, vocabulary: dict[str, int], device: str, seed: int
    ):
        torch.manual_seed(seed)
        self.settings, self.device = settings, device
        self.model = build_masked(settings, len(vocabulary)).to(device)
        self.weights = token_weights(vocabulary).to(device)
        self.size = len(vocabulary)
        put: Callable[[np.ndarray], Tensor] = lambda array: torch.from_numpy(array).to(device)  # noqa: E731
        self.long = [put(data.encyclopedia), put(data.stories)]
        self.natural = {24: put(data.natural_short.ids), 48: put(data.natural_middle.ids)}
        self.generated = {
            24: (put(data.generated_short.ids), put(data.generated_short.targets)),
            48: (put(data.generated_middle.ids), put(data.generated_middle.targets)),
        }
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=settings.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=device == "cuda",
        )

    def _some(self, rows: Tensor, count: int) -> Tensor:
        return torch.randint(0, len(rows), (count,), device=self.device)

    def _losses(self, batches: list[MaskedBatch]) -> list[Tensor]:
        """Mean loss of each batch; batches of one width share a pass through the layers."""
        inputs = torch.cat([batch.inputs for batch in batches])
        seen = (inputs != PAD_ID).long() if inputs.shape[1] < LONG else None  # long rows are full
        hidden = self.model.bert(inputs, attention_mask=seen).last_hidden_state
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
        chosen = self._some(ids, counts[0])
        natural = self.natural[width]
        return [
            mask_generated(ids[chosen], targets[chosen], self.size),
            mask_text(natural[self._some(natural, counts[1])], self.weights),
        ]

    def step(self, rate: float) -> tuple[Tensor, Tensor]:
        """One update; returns the losses on running text and on generated sentences."""
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        first = round(settings.long_rows * settings.encyclopedia)
        rows = torch.cat(
            [
                source[self._some(source, count)]
                for source, count in zip(self.long, (first, settings.long_rows - first), strict=True)
            ]
        )
        precise = (
            torch.autocast("cuda", torch.bfloat16) if self.device == "cuda" else contextlib.nullcontext()
        )
        self.optimizer.zero_grad(set_to_none=True)
        with precise:
            (running,) = self._losses([mask_text(rows, self.weights)])
        running.backward()
        with precise:
            short, natural_short = self._losses(self._batches(24, settings.short_rows))
        (0.7 * short + 0.25 * natural_short).backward()
        with precise:
            middle, natural_middle = self._losses(self._batches(48, settings.middle_rows))
        (0.3 * middle + 0.35 * natural_middle).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return running.detach(), short.detach()

    def run(self, log: Callable[[str], None]) -> tuple[BertForMaskedLM, int]:
        """Trains to the end of the schedule; returns the model and the number of steps taken."""
        schedule = Schedule(self.settings.rate, self.settings.steps, self.settings.seconds)
        self.model.train()
        step = 0
        while (progress := schedule.progress(step)) < 1.0:
            losses = self.step(schedule.rate(step, progress))
            step += 1
            if step % 500 == 0 or step <= 2:
                log(
                    f"masked step {step}: running text {losses[0].item():.3f}, generated {losses[1].item():.3f}"
                )
        return self.model.eval(), step
