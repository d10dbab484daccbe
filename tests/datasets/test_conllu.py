"""Universal Dependencies."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mixlens import datasets as corpus
from mixlens.datasets.conllu import parse_sentence
from mixlens.datasets.examples import Tagged


def line(place: str, form: str, tag: str, misc: str = "_") -> str:
    return "\t".join((place, form, form, tag, "_", "_", "_", "_", "_", misc))


def words(example: Tagged) -> list[tuple[str, str]]:
    return [
        (example.text[slice(*span)], tag)
        for span, tag in zip(example.words, example.tags, strict=True)
    ]


ENGLISH = [
    "# sent_id = 1",
    "# text = I don't  know.",
    line("1", "I", "PRON"),
    line("2-3", "don't", "_"),
    line("2", "do", "AUX"),
    line("3", "n't", "PART"),
    line("3.1", "really", "ADV"),
    line("4", "know", "VERB", "SpaceAfter=No"),
    line("5", ".", "PUNCT"),
]
FRENCH = [
    line("1-2", "du", "_"),
    line("1", "de", "ADP"),
    line("2", "le", "DET"),
    line("3", "pain", "NOUN", "X=1|SpaceAfter=No"),
    line("4", ".", "PUNCT"),
]


def test_multiword_tokens_and_spaces() -> None:
    sentence = parse_sentence("f:1", ENGLISH)
    assert sentence.text == "I don't  know."
    assert words(sentence) == [
        ("I", "PRON"),
        ("do", "AUX"),
        ("n't", "PART"),
        ("know", "VERB"),
        (".", "PUNCT"),
    ]
    sentence = parse_sentence("f:1", FRENCH)
    assert sentence.text == "du pain."
    assert words(sentence) == [("du", "ADP+DET"), ("pain", "NOUN"), (".", "PUNCT")]


def test_broken_sentences_are_named(tmp_path: Path) -> None:
    sentences = [
        ENGLISH,
        ["# text = other", line("1", "one", "NUM")],
        ["# text = one more", line("1", "one", "NUM")],
        [line("1", "one", "_")],
        ["1\tone\tone\tNUM"],
        ["# text = nothing"],
        [line("1-3", "dont", "_"), line("1", "do", "AUX")],
        [line("1-x", "dont", "_")],
        FRENCH,
    ]
    (tmp_path / "x.conllu").write_text("\n\n".join("\n".join(each) for each in sentences))
    data = corpus.read(tmp_path)
    assert (data.kind, len(data)) == ("tagged", 2)
    assert data[1].name == "x.conllu:28"
    assert [(name, reason.split(":")[0]) for name, reason in data.errors] == [
        ("x.conllu:11", "the word 'one' does not match the text at character 0"),
        ("x.conllu:14", "the text continues with ' more' after the last word."),
        ("x.conllu:17", "the word 'one' has no part of speech."),
        ("x.conllu:19", "4 columns instead of 10"),
        ("x.conllu:21", "the sentence has no words."),
        ("x.conllu:23", "the multiword token 1-3 dont lacks some of its words."),
        ("x.conllu:26", "'1-x' is not a word number such as 1, nor a range such as 1-2."),
    ]


FORM = st.text("abcé.'", min_size=1, max_size=5)


@given(
    st.lists(
        st.tuples(FORM, st.sampled_from(["NOUN", "VERB"]), st.booleans()), min_size=1, max_size=8
    )
)
def test_words_come_back_with_and_without_a_text(tokens: list[tuple[str, str, bool]]) -> None:
    lines = [
        line(str(i), form, tag, "_" if space else "SpaceAfter=No")
        for i, (form, tag, space) in enumerate(tokens, 1)
    ]
    sentence = parse_sentence("f:1", lines)
    assert words(sentence) == [(form, tag) for form, tag, _ in tokens]
    assert parse_sentence("f:1", [f"# text = {sentence.text}", *lines]) == sentence


def test_the_real_file(shared: Path) -> None:
    data = corpus.read(shared / "data" / "ud_ewt")
    assert len(data) == 2001
    assert not data.errors
    lines = (shared / "data" / "ud_ewt" / "en_ewt-ud-dev.conllu").read_text().splitlines()
    forms = [
        cells[1]
        for cells in (each.split("\t") for each in lines if each[:1].isdigit())
        if cells[0].isdigit()
    ]
    assert [
        word for example in data if isinstance(example, Tagged) for word, _ in words(example)
    ] == forms
