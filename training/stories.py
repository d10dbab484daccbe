"""Sample short stories from a small story model (stories15M, MIT), in large batches on a GPU."""

from __future__ import annotations

import time
from pathlib import Path


def sample_stories(
    folder: Path,
    count: int,
    *,
    seed: int,
    device: str,
    batch: int = 12288,
    tokens: int = 255,
    temperature: float = 0.9,
    seconds: float = float("inf"),
) -> list[str]:
    """Draws stories token by token from the whole distribution; stops early when the time is up."""
    import torch
    from transformers import AutoTokenizer, DynamicCache, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(folder)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = LlamaForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    generator = torch.Generator(device).manual_seed(seed)
    start, end = model.config.bos_token_id, model.config.eos_token_id
    stories: list[str] = []
    began = time.monotonic()
    while len(stories) < count and time.monotonic() - began < seconds:
        size = min(batch, count - len(stories))
        current = torch.full((size, 1), start, device=device)
        cache, steps = DynamicCache(), []
        with torch.inference_mode():
            for _ in range(tokens):
                logits = (
                    model(current, past_key_values=cache, use_cache=True).logits[:, -1].float()
                    / temperature
                )
                noise = torch.empty_like(logits).exponential_(generator=generator)
                current = logits.softmax(-1).div_(noise).argmax(-1, keepdim=True)
                steps.append(current)
        rows = torch.cat(steps, 1).tolist()
        stories += tokenizer.batch_decode(
            [_until_end(row, {start, end}) for row in rows], skip_special_tokens=True
        )
    return [_whole_sentences(story) for story in stories]


def _until_end(row: list[int], stops: set[int]) -> list[int]:
    return next((row[:i] for i, token in enumerate(row) if token in stops), row)


def _whole_sentences(story: str) -> str:
    """Without the sentence that the length limit broke off."""
    last = max(story.rfind(mark) for mark in '.!?"')
    return " ".join(story[: last + 1].split())
