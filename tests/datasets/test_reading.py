"""`read`: recognised formats, errors with advice, plain text and the hub."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.datasets import hub
from mixlens.datasets.origins import ORIGINS
from mixlens.errors import InvalidInput


def texts(path: Path, content: str) -> list[str]:
    path.write_text(content, encoding="utf-8")
    data = corpus.read(path)
    assert data.kind == "text"
    return [each.text for each in data]


def test_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    assert texts(path, "one\n\n two \r\nthree") == ["one", "two", "three"]
    assert texts(path, "one\ntwo\n") == ["one", "two"]
    assert texts(path, "one\nmore\n\ntwo\nof it\n") == ["one more", "two of it"]
    assert texts(path, "a\u2028b\x85c\n") == ["a\u2028b\x85c"]  # not ends of lines
    assert texts(
        path, " \n = Title = \n \n A role @-@ play , he said . \n = = Part = = \n a = b \n"
    ) == [
        "A role-play, he said.",
        "a = b",
    ]
    assert [each.name for each in corpus.read(path)] == ["some.txt:4", "some.txt:6"]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "a.txt"):
        (tmp_path / name).write_bytes(gzip.compress("grün\n".encode()))
        assert corpus.read(tmp_path / name)[0].text == "grün"
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"text\tlabel\na\tb\n"))
    assert corpus.read(tmp_path / "a.tsv.gz").kind == "classification"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"text " * 99)[:20])
    with pytest.raises(InvalidInput, match="cannot be read"):
        corpus.read(tmp_path / "a.txt.gz")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"gr\xfcn", "not UTF-8 text .byte 2."), (b"a\0b", "null bytes"), (b"", "file is empty")],
)
def test_inputs_that_are_not_text_raise(tmp_path: Path, content: bytes, reason: str) -> None:
    for ending in ("txt", "tsv", "csv", "jsonl", "conllu"):
        (tmp_path / f"a.{ending}").write_bytes(content)
        with pytest.raises(InvalidInput, match=reason):
            corpus.read(tmp_path / f"a.{ending}")


def test_other_files_are_not_taken_for_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}]')
    with pytest.raises(InvalidInput, match=r"Use \.jsonl, \.csv or \.tsv"):
        corpus.read(tmp_path / "a.json")
    (tmp_path / "msr.txt").write_text(
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\ta\tb\n"
    )
    assert corpus.read(tmp_path / "msr.txt").kind == "classification"


def test_folders_with_several_files(tmp_path: Path) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("text\tlabel\na\t1\n")
    with pytest.raises(InvalidInput, match=r"contains test.tsv, train.tsv. Pass one file"):
        corpus.read(tmp_path)
    (tmp_path / "dev.tsv").write_text("text\tlabel\ndev\t1\n")
    assert corpus.read(tmp_path)[0].text == "dev"
    (tmp_path / "dev.csv").write_text("text,label\ndev,1\n")
    with pytest.raises(InvalidInput, match=r"Pass one file"):
        corpus.read(tmp_path)
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidInput, match="contains no file"):
        corpus.read(tmp_path / "none")


def test_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tpair\tlabel\na\tb\t1\n")
    assert corpus.read(path, "classification").kind == "classification"
    (example,) = corpus.read(path, "text")
    assert (type(example), example.text, example.pair) == (corpus.Example, "a", "b")
    with pytest.raises(InvalidInput, match="holds classification examples, not agreement"):
        corpus.read(path, "agreement")
    with pytest.raises(InvalidInput, match="Unknown kind of data 'glue'"):
        corpus.read(path, "glue")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "a", "label": 1}\n')
    with pytest.raises(InvalidInput, match="classification and text"):
        corpus.read(tmp_path / "a.jsonl")


def test_samples(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"text {i}\n" for i in range(50)))
    whole = corpus.read(tmp_path / "a.txt")
    assert corpus.read(tmp_path / "a.txt", sample=5, seed=1).examples == whole.sample(5, 1).examples
    assert len(corpus.read(tmp_path / "a.txt", sample=99)) == 50


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("data/BLiMP", "alexwarstadt/blimp"),
        ("glue/SST-2/dev.tsv", "SST-2.zip"),
        ("linzen/x.text", "linzen_testset"),
        ("en_ewt-ud-dev.conllu", "universaldependencies.org"),
        ("alignment_de_en", "goldAlignment"),
        ("multi30k/train.en.gz", "multi30k/dataset"),
    ],
)
def test_the_error_for_a_missing_file_has_the_download_address(path: str, advice: str) -> None:
    with pytest.raises(InvalidInput, match=f"does not exist.*https.*{advice}"):
        corpus.read(path)


def test_every_origin_has_an_address() -> None:
    assert all(origin.marks and origin.title and "https://" in origin.source for origin in ORIGINS)
    with pytest.raises(InvalidInput, match=r"nowhere does not exist"):
        corpus.read("nowhere")


def test_gold_alignments(tmp_path: Path) -> None:
    folder = tmp_path / "alignment_de_en"
    folder.mkdir()
    (folder / "a.de").write_text("das Haus\n")
    (folder / "a.en").write_text("the house\n")
    (folder / "a.talp").write_text("1-1 2p2\n")
    (example,) = corpus.read(folder, "alignment")
    assert isinstance(example, corpus.Aligned)
    assert (example.sure, example.possible) == ({(0, 0)}, {(0, 0), (1, 1)})


def test_real_files(shared: Path) -> None:
    sizes = {
        "wikitext2/test.txt": 2185,
        "multi30k/val.de.gz": 1014,
        "alignment_en_fr": 447,
        "alignment_de_en": 508,
    }
    for path, size in sizes.items():
        assert len(corpus.read(shared / "data" / path)) == size
    wikitext = corpus.read(shared / "data" / "wikitext2" / "test.txt")
    assert not any(" @-@ " in each.text or " , " in each.text for each in wikitext)
    with pytest.raises(InvalidInput, match="Pass one file"):
        corpus.read(shared / "data" / "multi30k")


# ------------------------------------------------------------------------------------------ the hub


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hf:glue/sst2", ("nyu-mll/glue", "sst2", None, None)),
        ("hf:glue/mnli:validation_matched", ("nyu-mll/glue", "mnli", "validation_matched", None)),
        ("hf:imdb", ("imdb", None, None, None)),
        ("hf:owner/name", ("owner/name", None, None, None)),
        ("hf:owner/name/config:test", ("owner/name", "config", "test", None)),
        ("hf:owner/name@v1:test", ("owner/name", None, "test", "v1")),
    ],
)
def test_hub_names(name: str, parts: tuple[str | None, ...]) -> None:
    assert hub.parse_hub_name(name) == parts


@pytest.mark.parametrize("name", ["hf:", "hf:a/b/c/d"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a hub name"):
        corpus.read(name)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInput, match="pip install datasets"):
        corpus.read("hf:glue/sst2")


def test_the_documentation_has_the_table_of_origins() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert all(f"| {origin.title} | {origin.source} |" in page for origin in ORIGINS)
