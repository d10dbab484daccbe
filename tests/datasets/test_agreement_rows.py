"""Records with text, target, foil and cue: all ways to give a position, and all errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens import datasets as corpus
from mixlens.datasets.examples import Agreement
from mixlens.datasets.targets import agreement
from mixlens.errors import InvalidInput

KEYS = {"text": "The keys to the cabinet [MASK] here.", "target": "are", "foil": "is"}


def cues(example: Any) -> list[str]:
    return [example.text[slice(*cue)] for cue in example.cues]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"cue": "keys"}, ["keys"]),
        ({"cue": "4:8"}, ["keys"]),
        ({"cue": [4, 8]}, ["keys"]),
        ({"cue": [[4, 8], "here"]}, ["keys", "here"]),
        ({"cue": "keys; here"}, ["keys", "here"]),
        ({"cue": "31:35"}, ["here"]),  # behind the mask: counted in the text as it is written
        ({}, []),
        ({"cue": "", "label": "", "group": ""}, []),
    ],
)
def test_cues(more: dict[str, Any], expected: list[str]) -> None:
    example = agreement("f:1", {**KEYS, **more})
    assert example.text == "The keys to the cabinet are here."
    assert (example.target, example.foil) == ("are", "is")
    assert cues(example) == expected
    assert example.label is None


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "The keys are here.", "target": "are"},
        {"text": "The keys <mask> here.", "target": "are"},
        {"text": "We are sure they are here.", "target": "are", "position": 17},
        {"text": "We are sure they are here.", "target": "are", "position": "17"},
        {"text": "We are sure they are here.", "target": "are", "position": [17, 20]},
        {"text": "The keys [MASK] here.", "target": "are", "position": 9},
    ],
)
def test_targets(fields: dict[str, Any]) -> None:
    example = agreement("f:1", {**fields, "foil": "is"})
    assert example.target == "are"
    assert example.text[example.place[1] :] == " here."


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": ""}, "text is missing"),
        ({"target": None}, "target is missing"),
        ({"foil": "are"}, "the same word"),
        ({"text": "The [MASK] [MASK]."}, "2 masks"),
        ({"text": "They are what we are."}, "occurs 2 times in the text"),
        ({"text": "They care."}, "is not in the text"),  # care is not are
        ({"position": 3}, "not the position of the mask, 24"),
        ({"text": "They are here.", "position": 4}, "not the target 'are'"),
        ({"text": "They care.", "position": 6}, "splits a word"),
        ({"position": "there"}, "neither a number nor a span"),
        ({"cue": "key"}, "occurs 0 times in the text"),
        ({"cue": "the"}, "once"),  # once in lower case: allowed below
        ({"cue": "e"}, "occurs 0 times in the text"),
        ({"cue": "4:7"}, "splits a word"),
        ({"cue": "3:8"}, "begins or ends with a space"),
        ({"cue": "30:99"}, "is outside"),
        ({"cue": "8:4"}, "is outside"),
        ({"cue": [24, 30]}, "overlaps the target"),
        ({"cue": 7}, "not a word"),
        ({"cue": [7]}, "neither a word nor a span"),
    ],
)
def test_problems_are_reported(fields: dict[str, Any], reason: str) -> None:
    if reason == "once":
        assert cues(agreement("f:1", {**KEYS, **fields})) == ["the"]
        return
    with pytest.raises(InvalidInput, match=reason):
        agreement("f:1", {**KEYS, **fields})


def test_a_cue_may_be_the_same_word_as_the_target() -> None:
    example = agreement(
        "f:1",
        {
            "text": "We are sure they are here.",
            "target": "are",
            "foil": "is",
            "position": 17,
            "cue": "are",
        },
    )
    assert (example.place, example.cues) == ((17, 20), ((3, 6),))


def test_scripts_without_spaces_may_have_any_span() -> None:
    example = agreement(
        "f:1", {"text": "猫[MASK]好き。", "target": "が", "foil": "を", "cue": [0, 1]}
    )
    assert (example.text, cues(example)) == ("猫が好き。", ["猫"])


WORD = st.text("abcdefgh", min_size=1, max_size=6)


@given(st.lists(WORD, min_size=3, max_size=8, unique=True), st.data())
def test_places_come_back(words: list[str], drawn: st.DataObject) -> None:
    target, cue = drawn.draw(st.permutations(range(len(words))))[:2]
    text = " ".join(words)
    masked = " ".join("[MASK]" if i == target else word for i, word in enumerate(words))
    named: Any
    for written, named in (
        (text, words[cue]),
        (masked, words[cue]),
        (masked, [masked.split().index(words[cue])]),
    ):
        if isinstance(named, list):
            first = len(" ".join(masked.split()[: named[0]])) + (named[0] > 0)
            named = [[first, first + len(words[cue])]]
        example = agreement(
            "f:1", {"text": written, "target": words[target], "foil": "zzz", "cue": named}
        )
        assert example.text == text
        assert example.target == words[target]
        assert example.place[0] == len(" ".join(words[:target])) + (target > 0)
        assert cues(example) == [words[cue]]


def test_files_name_the_row_and_read_the_rest(tmp_path: Path) -> None:
    csv = tmp_path / "mine.csv"
    csv.write_text(
        'text,target,foil,cue,label\n"The keys, [MASK] here.",are,is,keys,plural\nThe key'
        " [MASK].,is,are,lock,\nToo,few\n"
    )
    data = corpus.read(csv)
    assert data.kind == "agreement"
    (example,) = data
    assert isinstance(example, Agreement)
    assert (example.name, example.text, example.label) == (
        "mine.csv:2",
        "The keys, are here.",
        "plural",
    )
    assert [name for name, _ in data.errors] == ["mine.csv:3", "mine.csv:4"]
    assert "'lock' occurs 0 times" in data.errors[0][1]
    assert "2 columns, but the header has 5" in data.errors[1][1]

    lines = tmp_path / "mine.jsonl"
    lines.write_text(
        f"{json.dumps({**KEYS, 'cue': ['keys', [31, 35]]})}\nnot"
        f" json\n[1]\n{json.dumps(KEYS | {'group': 'g'})}\n"
    )
    data = corpus.read(lines)
    assert cues(data[0]) == ["keys", "here"]
    assert data[1].group == "g"
    assert [(name, reason[:13]) for name, reason in data.errors] == [
        ("mine.jsonl:2", "not JSON: Exp"),
        ("mine.jsonl:3", "not a JSON ob"),
    ]


def test_rows_over_several_lines_have_the_number_of_their_first(tmp_path: Path) -> None:
    csv = tmp_path / "mine.csv"
    csv.write_text('text,target,foil\n"one\nline [MASK]",a,b\nwrong,a,b\n')
    data = corpus.read(csv)
    assert data[0].text == "one\nline a"
    assert data.errors[0][0] == "mine.csv:4"


def test_tsv_is_not_quoted(tmp_path: Path) -> None:
    tsv = tmp_path / "mine.tsv"
    tsv.write_text('Text\tTarget\tFoil\n"The keys [MASK] here.\tare\tis\n')
    assert corpus.read(tsv)[0].text == '"The keys are here.'
