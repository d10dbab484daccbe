"""A corpus in shards: every record once, for all formats and shard sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixlens.datasets.rows import BadRecord, Columns, TextRecord, rows_of
from mixlens.datasets.shards import cut_into_shards
from mixlens.errors import InvalidInput

TEXTS = ["The dogs bark.", 'She said "no", twice.', "Zwei\tKatzen", "Ende.", "the last one"]


def written(folder: Path, kind: str) -> str:
    path = folder / f"corpus.{kind}"
    if kind == "txt":
        path.write_text("\n".join(TEXTS))  # no line end after the last one
    elif kind == "jsonl":
        path.write_text(
            "".join(json.dumps({"n": i, "text": t}) + "\n" for i, t in enumerate(TEXTS))
        )
    elif kind == "csv":
        rows = [f'{i},"{t.replace(chr(34), chr(34) * 2)}"' for i, t in enumerate(TEXTS)]
        path.write_text("\ufeffn,text\r\n" + "\r\n".join(rows) + "\r\n")
    elif kind == "tsv":
        path.write_text("n\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)))
    else:
        table = pa.table({"n": list(range(len(TEXTS))), "text": TEXTS})
        pq.write_table(table, path, row_group_size=2)
    return str(path)


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "tsv", "parquet"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_every_row_once(tmp_path: Path, kind: str, size: int) -> None:
    shards = cut_into_shards(written(tmp_path, kind), size)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert sum(shard.rows for shard in shards) == len(TEXTS)
    columns = Columns(id=None if kind == "txt" else "n")
    rows = [row for shard in shards for row in rows_of(shard, columns)]
    texts = [row.text for row in rows if isinstance(row, TextRecord)]
    expected = [t for t in TEXTS if kind != "tsv" or "\t" not in t]  # a tab is a column there
    assert texts == expected
    if kind != "txt":
        assert [row.id for row in rows if isinstance(row, TextRecord)][-1] == "4"


CONLLU = """

# sent_id = a
1\tDo\tdo\tAUX\t_\t_\t0\t_\t_\tSpaceAfter=No
2\tn't\tnot\tPART\t_\t_\t0\t_\t_\t_
3\trun\trun\tVERB\t_\t_\t0\t_\t_\tSpaceAfter=No
4\t!\t!\tPUNCT\t_\t_\t0\t_\t_\t_

# text = Bad sentence
1\tBad


# text = He ran
1\tHe\the\tPRON\t_\t_\t0\t_\t_\t_
2\tran\trun\tVERB\t_\t_\t0\t_\t_\t_"""


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
def test_sentences_with_their_words_and_tags(tmp_path: Path, size: int, ending: str) -> None:
    path = tmp_path / "corpus.conllu"
    path.write_text(CONLLU + ending)
    shards = cut_into_shards(str(path), size)
    assert sum(shard.rows for shard in shards) == 3
    first, bad, last = (row for shard in shards for row in rows_of(shard, Columns()))
    assert isinstance(first, TextRecord)
    assert (first.line, first.text) == (3, "Don't run!")
    assert first.words == ((0, 2), (2, 5), (6, 9), (9, 10))
    assert first.tags == ("AUX", "PART", "VERB", "PUNCT")
    assert isinstance(bad, BadRecord)
    assert (bad.line, bad.reason[:9]) == (9, "2 columns")
    assert isinstance(last, TextRecord)
    assert (last.line, last.text, last.tags) == (13, "He ran", ("PRON", "VERB"))


def test_rows_over_several_lines_and_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_text('text,"the\nlabel"\n"one\ntwo",a\nthree,b\n"four",c,d\n')
    rows = [row for s in cut_into_shards(str(path), 1) for row in rows_of(s, Columns())]
    assert [row.line for row in rows] == [3, 5, 6]
    assert isinstance(rows[0], TextRecord)
    assert rows[0].text == "one\ntwo"
    assert isinstance(rows[2], BadRecord)
    assert rows[2].reason == "3 columns, but the header has 2"


def test_a_column_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    path.write_text("text,text\na dog,a cat\n")
    (shard,) = cut_into_shards(str(path), 1)
    with pytest.raises(InvalidInput, match="column 'text' occurs more than once"):
        list(rows_of(shard, Columns()))


def test_bad_rows_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    lines = [b'{"text": "fine"}', b'{"text": "\xff"}', b"{no", b"", b'{"text": 3}', b'{"t": "x"}']
    lines += [b'{"text": null}', b'{"text": "a\\u0000b"}']
    path.write_bytes(b"\n".join(lines) + b"\n")
    rows = [row for s in cut_into_shards(str(path), 2) for row in rows_of(s, Columns())]
    reasons = {row.line: row.reason for row in rows if isinstance(row, BadRecord)}
    assert set(reasons) == {2, 3, 4, 5, 6, 7, 8}
    assert reasons[2].startswith("not UTF-8")
    assert reasons[3].startswith("not JSON")
    assert "instead of text" in reasons[5]
    assert "no column 'text' among t" in reasons[6]
    assert reasons[7] == "column 'text' is empty"
    assert "UTF-16" in reasons[8]


def test_columns_select_the_explained_output(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text("s\tw\nThe dog [MASK] .\tbarks\nA cat .\t\n")
    (shard,) = cut_into_shards(str(path), 10)
    row, empty = rows_of(shard, Columns(text="s", explain={"word": "w"}))
    assert isinstance(row, TextRecord)
    assert row.explain == {"word": "barks"}
    assert isinstance(empty, TextRecord)  # an empty cell is a value; the measure will refuse it


def test_a_changed_row_changes_its_shard_alone(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("a\nb\nc\nd\n")
    before = cut_into_shards(str(path), 2)
    path.write_text("a\nb\nc\nx\n")
    after = cut_into_shards(str(path), 2)
    assert [a.digest == b.digest for a, b in zip(before, after, strict=True)] == [True, False]


@pytest.mark.parametrize("kind", ["txt", "csv", "parquet"])
def test_a_file_that_is_changed_after_it_was_cut(tmp_path: Path, kind: str) -> None:
    path = Path(written(tmp_path, kind))
    first, *_, last = cut_into_shards(str(path), 2)
    before = path.read_bytes()
    assert list(rows_of(last, Columns()))
    if kind == "parquet":
        table = pa.table({"n": list(range(len(TEXTS))), "text": [*TEXTS[:-1], "the LAST one"]})
        pq.write_table(table, path, row_group_size=2)
    else:
        path.write_bytes(before.replace(b"the last", b"the LAST"))
    assert list(rows_of(first, Columns()))
    with pytest.raises(InvalidInput, match="has changed since the run started"):
        list(rows_of(last, Columns()))


def test_ids_of_a_folder_name_the_file(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\n\n")
    rows = [row for shard in cut_into_shards(str(tmp_path), 9) for row in rows_of(shard, Columns())]
    assert [row.id for row in rows] == ["a.txt:1", "a.txt:2", "b.txt:1", "b.txt:2"]
    assert [row.line for row in rows] == [1, 2, 1, 2]


def test_a_row_without_its_id_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    lines = [
        '{"text": "one", "name": 7}',
        '{"text": "two", "name": null}',
        '{"text": "three"}',
        '{"text": "four", "name": "\\ud800"}',
        '{"text": "", "name": "five"}',
    ]
    path.write_text("\n".join(lines))
    (shard,) = cut_into_shards(str(path), 9)
    good, *bad = rows_of(shard, Columns(id="name"))
    assert (good.id, [row.id for row in bad]) == ("7", ["2", "3", "4", "five"])
    reasons = [row.reason for row in bad if isinstance(row, BadRecord)]
    assert reasons[:2] == ["column 'name' is empty"] * 2
    assert "not valid Unicode" in reasons[2]


def test_a_streamed_data_set(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "data").mkdir()
    lines = "".join(json.dumps({"text": t}) + "\n" for t in TEXTS)
    (tmp_path / "data" / "train.jsonl").write_text(lines)
    shards = cut_into_shards(f"hf:{tmp_path / 'data'}:train", 2)
    rows = [row for shard in shards for row in rows_of(shard, Columns())]
    assert [row.text for row in rows if isinstance(row, TextRecord)] == TEXTS


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "a.csv").write_text('text\none\n"\n')
    (tmp_path / "notes.md").write_text("not a corpus")
    shards = cut_into_shards(str(tmp_path), 5)
    assert [(Path(shard.path).name, shard.format) for shard in shards] == [
        ("a.csv", "csv"),
        ("b.txt", "text"),
    ]
    first, bad, second = (row for shard in shards for row in rows_of(shard, Columns()))
    assert isinstance(bad, BadRecord)
    assert bad.reason.startswith("not CSV")
    assert [row.text for row in (first, second) if isinstance(row, TextRecord)] == ["one", "two"]


def test_a_sentence_whose_named_column_is_missing(tmp_path: Path) -> None:
    (tmp_path / "corpus.conllu").write_text(CONLLU)
    (shard,) = cut_into_shards(str(tmp_path / "corpus.conllu"), 5)
    assert all(isinstance(row, BadRecord) for row in rows_of(shard, Columns(text="sentence")))


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no supported file"):
        cut_into_shards(str(tmp_path), 2)
    with pytest.raises(InvalidInput, match="0 is out of range"):
        cut_into_shards(str(tmp_path), 0)
    with pytest.raises(InvalidInput, match="does not exist"):
        cut_into_shards(str(tmp_path / "absent.txt"), 2)
    (tmp_path / "x.jsonl.gz").write_bytes(b"")
    with pytest.raises(InvalidInput, match="Unpack"):
        cut_into_shards(str(tmp_path / "x.jsonl.gz"), 2)
    with pytest.raises(InvalidInput, match="Unpack"):  # nor is it left out
        cut_into_shards(str(tmp_path), 2)
    (tmp_path / "x.json").write_text('[{"text": "a dog"}]')
    with pytest.raises(InvalidInput, match=r"one object per line.*\.jsonl"):
        cut_into_shards(str(tmp_path / "x.json"), 2)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InvalidInput, match="is empty"):
        cut_into_shards(str(tmp_path / "empty.txt"), 2)
