"""The explained similarity is that of `SentenceTransformer.encode`, whatever the encoder's settings
are.
"""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import Lens
from mixlens.errors import InputTooLong, UnsupportedModel
from mixlens.replay.resolve_output import explained_embedding

library: Any = pytest.importorskip("sentence_transformers")
parts: Any = pytest.importorskip("sentence_transformers.sentence_transformer.modules")

ONE = "The old DOGS near the river bark at the children who came home from school again."
OTHER = "Some dogs are loud."
PROMPT: dict[str, Any] = {
    "prompts": {"query": "The keys are here: "},
    "default_prompt_name": "query",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain encoder of transformers."""
    bundled = Lens.bundled()
    path = tmp_path_factory.mktemp("encoder")
    model: Any = copy.deepcopy(bundled.model)
    model.bert.double().save_pretrained(path)
    bundled.tokenizer.save_pretrained(path)
    return path


def encoder(folder: Path, pooling: Any = "mean", steps: str = "", **settings: Any) -> Any:
    """An encoder with a pooling, modules behind it and settings of its own."""
    torch.manual_seed(0)
    read = {key: settings.pop(key, None) for key in ("max_seq_length",)}
    lower = settings.pop("do_lower_case", False)
    first = parts.Transformer(str(folder), **read, do_lower_case=lower)
    width = first.get_embedding_dimension()
    pool = parts.Pooling(
        width, pooling_mode=pooling, include_prompt=settings.pop("include_prompt", True)
    )
    wide = pool.pooling_output_dimension
    known = {
        "dense": lambda: parts.Dense(wide, 24),
        "normalize": parts.Normalize,
        "layer_norm": lambda: parts.LayerNorm(wide),
    }
    modules = [first, pool, *(known[step]() for step in steps.split())]
    made = library.SentenceTransformer(modules=modules, device="cpu", **settings)
    return made.double().eval()


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "first": {"pooling": "cls"},
    "last": {"pooling": "lasttoken"},
    "largest": {"pooling": "max"},
    "weighted": {"pooling": "weightedmean"},
    "roots": {"pooling": "mean_sqrt_len_tokens"},
    "joined": {"pooling": ("cls", "mean")},
    "dense": {"steps": "dense"},
    "normalised": {"steps": "normalize"},
    "normalised before a dense layer": {"steps": "normalize dense normalize"},
    "layer norm": {"steps": "layer_norm"},
    "short": {"max_seq_length": 8},
    "narrow": {"truncate_dim": 16},
    "prompt": PROMPT,
    "prompt left out": {**PROMPT, "include_prompt": False},
    "first without its prompt": {**PROMPT, "include_prompt": False, "pooling": "cls"},
    "lower case": {"do_lower_case": True},
    "all": {**PROMPT, "max_seq_length": 12, "truncate_dim": 8, "steps": "dense normalize"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_similarity_is_that_of_encode(folder: Path, name: str) -> None:
    theirs = encoder(folder, **SETTINGS[name])
    one, other = theirs.encode([ONE, OTHER], convert_to_tensor=True)
    cosine = float(torch.cosine_similarity(one, other, 0))
    lens = Lens(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a text that is cut
        recording = lens.record([ONE, OTHER])  # the second is padded
        output = explained_embedding(recording, of="similarity", to=[OTHER, ONE], pooling=None)
    for value in output(recording.output, torch.arange(2)).tolist():
        assert value == pytest.approx(cosine, abs=1e-9)


@pytest.mark.parametrize("name", ["all", "prompt left out", "largest"])
def test_measures_explain_that_similarity(folder: Path, name: str) -> None:
    theirs = encoder(folder, **SETTINGS[name])
    one, other = theirs.encode([ONE, OTHER], convert_to_tensor=True)
    lens = Lens(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maps = lens.measure("blank_out", ONE, of="similarity", to=OTHER, signed=True)
        features = theirs.preprocess([ONE], prompt=theirs.prompts.get("query"))
        assert len(maps.source_tokens) == features["input_ids"].shape[1]
        features["input_ids"][0, 3] = theirs.tokenizer.mask_token_id
        with torch.no_grad():
            changed = theirs(features)["sentence_embedding"][0, : theirs.truncate_dim]
    fall = torch.cosine_similarity(one, other, 0) - torch.cosine_similarity(changed, other, 0)
    assert maps.scores[0, 0, 3] == pytest.approx(float(fall), abs=1e-9)


def test_settings_that_change_later_count(folder: Path) -> None:
    theirs = encoder(folder)
    lens = Lens(theirs)
    theirs.truncate_dim = 16
    one, other = theirs.encode([ONE, OTHER], convert_to_tensor=True)
    recording = lens.record(ONE)
    output = explained_embedding(recording, of="similarity", to=OTHER, pooling=None)
    cosine = float(torch.cosine_similarity(one, other, 0))
    assert float(output(recording.output, torch.arange(1))[0]) == pytest.approx(cosine, abs=1e-9)


def test_tokens_keep_their_places_in_the_text(folder: Path) -> None:
    maps = Lens(encoder(folder, **PROMPT)).measure("attention", OTHER)
    row = maps.source_row
    assert row.text == OTHER
    assert row.offsets is not None
    written = [OTHER[start:stop] for start, stop in row.offsets]
    assert [word for word in written if word] == ["Some", "dogs", "are", "loud", "."]
    assert "keys" in row.labels  # of the prompt, which is in no place of the text
    with pytest.warns(UserWarning, match="reads 8 of them"):
        Lens(encoder(folder, max_seq_length=8)).measure("attention", ONE)


def test_modules_in_training_mode_are_refused(folder: Path) -> None:
    theirs = encoder(folder)
    theirs[1].train()
    with pytest.raises(UnsupportedModel, match="training mode"):
        Lens(theirs).measure("gradient_norm", ONE, of="embedding")


def test_an_encoder_that_does_more_than_its_modules_is_refused(folder: Path) -> None:
    class Turned(library.SentenceTransformer):  # type: ignore[misc]
        def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
            """Change the embedding behind the last module."""
            made: dict[str, Any] = super().forward(features, **options)
            made["sentence_embedding"] = made["sentence_embedding"].flip(-1)
            return made

    theirs = Turned(modules=list(encoder(folder)), device="cpu").double().eval()
    with pytest.raises(UnsupportedModel, match="differs by"):
        Lens(theirs).measure("gradient_norm", ONE, of="similarity", to=OTHER)


@pytest.mark.parametrize("compared", ["dot", "euclidean", "manhattan"])
def test_encoders_that_compare_by_no_cosine_are_refused(
    folder: Path, tmp_path: Path, compared: str
) -> None:
    asked: dict[str, Any] = {"of": "similarity", "to": OTHER}
    theirs = encoder(folder, similarity_fn_name=compared)
    theirs.save(str(tmp_path / "saved"))
    for lens in (Lens(theirs), Lens.from_pretrained(str(tmp_path / "saved"))):
        with pytest.raises(UnsupportedModel, match=f"similarity_fn_name='{compared}'"):
            lens.measure("gradient_norm", ONE, **asked)
        lens.measure("gradient_norm", ONE, of="embedding")
        lens.measure("gradient_norm", ONE, **asked, pooling="mean")
    theirs.similarity_fn_name = "cosine"
    Lens(theirs).measure("gradient_norm", ONE, **asked)


@pytest.mark.parametrize("cut", [None, 16])
def test_the_dot_product_of_normalised_embeddings_is_a_cosine(
    folder: Path, cut: int | None
) -> None:
    theirs = encoder(folder, steps="normalize", similarity_fn_name="dot", truncate_dim=cut)
    lens = Lens(theirs)
    asked: dict[str, Any] = {"of": "similarity", "to": OTHER, "pooling": None}
    recording = lens.record(ONE)
    if cut is not None:
        with pytest.raises(UnsupportedModel, match="similarity_fn_name='dot'"):
            explained_embedding(recording, **asked)
        return
    output = explained_embedding(recording, **asked)(recording.output, torch.zeros(1).long())
    own = theirs.similarity(theirs.encode([ONE]), theirs.encode([OTHER]))
    assert float(output[0]) == pytest.approx(float(own[0, 0]), abs=1e-9)


def test_the_files_of_an_encoder_are_followed_or_refused(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    encoder(folder, max_seq_length=8).save(str(saved))
    lens = Lens.from_pretrained(str(saved))
    asked: dict[str, Any] = {"of": "similarity", "to": OTHER}
    (saved / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8}))
    assert np.isfinite(lens.measure("gradient_norm", OTHER, **asked).scores).all()
    with pytest.raises(InputTooLong, match="reads 8"):
        lens.measure("gradient_norm", ONE, **asked)
    lens.measure("gradient_norm", ONE, **asked, pooling="mean")
    settings = saved / "config_sentence_transformers.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **PROMPT}))
    with pytest.raises(UnsupportedModel, match="the prompt 'The keys are here: '"):
        lens.measure("gradient_norm", OTHER, **asked)
