"""Gold alignments: every form gives the same pairs, and a wrong file is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mixlens.datasets.alignments import read_alignments
from mixlens.errors import InvalidInput

SOURCE = ["das alte Haus", "er schläft nicht"]
TARGET = ["the old house", "he does not sleep"]
SURE = [{(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 3), (2, 2)}]
POSSIBLE = [SURE[0], SURE[1] | {(1, 1)}]

GOLD = {
    "zero.pharaoh": "0-0 1-1 2-2\n0-0 1-3 2-2 1?1\n",
    "marked.align": "0-0 1-1 2-2\n0-0 1-3S 2-2 1-1p\n",
    "one.gold": "1-1 2-2 3-3\n1-1 2-4 3-3 2p2\n",
    "one.talp": "1-1 2-2 3-3 \n1-1 2-4 3-3 2p2 \n",
    "wpt.naacl": (
        "0001 1 1 S\n0001 2 2 S\n0001 3 3\n0002 1 1 S\n0002 2 4 S\n0002 3 3 S\n0002 2 2 P\n0002 0"
        " 2 S\n\n"
    ),
}


def written(folder: Path, **files: str | list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(
            text if isinstance(text, str) else "\n".join(text) + "\n", encoding="utf-8"
        )
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    both = [f"{a}   ||| {b}  " for a, b in zip(SOURCE, TARGET, strict=True)]
    tabs = [f"{a}\t{b}" for a, b in zip(SOURCE, TARGET, strict=True)]
    marked = [f"<s snum={n:04}> {text} </s>" for n, text in enumerate(SOURCE, 1)]
    return written(
        tmp_path / "texts", a__de=SOURCE, a__en=TARGET, both=both, tabs=tabs, marked=marked
    )


@pytest.mark.parametrize("name", GOLD)
@pytest.mark.parametrize("text", ["two files", "both", "tabs", "marked"])
def test_every_form_gives_the_same_pairs(name: str, text: str, texts: Path) -> None:
    gold = texts / name
    gold.write_text(GOLD[name], encoding="utf-8")
    if text in ("both", "tabs"):
        pairs = read_alignments(texts / text, gold=gold)
    else:
        pairs = read_alignments(
            gold, source=texts / ("marked" if text == "marked" else "a.de"), target=texts / "a.en"
        )
    assert [set(pair.sure) for pair in pairs] == SURE
    assert [set(pair.possible) for pair in pairs] == POSSIBLE
    assert [" ".join(pair.source) for pair in pairs] == SOURCE == [pair.text for pair in pairs]
    assert [" ".join(pair.target) for pair in pairs] == TARGET == [pair.pair for pair in pairs]
    assert pairs[1].name.endswith(":2")


def test_a_folder_name_gives_the_direction(tmp_path: Path) -> None:
    upper = [line.upper() for line in SOURCE]
    files: dict[str, Any] = {
        "test__de": SOURCE,
        "test__en": TARGET,
        "test__uc__de": upper,
        "test__uc__en": TARGET,
        "gold__talp": GOLD["one.talp"],
    }
    folder = written(tmp_path / "alignment_de_en", **files)
    assert [pair.text for pair in read_alignments(folder)] == SOURCE
    assert [
        pair.text for pair in read_alignments(folder, source="test.uc.de", target="test.uc.en")
    ] == upper
    assert [pair.text for pair in read_alignments(folder, source="de", target="en")] == SOURCE
    nameless = written(tmp_path / "pairs", **files)
    with pytest.raises(InvalidInput, match="which language is the source"):
        read_alignments(nameless)


def test_the_first_word_number_comes_from_the_links_or_base(texts: Path) -> None:
    gold = texts / "unclear.gold"
    gold.write_text("1-1 2-2\n1-1\n")
    with pytest.raises(InvalidInput, match=r"unclear\.gold: the links do not show .* Pass base"):
        read_alignments(texts / "both", gold=gold)
    assert read_alignments(texts / "both", gold=gold, base=0)[0].sure == {(1, 1), (2, 2)}
    assert read_alignments(texts / "both", gold=gold, base=1)[0].sure == {(0, 0), (1, 1)}
    with pytest.raises(InvalidInput, match="Pass 0 or 1"):
        read_alignments(texts / "both", gold=gold, base=2)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("1-1 2_2\n1-1 3-4\n", r"gold:1: '2_2' is not a link"),
        ("1-1 2-2\n1-1 3-5\n", r"gold:2: link 3-5 is outside .*3 and 4 words"),
        ("0-0 3-3\n1-1\n", r"gold:1: link 3-3 is outside"),
        ("1-1 2-2\n", "1 lines of links for 2 sentences"),
        ("\n\n", "has no link"),
        ("0001 1 1 S\n0002 x 1 S\n", r"gold:2: '0002 x 1 S' is not a link"),
        ("0001 1 1 S\n0003 1 1 S\n", r"gold:2: sentence 0003 is out of range \(1–2\)"),
        ("0001 1 1 S\n0002 1 9 S\n", r"gold:2: link 1-9 is outside"),
    ],
)
def test_a_wrong_link_is_named_with_its_line(links: str, message: str, texts: Path) -> None:
    gold = texts / "x.gold"
    gold.write_text(links)
    with pytest.raises(InvalidInput, match=message):
        read_alignments(texts / "both", gold=gold)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\tc\nonly one side\n", "text:2: the line has 1 parts. Separate source"),
        ("a b\tc\nd\t \n", "text:2: the target is empty"),
    ],
)
def test_a_wrong_line_of_text_is_named(text: str, message: str, texts: Path) -> None:
    file = texts / "text"
    file.write_text(text)
    gold = texts / "x.talp"
    gold.write_text("1-1\n1-1\n")
    with pytest.raises(InvalidInput, match=message):
        read_alignments(file, gold=gold)


def test_sentences_in_another_order_and_sides_of_other_lengths(texts: Path) -> None:
    gold = texts / "x.talp"
    gold.write_text(GOLD["one.talp"])
    (texts / "turned").write_text("<s snum=2> a </s>\n<s snum=1> b </s>\n")
    with pytest.raises(InvalidInput, match="turned:1: the sentence has the number 2, but"):
        read_alignments(gold, source=texts / "turned", target=texts / "a.en")
    (texts / "short").write_text("one line\n")
    with pytest.raises(InvalidInput, match=r"has 2 lines, .*short has 1"):
        read_alignments(gold, source=texts / "a.de", target=texts / "short")


def test_missing_and_ambiguous_files(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere does not exist"):
        read_alignments(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="is one file"):
        read_alignments(texts / "both")
    with pytest.raises(InvalidInput, match=r"missing\.gold does not exist"):
        read_alignments(texts / "both", gold=texts / "missing.gold")
    with pytest.raises(InvalidInput, match=r"one file of links .* but contains none"):
        read_alignments(texts)
    written(texts, a__gold="0-0", b__gold="0-0")
    with pytest.raises(InvalidInput, match=r"but contains a\.gold, b\.gold"):
        read_alignments(texts)
    with pytest.raises(InvalidInput, match="Pass both or neither"):
        read_alignments(texts, gold="a.gold", source="de")
    with pytest.raises(InvalidInput, match=r"no file in .* ends in \.fr"):
        read_alignments(texts, gold="a.gold", source="de", target="fr")
    (texts / "latin").write_bytes("größe\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="latin is not UTF-8"):
        read_alignments(texts / "a.gold", source=texts / "latin", target=texts / "a.en")


def test_the_real_folders(shared: Path) -> None:
    hansards = read_alignments(shared / "data" / "alignment_en_fr")
    vilar = read_alignments(shared / "data" / "alignment_de_en")
    assert (len(hansards), len(vilar)) == (447, 508)
    assert hansards[6].source == ("hear", ",", "hear", "!")
    assert hansards[6].sure == {(3, 1)}
    assert hansards[6].possible == {(0, 0), (1, 0), (2, 0), (3, 1)}
    assert vilar[1].source == ("das", "stimmt", "nicht", "!")
    assert (3, 6) in vilar[1].sure
    assert all(pair.sure <= pair.possible for pair in hansards + vilar)
    assert sum(len(pair.sure) for pair in hansards) == 4038
