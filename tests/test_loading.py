"""Errors of models that cannot be loaded, and the warning about the wrong tokenizer."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import mixlens
from mixlens import CannotLoad, Lens

BUNDLED = Path(mixlens.__file__).parent / "bundled" / "masked"


class Hostile:
    """A pickle that would make a file when it is read."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("made_by_a_pickle",)


def folder(at: Path, *, weights: bytes | None = None, config: str | None = None) -> Path:
    shutil.copytree(BUNDLED, at, ignore=shutil.ignore_patterns("*.safetensors"))
    if weights is not None:
        (at / "model.safetensors").write_bytes(weights)
    if config is not None:
        (at / "config.json").write_text(config)
    return at


def test_a_bundled_model_is_loaded_by_the_name_that_it_gives_itself() -> None:
    for name in ("masked", "causal"):
        own: Any = Lens.bundled(name).model.config._name_or_path
        again = Lens.from_pretrained(own, dtype=torch.float64).model
        assert again.config._name_or_path == own
        assert next(again.parameters()).dtype == torch.float64
    with pytest.raises(mixlens.InvalidInput, match="Unknown bundled model"):
        Lens.from_pretrained("mixlens/bundled/other")


def test_unknown_names_and_missing_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    for name, words in (
        (
            "no-such-model",
            "cannot be loaded from the hub: it is not in the cache",
        ),
        ("./nope", "'./nope' is not an existing folder"),
        (str(tmp_path / "nope"), "is not an existing folder"),
        (str(tmp_path / "empty"), "has no config.json"),
        (str(tmp_path / "file"), "is a file. Pass the folder of a model"),
        (None, "NoneType is not a model name"),
    ):
        with pytest.raises(CannotLoad, match=words):
            Lens.from_pretrained(name)  # type: ignore[arg-type]


def test_an_adapter_is_named_and_measured_as_advised(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    bundled, text = Lens.bundled(), "The dogs are old."
    settings = peft.LoraConfig(target_modules=["query"], r=2, init_lora_weights=False)
    adapted = peft.get_peft_model(bundled.model, settings).eval()
    adapted.save_pretrained(tmp_path / "adapter")
    with pytest.raises(CannotLoad, match=r"a PEFT adapter, not a whole model.*merge it"):
        Lens.from_pretrained(str(tmp_path / "adapter"))
    expected = Lens(adapted, bundled.tokenizer).measure("alti", text)
    adapted.merge_and_unload().save_pretrained(tmp_path / "merged")
    bundled.tokenizer.save_pretrained(tmp_path / "merged")
    merged = Lens.from_pretrained(str(tmp_path / "merged")).measure("alti", text)
    assert abs(merged.scores - expected.scores).max() < 1e-5


def test_damaged_and_hostile_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = (BUNDLED / "model.safetensors").read_bytes()
    cut = folder(tmp_path / "cut", weights=weights[: len(weights) // 2])
    with pytest.raises(CannotLoad, match="truncated or damaged"):
        Lens.from_pretrained(str(cut))
    hostile = folder(tmp_path / "hostile")
    (hostile / "pytorch_model.bin").write_bytes(pickle.dumps(Hostile()))
    torch.save({"a": Hostile()}, hostile / "pytorch_model.bin")
    with pytest.raises(CannotLoad, match="with more than numbers"):
        Lens.from_pretrained(str(hostile))
    assert not Path("made_by_a_pickle").exists()
    for config in ("{", "[]", json.dumps({"model_type": "nonsense"}), "\0"):
        shutil.rmtree(tmp_path / "config", ignore_errors=True)
        with pytest.raises(CannotLoad, match=r"the folder .* cannot be loaded"):
            Lens.from_pretrained(str(folder(tmp_path / "config", config=config)))
    with pytest.raises(CannotLoad, match="dtpe"):
        Lens.bundled(dtpe="float32")
    with pytest.raises(CannotLoad, match=r"'\./nope' is not"):
        Lens.bundled(tokenizer="./nope")


def test_a_tokenizer_of_a_different_model() -> None:
    masked, causal = Lens.bundled("masked"), Lens.bundled("causal")
    with pytest.warns(UserWarning, match="It may belong to a different model"):
        Lens(masked.model, causal.tokenizer)


@pytest.mark.parametrize("saved", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_widened_as_on_the_command_line(
    tmp_path: Path, saved: torch.dtype
) -> None:
    lens = Lens.bundled("causal")
    lens.model.to(saved).save_pretrained(tmp_path)  # type: ignore[operator]
    wide = torch.promote_types(saved, torch.float32)
    assert next(Lens.from_pretrained(str(tmp_path)).model.parameters()).dtype == wide
    own = Lens.from_pretrained(str(tmp_path), dtype="auto")
    assert next(own.model.parameters()).dtype == saved
