"""Writes a model as half-precision safetensors that plain transformers loads in float32."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from .vocabulary import save_tokenizer


def save_model(model: PreTrainedModel, tokenizer: Tokenizer, folder: Path, *, causal: bool) -> int:
    """Saves weights, configuration and tokenizer; returns the size of the folder in bytes.

    The configuration names float32, so that a loader which follows it computes in float32 although
    the file holds half precision: on a CPU that is faster, and the measures need it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    half = copy.deepcopy(model).to("cpu", torch.float16)
    half.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_tokenizer(tokenizer, folder, causal=causal, positions=model.config.max_position_embeddings)
    return sum(file.stat().st_size for file in folder.iterdir())
