"""The bundled models: size, format, and the claims of their model cards."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

BUNDLED = Path(__file__).parents[2] / "src" / "mixlens" / "bundled"

# sentences of our own; the word asked for and the one of the wrong number
AGREEMENT = [
    ("The keys to the old cabinet [MASK] on the table.", "are", "is"),
    ("The key to the old cabinets [MASK] on the table.", "is", "are"),
    ("My sister has hurt [MASK].", "herself", "themselves"),
    ("The sailors have hurt [MASK].", "themselves", "himself"),
    ("The boy wants to read [MASK] long books.", "these", "this"),
    ("The teacher who likes the students [MASK] very tired.", "is", "are"),
]


@pytest.mark.parametrize(("name", "limit"), [("masked", 16_000_000), ("causal", 4_000_000)])
def test_size_and_precision_on_disk(name: str, limit: int) -> None:
    folder = BUNDLED / name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= limit
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        assert {tensors.get_slice(key).get_dtype() for key in tensors.keys()} == {"F16"}  # noqa: SIM118
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Apache-2.0" in card
    assert "CC BY-SA" in card


def test_masked_model_agrees() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED / "masked")
    model = AutoModelForMaskedLM.from_pretrained(BUNDLED / "masked").eval()
    assert model.dtype == torch.float32
    assert model.config.hidden_size // model.config.num_attention_heads == 32
    for text, right, wrong in AGREEMENT:
        inputs = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            row = model(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id][0]
        ids: Any = tokenizer.convert_tokens_to_ids([right, wrong])
        assert row[ids[0]] > row[ids[1]], text


def test_masked_model_sees_past_the_attractor() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED / "masked")
    model = AutoModelForMaskedLM.from_pretrained(BUNDLED / "masked").eval()
    inputs = tokenizer("the pictures of some hat [MASK] scaring marcus .", return_tensors="pt")
    with torch.inference_mode():
        row = model(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id][0]
    assert set(tokenizer.convert_ids_to_tokens(row.topk(2).indices.tolist())) == {"are", "were"}


def test_causal_model_has_grouped_queries_and_offsets() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED / "causal")
    model = AutoModelForCausalLM.from_pretrained(BUNDLED / "causal").eval()
    assert model.config.num_key_value_heads < model.config.num_attention_heads
    text = "The cat sat down."
    encoded = tokenizer(text, return_offsets_mapping=True)
    spans = [text[a:b] for a, b in encoded["offset_mapping"] if b > a]
    assert spans[0] == "The"
    assert not any(span.startswith(" ") for span in spans)
    with torch.inference_mode():
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        assert model(ids, labels=ids).loss < 6
