"""The authors' numbers and the models they belong to; README.md says where they are from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

from mixlens import Lens
from mixlens.recording.recording import Recording

FOLDER = Path(__file__).parent


def arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of one file of this folder."""
    with np.load(FOLDER / path, allow_pickle=False) as file:
        return dict(file)


def pretrained(path: str, architecture: str) -> nn.Module:
    """A stored model in float64, as this class of transformers."""
    made = getattr(hf, architecture).from_pretrained(
        FOLDER / path, dtype=torch.float64, attn_implementation="eager"
    )
    return _module(made)


def decompx() -> nn.Module:
    """The BERT classifier of `decompx`."""
    settings = json.loads((FOLDER / "decompx" / "config.json").read_text())
    return _from_state(hf.BertForSequenceClassification(hf.BertConfig(**settings)), "decompx")


def alti_logit() -> nn.Module:
    """The GPT-2 of `alti_logit`."""
    settings = json.loads((FOLDER / "alti_logit" / "config.json").read_text())
    return _from_state(hf.GPT2LMHeadModel(hf.GPT2Config(**settings["config"])), "alti_logit")


def whole_answer(
    name: str, folder: str = "whole_answer"
) -> tuple[nn.Module, dict[str, np.ndarray]]:
    """A causal model of `whole_answer` or `flashtrace`, whose norms compute in float64, and its
    numbers.
    """
    settings = json.loads((FOLDER / folder / f"{name}.json").read_text())
    architecture = settings["architecture"]
    config = getattr(hf, architecture.replace("ForCausalLM", "Config"))(**settings["config"])
    model = getattr(hf, architecture)(config).double()
    state = arrays(f"{folder}/{name}_state.npz")
    model.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    for path, module in list(model.named_modules()):
        if hasattr(module, "variance_epsilon"):
            norm = nn.RMSNorm(len(module.weight), eps=module.variance_epsilon, dtype=torch.float64)
            norm.weight = module.weight
            model.set_submodule(path, norm)
    model.set_attn_implementation("sdpa")
    return _module(model), arrays(f"{folder}/{name}.npz")


def four_papers() -> tuple[Recording, dict[str, np.ndarray]]:
    """The BERT of `four_papers` recorded on its seven tokens, and the authors' numbers."""
    numbers = arrays("four_papers/numbers.npz")
    lens = Lens(pretrained("four_papers", "BertModel"))
    return lens.record({"input_ids": tokens(numbers["input_ids"])}), numbers


def tokens(ids: np.ndarray) -> Tensor:
    """A batch of one row."""
    return torch.from_numpy(ids.reshape(1, -1))


def _from_state(model: Any, folder: str) -> nn.Module:
    state = {name: torch.from_numpy(value) for name, value in arrays(f"{folder}/state.npz").items()}
    model = model.double()
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert set(missing) <= {"lm_head.weight"}, missing  # tied to the embedding
    model.tie_weights()
    model.set_attn_implementation("eager")
    return _module(model)


def _module(model: Any) -> nn.Module:
    assert isinstance(model, nn.Module)
    return model.eval()
