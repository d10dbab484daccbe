from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.text.encoding import token_row
from mixlens.text.tokens import TokenRow
from mixlens.text.words import merge_groups, words

CORPUS = [
    "The pictures of some hat are scaring Marcus.",
    "Don't stop, said the scared naïve picture-taker!",
    "The cats sat on the mats; some picture scared the hatter.",
    '“Stop” and "stop"',
] * 4
SPECIAL = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


@functools.cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Small real ones, of the three families; too small to hold a long word whole."""
    made: Tokenizer
    trainer: Any
    names = list(SPECIAL.values())
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=80, special_tokens=names, show_progress=False
        )
    elif kind == "byte-level":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=320, special_tokens=names, initial_alphabet=alphabet, show_progress=False
        )
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=80, special_tokens=names, unk_token="[UNK]", show_progress=False
        )
    made.train_from_iterator(CORPUS, trainer)
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


def row(kind: str, text: str, offsets: bool = True) -> TokenRow:
    encoded = tokenizer(kind)(text, return_offsets_mapping=True)
    return token_row(
        tokenizer(kind),
        encoded["input_ids"],
        *((text, encoded["offset_mapping"]) if offsets else ()),
    )


KINDS = ["wordpiece", "byte-level", "unigram"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The pictures of some hat [MASK] scaring Marcus.",
            "The pictures of some hat [MASK] scaring Marcus .",
        ),
        ("Don't stop, (said) the picture-taker!", "Don't stop , ( said ) the picture-taker !"),
        ('said "the hat..."', 'said " the hat ... "'),
        ("some  cats   stop", "some cats stop"),
        (" some cats ", "some cats"),
        ("the naïve “hat”", "the naïve “ hat ”"),
        ("stop [MASK]ing,[MASK]-the", "stop [MASK] ing , [MASK] - the"),
        ("--", "--"),
    ],
)
def test_words_of_real_tokenizers(kind: str, text: str, expected: str) -> None:
    given_row = row(kind, text)
    ranges, merged = words(given_row)
    assert list(merged.labels) == ["[CLS]", *expected.split(), "[SEP]"]
    assert [a for a, _ in ranges] + [len(given_row)] == [0] + [
        b for _, b in ranges
    ]  # every token once, in order
    again, same = words(merged)
    assert len(again) == len(ranges)
    assert same == merged


def test_something_was_merged_at_all() -> None:
    for kind in KINDS:
        ranges, _ = words(row(kind, "The pictures of some hat are scaring Marcus."))
        assert any(b - a > 1 for a, b in ranges)


def test_bytes_of_one_character_and_unknown_characters_belong_to_their_word() -> None:
    for kind in KINDS:
        assert words(row(kind, "the ☃☃hat ☃"))[1].labels == ("[CLS]", "the", "☃☃hat", "☃", "[SEP]")


def test_an_unknown_token_inside_a_word_is_part_of_it() -> None:
    made = TokenRow(
        ("na", "<unk>", "ve", "<unk>"),
        "naïve [",
        ((0, 2), (2, 3), (3, 5), (6, 7)),
        (False, True, False, True),
    )
    assert words(made)[0] == [(0, 3), (3, 4)]


def test_a_token_on_two_words_joins_them() -> None:
    made = TokenRow(
        ("ca", "t.", "of the", "x"), "cat. of the x", ((0, 2), (2, 4), (4, 11), (11, 13))
    )
    ranges, merged = words(made)
    assert ranges == [(0, 2), (2, 3), (3, 4)]
    assert merged.labels == ("cat.", "of the", "x")


def test_a_line_break_stands_alone_and_a_blank_joins_what_follows() -> None:
    made = TokenRow(
        ("a", "Ċ", "▁", "b", "Ġ", "</s>"),
        "a\n b ",
        ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 0)),
        (False,) * 5 + (True,),
    )
    ranges, merged = words(made)
    assert ranges == [(0, 1), (1, 2), (2, 5), (5, 6)]
    assert merged.labels == ("a", "Ċ", "b", "</s>")
    between = TokenRow(("<s>", "Ġ", "</s>"), " ", ((0, 0), (0, 1), (0, 0)), (True, False, True))
    assert words(between)[1].labels == ("<s>", "Ġ", "</s>")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    ["The pictures, of some hat [MASK] scaring!", "the naïve ☃ pictures", "“scaring” hatter"],
)
def test_marks_tell_the_same_as_offsets(kind: str, text: str) -> None:
    ranges, merged = words(row(kind, text, offsets=False))
    expected, with_text = words(row(kind, text))
    assert ranges == expected
    assert merged.text is None
    assert merged.offsets is None
    if kind == "byte-level":  # the others forget case and unknown characters
        assert merged.labels == with_text.labels


def test_marks_of_older_vocabularies() -> None:
    assert words(TokenRow(("un", "seen</w>", "thing</w>")))[0] == [(0, 2), (2, 3)]
    assert words(TokenRow(("un@@", "seen", "thing")))[0] == [(0, 2), (2, 3)]


def test_bytes_written_out_by_sentencepiece() -> None:
    made = TokenRow(("▁a", "<0xE2>", "<0x98>", "<0x83>", "<0x0A>", "b"))
    assert words(made)[0] == [(0, 4), (4, 5), (5, 6)]
    assert words(made)[1].labels == ("a☃", "<0x0A>", "b")


def test_an_unknown_token_without_offsets_starts_a_word() -> None:
    made = TokenRow(
        ("▁said", "<unk>", "'", "s", "▁", "<unk>", "▁hat"),
        special=(False, True, False, False, False, True, False),
    )
    ranges, merged = words(made)
    assert ranges == [(0, 1), (1, 4), (4, 6), (6, 7)]
    assert merged.labels == ("said", "\ufffd's", "\ufffd", "hat")
    assert words(TokenRow(("[CLS]", "[UNK]", "[SEP]"), special=(True,) * 3))[1].labels == (
        "[CLS]",
        "[UNK]",
        "[SEP]",
    )


def test_half_a_character_is_shown_without_breaking_a_terminal() -> None:
    merged = words(TokenRow(("Ġa", "Ġâĺ")))[1]
    assert merged.labels == ("a", "\ufffd\ufffd")
    merged.labels[1].encode()


def test_tokens_that_show_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="offsets"):
        words(TokenRow(("a", "b")))
    with pytest.raises(InvalidInput, match="offsets"):
        words(TokenRow.numbered(4))
    assert words(TokenRow(("[CLS]", "a", "[SEP]"), special=(True, False, True)))[0] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


# ------------------------------------------------------------------------------------------ merging


def test_reductions_by_hand() -> None:
    values = np.array([[1.0, 2.0, 6.0], [4.0, 8.0, 0.0]])
    groups = [[0, 1], [2]]
    expected = {
        "sum": [[3, 6], [12, 0]],
        "mean": [[1.5, 6], [6, 0]],
        "max": [[2, 6], [8, 0]],
        "first": [[1, 6], [4, 0]],
    }
    for how, result in expected.items():
        np.testing.assert_array_equal(merge_groups(values, groups, 1, how), result)
    with pytest.raises(InvalidInput, match="sum, mean, max, first"):
        merge_groups(values, groups, 1, "median")


def test_words_sum_over_sources_and_average_over_targets() -> None:
    made = TokenRow(("un", "##seen", "hat"), "unseen hat", ((0, 2), (2, 6), (7, 10)))
    scores = np.arange(9.0).reshape(1, 3, 3)
    merged = MixingMaps.of(scores, tokens=made).words()
    assert merged.tokens == merged.source_tokens == ("unseen", "hat")
    np.testing.assert_array_equal(
        merged.scores[0], [[(0 + 1 + 3 + 4) / 2, (2 + 5) / 2], [6 + 7, 8]]
    )
    assert merged.rollout().scores.shape == (1, 2, 2)
    heads = MixingMaps.of(np.stack([scores, 2 * scores], 1), tokens=made).words()
    np.testing.assert_array_equal(heads.scores[:, 1], 2 * merged.scores)


def test_only_some_targets() -> None:
    made = TokenRow(("un", "##seen", "hat"), "unseen hat", ((0, 2), (2, 6), (7, 10)))
    maps = MixingMaps.of(np.arange(9.0).reshape(1, 3, 3), tokens=made)
    merged = maps.at(targets=[2, 1]).words()
    assert (merged.tokens, merged.target_positions) == (("unseen", "hat"), (0, 1))
    np.testing.assert_array_equal(merged.scores[0], [[7, 5], [13, 8]])
    assert maps.at(targets=["hat"]).words().target_positions == (1,)


def test_facts_stay_true() -> None:
    shares = [[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.2, 0.2, 0.6]]]
    maps = MixingMaps.of(shares, tokens=["a@@", "b", "c"], facts=Facts(rows_sum_to_one=True))
    for sources in ("sum", "mean", "max", "first"):
        for targets in ("sum", "mean", "max", "first"):
            merged = maps.words(sources, targets)
            assert merged.facts.rows_sum_to_one == bool(np.allclose(merged.scores.sum(-1), 1))


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    text=st.text(alphabet="aeths .,'-“ï☃\n[", min_size=1, max_size=25).filter(
        lambda text: text.strip()
    ),
    offsets=st.booleans(),
    seed=st.integers(0, 100),
)
def test_row_sums_and_the_order_of_tokens_survive(
    kind: str, text: str, offsets: bool, seed: int
) -> None:
    tokens = row(kind, text, offsets)
    maps = MixingMaps.of(
        np.random.default_rng(seed).random((2, len(tokens), len(tokens))), tokens=tokens
    )
    try:
        merged = maps.words()
    except InvalidInput:
        assert not offsets
        return
    ranges, _ = words(tokens)
    assert [a for a, _ in ranges] + [len(tokens)] == [0] + [b for _, b in ranges]
    expected = np.stack([maps.scores.sum(-1)[:, a:b].mean(-1) for a, b in ranges], -1)
    np.testing.assert_allclose(merged.scores.sum(-1), expected)


# -------------------------------------------------------------------------------------------- spans


def test_spans_merge_what_is_named_and_leave_the_rest() -> None:
    maps = MixingMaps.of(np.arange(16.0).reshape(1, 4, 4), tokens=list("abcd"))
    merged = maps.spans(sources=[(2, 4)], targets=[(0, 2)])
    assert merged.source_tokens == ("a", "b", "c d")
    assert merged.tokens == ("a b", "c", "d")
    np.testing.assert_array_equal(merged.scores[0, 0], [2, 3, (2 + 3 + 6 + 7) / 2])
    np.testing.assert_array_equal(merged.scores[0, 1], [8, 9, 10 + 11])
    largest = maps.spans(sources=[(0, 4)], merge_sources="max")
    np.testing.assert_array_equal(largest.scores[0, :, 0], [3, 7, 11, 15])
    assert largest.tokens == tuple("abcd")


def test_spans_take_their_label_from_the_text() -> None:
    made = TokenRow(
        ("ĠNew", "ĠYork", "Ġhat", "</s>"),
        " New  York hat",
        ((0, 4), (5, 10), (10, 14), (0, 0)),
        (False,) * 3 + (True,),
    )
    assert MixingMaps.of(np.ones((1, 4, 4)), tokens=made).spans([(0, 2)]).source_tokens == (
        "New  York",
        "Ġhat",
        "</s>",
    )
    assert MixingMaps.of(np.ones((1, 4, 4)), tokens=made).spans([(2, 4)]).source_tokens == (
        "ĠNew",
        "ĠYork",
        "Ġhat </s>",
    )


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([(2, 2)], "empty"),
        ([(1, 5)], "out of range"),
        ([(-1, 2)], "out of range"),
        ([(0, 2), (1, 3)], "overlaps"),
    ],
)
def test_impossible_spans_are_refused(wrong: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        MixingMaps.of(np.ones((1, 4, 4))).spans(sources=wrong)
