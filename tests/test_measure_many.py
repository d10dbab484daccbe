"""Lists of texts and data sets: an invalid text is named in the error, or skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens import Lens
from mixlens.datasets import Dataset, Example

TEXTS = ["The dogs [MASK] old.", "A longer text about two dogs that [MASK] here.", "It [MASK]."]


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


def test_a_bad_text_is_named(lens: Lens) -> None:
    for bad, words in (
        ("", "text 3: The text is empty"),
        ("no mask here", "text 3: The text has 0 mask tokens"),
        ("a " * 400, "text 3: .*402 tokens"),
    ):
        with pytest.raises(mixlens.InvalidInput, match=words):
            lens.measure("gradient_norm", [*TEXTS, bad])


@pytest.mark.parametrize("rows", [(1,), (1, 1), (2, 1), (2,)])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_a_list_of_dicts_is_refused(
    lens: Lens, rows: tuple[int, ...], batch_size: int | None
) -> None:
    """Never the texts of the first dict in the place of all."""
    given: Any = [{"input_ids": [[1, 5, 6, 7]] * count} for count in rows]
    with pytest.raises(mixlens.InvalidInput, match="dict is not a text"):
        lens.measure("attention", given, batch_size=batch_size)


def test_bad_texts_are_left_out(lens: Lens) -> None:
    given: Any = [TEXTS[0], "no mask", TEXTS[1], None]
    kept = lens.measure("gradient_norm", given, on_error="skip")
    assert kept.names == ("text 0", "text 2")
    assert [name for name, _ in kept.errors] == ["text 1", "text 3"]
    assert "0 mask tokens" in kept.errors[0][1]
    for maps, text in zip(kept, (TEXTS[0], TEXTS[1]), strict=True):
        assert np.allclose(maps.scores, lens.measure("gradient_norm", text).scores, atol=1e-5)


def test_errors_of_the_model_do_not_name_a_text(lens: Lens) -> None:
    with pytest.raises(mixlens.InvalidInput, match=r"Unknown measure .*Did you mean attention"):
        lens.measure("attentoin", TEXTS)
    with pytest.raises(mixlens.InvalidInput, match=r"^every text: .*0 mask tokens"):
        lens.measure("gradient_norm", ["No mask .", "None here"])
    with pytest.raises(mixlens.InvalidInput, match="Unknown on_error 'ignore'"):
        lens.measure("attention", TEXTS, on_error="ignore")
    with pytest.raises(mixlens.UnsupportedModel, match="training mode"):
        Lens(Lens.bundled().model.train(), lens.tokenizer).measure("attention", TEXTS)
    with pytest.raises(mixlens.MissingTokenizer):
        Lens(lens.model).measure("attention", TEXTS, on_error="skip")


def test_a_data_set_is_measured_by_its_texts(lens: Lens) -> None:
    examples = [Example(name=f"file:{i}", text=text) for i, text in enumerate(TEXTS)]
    bad = Example(name="file:9", text=" ")
    maps = lens.measure("attention", Dataset("file", "text", (*examples, bad)), on_error="skip")
    assert maps.names == ("file:0", "file:1", "file:2")
    assert maps.errors == (("file:9", "The text is empty. Pass at least one word."),)
    with pytest.raises(mixlens.EmptyInput, match="file:9: The text is empty"):
        lens.measure("attention", Dataset("file", "text", (*examples, bad)))


def test_the_head_runs_only_for_measures_that_read_it() -> None:
    lens = Lens.bundled()
    model: Any = lens.model
    head = model.get_output_embeddings()
    calls: list[int] = []
    handle = head.register_forward_hook(lambda *_: calls.append(1))
    texts = ["The keys [MASK] here .", "A dog [MASK] ."]
    try:
        lens.measure("attention", texts)  # takes the model apart, and verifies it
        calls.clear()
        lens.measure("alti", texts)
        lens.measure("value_zeroing", texts, targets="[MASK]")
        assert not calls
        lens.measure("gradient_norm", texts, word="are")
        assert calls
    finally:
        handle.remove()
    assert not head._forward_hooks
    whole = lens.record(texts[0])
    assert whole.output.logits.shape[-1] == model.config.vocab_size
