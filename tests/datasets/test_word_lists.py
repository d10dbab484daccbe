"""Sentences as lists of words with indices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixlens import datasets as corpus
from mixlens.datasets.examples import Agreement
from mixlens.datasets.word_lists import agreement
from mixlens.errors import InvalidInput

ROW = {
    "sentence_good": ["The", "boys", ",", "who", "sing", ",", "are", "n't", "here", "."],
    "sentence_bad": ["The", "boys", ",", "who", "sing", ",", "is", "n't", "here", "."],
    "good_word": "are",
    "bad_word": "is",
    "target_index": 6,
    "cue_indices": [1],
    "labels": "plural",
}


def test_places_are_those_of_the_spelled_text() -> None:
    example = agreement("f:1", ROW, "g")
    assert example.text == "The boys, who sing, aren't here."
    assert (example.target, example.foil, example.label, example.group) == (
        "are",
        "is",
        "plural",
        "g",
    )
    assert [example.text[slice(*cue)] for cue in example.cues] == ["boys"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"target_index": 5}, r"only in the target \(word 5\)"),
        ({"target_index": 10}, "word 10 is out of range"),
        ({"target_index": "6"}, "word '6' is out of range"),
        ({"cue_indices": [6]}, "is also a cue"),
        ({"cue_indices": [-1]}, "word -1 is out of range"),
        ({"good_word": "was"}, "good_word is 'was'"),
        ({"bad_word": "was"}, "bad_word is 'was'"),
        ({"sentence_bad": ["The", "boys"]}, "do not differ only"),
        ({"sentence_good": "The boys"}, "list of words"),
        ({"sentence_good": ["The", " ", "boys"]}, "list of words"),
    ],
)
def test_indices_that_do_not_fit_are_errors(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        agreement("f:1", {**ROW, **fields}, "g")


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(
        json.dumps(ROW) + "\n" + json.dumps({**ROW, "target_index": 1}) + "\n"
    )
    (tmp_path / "two.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "README.md").write_text("words")
    data = corpus.read(tmp_path)
    assert data.groups == {"one": 1, "two": 1}
    assert [name for name, _ in data.errors] == ["one.jsonl:2"]


def test_the_real_files(shared: Path) -> None:
    data = corpus.read(shared / "data" / "blimp_cues")
    assert data.groups == {"ana": 991, "darn": 865, "dna": 1000, "dnaa": 1000, "rpsv": 839}
    assert not data.errors
    rows = {
        f"{file.name}:{number}": json.loads(line)
        for file in (shared / "data" / "blimp_cues").glob("*.jsonl")
        for number, line in enumerate(file.read_text().splitlines(), 1)
    }
    for example in data:
        assert isinstance(example, Agreement)
        row = rows[example.name]
        assert (example.target, example.foil, example.label) == (
            row["good_word"],
            row["bad_word"],
            row["labels"],
        )
        assert [example.text[slice(*cue)] for cue in example.cues] == [
            row["sentence_good"][i] for i in row["cue_indices"]
        ]
