"""Trains the small causal language model (Llama architecture, grouped-query attention) on the same sources."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

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
    steps: int = 6000
    seconds: float | None = None
    rate: float = 2e-3
    rows: tuple[int, int, int] = (48, 56, 24)  # encyclopedia, stories, generated


def build_causal(settings: CausalSettings, vocabulary: int, start: int, padding: int) -> LlamaForCausalLM:
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
    """Next-token training on windows cut anywhere in the streams; returns the model and the steps taken."""
    torch.manual_seed(seed)
    model = model.to(device).train()
    sources = [torch.from_numpy(stream).to(device) for stream in streams]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.05, fused=device == "cuda"
    )
    window = torch.arange(settings.positions, device=device)
    schedule = Schedule(settings.rate, settings.steps, settings.seconds)
    step = 0
    while (progress := schedule.progress(step)) < 1.0:
        parts = []
        for source, count in zip(sources, settings.rows, strict=True):
            begin = torch.randint(0, max(1, len(source) - settings.positions), (count, 1), device=device)
            parts.append(source[(begin + window).clamp_max(len(source) - 1)])
        ids = torch.cat(parts).long()
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step, progress)
        precise = torch.autocast("cuda", torch.bfloat16) if device == "cuda" else contextlib.nullcontext()
        optimizer.zero_grad(set_to_none=True)
        with precise:
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 500 == 0 or step <= 2:
            log(f"causal step {step}: {loss.item():.3f}")
    return model.eval(), step
