"""Segments: the tokens of each segment, and sums that keep the total."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.errors import InvalidInput
from mixlens.text.segments import FIRST, read_marks, split_segments

TEXT = (
    'The keys are old. "Are they?" Nobody knows\nthe answer...\n\nThe second paragraph is here.'
    " 你好。再见！ It ends"
)


@functools.cache
def maps() -> MixingMaps:
    return Lens.bundled("causal").measure("alti", TEXT)


def texts_by(by: str) -> dict[str, str]:
    """What the tokens of each segment cover, character by character."""
    row = maps().source_row
    assert row.text is not None
    assert row.offsets is not None
    texts = {}
    for name, start, stop in split_segments(row, by):
        if name != "(other)":
            texts[name] = row.text[row.offsets[start][0] : row.offsets[stop - 1][1]].strip()
    return texts


def test_sentences_and_paragraphs() -> None:
    assert texts_by("sentences") == {
        "sentence 1": "The keys are old.",
        "sentence 2": '"Are they?"',
        "sentence 3": "Nobody knows",
        "sentence 4": "the answer...",
        "sentence 5": "The second paragraph is here.",
        "sentence 6": "你好。",
        "sentence 7": "再见！",
        "sentence 8": "It ends",
    }
    first, second = TEXT.split("\n\n")
    assert texts_by("paragraphs") == {"paragraph 1": first, "paragraph 2": second}


def test_sums_lose_nothing_and_the_first_token_is_apart() -> None:
    whole = maps()
    merged = whole.segments("sentences")
    assert merged.source_tokens[0] == FIRST
    np.testing.assert_allclose(merged.scores.sum(-1), whole.scores.sum(-1), rtol=1e-6)
    np.testing.assert_array_equal(merged.scores[..., 0], whole.scores[..., 0])
    for name, start, stop in split_segments(whole.source_row, "sentences"):
        if name.startswith("sentence"):
            column = merged.source_tokens.index(name)
            expected = whole.scores[..., start:stop].astype(float).sum(-1)
            np.testing.assert_allclose(merged.scores[..., column], expected, rtol=1e-6)
    np.testing.assert_allclose(merged.extras["sink_share"].values, whole.scores[..., 0], atol=1e-6)
    assert merged.facts.rows_sum_to_one
    with pytest.raises(InvalidInput, match="different tokens"):
        merged.rollout()


def test_leaving_out_the_first_token_divides_rows_only_if_they_summed_to_one() -> None:
    whole = maps()
    merged = whole.segments("paragraphs", sink=False)
    assert FIRST not in merged.source_tokens
    np.testing.assert_allclose(merged.scores[:, 1:].sum(-1), 1, atol=1e-6)
    assert "normalised again" in " ".join(merged.provenance["steps"])
    assert not merged.facts.rows_sum_to_one  # the first token's own row is empty now
    assert whole.at(targets=[-1]).without_sink().facts.rows_sum_to_one
    rest = whole.scores[0, -1, 1:].astype(float)
    np.testing.assert_allclose(whole.without_sink().scores[0, -1, 1:], rest / rest.sum(), rtol=1e-5)
    norms = Lens.bundled("causal").measure("attention_norm", TEXT)
    left = norms.without_sink()
    np.testing.assert_array_equal(left.scores[..., 1:], norms.scores[..., 1:])
    assert not left.scores[..., 0].any()
    assert left.provenance["steps"] == ["first token left out"]


def test_named_spans_by_characters_or_text_and_the_tokens_inside() -> None:
    start = TEXT.index("The second")
    by: dict[str, str | tuple[int, int]] = {
        "keys": "The keys are old.",
        "second": (start, start + 29),
    }
    merged = maps().segments(by)
    assert merged.source_tokens == (FIRST, "keys", "(other)", "second")
    with pytest.raises(InvalidInput, match="Unknown segment 'third'"):
        maps().inside("third", by)
    inside = maps().inside("second", by)
    assert inside.source_tokens[0] == "The"
    assert "".join(inside.source_tokens).replace("Ġ", " ") == "The second paragraph is here."
    np.testing.assert_allclose(
        inside.scores.astype(float).sum(-1), merged.scores[..., 3], rtol=1e-5, atol=1e-9
    )


def test_segments_live_through_words_files_and_tables(tmp_path: object) -> None:
    lens = Lens.bundled("causal")
    rows = lens.generate("The keys to the cabinet.", answer=" are on the table")
    made = mixlens.measure("alti", rows)
    assert isinstance(made, MixingMaps)
    path = f"{tmp_path}/maps.safetensors"
    made.save(path)
    assert mixlens.load(path) == made
    made.segments().save(path)
    assert mixlens.load(path) == made.segments()
    assert made.segments().source_tokens == (FIRST, "prompt", "answer")
    np.testing.assert_allclose(
        made.words().segments().scores, made.segments().scores, rtol=1e-5, atol=1e-7
    )
    table = made.to_dataframe()
    assert set(table["source_segment"]) == {"prompt", "answer"}
    assert "source_segment" in made.data.coords
    sums = table[table["source"] > 0].groupby(["layer", "target", "source_segment"])["score"].sum()
    np.testing.assert_allclose(
        sums.unstack()["prompt"].to_numpy().reshape(6, -1),
        made.segments().scores[..., 1],
        rtol=1e-5,
    )
    # an answer stays one piece, whatever the prompt is cut into
    assert made.segments("sentences").source_tokens == (FIRST, "sentence 1", "answer")


def test_a_comparison_by_segments() -> None:
    lens = Lens.bundled("causal")
    compared = lens.compare(TEXT, -1, only=["alti", "attention", "effective_attention"])
    merged = compared.segments("paragraphs")
    assert merged.sources[0] == FIRST
    for name, values in merged.scores.items():
        np.testing.assert_allclose(values.sum(), compared.scores[name].sum(), rtol=1e-6)
    left = compared.segments("paragraphs", sink=False)
    np.testing.assert_allclose(left.scores["alti"].sum(), 1)
    assert left.to_dict()["sources"][0] == "paragraph 1"
    assert "nan" not in str(left.agreement().loc["alti", "alti"])


def test_marks_of_a_prompt_file() -> None:
    text = "=== system ===\nBe short.\n=== document 1 ===\nA == B\n===\n\n=== question ===\nWhy?\n"
    plain, spans = read_marks("Before.\n" + text)
    assert plain == "Before.\nBe short.\nA == B\n===\n\nWhy?\n"
    assert [(name, plain[a:b]) for name, a, b in spans] == [
        ("system", "Be short.\n"),
        ("document 1", "A == B\n===\n\n"),
        ("question", "Why?\n"),
    ]
    assert read_marks("no marks\n") == ("no marks\n", [])
    assert read_marks(text.replace("\n", "\r\n")) == read_marks(text)
    assert read_marks(text.replace("\n", "\r")) == read_marks(text)


def test_marks_without_blanks_and_what_only_looks_like_one() -> None:
    plain, spans = read_marks("===doc===\nA\n=== doc 2===\nB\n===doc 3 ===\n\n=== last ===\nC")
    assert [(name, plain[a:b]) for name, a, b in spans] == [
        ("doc", "A\n"),
        ("doc 2", "B\n"),
        ("last", "C"),  # the third is blank
    ]
    other = "=====\n== a ==\n==== b ====\n======\n=== c\nx === y\n"
    assert read_marks(other) == (other, [])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["doc", "doc"], "Duplicate segment name"),
        (["answer"], "The segment name 'answer' is reserved"),
        (["(other)"], "is reserved"),
        (["(first token)"], "is reserved"),
    ],
)
def test_marks_have_names_of_their_own(names: list[str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_marks("".join(f"=== {name} ===\nHello.\n" for name in names))


def test_a_missing_first_token_is_not_left_out_again() -> None:
    whole = maps()
    left = whole.segments("sentences", sink=False)
    assert left.without_sink() == left
    assert whole.without_sink().without_sink() == whole.without_sink()
    with_sink = whole.segments("sentences").without_sink()
    assert not with_sink.scores[..., 0].any()
    assert with_sink.without_sink() == with_sink
    np.testing.assert_allclose(with_sink.scores[..., 1:], left.scores, rtol=1e-5, atol=1e-7)
    with pytest.raises(InvalidInput, match=r"Call without_sink\(\) before inside"):
        whole.inside("paragraph 2", "paragraphs").without_sink()
    inside = whole.without_sink().inside("paragraph 1", "paragraphs")
    assert inside.source_tokens == whole.inside("paragraph 1", "paragraphs").source_tokens


def test_a_segment_divided_again_has_no_first_token() -> None:
    inside = maps().inside("paragraph 2", "paragraphs")
    merged = inside.segments("sentences")
    first = maps().segments("sentences").source_tokens.index("sentence 5")
    assert merged.source_tokens == ("sentence 5", "sentence 6", "sentence 7", "sentence 8")
    assert not merged.measured
    np.testing.assert_allclose(
        merged.scores, maps().segments("sentences").scores[..., first:], rtol=1e-5
    )


def test_sums_of_segments_are_not_divided_again(tmp_path: object) -> None:
    merged = maps().segments("sentences")
    merged.save(f"{tmp_path}/maps.safetensors")
    for sums in (merged, mixlens.load(f"{tmp_path}/maps.safetensors")):
        for again in (None, "sentences", {"a": (0, 9)}):
            with pytest.raises(InvalidInput, match="already summed by segment"):
                sums.segments(again)
        with pytest.raises(InvalidInput, match="already summed by segment"):
            sums.inside("sentence 1")


def test_words_have_the_sums_of_their_tokens() -> None:
    plain, marks = read_marks("=== one ===\nThe keys.\n=== two ===\nA cat sleeps.\n\nIt is old.\n")
    rows = Lens.bundled("causal").generate(plain, answer=" It is")
    made = mixlens.measure("alti", rows)
    assert isinstance(made, MixingMaps)
    for by in (None, marks, "sentences", "paragraphs"):
        merged, expected = made.words().segments(by), made.segments(by)
        assert merged.source_tokens == expected.source_tokens
        np.testing.assert_allclose(merged.scores, expected.scores, rtol=1e-5, atol=1e-7)


def test_targets_become_words_after_sources_were_summed() -> None:
    rows = Lens.bundled("causal").generate("The keys. A cat sleeps.", answer=" unbelievably so")
    made = mixlens.measure("alti", rows)
    assert isinstance(made, MixingMaps)
    for by in (None, "sentences", {"cat": "A cat"}):
        merged, expected = made.segments(by).words(), made.words().segments(by)
        assert merged.source_tokens == expected.source_tokens
        assert merged.tokens == expected.tokens == ("unbelievably", "so")
        np.testing.assert_allclose(merged.scores, expected.scores, rtol=1e-5, atol=1e-7)


def test_spans_of_generated_targets() -> None:
    rows = Lens.bundled("causal").generate("The keys to the cabinet", answer=" are on the table")
    made = mixlens.measure("alti", rows)
    assert isinstance(made, MixingMaps)
    first = made.target_positions[0]
    merged = made.spans(targets=[(first, first + 2)])
    assert merged.tokens == ("are on", "Ġthe", "Ġtable")
    np.testing.assert_allclose(merged.scores[:, 0], made.scores[:, :2].mean(1), rtol=1e-6)
    with pytest.raises(InvalidInput, match=r"target span \(0, 2\) contains no measured target"):
        made.spans(targets=[(0, 2)])


def test_a_page_groups_by_named_documents(tmp_path: Path) -> None:
    lens = Lens.bundled("causal")
    rows = lens.generate("One cat. Two dogs.", answer=" are on")
    maps, other = (mixlens.measure(name, rows) for name in ("alti", "attention"))
    assert isinstance(maps, MixingMaps)
    assert isinstance(other, MixingMaps)
    page = tmp_path / "page.html"
    maps.to_html(page, other, segments={"a": "One cat.", "b": "Two dogs."})
    written = page.read_text().partition('id="payload">')[2].partition("</script>")[0]
    texts = json.loads(written)["texts"]
    named = [[part[2] for part in text["segments"] or () if len(part) == 3] for text in texts]
    assert any({"a", "b", "answer"} <= set(names) for names in named)
    with pytest.raises(InvalidInput, match="already summed by segment"):
        maps.segments().to_html(page, segments="sentences")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (None, "no named segments"),
        ("turns", "messages of a chat"),
        ("sentance", "sentences"),
        ("own", "Choose one of: sentences, paragraphs, turns"),
        ("words", "Choose one of: sentences, paragraphs, turns"),
        ({1: "Nobody knows"}, "1 is not a segment name"),
        ([("a", 0, 5), ("a", 8, 12)], "Duplicate segment name"),
        ({"answer": "Nobody knows"}, "The segment name 'answer' is reserved"),
        ({FIRST: "Nobody knows"}, "is reserved"),
        ({"(other)": "Nobody knows"}, "is reserved"),
        ({"a": (17, 18)}, "No token starts in segment 'a' "),
        ({"a": "nowhere"}, "not in"),
        ({"a": "The"}, "2 times in"),
        ({"a": (3, 3)}, "is empty or out of range"),
        ({"a": (0, 10_000)}, "out of range"),
        ({"a": (0, 9), "b": (8, 12)}, "overlap"),
    ],
)
def test_wrong_segments_raise(by: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        maps().segments(by)  # type: ignore[arg-type]
