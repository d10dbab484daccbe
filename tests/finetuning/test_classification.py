"""Classifiers from the bundled models: they learn, keep their class names, load again, and are
measured.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import InvalidInput, Lens, MissingTokenizer
from mixlens.datasets.examples import Labelled
from mixlens.finetuning import Settings, classifier_finetuned
from mixlens.finetuning.classification import classifier, label_order, matthews
from tests.finetuning.sentences import agreement, labelled

FAST = Settings(epochs=4, rate=1e-3, batch=8, weight_decay=0.01, clip=1.0)


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def folder(lens: Lens, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of pairs, saved."""
    path = tmp_path_factory.mktemp("saved") / "classifier"
    result = classifier_finetuned(
        lens, labelled(pairs=True), labelled(pairs=True), settings=FAST, out=path
    )
    history = result.report["history"]
    assert history[-1]["loss"] < history[0]["loss"] / 2
    assert (
        result.report["scores"]["after"]["accuracy"]
        > 0.9
        > result.report["scores"]["before"]["accuracy"]
    )
    assert result.report["scores"]["after"]["matthews"] > 0.8
    assert result.report["data"]["held_out_texts_also_trained_on"] == 24
    assert result.report["data"]["new_parts"] == ["bert.pooler.dense", "classifier"]
    return path


def test_a_saved_classifier_loads_names_its_classes_and_is_measured(folder: Path) -> None:
    again = Lens.from_pretrained(str(folder))
    assert again.model.config.id2label == {0: "awful", 1: "fine"}
    assert again.model.config.label2id == {"awful": 0, "fine": 1}
    pair = ("This is a great story about the house.", "It is long.")
    maps = again.measure("value_zeroing", pair)
    assert np.isfinite(maps.scores).all()
    gradient = again.measure("gradient_x_input", pair, label="fine")
    assert gradient.tokens == ("fine",)
    assert {file.suffix for file in folder.iterdir()} == {".json", ".safetensors"}
    assert not (folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("saved_as", ["BertModel", "BertForSequenceClassification"])
def test_weights_that_the_checkpoint_lacks_follow_from_the_seed(
    saved_as: str, lens: Lens, tmp_path: Path
) -> None:
    body: Any = lens.model.base_model  # it has no pooler
    body.save_pretrained(tmp_path)
    config = copy.deepcopy(body.config)
    config.architectures = [saved_as]
    config.save_pretrained(tmp_path)
    lens.tokenizer.save_pretrained(tmp_path)
    examples, once = labelled(pairs=True), replace(FAST, epochs=1)

    def trained(seed: int) -> dict[str, torch.Tensor]:
        own = Lens.from_pretrained(str(tmp_path))
        settings = replace(once, seed=seed)
        result = classifier_finetuned(own, examples[:8], examples[8:12], settings=settings)
        assert result.report["data"]["new_parts"] == ["bert.pooler.dense", "classifier"]
        return dict(result.lens.model.state_dict())

    first, again, other = trained(0), trained(0), trained(1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["bert.pooler.dense.weight"], other["bert.pooler.dense.weight"])


def test_a_classifier_of_the_same_classes_keeps_its_head(folder: Path, lens: Lens) -> None:
    again = Lens.from_pretrained(str(folder))
    kept: Any = again.model
    model, fresh = classifier(again, ["awful", "fine"], FAST)
    assert fresh == []
    once = replace(FAST, epochs=1)
    examples = labelled(pairs=True)
    trained = classifier_finetuned(again, examples[:8], examples[8:12], settings=once)
    assert trained.report["data"]["new_parts"] == []
    assert torch.equal(model.classifier.weight, kept.classifier.weight)
    model, fresh = classifier(again, ["no", "yes"], FAST)
    assert fresh == ["classifier"]
    assert not torch.equal(model.classifier.weight, kept.classifier.weight)
    assert torch.equal(model.bert.pooler.dense.weight, kept.bert.pooler.dense.weight)
    with pytest.raises(InvalidInput, match="in_place"):
        classifier(lens, ["no", "yes"], FAST, in_place=True)


def test_the_layers_are_those_of_the_given_model(lens: Lens) -> None:
    model, _ = classifier(lens, ["no", "yes"], FAST)
    theirs = lens.model.bert.state_dict()
    assert theirs
    assert all(torch.equal(model.bert.state_dict()[name], value) for name, value in theirs.items())
    assert all(
        a is not b
        for a, b in zip(model.bert.parameters(), lens.model.bert.parameters(), strict=False)
    )
    assert lens.model.config.id2label != model.config.id2label
    given: Any = lens.model
    bare, fresh = classifier(Lens(given.bert, lens.tokenizer), ["no", "yes"], FAST)
    assert fresh == ["bert.pooler.dense", "classifier"]
    assert torch.equal(
        bare.bert.embeddings.word_embeddings.weight, theirs["embeddings.word_embeddings.weight"]
    )


def test_a_causal_model_reads_the_class_off_its_last_real_token() -> None:
    given = Lens.bundled("causal")
    given.tokenizer.pad_token = None  # as many causal models come
    trained = classifier_finetuned(
        given, labelled(), labelled(), settings=replace(FAST, epochs=8, rate=3e-4)
    )
    assert given.tokenizer.pad_token is None
    assert trained.report["scores"]["after"]["accuracy"] > 0.9
    long, short = "This is a great story about the old house.", "This is a bad king."
    model, tokenizer = trained.lens.model, trained.lens.tokenizer
    with torch.inference_mode():
        both = model(
            **tokenizer([long, short], return_tensors="pt", padding=True, padding_side="right")
        ).logits
        alone = torch.cat(
            [model(**tokenizer(text, return_tensors="pt")).logits for text in (long, short)]
        )
    assert torch.allclose(both, alone, atol=1e-4)


def test_the_order_of_labels_is_stable() -> None:
    def of(*labels: str) -> list[str]:
        return label_order([Labelled(name=label, text=label, label=label) for label in labels])

    assert of("1", "0") == of("0", "1", "1") == ["0", "1"]
    assert of("10", "9", "2") == ["2", "9", "10"]
    assert of("neutral", "entailment", "3") == ["3", "entailment", "neutral"]
    with pytest.raises(InvalidInput, match="at least two classes"):
        of("yes", "yes")


def test_a_tenth_is_held_out_by_default_and_long_texts_are_cut(lens: Lens) -> None:
    trained = classifier_finetuned(lens, labelled(), settings=replace(FAST, epochs=1, longest=6))
    assert (trained.report["data"]["trained_on"], trained.report["data"]["held_out"]) == (22, 2)
    assert trained.report["data"]["cut_short"] == 24
    assert trained.report["data"]["held_out_texts_also_trained_on"] == 0


def test_wrong_data_gets_clear_errors(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match="is of kind agreement"):
        classifier_finetuned(lens, agreement(), settings=FAST)
    with pytest.raises(InvalidInput, match="No training examples were passed"):
        classifier_finetuned(lens, [], settings=FAST)
    strange = [replace(labelled()[0], label="middling")]
    with pytest.raises(InvalidInput, match="'middling', which is not among the trained ones"):
        classifier_finetuned(lens, labelled(), strange, settings=FAST)


def test_wrong_models_get_clear_errors(lens: Lens) -> None:
    with pytest.raises(MissingTokenizer):
        classifier_finetuned(Lens(lens.model), labelled(), settings=FAST)
    unpadded = copy.deepcopy(lens.tokenizer)
    unpadded.pad_token = None
    with pytest.raises(InvalidInput, match="no padding token"):
        classifier_finetuned(Lens(lens.model, unpadded), labelled(), settings=FAST)
    changed = copy.deepcopy(lens.model)
    changed.config.num_hidden_layers = 7  # what the weights do not have
    with pytest.raises(InvalidInput, match="layers of BertForMaskedLM do not match those of"):
        classifier_finetuned(Lens(changed, lens.tokenizer), labelled(), settings=FAST)


def test_matthews_correlation_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(0)
    for classes in (2, 3):
        answers, chosen = chance.integers(0, classes, (2, 50)).tolist()
        assert matthews(answers, chosen) == pytest.approx(
            metrics.matthews_corrcoef(answers, chosen)
        )
    assert matthews([0, 1, 1], [1, 1, 1]) == 0
