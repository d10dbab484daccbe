"""Blank-out against a loop that replaces one token at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, UnsupportedModel
from tests.measures import models
from tests.measures.test_gradients import HEADS, LAYERS, build, inputs, number, options, tokenizer


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize("name", HEADS)
def test_equals_the_loop_over_replaced_ids(name: str, of: str) -> None:
    model, given, value = build(name), inputs(name), number(name, of)
    expected = []
    with torch.no_grad():
        before = value(model(**given))
        for j in range(6):
            ids = given["input_ids"].clone()
            ids[0, j] = 1
            expected.append(before - value(model(**{**given, "input_ids": ids})))
    recorded = Lens(model).record(given)
    made = models.scores("blank_out", recorded, replacement=1, signed=True, of=of, **options(name))
    torch.testing.assert_close(made.values[0, 0, 0], torch.stack(expected), atol=1e-10, rtol=0)
    assert made.facts.signed
    size = models.scores("blank_out", recorded, replacement=1, of=of, **options(name))
    torch.testing.assert_close(size.values, made.values.abs(), atol=0, rtol=0)
    assert not size.facts.signed


class _OfTwoRows(hf.BertForMaskedLM):
    """Takes the two rows of a probe and no more."""

    rows = 2
    error: Exception = ValueError("images\nare packed")
    # Of the class: a recording is bound to the attributes of its model.

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        if len(input_ids) > self.rows:
            raise self.error
        return super().forward(input_ids, attention_mask)


def test_a_model_that_rejects_copies_runs_one_by_one_or_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = hf.BertConfig(**models._SIZES, max_position_embeddings=40)
    recorded = Lens(models.randomised(_OfTwoRows(config))).record(inputs("masked"))
    few = models.scores("blank_out", recorded, replacement=1, position=1).values
    monkeypatch.setattr(_OfTwoRows, "rows", 100)
    many = models.scores("blank_out", recorded, replacement=1, position=1).values
    torch.testing.assert_close(few, many, atol=1e-10, rtol=0)
    monkeypatch.setattr(_OfTwoRows, "rows", 0)
    for replacement in (1, "zero"):
        with pytest.raises(UnsupportedModel, match=r"edited copies .*\(images are packed\)"):
            models.scores("blank_out", recorded, replacement=replacement, position=1)
    monkeypatch.setattr(_OfTwoRows, "error", torch.OutOfMemoryError("no room"))
    with pytest.raises(torch.OutOfMemoryError):  # so that fewer copies are tried
        models.scores("blank_out", recorded, replacement=1, position=1)


def test_a_classifier_that_reads_its_end_token_gets_the_right_advice() -> None:
    """BART classifiers need the same number of end tokens in every text of a batch."""
    sizes: dict[str, Any] = {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    sizes |= {"encoder_layers": 1, "decoder_layers": 1}
    config = hf.BartConfig(vocab_size=60, **sizes, eos_token_id=2, pad_token_id=1)
    lens = Lens(hf.BartForSequenceClassification(config).eval())
    given = {"input_ids": torch.tensor([[0, 6, 7, 2]])}
    with pytest.raises(UnsupportedModel, match=r"number of <eos> tokens.*a layer measure") as error:
        lens.measure("blank_out", given, replacement=5)
    assert "one text at a time" not in str(error.value)


@pytest.mark.parametrize("name", ["classifier", "causal", "translator"])
def test_zero_embeddings(name: str) -> None:
    model, given, value = build(name), inputs(name), number(name, "probability")
    expected = []

    def zeroed(j: int) -> Any:
        def enter(module: Any, args: Any, kwargs: Any) -> Any:
            hidden = (args[0] if args else kwargs["hidden_states"]).clone()
            hidden[0, j] = 0
            return (
                ((hidden, *args[1:]), kwargs)
                if args
                else (args, {**kwargs, "hidden_states": hidden})
            )

        return enter

    with torch.no_grad():
        before = value(model(**given))
        for j in range(6):
            handle = LAYERS[name](model)[0].register_forward_pre_hook(zeroed(j), with_kwargs=True)
            expected.append(before - value(model(**given)))
            handle.remove()
    made = models.scores(
        "blank_out", Lens(model).record(given), replacement="zero", signed=True, **options(name)
    )
    torch.testing.assert_close(made.values[0, 0, 0], torch.stack(expected), atol=1e-10, rtol=0)


def test_the_two_papers_variants() -> None:
    """Ferrando: [MASK], absolute, whole vocabulary.

    Mohebbi: [UNK], signed, between target and foil.
    """
    model, words = build("masked"), tokenizer()
    recorded = Lens(model, words).record("the keys [MASK] here .")
    ids = torch.tensor([words("the keys [MASK] here .")["input_ids"]])

    def probability(ids: torch.Tensor, among: list[int] | None) -> torch.Tensor:
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, 2]
        return logits.softmax(-1)[5] if among is None else logits[among].softmax(-1)[0]

    other_words: dict[str, Any] = {"replacement": "unk", "signed": True, "foil": "is"}
    plain: dict[str, Any] = {}
    for token, among, given in ((2, None, plain), (1, [5, 6], other_words)):
        made = models.scores("blank_out", recorded, word="are", **given).values[0, 0, 0]
        for j in range(5):
            other = ids.clone()
            other[0, j] = token
            change = probability(ids, among) - probability(other, among)
            torch.testing.assert_close(
                made[j], change if "signed" in given else change.abs(), atol=1e-12, rtol=0
            )


def test_padding_batching_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [5, 8]
    batched = models.scores(
        "blank_out",
        Lens(build("masked")).record(models.padded_inputs("masked", lengths)),
        replacement=1,
        position=2,
        word=7,
    )
    monkeypatch.setattr("mixlens.kernels.chunks.LARGEST", 1)
    for row, length in enumerate(lengths):
        recorded = Lens(build("masked")).record(inputs("masked", length, seed=row))
        alone = models.scores("blank_out", recorded, replacement=1, position=2, word=7)
        torch.testing.assert_close(
            batched.values[:, row, :, :length], alone.values[:, 0], atol=1e-10, rtol=0
        )


def test_the_decoders_own_tokens() -> None:
    model, given = build("translator"), inputs("translator")
    made = models.scores(
        "blank_out", Lens(model).record(given), site="decoder", replacement=1, signed=True, word=7
    ).values[0, 0, 0]
    value = number("translator", "probability")
    for j in range(5):
        ids = given["decoder_input_ids"].clone()
        ids[0, j] = 1
        with torch.no_grad():
            change = value(model(**given)) - value(model(**{**given, "decoder_input_ids": ids}))
        torch.testing.assert_close(made[j], change, atol=1e-10, rtol=0)


def test_without_a_token_to_put_in_there_is_an_error() -> None:
    recorded = Lens(build("classifier")).record(inputs("classifier"))
    with pytest.raises(InvalidInput, match="replacement='zero'"):
        models.scores("blank_out", recorded)
    with pytest.raises(InvalidInput, match="replacement='zero'"):
        models.scores("blank_out", recorded, replacement="mask")
    with pytest.raises(InvalidInput, match="mask, unk, pad, zero"):
        models.scores("blank_out", recorded, replacement="noise")
