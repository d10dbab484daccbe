"""The whole training pipeline, tiny, on a CPU: what it saves must load with plain transformers."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models")
    command = [
        sys.executable,
        "-m",
        "training.run",
        "--smoke",
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


def test_masked_model_of_a_smoke_run_loads(models: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models / "masked")
    model = AutoModelForMaskedLM.from_pretrained(models / "masked")
    inputs = tokenizer("The girls [MASK] near the lake.", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs).logits
    assert model.dtype == torch.float32
    assert logits.shape == (1, inputs["input_ids"].shape[1], len(tokenizer))
    assert torch.isfinite(logits).all()


def test_causal_model_of_a_smoke_run_loads(models: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models / "causal")
    model = AutoModelForCausalLM.from_pretrained(models / "causal")
    inputs = tokenizer("The girls sleep.", return_tensors="pt")
    assert inputs["input_ids"][0, 0] == tokenizer.bos_token_id
    with torch.inference_mode():
        assert torch.isfinite(model(**inputs).logits).all()
    assert model.config.num_key_value_heads < model.config.num_attention_heads
