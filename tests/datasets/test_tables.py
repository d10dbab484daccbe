"""Classification tables: GLUE's, with and without header, and others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.datasets.examples import Labelled
from mixlens.errors import InvalidInput


def read(tmp_path: Path, text: str, name: str = "dev.tsv") -> corpus.Dataset:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return corpus.read(tmp_path / name)


def triples(data: corpus.Dataset) -> list[tuple[str, str | None, str]]:
    return [(each.text, each.pair, each.label) for each in data if isinstance(each, Labelled)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sentence\tlabel\nit 's good . \t1\n", [("it 's good .", None, "1")]),
        ("label\ttext\n0\tbad\n", [("bad", None, "0")]),
        ("sentence1\tsentence2\tlabel\na b\tc\tyes\n", [("a b", "c", "yes")]),
        ("index\tpremise\thypothesis\tgold_label\n0\tp\th\tneutral\n", [("p", "h", "neutral")]),
        ("index\tquestion\tsentence\tlabel\n0\tq\ts\tentailment\n", [("q", "s", "entailment")]),
        (
            '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\t"One.\tTwo "x"\n',
            [('"One.', 'Two "x"', "1")],
        ),
        ("sentence\tlabel\r\ngood\t1\r\n", [("good", None, "1")]),
        ("\ufeffTEXT\tLabel\ngood\t1\n", [("good", None, "1")]),
    ],
)
def test_headers(tmp_path: Path, text: str, expected: list[tuple[str, str | None, str]]) -> None:
    data = read(tmp_path, text)
    assert data.kind == "classification"
    assert triples(data) == expected


def test_without_header(tmp_path: Path) -> None:
    assert triples(read(tmp_path, "a b\t1\nc d\t0\ne\t1\n")) == [
        ("a b", None, "1"),
        ("c d", None, "0"),
        ("e", None, "1"),
    ]
    assert triples(read(tmp_path, "1\ta b\n0\tc d\n")) == [("a b", None, "1"), ("c d", None, "0")]
    assert triples(read(tmp_path, "no\ta b\tc d\nyes\te f\tg h\n")) == [
        ("a b", "c d", "no"),
        ("e f", "g h", "yes"),
    ]
    data = read(tmp_path, "gj04\t1\t\tBill sang.\ncj99\t0\t?*\tSang Bill the.\n")
    assert triples(data) == [("Bill sang.", None, "1"), ("Sang Bill the.", None, "0")]
    assert [each.group for each in data] == ["gj04", "cj99"]


def test_ambiguous_labels_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Add a header"):
        read(tmp_path, "1\t0\n0\t1\n")
    with pytest.raises(InvalidInput, match=r"none of its .* look like labels\. Add a header"):
        read(tmp_path, "some text\tother text\nmore text\tand more\n")
    with pytest.raises(InvalidInput, match="4 columns"):
        read(tmp_path, "a\tb\tc d\te f\n")


def test_broken_rows_are_named(tmp_path: Path) -> None:
    data = read(tmp_path, "sentence\tlabel\ngood\t1\n\nno label\n \t1\nbad\t\n")
    assert triples(data) == [("good", None, "1")]
    assert data.errors == (
        ("dev.tsv:4", "1 columns, but the header has 2."),
        ("dev.tsv:5", "the text is missing."),
        ("dev.tsv:6", "the label is missing."),
    )
    data = read(tmp_path, "1\ta b\n" * 10 + "x\ty\tz\n" + "not one\tc d\n")
    assert [(name, reason) for name, reason in data.errors] == [
        ("dev.tsv:11", "3 columns, but other lines have 2."),
        ("dev.tsv:12", "'not one' is not a label."),
    ]
    data = read(tmp_path, "gj04\t1\t\tBill sang.\n" * 10 + "gj04\tyes\t\tBill sang.\n")
    assert [reason.split(":")[0] for _, reason in data.errors] == [
        "not a line of CoLA (source, 0 or 1, star, sentence)"
    ]
    data = read(tmp_path, '{"text": "a", "label": 1}\n{"label": 0}\n', "d.jsonl")
    assert data.errors == (("d.jsonl:2", "no text column among label."),)
    with pytest.raises(
        InvalidInput, match=r"has no readable example. dev.tsv:2: the text is missing"
    ):
        read(tmp_path, "sentence\tlabel\n \t1\n")
    with pytest.raises(InvalidInput, match="The file is empty"):
        read(tmp_path, "")


def test_splits_without_labels_are_texts(tmp_path: Path) -> None:
    data = read(tmp_path, "index\tsentence\n0\tgood\n")
    assert (data.kind, data[0].text) == ("text", "good")


def test_csv_and_jsonl(tmp_path: Path) -> None:
    assert triples(read(tmp_path, 'text,label\n"a, ""b""",1\n', "d.csv")) == [('a, "b"', None, "1")]
    assert len(read(tmp_path, "text,label\na,1\n,\nb,0\n", "d.csv")) == 2
    assert triples(read(tmp_path, '{"Text": "a", "Label": 1}\n', "d.jsonl")) == [("a", None, "1")]
    data = read(tmp_path, 'text,label\n"a"b,1\nc,0\n"d,1\n', "d.csv")
    assert triples(data) == [("c", None, "0")]
    assert [(name, reason[:8]) for name, reason in data.errors] == [
        ("d.csv:2", "not CSV:"),
        ("d.csv:4", "not CSV:"),
    ]


@pytest.mark.parametrize(
    ("path", "size", "labels"),
    [
        ("mrpc", 408, {"1": 279, "0": 129}),
        ("mrpc/train.tsv", 3668, {"1": 2474, "0": 1194}),
        ("cola", 1043, {"1": 721, "0": 322}),
        ("cola/train.tsv", 8551, {"1": 6023, "0": 2528}),
        ("sst2", 872, {"1": 444, "0": 428}),
        ("sst2/test.tsv", 1821, {"0": 912, "1": 909}),
        ("sst2/train_sentences.tsv", 6920, {"1": 3610, "0": 3310}),
        ("mnli/matched_1000.tsv", 1000, {"entailment": 373, "contradiction": 316, "neutral": 311}),
    ],
)
def test_the_real_files(shared: Path, path: str, size: int, labels: dict[str, int]) -> None:
    data = corpus.read(shared / "data" / "glue" / path)
    assert len(data) == size
    assert not data.errors
    assert Counter(each.label for each in data if isinstance(each, Labelled)) == labels
    assert all(each.pair for each in data) == (path.startswith(("mrpc", "mnli")))


@pytest.mark.parametrize(("name", "size"), [("mrpc", 1725), ("cola", 1063)])
def test_real_splits_without_labels(shared: Path, name: str, size: int) -> None:
    data = corpus.read(shared / "data" / "glue" / name / "test.tsv")
    assert (data.kind, len(data)) == ("text", size)
