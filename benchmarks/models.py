"""Models of the published shapes with random weights, and inputs for them.

Speed does not depend on what a model has learnt.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor

Inputs = dict[str, Tensor]


def randomised(model: Any, seed: int = 0) -> Any:
    """Every matrix, bias and norm random: what a fresh model has as zeros and ones would hide a
    forgotten bias or gain.

    The spread of the matrices keeps every product about as large as its input, so that attention is
    neither uniform nor one-hot.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            gain = parameter.dim() == 1 and name.endswith("weight")
            spread = (
                1.1 * parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.2 if gain else 0.1
            )
            parameter.copy_(noise * spread + (1.0 if gain else 0.0))
    return model.eval()


def bert(
    kind: str = "BertModel",
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    **config: Any,
) -> Any:
    """A BERT with eager attention; without arguments, of the base shape: 12 layers, width 768, 12
    heads.
    """
    made = transformers.BertConfig(**config)
    made._attn_implementation = "eager"
    options = {"add_pooling_layer": False} if kind == "BertModel" else {}
    return randomised(getattr(transformers, kind)(made, **options)).to(device=device, dtype=dtype)


def llama(*, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", **config: Any) -> Any:
    """A Llama; without arguments, of the 1B shape (its vocabulary cut, which no layer sees)."""
    shape = {
        "vocab_size": 1024,
        "hidden_size": 2048,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 8192,
        "max_position_embeddings": 8192,
        "head_dim": 64,
    }
    if config:
        shape["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    made = transformers.LlamaConfig(**{**shape, **config})
    made._attn_implementation = "eager"
    with torch.device(device):
        model: Any = transformers.LlamaModel(made)
        model = model.to(dtype)
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=dtype, device=device)
            parameter.copy_(1 + noise * 0.2 if parameter.dim() == 1 else noise * 0.02)
    return model.eval()


def with_a_head(base: Any) -> tuple[Any, Any, list[str]]:
    """The model with a head, a tokenizer of one word for each token, and all words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    spelled = [f"w{number}" for number in range(base.config.vocab_size)]
    words = {word: number for number, word in enumerate(spelled)}
    backend = Tokenizer(WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="w2", pad_token="w0")
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(base.config)
    model.model = base
    model.lm_head = torch.nn.Linear(base.config.hidden_size, len(words), bias=False)
    return model.to(base.device, base.dtype).eval(), tokenizer, spelled


def tokens(model: Any, length: int, *, batch: int = 1, seed: int = 0) -> Inputs:
    """Random tokens without padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, model.config.vocab_size, (batch, length), generator=generator)
    ids = ids.to(next(model.parameters()).device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.no_grad()
def forward(model: Any, inputs: Inputs) -> Any:
    """One plain pass, as a user would run it."""
    return model(**inputs)
