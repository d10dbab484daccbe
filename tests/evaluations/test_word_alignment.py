"""Word alignment against hand-worked rates, a slow reading of the model's own attentions, and the
rates of a real model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from mixlens import Lens, measure
from mixlens.datasets.alignments import read_alignments
from mixlens.datasets.examples import Aligned, Example
from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.evaluating.case import Case
from mixlens.evaluating.parallel import word_inputs
from mixlens.evaluations import word_alignment

# ------------------------------------------------------------------------------------- a tiny model


def spelling(before: str = "", byte_level: bool = False) -> PreTrainedTokenizerFast:
    """Every character is a token, and so is the mark of a new word; `before` is a special token in
    front of each text.
    """
    marks = "Ġ" if byte_level else "▁"
    alphabet = ["<pad>", "</s>", "<unk>", "<de>", marks, *"abcdefghijklmnopqrstuvwxyz"]
    made = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(alphabet)}, [], unk_token="<unk>")
    )
    if byte_level:
        made.pre_tokenizer, made.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.post_processor = processors.TemplateProcessing(
        single=f"{before} $A </s>".strip(), special_tokens=[("</s>", 1), ("<de>", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def tiny(tokenizer: Any) -> Lens:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        f"{side}_{name}": n
        for side in ("encoder", "decoder")
        for name, n in {"layers": 2, "attention_heads": 2}.items()
    }
    config = MarianConfig(  # type: ignore[call-arg]
        vocab_size=31,
        d_model=16,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        init_std=0.6,
        attn_implementation="eager",
        **sizes,
    )
    return Lens(MarianMTModel(config).double().eval(), tokenizer)


PAIR = Aligned(
    name="here:1",
    text="ein hund bellt nie",
    pair="a dog never barks",
    source=("ein", "hund", "bellt", "nie"),
    target=("a", "dog", "never", "barks"),
    sure=frozenset({(0, 0), (1, 1), (2, 3)}),
    possible=frozenset({(3, 2)}),
)


def slow_links(lens: Lens, pair: Aligned, setting: str, eos: str) -> list[set[tuple[int, int]]]:
    """The protocol word by word and piece by piece, from the attentions that the model itself gives
    out.
    """

    def spelled(words: Sequence[str]) -> list[list[int]]:
        return [lens.tokenizer(word)["input_ids"][:-1] for word in words]  # without the end mark

    source, target = spelled(pair.source), spelled(pair.target)
    given, consumed = (
        [*(piece for word in source for piece in word), 1],
        [0, *(piece for word in target for piece in word)],
    )
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor([given]), "decoder_input_ids": torch.tensor([consumed])}
        attentions = lens.model(**inputs, output_attentions=True).cross_attentions
    by_layer = []
    for layer in attentions:
        weights, links = layer[0].mean(0), set()
        row = 1 if setting == "AWI" else 0
        for number, word in enumerate(target):
            scores, column = [], 0
            for other in source:
                total = 0.0
                for r in range(row, row + len(word)):
                    for c in range(column, column + len(other)):
                        total += float(weights[r, c])
                scores.append(total / len(word))
                column += len(other)
            end = sum(float(weights[r, column]) for r in range(row, row + len(word))) / len(word)
            if eos == "exclude" or max(scores) > end:
                links.add((scores.index(max(scores)), number))
            row += len(word)
        by_layer.append(links)
    return by_layer


@pytest.mark.parametrize("setting", ["AWI", "AWO"])
@pytest.mark.parametrize("eos", ["drop", "exclude"])
def test_links_are_those_of_the_slow_reading(setting: str, eos: str) -> None:
    lens = tiny(spelling())
    case = Case(lens, PAIR)
    quick = word_alignment.hard_alignments(
        *word_alignment.soft_alignment(case, "attention", setting=setting), eos=eos
    )
    expected = slow_links(lens, PAIR, setting, eos)
    assert quick == expected
    counts = word_alignment.observe(case, "attention", setting=setting, eos=eos)["counts"]
    assert counts == [
        (len(links), len(links & PAIR.sure), len(links & (PAIR.sure | PAIR.possible)), 3)
        for links in expected
    ]


def test_the_settings_read_other_rows_of_one_map() -> None:
    case = Case(tiny(spelling()), PAIR)
    maps = case.maps("attention").scores
    inputs = word_inputs(case.lens, PAIR)
    assert inputs.target == ((1, 3), (3, 7), (7, 13), (13, 19))
    assert maps.shape[1:] == (19, len("".join(PAIR.source)) + 4 + 1)
    for setting, shift in (("AWI", 0), ("AWO", 1)):
        words, special = word_alignment.soft_alignment(case, "attention", setting=setting)
        for number, (start, stop) in enumerate(inputs.target):
            rows = maps[:, start - shift : stop - shift].mean(1)
            for column, (first, last) in enumerate(inputs.source):
                assert np.allclose(
                    words[:, number, column], rows[:, first:last].sum(-1), rtol=0, atol=1e-14
                )
            assert np.allclose(special[:, number, 0], rows[:, -1], rtol=0, atol=1e-14)
    assert len(case._maps) == 1


def test_an_output_measure_explains_every_piece() -> None:
    case = Case(tiny(spelling()), PAIR)
    words, _ = word_alignment.soft_alignment(case, "gradient_norm", setting="AWO")
    assert words.shape == (1, 4, 4)
    ids = case.lens.tokenizer("dog")["input_ids"][:-1]
    rows = [
        measure("gradient_norm", case.recording, site="encoder", position=2 + i, word=piece).scores[
            0, 0, 4:9
        ]
        for i, piece in enumerate(ids)
    ]
    assert np.allclose(words[0, 1, 1], np.mean([row.sum() for row in rows]))


@pytest.mark.parametrize("name", ["attention_norm", "alti", "value_zeroing", "random"])
def test_measures_of_cross_attention_give_a_rate(name: str) -> None:
    result = word_alignment.evaluate([Case(tiny(spelling()), PAIR)], name)
    assert 0 <= result.value <= 1
    assert result.details["aer"].shape == (2,)


# -------------------------------------------------------------------------------------------- words


def test_words_are_tokenised_alone_and_framed_by_the_special_tokens() -> None:
    inputs = word_inputs(tiny(spelling()), PAIR)
    ids = inputs.tensors["input_ids"][0].tolist()
    assert ids == [*(i for word in PAIR.source for i in spelling()(word)["input_ids"][:-1]), 1]
    assert inputs.source == ((0, 4), (4, 9), (9, 15), (15, 19))
    assert inputs.produced[-1] == 1
    assert tuple(inputs.tensors["labels"][0].tolist()) == inputs.produced
    framed = word_inputs(tiny(spelling("<de>")), PAIR)
    assert framed.tensors["input_ids"][0].tolist() == [3, *ids]
    assert framed.source[0] == (1, 5)
    assert framed.target[0] == (2, 4)  # after the start token and the language
    words, special = word_alignment.soft_alignment(Case(tiny(spelling("<de>")), PAIR), "attention")
    assert np.allclose(words.sum(-1) + special.sum(-1), 1)
    assert special.shape[-1] == 2


def test_the_blank_of_byte_level_pieces_belongs_to_the_word_after_it() -> None:
    tokenizer = spelling(byte_level=True)
    inputs = word_inputs(tiny(tokenizer), PAIR)
    assert inputs.tensors["input_ids"][0].tolist() == tokenizer("ein hund bellt nie")["input_ids"]
    assert inputs.source == ((0, 3), (3, 8), (8, 14), (14, 18))


def test_unsupported_alignments_raise() -> None:
    lens = tiny(spelling())
    case = Case(lens, PAIR)
    for wrong, message in (
        ({"setting": "AWX"}, "AWI or AWO"),
        ({"eos": "keep"}, "drop or exclude"),
    ):
        with pytest.raises(InvalidInput, match=message):
            word_alignment.observe(case, "attention", **wrong)
    with pytest.raises(InvalidInput, match="Unknown measure"):
        word_alignment.observe(case, "attentoin")
    with pytest.raises(InvalidInput, match="text examples have no gold alignments"):
        word_alignment.observe(Case(lens, Example(name="x", text="ein hund")), "attention")
    with pytest.raises(InvalidInput, match="encoder-decoder"):
        word_inputs(Lens.bundled(), PAIR)
    with pytest.raises(MissingTokenizer):
        word_inputs(Lens(lens.model), PAIR)
    blank = Aligned(
        name="x", text="", source=("a", ""), target=("b",), sure=frozenset(), possible=frozenset()
    )
    with pytest.raises(InvalidInput, match="no token for the word ''"):
        word_inputs(lens, blank)
    with pytest.raises(InvalidInput, match="One side of the pair has no word"):
        word_inputs(lens, replace(blank, source=()))
    odd = spelling()
    odd.backend_tokenizer.normalizer = normalizers.Replace("a", "")
    with pytest.raises(InvalidInput, match="special tokens of this tokenizer are unknown"):
        word_inputs(tiny(odd), PAIR)


def test_a_tokenizer_without_an_end_mark_gets_one_after_the_translation() -> None:
    marked, bare = spelling(), spelling()
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    with_mark, without = (word_inputs(tiny(each), PAIR) for each in (marked, bare))
    assert without.produced == with_mark.produced
    assert without.target == with_mark.target
    bare.eos_token = None
    with pytest.raises(InvalidInput, match="has no eos_token"):
        word_inputs(tiny(bare), PAIR)


# ------------------------------------------------------------------------------------------ metrics


def test_error_rate_by_hand() -> None:
    links = frozenset({(0, 0), (1, 1), (2, 2), (3, 2)})
    sure, possible = frozenset({(0, 0), (1, 1), (4, 4)}), frozenset({(2, 2), (5, 5)})
    counts = np.array(word_alignment.link_counts(links, sure, possible))
    assert counts.tolist() == [4, 2, 3, 3]  # |A|, |A and S|, |A and P|, |S|
    assert word_alignment.error_rate(counts) == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert word_alignment.precision(counts) == pytest.approx(3 / 4)
    assert word_alignment.recall(counts) == pytest.approx(2 / 3)
    assert (
        word_alignment.error_rate(np.array(word_alignment.link_counts(sure, sure, possible))) == 0
    )
    assert math.isnan(word_alignment.error_rate(np.zeros(4)))


def test_hard_alignment_by_hand() -> None:
    words = np.array([[[0.1, 0.5, 0.2], [0.3, 0.1, 0.1], [0.0, 0.0, 0.0], [0.2, 0.2, 0.1]]])
    special = np.array([[[0.2], [0.5], [0.0], [0.1]]])
    assert word_alignment.hard_alignments(words, special) == [{(1, 0), (0, 3)}]
    assert word_alignment.hard_alignments(words, special, eos="exclude") == [
        {(1, 0), (0, 1), (0, 3)}
    ]
    assert word_alignment.hard_alignments(words, special[..., :0]) == [{(1, 0), (0, 1), (0, 3)}]


def test_a_corpus_is_a_ratio_of_sums() -> None:
    short, long = [[1, 0, 0, 1], [1, 1, 1, 1]], [[10, 9, 10, 9], [10, 2, 3, 9]]
    seen: list[dict[str, Any]] = [{"counts": short}, {"counts": long}]
    result = word_alignment.conclude(seen)
    assert result.details["aer"] == pytest.approx([1 - 19 / 21, 1 - 7 / 21])
    assert result.value == pytest.approx(1 - 19 / 21)
    assert result.per_example == pytest.approx([1, 0])
    assert (result.details["best_layer"], result.details["layer"]) == (0, 0)
    assert result.details["mean_aer"] == pytest.approx((2 - 26 / 21) / 2)
    assert result.details["held_out_aer"] == pytest.approx(
        1 - (0 + 5) / (2 + 19)
    )  # each half in the other's layer
    assert result.direction == "lower"
    second = word_alignment.conclude(seen, layer=1)
    assert (second.value, second.details["layer"]) == (pytest.approx(1 - 7 / 21), 1)
    assert word_alignment.conclude(seen, layer=-1).value == second.value
    for wrong in (2, "worst"):
        with pytest.raises(InvalidInput, match="Pass best, or a number from 0 to 1"):
            word_alignment.conclude(seen, layer=wrong)
    with pytest.raises(InvalidInput, match="o sentence"):
        word_alignment.conclude([])


def test_the_interval_is_of_the_ratio() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 40, 300)
    right = generator.binomial(lengths, 0.8)
    result = word_alignment.conclude(
        [{"counts": [[n, k, k, n]]} for n, k in zip(lengths, right, strict=True)]
    )
    low, high = result.interval
    assert low < result.value < high
    width = 2 * 1.96 * math.sqrt(0.8 * 0.2 / lengths.sum())  # links fail independently here
    assert high - low == pytest.approx(width, rel=0.2)


# ------------------------------------------------------------------------------------- a real model


def measured_cases(
    lens: Lens, pairs: Sequence[Aligned], names: Sequence[str], batch: int = 24
) -> list[Case]:
    """Cases, in order, that know their maps already: recorded with others of like length, which
    saves most of the time.
    """
    made, inputs = (
        [Case(lens, pair) for pair in pairs],
        [word_inputs(lens, pair).tensors for pair in pairs],
    )
    config: Any = lens.model.config
    fill = {"input_ids": config.pad_token_id, "attention_mask": 0, "labels": -100}
    order = sorted(
        range(len(pairs)),
        key=lambda i: (inputs[i]["labels"].shape[1], inputs[i]["input_ids"].shape[1]),
    )
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        given = {
            key: torch.nn.utils.rnn.pad_sequence(
                [inputs[i][key][0] for i in places], batch_first=True, padding_value=value
            )
            for key, value in fill.items()
        }
        recording = lens.record(given)
        for name in names:
            cross = measure(name, recording, site="cross")
            assert isinstance(cross, list)
            for i, maps in zip(places, cross, strict=True):
                made[i]._maps[name, "[]"] = maps
    return made


@pytest.mark.filterwarnings("ignore:Recommended")
def test_rates_of_the_real_translation_model(shared: Path) -> None:
    """447 English-French pairs; the layers are the third and the fifth of six."""
    pytest.importorskip("sentencepiece")
    from transformers import MarianTokenizer

    folder = shared / "models" / "opus-mt-en-fr-pruned-fp16"
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    lens = Lens(model, MarianTokenizer.from_pretrained(folder))
    names = ("attention", "attention_norm")
    pairs = [
        pair
        for pair in read_alignments(shared / "data" / "alignment_en_fr")
        if isinstance(pair, Aligned)
    ]
    cases = measured_cases(lens, pairs, names)
    for name in names:  # a pair alone says the same
        assert word_alignment.observe(Case(lens, pairs[7]), name) == word_alignment.observe(
            cases[7], name
        )
    results = {
        (name, setting, eos): word_alignment.conclude(
            [word_alignment.observe(case, name, setting=setting, eos=eos) for case in cases]
        )
        for name in names
        for setting in word_alignment.SETTINGS
        for eos in word_alignment.EOS
    }
    assert not any("recording" in vars(case) for case in cases)
    expected = {
        ("attention", "AWI", "drop"): (0.195, 2),
        ("attention", "AWI", "exclude"): (0.130, 2),
        ("attention", "AWO", "drop"): (0.248, 4),
        ("attention", "AWO", "exclude"): (0.224, 4),
        ("attention_norm", "AWI", "drop"): (
            0.110,
            1,
        ),  # norms gain where links to the end mark are dropped
        ("attention_norm", "AWI", "exclude"): (
            0.132,
            1,
        ),  # and nothing where it is left out of the choice
    }
    for key, (rate, layer) in expected.items():
        assert results[key].value == pytest.approx(rate, abs=0.005)
        assert results[key].details["best_layer"] == layer
        assert len(results[key].per_example) == 447
    weights, norms = results["attention", "AWI", "drop"], results["attention_norm", "AWI", "drop"]
    assert norms.interval[1] < weights.interval[0]  # Kobayashi's finding, in the best layer
    for setting in word_alignment.SETTINGS:  # and over all layers
        gap = (
            results["attention", setting, "drop"].details["mean_aer"]
            - results["attention_norm", setting, "drop"].details["mean_aer"]
        )
        assert gap > 0.1
