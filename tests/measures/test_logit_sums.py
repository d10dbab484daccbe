"""The sums that the pages of `logit_update` and `alti_logit` state, for heads with and without a
bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import Lens
from tests.measures import models

_SHAPE: dict[str, Any] = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 4}


def _phi() -> Any:
    return hf.PhiForCausalLM(hf.PhiConfig(**models._CAUSAL))


def _gemma() -> Any:
    settings = {**models._CAUSAL, "head_dim": 4, "final_logit_softcapping": 2.0}
    return hf.Gemma2ForCausalLM(hf.Gemma2Config(**settings))


def _vit() -> Any:
    size: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"intermediate_size": 24, "image_size": 16, "patch_size": 8, "num_labels": 5}
    config = hf.ViTConfig(**size)
    return hf.ViTForImageClassification(config)


# Each model, and its logits at the final norm's shift (None: a norm without one).
HEADS: dict[str, tuple[Callable[[], Any], Callable[[Any], Tensor]]] = {
    "no bias, a shift": (
        lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**_SHAPE, n_positions=40)),
        lambda model: model.lm_head(model.transformer.ln_f.bias),
    ),
    "a bias and a shift": (
        lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**_SHAPE, n_positions=40, rotary_dim=4)),
        lambda model: model.lm_head(model.transformer.ln_f.bias),
    ),
    "a bias, parallel blocks": (
        _phi,
        lambda model: model.lm_head(model.model.final_layernorm.bias),
    ),
    "neither": (
        lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**models._CAUSAL)),
        lambda model: torch.zeros(50).double(),
    ),
    "a soft-cap": (_gemma, lambda model: torch.zeros(50).double()),
    "classes": (_vit, lambda model: model.classifier(model.vit.layernorm.bias)),
}


@pytest.mark.parametrize("foil", [None, 4])
@pytest.mark.parametrize("name", HEADS)
@torch.no_grad()
def test_parts_and_the_constant_of_the_head_add_up_to_the_logit(
    name: str, foil: int | None
) -> None:
    build, constant_of = HEADS[name]
    torch.manual_seed(0)
    model = models.randomised(build())
    generator = torch.Generator().manual_seed(1)
    given: dict[str, Tensor] = (
        {"pixel_values": torch.randn(1, 3, 16, 16, generator=generator)}
        if name == "classes"
        else {"input_ids": torch.randint(5, 50, (1, 7), generator=generator)}
    )
    native = model(**{key: v.double() if v.is_floating_point() else v for key, v in given.items()})
    logits = native.logits[0] if name == "classes" else native.logits[0, -1]
    constant = constant_of(model)
    asked = {"label" if name == "classes" else "word": 3, "foil": foil}
    logit, rest = (
        float(values[3] - (0 if foil is None else values[foil])) for values in (logits, constant)
    )
    for measure in ("logit_update", "alti_logit"):
        maps: Any = Lens(model).measure(measure, given, initial=True, **asked)
        parts = maps.scores.sum() + maps.extras["unattributed"].values.sum()
        # a few of these models compute a softmax or a norm in float32
        assert parts + rest == pytest.approx(logit, abs=1e-6), measure
