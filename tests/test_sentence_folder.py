"""A folder of sentence-transformers is loaded as the encoder that it describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import CannotLoad, Lens
from tests.measures import models

TEXTS = ["The dogs are old.", "A cat sleeps near the river."]


def _folder(at: Path, *, below: str = "", architecture: str = "BertForMaskedLM") -> Path:
    """The body of a bundled model behind mean pooling, called by the class it was trained as."""
    lens = Lens.bundled()
    body: Any = models.randomised(hf.BertModel(lens.model.config)).float()
    body.save_pretrained(at / below)
    config = json.loads((at / below / "config.json").read_text())
    config["architectures"] = [architecture]
    (at / below / "config.json").write_text(json.dumps(config))
    lens.tokenizer.save_pretrained(at / below)
    (at / "1_Pooling").mkdir()
    width = body.config.hidden_size
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (at / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    steps = [(below, "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listed = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(steps)
    ]
    (at / "modules.json").write_text(json.dumps(listed))
    return at


@pytest.mark.parametrize("below", ["", "0_Transformer"])
def test_similarity_is_that_of_the_encoder(below: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path, below=below)
    lens = Lens.from_pretrained(str(folder))
    assert type(lens.model).__name__ == "BertModel"
    maps = lens.measure("gradient_x_input", TEXTS[0], of="similarity", to=TEXTS[1])
    body = hf.AutoModel.from_pretrained(folder / below).eval()
    bare = Lens(body, lens.tokenizer)
    options: dict[str, Any] = {"of": "similarity", "to": TEXTS[1], "pooling": "mean"}
    expected: Any = bare.measure("gradient_x_input", TEXTS[0], **options)
    np.testing.assert_allclose(maps.scores, expected.scores, atol=1e-6)


def test_the_folder_gives_what_sentence_transformers_gives(tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    folder = _folder(tmp_path)
    whole = package.SentenceTransformer(str(folder), device="cpu")
    first = Lens.from_pretrained(str(folder)).measure("alti", TEXTS[0])
    np.testing.assert_allclose(
        first.scores, Lens(whole).measure("alti", TEXTS[0]).scores, atol=1e-6
    )


def test_other_folders_are_loaded_as_before(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    steps = json.loads((folder / "modules.json").read_text())
    steps[1]["type"] = "sentence_transformers.sparse_encoder.models.SpladePooling"
    (folder / "modules.json").write_text(json.dumps(steps))
    assert type(Lens.from_pretrained(str(folder)).model).__name__ == "BertForMaskedLM"
    for damaged in ("[" * 100_000, "{}", "[1]", '[{"type": 3, "path": ""}]'):
        (folder / "modules.json").write_text(damaged)
        with pytest.raises(CannotLoad):
            Lens.from_pretrained(str(folder))


def test_only_the_encoder_of_a_T5_is_loaded(tmp_path: Path) -> None:
    small = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1}
    body = hf.T5EncoderModel(hf.T5Config(**small, num_heads=2))  # type: ignore[arg-type]
    body.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["T5ForConditionalGeneration"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    kinds = ("Transformer", "Pooling")
    steps = [{"path": "", "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    lens = Lens.from_pretrained(str(tmp_path))
    assert type(lens.model).__name__ == "T5EncoderModel"
    lens.measure("attention", {"input_ids": torch.tensor([[3, 4, 5]])})


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_a_tokenizer_that_no_parser_can_read_is_named(file: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for content in ("[" * 100_000, '{"a":' * 100_000):
        (folder / file).write_text(content)
        with pytest.raises(CannotLoad, match="in the files of its tokenizer"):
            Lens.from_pretrained(str(folder))
