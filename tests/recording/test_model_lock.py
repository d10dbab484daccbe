"""Two threads use one model: each gets correct scores, and the model is unchanged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import Lens
from tests.conformance.zoo import built

JOBS: list[tuple[str, dict[str, Any]]] = [
    ("attention_norm", {}),
    ("value_zeroing", {"targets": [-1]}),
    ("value_zeroing", {}),
    ("gradient_norm", {}),
]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_threads_take_turns_with_a_model(attention: str) -> None:
    model = built("llama", attention=attention, head=True)
    texts = [{"input_ids": torch.arange(3 + i, 12 + 2 * i)[None]} for i in range(2)]
    work = [(name, text, options) for name, options in JOBS for text in texts] * 3

    def scores(job: tuple[str, Any, dict[str, Any]]) -> np.ndarray:
        name, text, options = job
        maps = Lens(model).measure(name, text, **options)
        assert not isinstance(maps, list)
        return maps.scores

    expected = [scores(job) for job in work]
    with torch.no_grad():
        said = model(**texts[0]).logits
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(scores, work))
    for ours, alone in zip(results, expected, strict=True):
        np.testing.assert_array_equal(ours, alone)
    with torch.no_grad():
        assert torch.equal(model(**texts[0]).logits, said)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
