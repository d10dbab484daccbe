"""Embeddings and similarities as outputs: every measure against the definition, in float64."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixlens import Lens
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.model.sentence_folder import pool_states, pooling_of
from tests.conftest import SHARED

ONE, OTHER, THIRD = "The old dogs bark at night.", "A cat sleeps.", "Dogs are loud in the dark."


@functools.cache
def encoder() -> Lens:
    bundled = Lens.bundled()
    model: Any = copy.deepcopy(bundled.model)
    return Lens(model.bert.double(), bundled.tokenizer)


def states(text: str) -> Tensor:
    lens = encoder()
    with torch.no_grad():
        hidden: Tensor = lens.model(**lens.tokenizer(text, return_tensors="pt")).last_hidden_state
    return hidden


def vector(hidden: Tensor, pooling: str) -> Tensor:
    return {"mean": hidden.mean(1), "cls": hidden[:, 0], "last": hidden[:, -1]}[pooling][0]


def number(hidden: Tensor, of: str, pooling: str) -> Tensor:
    """By the definition, for the states that a run of `ONE` returned."""
    embedding = vector(hidden, pooling)
    fixed = vector(states(OTHER if of == "similarity" else ONE), pooling)
    along = (embedding * fixed).sum() / fixed.norm()
    return along / embedding.norm() if of == "similarity" else along


def run_from_embeddings(vectors: Tensor) -> Tensor:
    """The encoder's states for other vectors at the input of its first layer."""
    lens = encoder()
    model: Any = lens.model
    handle = model.encoder.layer[0].register_forward_pre_hook(
        lambda module, args: (vectors, *args[1:])
    )
    try:
        ids = lens.tokenizer(ONE, return_tensors="pt")
        hidden: Tensor = model(**ids).last_hidden_state
        return hidden
    finally:
        handle.remove()


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("of", ["similarity", "embedding"])
def test_gradients_and_differences_equal_their_definitions(of: str, pooling: str) -> None:
    lens = encoder()
    named: dict[str, Any] = {"of": of, "pooling": pooling}
    named |= {"to": OTHER} if of == "similarity" else {}
    embedded = lens.record(ONE).layers()[0].native_input
    leaf = embedded.clone().requires_grad_()
    (slope,) = torch.autograd.grad(number(run_from_embeddings(leaf), of, pooling), leaf)
    maps = lens.measure("gradient_norm", ONE, **named)
    np.testing.assert_allclose(maps.scores[0, 0], slope[0].norm(dim=-1), atol=1e-10)
    maps = lens.measure("gradient_x_input", ONE, **named)
    np.testing.assert_allclose(maps.scores[0, 0], (slope * embedded)[0].sum(-1), atol=1e-9)
    with torch.no_grad():
        zeros = number(run_from_embeddings(torch.zeros_like(embedded)), of, pooling)
        change = float(number(states(ONE), of, pooling) - zeros)
    lifted = lens.measure("deep_lift", ONE, **named)
    assert float(lifted.scores.sum()) == pytest.approx(change, rel=1e-6)
    along = lens.measure("integrated_gradients", ONE, **named, steps=8)
    missed = float(along.extras["completeness_error"].values[0])
    assert float(along.scores.sum()) - missed == pytest.approx(change, rel=1e-6)


def test_blanked_words_change_the_similarity() -> None:
    lens = encoder()
    maps = lens.measure("blank_out", ONE, of="similarity", to=OTHER, pooling="mean", signed=True)
    before = number(states(ONE), "similarity", "mean")
    ids = lens.tokenizer(ONE, return_tensors="pt")
    for place in range(ids["input_ids"].shape[1]):
        changed = {name: value.clone() for name, value in ids.items()}
        changed["input_ids"][0, place] = lens.tokenizer.mask_token_id
        with torch.no_grad():
            after = number(lens.model(**changed).last_hidden_state, "similarity", "mean")
        np.testing.assert_allclose(maps.scores[0, 0, place], float(before - after), atol=1e-9)
    assert maps.tokens == (f"similarity to {OTHER!r}",)


def test_padding_and_neighbours_change_nothing() -> None:
    lens, texts = encoder(), [ONE, THIRD + " " + THIRD]
    options: dict[str, Any] = {"of": "similarity", "pooling": "last"}
    both = lens.measure("gradient_x_input", texts, to=[OTHER, ONE], **options)
    for text, to, maps in zip(texts, (OTHER, ONE), both, strict=True):
        alone = lens.measure("gradient_x_input", text, to=to, **options)
        np.testing.assert_allclose(maps.scores, alone.scores, atol=1e-10)


def test_pooling_comes_from_the_files_of_sentence_transformers(tmp_path: Path) -> None:
    lens = encoder()
    lens.model.save_pretrained(tmp_path)  # type: ignore[operator]
    model = copy.deepcopy(lens.model)
    model.config._name_or_path = str(tmp_path)
    with pytest.raises(InvalidInput, match=r"Set `pooling` to mean, cls or last"):
        pooling_of(model, None)
    (tmp_path / "1_Pooling").mkdir()
    settings = tmp_path / "1_Pooling" / "config.json"
    settings.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_max": False}))
    assert pooling_of(model, None) == "cls"
    settings.write_text(json.dumps({"pooling_mode": "lasttoken"}))
    assert pooling_of(model, None) == "last"
    steps = [{"type": "sentence_transformers.models.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    assert pooling_of(model, None) == "last"
    steps = [{"type": "sentence_transformers.models.Pooling"}, {"type": "a.Dense"}]
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    with pytest.raises(UnsupportedModel, match="Dense follows the pooling"):
        pooling_of(model, None)
    assert pooling_of(model, "mean") == "mean"


def test_the_cosine_is_that_of_sentence_transformers(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    lens = encoder()
    lens.model.save_pretrained(tmp_path)  # type: ignore[operator]
    lens.tokenizer.save_pretrained(tmp_path)
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu").double()
    one, other = theirs.encode([ONE, OTHER], convert_to_tensor=True)
    cosine = float(torch.cosine_similarity(one, other, 0))
    maps = Lens(theirs).measure("integrated_gradients", ONE, of="similarity", to=OTHER, steps=4)
    assert maps.tokens == (f"similarity to {OTHER!r}",)
    assert float(number(states(ONE), "similarity", "mean")) == pytest.approx(cosine, abs=1e-6)
    unpooled = library.SentenceTransformer(modules=[copy.deepcopy(theirs[0])], device="cpu")
    with pytest.raises(InvalidInput, match=r"[Ss]et `pooling`"):
        pooling_of(Lens(unpooled).model, None)


def test_conflicting_arguments_raise() -> None:
    lens = encoder()
    for options, words in (
        ({"of": "similarity", "pooling": "mean"}, "needs `to`"),
        ({"of": "embedding", "pooling": "mean", "to": OTHER}, "needs of='similarity'"),
        ({"of": "embedding", "pooling": "max"}, "Choose one of: mean, cls, last"),
        ({"of": "embedding", "pooling": "mean", "word": "a"}, "word name a word"),
        ({"to": OTHER}, "need of='similarity'"),
    ):
        with pytest.raises(InvalidInput, match=words):
            lens.measure("gradient_norm", ONE, **options)
    with pytest.raises(UnsupportedModel, match="Load the encoder without a head"):
        Lens.bundled().measure("gradient_norm", ONE, of="embedding", pooling="mean")


def test_pooling_leaves_padding_out() -> None:
    hidden = torch.arange(12.0).reshape(1, 4, 3)
    real = torch.tensor([[True, True, False, False]])
    assert torch.equal(pool_states(hidden, real, "mean"), hidden[:, :2].mean(1))
    assert torch.equal(pool_states(hidden, real, "last"), hidden[:, 1])


def test_a_real_sentence_encoder() -> None:
    folder = SHARED / "models" / "gte-small-fp16"
    if not folder.exists():
        pytest.skip("MIXLENS_SHARED names no folder with models/gte-small-fp16")
    lens = Lens.from_pretrained(str(folder), dtype=torch.float32)
    text, to = "The puppy chased a red ball.", "A young dog ran after a toy."
    maps = lens.measure("blank_out", text, of="similarity", to=to, pooling="mean", signed=True)
    best = [share.token for share in maps.row(0).top(2)]
    assert "puppy" in best


@pytest.mark.parametrize("name", ["logit_update", "alti_logit"])
def test_a_missing_head_is_reported_before_the_advice_to_use_it(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"returns no logits.*checkpoint with a head") as error:
        encoder().measure(name, ONE)
    assert "decompx_logit" not in str(error.value)
