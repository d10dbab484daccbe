"""LF, CRLF and CR end a line in every file that is read line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.datasets.alignments import sentences_of
from mixlens.datasets.rows import Columns, TextRecord, rows_of
from mixlens.datasets.shards import cut_into_shards
from mixlens.text.segments import read_marks, split_segments
from mixlens.text.tokens import TokenRow

ENDS = ("\n", "\r\n", "\r")
TEXTS = ["The dogs are old.", "A cat sleeps.", "It is late.", "We read a book."]
WORD = "\t".join(("{}", "{}", "{}", "NOUN", "_", "_", "0", "root", "_", "_"))


def _sentence(text: str) -> list[str]:
    words = text.split()
    rows = [WORD.format(number, word, word) for number, word in enumerate(words, 1)]
    return [f"# text = {text}", *rows, ""]


FILES = {
    "lines.txt": TEXTS,
    "objects.jsonl": [json.dumps({"text": text}) for text in TEXTS],
    "table.csv": ["text,label", *(f'"{text}",{n % 2}' for n, text in enumerate(TEXTS))],
    "table.tsv": ["text\tlabel", *(f"{text}\t{n % 2}" for n, text in enumerate(TEXTS))],
    "trees.conllu": [line for text in TEXTS for line in _sentence(text)],
}


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_the_same_rows_whatever_ends_a_line(name: str, last: bool, tmp_path: Path) -> None:
    path, seen = tmp_path / name, []
    for end in ENDS:
        content = end.join(FILES[name]) + end * last
        path.write_bytes(content.encode())
        examples = corpus.read(str(path))
        assert [example.text for example in examples] == TEXTS
        for rows in (1, 3, 10):
            shards = cut_into_shards(str(path), rows)
            assert shards[-1].stop <= len(content)
            read = [row for shard in shards for row in rows_of(shard, Columns())]
            assert all(isinstance(row, TextRecord) for row in read)
            seen.append([(row.line, row.id, getattr(row, "text", None)) for row in read])
    assert all(rows == seen[0] for rows in seen)
    assert [text for _, _, text in seen[0]] == TEXTS


def test_a_cell_keeps_the_line_ends_inside_its_quotes(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for end in ENDS:
        for inside in ENDS:
            rows = ["text,label", f'"Old{inside}dogs.",0', '"New cats.",1']
            path.write_bytes(end.join(rows).encode())
            shards = cut_into_shards(str(path), 1)
            read = [row for shard in shards for row in rows_of(shard, Columns())]
            expected = [f"Old{inside}dogs.", "New cats."]
            assert [getattr(row, "text", row) for row in read] == expected
            assert [row.line for row in read] == [2, 4]


def test_files_that_belong_line_to_line(tmp_path: Path) -> None:
    for end in ENDS:
        (tmp_path / "a.text").write_bytes(
            end.join(["the dog barks", "the cats sleep", ""]).encode()
        )
        golds = ["2\tbarks\tbark\t0", "2\tsleep\tsleeps\t0", ""]
        (tmp_path / "a.gold").write_bytes(end.join(golds).encode())
        assert len(list(corpus.read(str(tmp_path / "a.text")))) == 2
        (tmp_path / "a.en").write_bytes(end.join(TEXTS).encode())
        assert sentences_of(tmp_path / "a.en") == TEXTS


def test_paragraphs_and_marks(tmp_path: Path) -> None:
    for end in ENDS:
        (tmp_path / "blocks.txt").write_bytes(
            (end * 2).join(f"One{end}two." for _ in "abc").encode()
        )
        assert [each.text for each in corpus.read(str(tmp_path / "blocks.txt"))] == ["One two."] * 3
        text = f"One.{end}Two.{end}{end}Three."
        offsets = tuple(
            (text.index(word), text.index(word) + 1) for word in ("One", "Two", "Three")
        )
        row = TokenRow(("One", "Two", "Three"), text, offsets)
        assert [part.stop for part in split_segments(row, "paragraphs")] == [2, 3]
        assert [part.stop for part in split_segments(row, "sentences")] == [1, 2, 3]
        plain, spans = read_marks(f"=== first ==={end}One.{end}=== second ==={end}Two.")
        assert plain == "One.\nTwo."
        assert [name for name, _, _ in spans] == ["first", "second"]
