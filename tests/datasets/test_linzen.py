"""The Linzen set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput


def write(folder: Path, text: str, gold: str) -> Path:
    (folder / "set.text").write_text(text)
    (folder / "set.gold").write_text(gold)
    return folder


TEXT = (
    "the keys , of `` it '' are here . <eos>\nit is so . <eos>\nit is so . <eos>\nit is so .\nit is"
    " so .\n"
)


def test_places_and_broken_rows(tmp_path: Path) -> None:
    data = corpus.read(
        write(
            tmp_path,
            TEXT,
            "7\tAre\tIs\t2\n0\tis\tare\t0\n9\tis\tare\t0\n1\tis\tare\nx\tis\tare\t0\n",
        )
    )
    (example,) = data
    assert isinstance(example, Agreement)
    assert example.text == 'the keys, of "it" are here.'
    assert (example.target, example.foil, example.cues, example.label, example.group) == (
        "are",
        "is",
        (),
        "plural",
        "2 attractors",
    )
    assert [name for name, _ in data.errors] == [
        "set.text:2",
        "set.text:3",
        "set.text:4",
        "set.text:5",
    ]
    assert [reason[:25] for _, reason in data.errors[:2]] == [
        "word 0 is 'it', not 'is'.",
        "the sentence has no word ",
    ]
    assert corpus.read(tmp_path / "set.gold").examples == data.examples
    with pytest.raises(InvalidInput, match=r"5 lines, but set.gold has 1"):
        corpus.read(write(tmp_path, TEXT, "1\ta\tb\t0\n"))


def test_the_real_files(shared: Path) -> None:
    data = corpus.read(shared / "data" / "linzen_agreement")
    assert len(data) == 7489
    assert not data.errors
    golds = (
        (shared / "data" / "linzen_agreement" / "subj_agr_filtered.gold").read_text().splitlines()
    )
    for example, gold in zip(data, golds, strict=True):
        assert isinstance(example, Agreement)
        _, right, wrong, attractors = gold.split("\t")
        assert (example.target, example.foil, example.group) == (
            right.lower(),
            wrong.lower(),
            f"{attractors} attractors",
        )
    assert sum(example.label is None for example in data if isinstance(example, Agreement)) < 10
