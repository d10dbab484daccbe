"""The translation recipe, tiny, on a CPU: what it saves loads, what it reports is true, and a
killed run ends as an unbroken one.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from mixlens import Lens
from training.translation import run
from training.translation.evaluate import bleu, token_accuracy, words
from training.translation.pairs import Corpus, real_corpus, toy_corpus
from training.translation.train import SMOKE, Trainer
from training.translation.vocabulary import train_vocabulary


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("de-en")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["run", "--smoke", "--device", "cpu", "--out", str(folder)])
        run.main()
    return folder


def test_a_smoke_run_saves_a_model_that_can_be_measured(out: Path) -> None:
    lens = Lens.from_pretrained(str(out / "model"))
    assert next(lens.model.parameters()).dtype == torch.float32
    assert AutoTokenizer.from_pretrained(out / "model").eos_token == "</s>"
    maps = lens.measure("attention", ("der hund", "the dog"), site="cross")
    assert maps.source_tokens[-1] == "</s>"
    assert maps.scores.shape[0] == SMOKE.layers
    figures = json.loads((out / "figures.json").read_text())
    assert figures["aligned_pairs"] == 6
    assert {f"{a} {b}" for a in ("AWI", "AWO") for b in ("drop", "exclude")} == set(
        figures["aer"]["attention_norm"]
    )
    card = (out / "model" / "card.md").read_text()
    assert (
        f"| attention | AWI drop | {100 * figures['aer']['attention']['AWI drop']['best']:.1f}"
        in card
    )
    assert "European Parliament" not in card  # said of the real data alone


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return toy_corpus(0)


def trainer(corpus: Corpus, folder: Path, **changes: int) -> Trainer:
    tokenizer = train_vocabulary([text for pair in corpus.train for text in pair], SMOKE.vocabulary)
    return Trainer(replace(SMOKE, **changes), tokenizer, corpus.train, corpus.valid, folder, "cpu")


def test_a_killed_run_goes_on_as_if_nothing_had_happened(corpus: Corpus, tmp_path: Path) -> None:
    whole = trainer(corpus, tmp_path / "whole")
    expected = whole.run(lambda _: None).state_dict()
    trainer(corpus, tmp_path / "parts").run(lambda _: None, stop_at=4)  # the state is of step 3
    second = trainer(corpus, tmp_path / "parts")
    assert second.step == 3
    resumed = second.run(lambda _: None).state_dict()
    assert second.history == whole.history
    assert all(torch.equal(resumed[name], value) for name, value in expected.items())
    again = trainer(corpus, tmp_path / "parts")
    assert (again.step, again.best) == (SMOKE.steps, whole.best)
    assert torch.equal(
        again.run(lambda _: None).state_dict()["final_logits_bias"], expected["final_logits_bias"]
    )
    with pytest.raises(ValueError, match="other settings"):
        trainer(corpus, tmp_path / "parts", hidden=16)


def test_training_learns_and_keeps_the_best_weights(corpus: Corpus, tmp_path: Path) -> None:
    made = trainer(corpus, tmp_path, steps=60, every=20)
    model = made.run(lambda _: None)
    losses = [entry["validation_loss"] for entry in made.history]
    assert losses[-1] < losses[0] - 0.3
    assert made.best == min(losses)
    best = min(made.history, key=lambda entry: entry["validation_loss"])
    tokenizer = train_vocabulary([text for pair in corpus.train for text in pair], SMOKE.vocabulary)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    assert token_accuracy(model, fast, corpus.valid) == pytest.approx(
        best["token_accuracy"], abs=1e-6
    )


def test_a_word_has_the_same_pieces_alone_and_in_a_sentence() -> None:
    tokenizer = train_vocabulary(["Ein Mann's T-Shirt, rot.", "Ein Hund!"] * 3, 60)
    in_sentence = tokenizer.encode("Ein Hund-Mann, rot.").tokens
    alone = [
        piece
        for word in ("Ein", "Hund-Mann", ",", "rot", ".")
        for piece in tokenizer.encode(word).tokens[:-1]
    ]
    assert in_sentence == [*alone, "</s>"]
    assert in_sentence[0].startswith("▁")
    assert words("Ein Hund-Mann, rot.") == ["ein", "hund-mann", ",", "rot", "."]


def test_bleu_by_hand() -> None:
    assert bleu(["The cat sat."], ["the cat sat ."]) == pytest.approx(100)
    assert bleu(["a b"], ["c d"]) == 0
    # 5 of 6, 4 of 5, 3 of 4 and 2 of 3 n-grams, and one word too few
    expected = 100 * math.exp(1 - 7 / 6) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert bleu(["a b c d e x"], ["a b c d e f g"]) == pytest.approx(expected)


def test_the_real_data_is_read(shared: Path) -> None:
    corpus = real_corpus(shared / "data")
    assert (len(corpus.train), len(corpus.valid), len(corpus.test), len(corpus.aligned)) == (
        29_000,
        1_014,
        1_000,
        508,
    )
    assert corpus.train[0][1] == "Two young, White males are outside near many bushes."
    assert corpus.aligned[0].source[:2] == ("Wir", "glauben")
