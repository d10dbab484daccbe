"""Measures with fused kernels on a GPU against float64 on the CPU, over dtypes, numbers of targets,
lengths and head sizes.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import mixlens
from mixlens import Lens
from mixlens.kernels.fused import checked
from mixlens.measures import spec_of

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NOT RUN: there is no GPU here"
)
MEASURES = (
    "attention_norm",
    "attention_norm_res",
    "alti",
    "value_zeroing",
    "flow_routes",
    "effective_attention",
)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
HEAD_SIZES = (32, 64, 80, 96, 128, 256)
TARGETS = (1, 2, 16, 33, 64, 200, None)  # None: all


@functools.lru_cache(maxsize=8)
def lens_of(family: str, d_head: int, dtype: torch.dtype, device: str) -> Lens:
    """The same weights in every precision: those that bfloat16 and float16 both hold."""
    torch.manual_seed(0)
    heads = 8
    model: Any
    if family == "llama":
        config = LlamaConfig(
            vocab_size=300,
            hidden_size=heads * d_head,
            num_hidden_layers=2,
            num_attention_heads=heads,
            num_key_value_heads=2,
            intermediate_size=200,
            initializer_range=(heads * d_head) ** -0.5,  # else attention hardly changes a state
        )
        model = LlamaForCausalLM(config)
    else:
        model = BertModel(
            BertConfig(
                vocab_size=300,
                hidden_size=heads * d_head,
                num_hidden_layers=2,
                num_attention_heads=heads,
                intermediate_size=200,
                max_position_embeddings=2048,
                initializer_range=(heads * d_head) ** -0.5,
            )
        )
    return Lens(model.to(torch.bfloat16).to(dtype).to(device).eval())


@functools.lru_cache(maxsize=64)
def scores_of(
    measure: str,
    family: str,
    d_head: int,
    dtype: torch.dtype,
    device: str,
    length: int,
    targets: int | None,
) -> np.ndarray:
    ids = torch.randint(5, 300, (1, length), generator=torch.Generator().manual_seed(length))
    chosen = None if targets is None else list(range(length - targets, length))
    lens = lens_of(family, d_head, dtype, device)
    recording = lens.record({"input_ids": ids.to(device)}, targets=chosen)
    maps = mixlens.measure(measure, recording)
    return (maps[0] if isinstance(maps, list) else maps).scores


def require_closeness(
    measure: str,
    family: str,
    d_head: int,
    dtype: torch.dtype,
    length: int,
    targets: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger=checked.__name__)
    there = scores_of(measure, family, d_head, dtype, "cuda", length, targets)
    here = scores_of(measure, family, d_head, torch.float64, "cpu", length, targets)
    assert there.shape == here.shape
    difference = np.abs(there - here)
    if dtype == torch.float32:
        assert difference.max() <= 1e-4 * np.abs(here).max()
    else:
        bound = spec_of(measure).half_precision
        assert bound is None or difference.mean() <= bound * np.abs(here).mean()
    assert not caplog.messages, "a kernel was replaced by its plain form"


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("length", [50, 256, 400])
def test_any_number_of_targets(
    measure: str,
    dtype: torch.dtype,
    targets: int | None,
    length: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if targets is not None and targets > length:
        pytest.skip("fewer tokens than targets")
    for family in ("llama", "bert"):
        if family == "bert" and measure == "flow_routes":
            continue
        require_closeness(measure, family, 32, dtype, length, targets, caplog)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("targets", [16, 64, None])
@pytest.mark.parametrize("d_head", HEAD_SIZES)
def test_any_head_size(
    measure: str,
    dtype: torch.dtype,
    targets: int | None,
    d_head: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    require_closeness(measure, "llama", d_head, dtype, 100, targets, caplog)


@pytest.mark.parametrize("measure", ["attention_norm", "alti"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("targets", [33, 64, 200])
def test_long_texts(
    measure: str, dtype: torch.dtype, targets: int, caplog: pytest.LogCaptureFixture
) -> None:
    require_closeness(measure, "llama", 64, dtype, 2000, targets, caplog)
