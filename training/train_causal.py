"""Trains the small causal model (Llama, grouped-query attention) on the same sources."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from .graphs import graphed, optimizer_for, set_rate
from .schedule import Schedule


@dataclass(frozen=True)
class CausalSettings:
    """Size of the model and of its training."""

    layers: int = 6
    hidden: int = 128
    heads: int = 4
    key_value_heads: int = 2
    inner: int = 384
    positions: int = 256
    steps: int = 4000
    seconds: float | None = None
    rate: float = 2e-3
    rows: tuple[int, int, int] = (48, 56, 24)  # encyclopedia, stories, generated


def build_causal(
    settings: CausalSettings, vocabulary: int, start: int, padding: int
) -> LlamaForCausalLM:
    """A fresh Llama with tied embeddings."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=settings.hidden,
        intermediate_size=settings.inner,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.key_value_heads,
        max_position_embeddings=settings.positions,
        tie_word_embeddings=True,
        bos_token_id=start,
        eos_token_id=start,
        pad_token_id=padding,
    )
    return LlamaForCausalLM(config)


def train_causal(
    settings: CausalSettings,
    model: LlamaForCausalLM,
    streams: list[np.ndarray],
    device: str,
    seed: int,
    log: Callable[[str], None],
) -> tuple[LlamaForCausalLM, int]:
    """Next-token training on windows cut anywhere in the streams; returns the model and the steps
    taken.
    """
    torch.manual_seed(seed)
    model = model.to(device).train()
    sources = [torch.from_numpy(stream).to(device) for stream in streams]
    optimizer = optimizer_for(model, settings.rate, (0.9, 0.95), 0.05, device)
    window = torch.arange(settings.positions, device=device)
    earlier = torch.ones(
        settings.positions, settings.positions, dtype=torch.bool, device=device
    ).tril()[None, None]

    def take() -> tuple[Tensor, ...]:
        parts = []
        for source, count in zip(sources, settings.rows, strict=True):
            begin = torch.randint(
                0, max(1, len(source) - settings.positions), (count, 1), device=device
            )
            parts.append(source[(begin + window).clamp_max(len(source) - 1)])
        ids = torch.cat(parts).long()
        precise = (
            torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
            if device == "cuda"
            else contextlib.nullcontext()
        )
        optimizer.zero_grad(set_to_none=True)
        with precise:
            logits = model(
                input_ids=ids, attention_mask=earlier.expand(len(ids), -1, -1, -1), use_cache=False
            ).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return (loss.detach(),)

    step_once = graphed(take, optimizer, device)
    schedule = Schedule(settings.rate, settings.steps, settings.seconds)
    step = 0
    while (progress := schedule.progress(step)) < 1.0:
        set_rate(optimizer, schedule.rate(step, progress))
        (loss,) = step_once()
        step += 1
        if step % 500 == 0 or step <= 2:
            log(f"causal step {step}: {loss.item():.3f}")
        elif step % 20 == 0 and device == "cuda":
            torch.cuda.synchronize()
    return model.eval(), step
