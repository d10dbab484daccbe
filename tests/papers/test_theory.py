"""Where theory guarantees a finding, the experiment shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import mixlens
from mixlens import datasets as corpus
from mixlens.datasets import Dataset
from mixlens.datasets.examples import Example
from mixlens.errors import InvalidInput
from mixlens.papers import module
from mixlens.papers.contracts import Outcome, Setting
from mixlens.papers.folder import select_published
from mixlens.papers.reproduction import data_path, reproduce
from tests.papers.settings import COARSE, dataset_for, lens_for


def _texts(count: int) -> list[Example]:
    return [Example(name=e.name, text=e.text) for e in corpus.bundled().sample(count, 0).examples]


def _without_mixing() -> mixlens.Lens:
    """A BERT whose attention and feed-forward parts add next to nothing: every layer is the
    identity up to its norms.
    """
    torch.manual_seed(0)
    lens = mixlens.Lens.bundled()
    bundled: Any = lens.model.config
    config = transformers.BertConfig(
        vocab_size=bundled.vocab_size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
    )
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.output.dense.weight.mul_(1e-3)
            layer.output.dense.weight.mul_(1e-3)
    return mixlens.Lens(model, lens.tokenizer)


@pytest.mark.smoke
def test_raw_is_effective_attention_while_texts_are_short() -> None:
    outcome = module("brunner2020/fig1a").run(Setting(lens=lens_for("any"), examples=_texts(4)))
    assert (outcome.tables["by_text"].tokens <= outcome.tables["by_text"].d_head).all()
    assert outcome.findings[0].holds is True
    assert outcome.findings[1].holds is None  # no long text: cannot be decided


def test_layers_that_mix_nothing_leave_every_token_itself() -> None:
    setting = Setting(lens=_without_mixing(), examples=_texts(3))
    assert module("brunner2020/fig3b").run(setting, probes=None).tables["by_layer"].share.max() == 0
    own = module("brunner2020/fig3a").run(setting, probes=None).tables["by_layer"]
    assert own["median"].min() > 0.99


def test_contributions_of_the_context_sum_to_one() -> None:
    table = (
        module("brunner2020/fig4")
        .run(Setting(lens=lens_for("any"), examples=_texts(3)), probes=4)
        .tables["by_distance"]
    )
    np.testing.assert_allclose(table.drop(columns="layer").sum(axis=1), 1, atol=1e-6)


def test_the_input_is_identified_from_itself() -> None:
    setting = Setting(lens=lens_for("any"), examples=_texts(8))
    table = (
        module("brunner2020/fig2a")
        .run(setting, probes=("naive",), metrics=("cosine",), folds=2)
        .tables["by_layer"]
    )
    assert table["naive, cosine"].iloc[0] == 1


def test_shares_of_weight_and_norm_sum_to_one() -> None:
    table = (
        module("kobayashi2020/fig3")
        .run(Setting(lens=lens_for("any"), examples=_texts(4)))
        .tables["by_layer"]
    )
    sums = table.groupby("layer")[["share of weight", "share of norm"]].sum()
    np.testing.assert_allclose(sums, 1, atol=1e-6)


def test_a_model_agrees_with_itself() -> None:
    lens = lens_for("classifier")
    setting = Setting(
        lens=lens,
        examples=dataset_for("classification", 1).examples,
        other=lens,
        measure_options=COARSE,
    )
    table = module("ferrando2022/fig7").run(setting).tables["consistency"]
    np.testing.assert_allclose(table.spearman, 1, atol=1e-9)


def test_published_numbers_stand_beside_the_papers_own_model_and_data_only() -> None:
    spec = module("brunner2020/fig3a").SPEC
    own = "/data/glue/mrpc/dev.tsv"
    assert (
        select_published(spec, "google-bert/bert-base-uncased", own)
        == spec.published["bert-base-uncased"]
    )
    assert (
        select_published(spec, "google-bert/bert-base-uncased", "/data/glue/sst2/dev.tsv") is None
    )
    assert select_published(spec, "roberta-base", own) is None


def test_data_is_found_below_a_folder_of_data_sets(tmp_path: Path) -> None:
    spec = module("brunner2020/fig3a").SPEC
    assert data_path(spec, tmp_path) == tmp_path
    (tmp_path / "glue" / "mrpc").mkdir(parents=True)
    file = tmp_path / "glue" / "mrpc" / "dev.tsv"
    file.touch()
    assert data_path(spec, tmp_path) == file
    assert data_path(spec, file) == file


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ferrando2022/table2", "classifier"),
        ("kobayashi2020/table3", "translation"),
        ("ferrando2022/fig7", "classifier"),
    ],
)
def test_a_model_of_the_wrong_kind_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        reproduce(name, lens_for("any"), dataset_for("agreement", 3))


def test_data_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="agreement examples"):
        reproduce(
            "mohebbi2023/fig1", lens_for("language"), Dataset("plain", "text", tuple(_texts(2)))
        )
    with pytest.raises(InvalidInput, match="needs data"):
        reproduce("mohebbi2023/fig1", lens_for("language"))


def test_a_text_that_cannot_be_used_is_left_out_and_named(tmp_path: Path) -> None:
    texts = [*_texts(3), Example(name="long:1", text="the dog " * 2000)]
    outcome = module("kobayashi2020/table2").run(Setting(lens=lens_for("any"), examples=texts))
    assert [name for name, _ in outcome.skipped] == ["long:1"]
    data = Dataset("blank", "text", (*_texts(3), Example(name="blank:1", text=" ")))
    kept = reproduce("kobayashi2020/table2", lens_for("any"), data, out=tmp_path)
    assert kept.folder is not None
    for page in ("README.md", "report.html"):
        assert "1 texts were skipped. First reason: blank:1: " in (kept.folder / page).read_text()
    with pytest.raises(InvalidInput, match="No text could be used: input has"):
        Setting(lens=lens_for("any"), examples=texts[3:]).observe({"row": lambda case: case.row})
    with pytest.raises(InvalidInput, match="returned no table"):
        Outcome({})
    steps: list[tuple[int, ...]] = []
    setting = Setting(lens=lens_for("any"), examples=(), progress=lambda *step: steps.append(step))
    assert list(setting.track("ab")) == ["a", "b"]
    assert steps == [(1, 2, 0), (2, 2, 0)]


def test_experiments_of_one_run_ask_only_once() -> None:
    asked = []

    def question(case: Any) -> Any:
        asked.append(case.example.name)
        return 1

    setting = Setting(lens=lens_for("any"), examples=_texts(3))
    assert setting.observe({"a": question}).answers == setting.observe({"a": question}).answers
    assert len(asked) == 3


def test_long_texts_are_cut_as_the_paper_does(tmp_path: Path) -> None:
    data = Dataset(
        "long", "text", (Example(name="long:1", text="The dog saw the old man . " * 60), *_texts(2))
    )
    result = reproduce("brunner2020/fig1a", lens_for("any"), data)
    assert result.outcome is not None
    assert result.outcome.tables["by_text"].tokens.max() == 128
    assert not result.outcome.skipped
