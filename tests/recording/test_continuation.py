"""A prompt and its continuation: scores of single targets equal those of whole maps."""

from __future__ import annotations

import copy
import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import AddedToken
from tokenizers.processors import ByteLevel

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.errors import EmptyInput, InputTooLong, InvalidInput, UnsupportedModel
from mixlens.measuring.measure import measure_together
from mixlens.views.plots.chosen import format_caption
from tests.conformance.zoo import built, randomised
from tests.measures import models

PROMPT = "The keys to the cabinet"
TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] | trim }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
CHAT = [
    {"role": "system", "content": "You answer in one word."},
    {"role": "user", "content": "The keys to the cabinet near the doors. "},
    {"role": "assistant", "content": "table"},
    {"role": "user", "content": "Are they old?"},
]


@functools.cache
def bundled() -> Lens:
    return Lens.bundled("causal")


@functools.cache
def chatty() -> Lens:
    """A random Llama with grouped heads, and a tokenizer that has a chat template."""
    tokenizer = copy.deepcopy(bundled().tokenizer)
    marks = [AddedToken("<|turn|>", special=True), AddedToken("<|end|>", special=True)]
    tokenizer.add_tokens(marks, special_tokens=True)
    tokenizer.chat_template = TEMPLATE
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=96,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return Lens(randomised(hf.LlamaForCausalLM(config)).eval(), tokenizer)


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


def require_same_as_maps(lens: Lens, rows: Any, measure: str = "value_zeroing") -> MixingMaps:
    """The rows against whole maps of the same tokens, recorded by hand."""
    assert not rows.is_kept
    made = one(mixlens.measure(measure, rows))
    ids = rows.inputs["input_ids"]
    whole = one(lens.measure(measure, {"input_ids": ids}))
    expected = whole.scores[:, list(made.target_positions)]
    np.testing.assert_allclose(made.scores, expected, atol=1e-6, rtol=1e-5)
    assert made.source_tokens == whole.source_tokens
    assert made.provenance["recorded"] == "rows"
    return made


def test_generated_tokens_are_the_models_own_choice_and_their_rows_those_of_the_maps() -> None:
    lens = bundled()
    model: Any = lens.model
    before = model.generation_config.to_dict()
    rows = lens.generate(PROMPT, max_new_tokens=5)
    maps = require_same_as_maps(lens, rows)
    assert model.generation_config.to_dict() == before
    ids = lens.tokenizer(PROMPT)["input_ids"]
    for place in range(5):  # greedy, one step at a time
        with torch.no_grad():
            logits = lens.model(input_ids=torch.tensor([ids])).logits[0, -1]
        ids.append(int(logits.argmax()))
        assert maps.target_positions[place] == len(ids) - 2
        assert maps.tokens[place] == lens.tokenizer.convert_ids_to_tokens(ids[-1])
    text = maps.target_row.text
    assert text == lens.tokenizer.decode(ids, skip_special_tokens=True)
    assert maps.row(maps.tokens[2]).target == maps.target_positions[2]
    again = one(mixlens.measure("value_zeroing", lens.generate(PROMPT, max_new_tokens=5)))
    assert again == maps


def test_a_given_answer_works_as_if_it_were_generated() -> None:
    lens = bundled()
    made = require_same_as_maps(lens, lens.generate(PROMPT, answer=" are on the table."), "alti")
    assert made.tokens == ("Ġare", "Ġon", "Ġthe", "Ġtable", ".")
    assert made.words().tokens == ("are", "on", "the", "table", ".")
    assert [segment.name for segment in made.source_row.segments or ()] == ["prompt", "answer"]
    generated = lens.generate(PROMPT, max_new_tokens=3)
    assert generated.produced is not None
    new = generated.produced[0].ids[-3:]
    given = lens.generate(PROMPT, answer=lens.tokenizer.decode(new))
    by_ids = lens.generate(PROMPT, answer=new)
    expected = one(mixlens.measure("alti", generated))
    assert one(mixlens.measure("alti", by_ids)) == expected
    np.testing.assert_array_equal(one(mixlens.measure("alti", given)).scores, expected.scores)


def test_an_answer_that_joins_the_last_word_takes_the_models_own_tokens() -> None:
    lens = bundled()
    with pytest.warns(UserWarning, match="Begin it with a space"):
        rows = lens.generate("The keys to the cab", answer="inet are")
    maps = one(mixlens.measure("attention", rows))
    assert maps.tokens == ("Ġcabin", "et", "Ġare")
    assert maps.source_row.segment_names == (*("prompt",) * 6, "answer", "answer")
    assert set(maps.to_dataframe()["source_segment"]) == {"prompt", "answer"}
    sums = maps.segments()
    assert sums.source_tokens == ("(first token)", "prompt", "answer")
    np.testing.assert_allclose(sums.scores.sum(-1), maps.scores.sum(-1), rtol=1e-6)


def test_turns_are_found_by_characters_if_an_answer_changes_the_tokens() -> None:
    tokenizer = copy.deepcopy(bundled().tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    lens = Lens(bundled().model, tokenizer)
    for end, answer in (("The ke", "ys"), ("The keys to the ", "house."), ("The cab", "inet")):
        chat = [{"role": "system", "content": "Be brief. "}, {"role": "user", "content": end}]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            maps = one(mixlens.measure("attention", lens.generate(chat, answer=answer)))
        row = maps.source_row
        assert row.offsets is not None
        assert row.segment_names is not None
        border = len("Be brief. ")
        for (start, stop), name in zip(row.offsets[1:], row.segment_names[1:], strict=True):
            reaches = stop > border + len(end)
            assert name == ("answer" if reaches else "user" if start >= border - 1 else "system")
        np.testing.assert_allclose(maps.segments("turns").scores.sum(-1), 1, rtol=1e-5)


def test_chats_are_written_out_by_the_template_and_known_by_their_turns() -> None:
    lens = chatty()
    made = require_same_as_maps(lens, lens.generate(CHAT, max_new_tokens=4))
    text = lens.tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    row = made.source_row
    assert row.text is not None
    assert row.offsets is not None
    assert row.special is not None
    assert row.text.startswith(text)
    turns = [label for label, mark in zip(row.labels, row.special, strict=True) if mark]
    assert turns[:2] == ["<|turn|>", "<|end|>"]
    for segment, content in (
        ("system", CHAT[0]["content"]),
        ("user 1", CHAT[1]["content"].strip()),
        ("assistant", "table"),
        ("user 2", CHAT[3]["content"]),
    ):
        (part,) = [known for known in row.segments or () if known.name == segment]
        first, last = row.offsets[part.start][0], row.offsets[part.stop - 1][1]
        assert row.text[first:last].strip() == content
    assert (row.segments or ())[-1].name == "answer"


def test_words_of_bytes_and_special_tokens_keep_their_places() -> None:
    lens = bundled()
    new = [*lens.tokenizer(" 日本 é", add_special_tokens=False)["input_ids"], 1]
    row = one(mixlens.measure("attention", lens.generate(PROMPT, answer=new))).target_row
    assert row.text == PROMPT + " 日本 é"
    assert row.offsets is not None
    assert row.labels[-1] == "<s>"
    assert row.offsets[-1] == (len(row.text), len(row.text))
    covered = "".join(row.text[a:b] for a, b in dict.fromkeys(row.offsets))
    assert covered.replace(" ", "") == row.text.replace(" ", "")


def test_characters_of_several_bytes_are_words_when_they_are_generated() -> None:
    lens = bundled()
    new = lens.tokenizer(" happy 🐶狗 now", add_special_tokens=False)["input_ids"]
    maps = one(mixlens.measure("attention", lens.generate("The dog 🐶 is", answer=new)))
    assert maps.words().tokens == ("happy", "🐶狗", "now")
    cut = new[: len(new) - 2]  # in the middle of the last character
    maps = one(mixlens.measure("attention", lens.generate("The dog 🐶 is", answer=cut)))
    assert maps.words().tokens == ("happy", "🐶\ufffd")


def _bytewise(kind: Any, **sizes: Any) -> Lens:
    """A tokenizer without offsets, which ends each text by a mark of its own."""
    config = hf.AutoConfig.for_model(kind, vocab_size=384, **sizes)
    model = hf.AutoModelForCausalLM if kind == "gpt2" else hf.AutoModelForSeq2SeqLM
    return Lens(randomised(model.from_config(config)).eval(), hf.ByT5Tokenizer())


def test_a_tokenizer_without_offsets_adds_no_end_mark_to_a_given_answer() -> None:
    lens = _bytewise("gpt2", n_embd=16, n_layer=2, n_head=4, n_positions=40)
    answer = " is"
    made = one(mixlens.measure("attention", lens.generate("It", answer=answer)))
    assert made.tokens == (" ", "i", "s")
    by_ids = lens.generate(
        {"input_ids": lens.tokenizer("It", add_special_tokens=False)["input_ids"]},
        answer=lens.tokenizer(answer, add_special_tokens=False)["input_ids"],
    )
    np.testing.assert_array_equal(
        made.scores, one(mixlens.measure("attention", by_ids)).scores[..., :5]
    )


def test_a_model_that_names_no_padding_generates_without_a_warning() -> None:
    lens = _bytewise("gpt2", n_embd=16, n_layer=2, n_head=4, n_positions=40)
    assert lens.model.generation_config.pad_token_id is None
    assert len(lens.generate("It", max_new_tokens=2).targets[0]) == 2  # type: ignore[index]


def test_decoder_tokens_have_offsets() -> None:
    config = hf.BartConfig(**{**models._BART, "vocab_size": 4096})
    model = randomised(hf.BartForConditionalGeneration(config)).eval()
    lens = Lens(model, bundled().tokenizer)
    rows = lens.generate(
        PROMPT, answer=lens.tokenizer(" on the", add_special_tokens=False)["input_ids"]
    )
    assert rows.produced is not None
    row = rows.produced[0].tokens
    assert row.text is not None
    assert row.text.split() == ["on", "the"]
    assert [row.text[a:b].strip() for a, b in row.offsets or ()] == ["on", "the"]


def test_a_decoder_is_given_the_text_of_its_answer() -> None:
    sizes = {"num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}
    lens = _bytewise("t5", d_model=16, d_kv=8, d_ff=24, **sizes)
    rows = lens.generate("It is", answer="ja")
    assert rows.produced is not None
    assert rows.produced[0].tokens.labels == ("j", "a", "</s>")
    by_ids = lens.generate("It is", answer=lens.tokenizer("ja")["input_ids"])
    made, expected = (one(mixlens.measure("attention_norm", each)) for each in (rows, by_ids))
    np.testing.assert_array_equal(made.scores, expected.scores)
    named = lens.generate("It is", answer="ja", site="decoder")
    assert one(mixlens.measure("attention", named)).provenance["site"] == "decoder"
    with pytest.raises(InvalidInput, match="'encoder' does not read generated tokens"):
        lens.generate("It is", answer="ja", site="encoder")


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_and_decoder(name: str) -> None:
    """Targets are the decoder's; by default what they took from the prompt is measured."""
    config = built(name).config
    kind = {"t5": hf.T5ForConditionalGeneration, "bart": hf.BartForConditionalGeneration}[name]
    lens = Lens(randomised(kind(config)).eval().double())
    prompt = {"input_ids": torch.tensor([[5, 9, 13, 7, 30, 2]])}
    rows = lens.generate(prompt, max_new_tokens=4, min_new_tokens=4)
    answer = rows.produced[0].ids if rows.produced is not None else ()
    given = lens.generate(prompt, answer=answer)
    assert torch.equal(rows.inputs["decoder_input_ids"], given.inputs["decoder_input_ids"])
    assert rows.inputs["decoder_input_ids"][0, 1:].tolist() == list(answer[:-1])
    whole = lens.record(dict(rows.inputs))
    for site in ("cross", "decoder"):
        made = one(mixlens.measure("attention_norm", rows, site=site))
        expected = one(mixlens.measure("attention_norm", whole, site=site))
        assert made.tokens == tuple(map(str, answer))
        np.testing.assert_allclose(made.scores, expected.scores, atol=1e-6, rtol=1e-5)
        assert len(made.to_dataframe()) == made.scores.size
    assert made.source_row.segment_names == ("(other)", *("answer",) * (len(answer) - 1))
    with pytest.raises(InvalidInput, match="This text has no turns"):
        made.segments("turns")
    assert one(mixlens.measure("alti", rows)).provenance["site"] == "cross"


def test_a_model_whose_attention_is_not_cut_gives_the_same_targets_from_maps() -> None:
    lens = Lens(randomised(hf.BloomForCausalLM(built("bloom").config)).eval())
    recording = lens.generate({"input_ids": [[5, 9, 13]]}, answer=[7, 8])
    maps = one(mixlens.measure("alti", recording))
    assert maps.tokens == ("7", "8")
    assert maps.target_positions == (2, 3)
    assert maps.provenance["recorded"].startswith("maps: ")


def test_output_measures_explain_the_produced_token() -> None:
    lens = Lens.bundled("causal", dtype=torch.float64)
    rows = lens.generate(PROMPT, answer=" are on the table")
    made = one(mixlens.measure("gradient_norm", rows, targets=["table"]))
    assert made.tokens == ("table at 10",)
    every = one(mixlens.measure("gradient_norm", rows))
    assert len(every.tokens) == 4
    assert every.tokens[-1] == "table at 10"
    np.testing.assert_allclose(every.scores[:, -1], made.scores[:, 0], rtol=5e-6)
    for number, name in enumerate(("Ġare", "Ġon", "Ġthe")):
        alone = one(mixlens.measure("gradient_norm", rows, targets=[name]))
        np.testing.assert_allclose(every.scores[:, number], alone.scores[:, 0], rtol=5e-6)
    with pytest.raises(InvalidInput, match="Pass one of the 4 targets"):
        mixlens.measure("gradient_norm", rows, word="table")


def test_maps_that_explain_an_output_explain_the_produced_token() -> None:
    lens = bundled()
    rows = lens.generate(PROMPT, answer=" are on the table")
    whole = {"input_ids": rows.inputs["input_ids"]}
    made = one(mixlens.measure("attention_gradient", rows, targets=["table"]))
    place = made.target_positions[0]
    expected = one(lens.measure("attention_gradient", whole, position=place, word="table"))
    np.testing.assert_allclose(made.scores, expected.scores[:, [place]], atol=1e-6, rtol=1e-4)
    every = one(mixlens.measure("attention_gradient", rows))
    assert every.tokens[-1] == made.tokens[0]
    for number, target in enumerate(every.target_positions):
        alone = one(mixlens.measure("attention_gradient", rows, targets=[target]))
        np.testing.assert_allclose(every.scores[:, number], alone.scores[:, 0], atol=1e-7)
    of_one = one(mixlens.measure("attention_gradient", rows, position=place, word="table"))
    np.testing.assert_allclose(
        of_one.scores, expected.scores[:, list(of_one.target_positions)], atol=1e-6, rtol=1e-4
    )


def test_extras_of_several_words_are_theirs() -> None:
    rows = bundled().generate(PROMPT, answer=" are on")
    every = one(mixlens.measure("logit_update", rows))
    for number, name in enumerate(("Ġare", "Ġon")):
        alone = one(mixlens.measure("logit_update", rows, targets=[name]))
        np.testing.assert_allclose(
            every.measured["unattributed"].values[:, number],
            alone.measured["unattributed"].values,
            rtol=1e-6,
        )


def test_several_measures_share_one_pass() -> None:
    lens, passes = bundled(), 0

    def count(*_: Any) -> None:
        nonlocal passes
        passes += 1

    # A recording is bound to the hooks of its model, so this one comes first.
    hook = lens.model.register_forward_pre_hook(count)
    try:
        rows = lens.generate(PROMPT, answer=" are on the table")
        passes = 0
        made = measure_together(["attention", "attention_norm", "alti"], rows)
    finally:
        hook.remove()
    assert passes == 1
    assert all(one(maps).tokens[0] == "Ġare" for maps in made.values())


@pytest.mark.parametrize(
    ("prompt", "options", "error", "words"),
    [
        (PROMPT, {"answer": ""}, EmptyInput, "The answer is empty"),
        ("", {"answer": " x"}, EmptyInput, "empty"),
        (PROMPT, {"answer": " are" * 300}, InputTooLong, "up to 249"),
        (PROMPT, {"max_new_tokens": 300}, InputTooLong, "up to 249"),
        (PROMPT, {"max_new_tokens": 0}, InvalidInput, "is out of range"),
        (
            PROMPT,
            {"answer": " are", "max_new_tokens": 3},
            InvalidInput,
            "cannot be combined with an answer",
        ),
        (PROMPT, {"num_beams": 2, "num_return_sequences": 2}, InvalidInput, "one at a time"),
        ([{"role": "user", "content": "Hi"}], {}, InvalidInput, "no chat template"),
        ([PROMPT, PROMPT], {}, InvalidInput, "one at a time"),
        ([], {}, EmptyInput, "no message"),
        ({"input_ids": [[1, 2], [3, 4]]}, {}, InvalidInput, "one prompt at a time"),
        ({"input_ids": [5, 6]}, {"answer": " are"}, InvalidInput, "Pass token ids for both"),
        (PROMPT, {"answer": []}, EmptyInput, "The answer is empty"),
        (PROMPT, {"answer": b"ab"}, InvalidInput, "bytes is not an answer"),
        (PROMPT, {"answer": 5}, InvalidInput, "int is not an answer"),
        (PROMPT, {"answer": torch.tensor(5)}, InvalidInput, "Tensor is not an answer"),
        (PROMPT, {"answer": [5, -3]}, InvalidInput, "answer contains -3"),
        (None, {}, InvalidInput, "NoneType is not a prompt"),
        (PROMPT, {"answer": [10**7]}, InvalidInput, "outside the model's vocabulary of 4096"),
        (PROMPT, {"answer": [10**30]}, InvalidInput, "outside the model's vocabulary of 4096"),
        (PROMPT, {"answer": [5, 1.5]}, InvalidInput, "1.5 is not an integer"),
        (PROMPT, {"answer": torch.tensor([[5, 6]])}, InvalidInput, "is not an integer"),
        ({"input_ids": [5, -3]}, {}, InvalidInput, "input_ids contains -3"),
        ({"input_ids": [5, 10**7]}, {}, InvalidInput, "outside the model's vocabulary of 4096"),
        ({"input_ids": [[5], [6, 7]]}, {}, InvalidInput, "is not a batch of numbers"),
        ({"input_ids": [5, 6], "attention_mask": [1]}, {}, InvalidInput, "one number for each"),
        (" are" * 300, {"max_new_tokens": 1}, InputTooLong, "Shorten the prompt"),
        (PROMPT, {"max_length": 7}, InvalidInput, "rejects these options.*`max_length` is set"),
        (PROMPT, {"max_tokens": 3}, InvalidInput, "max_tokens is not an option of lens.generate"),
        (PROMPT, {"num_beams": 0}, InvalidInput, "rejects these options .ZeroDivisionError"),
        (PROMPT, {"min_new_tokens": "a"}, InvalidInput, "rejects these options .TypeError"),
    ],
)
def test_wrong_usage_raises(
    prompt: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        bundled().generate(prompt, **options)


@pytest.mark.parametrize("answer", [[10**7], [-3], [5, 10**7]])
def test_ids_of_an_answer_are_those_of_the_decoder(answer: list[int]) -> None:
    lens = Lens(built("bart", head=True))
    with pytest.raises(InvalidInput, match=r"contains -3|outside the model's vocabulary of 96"):
        lens.generate({"input_ids": [5, 6, 7]}, answer=answer)
    assert lens.generate({"input_ids": [5, 6, 7]}, answer=[95]).targets == ((0,),)


def test_an_answer_needs_tokens_and_a_prompt_of_its_own() -> None:
    with pytest.raises(EmptyInput, match="no token for the answer"):
        Lens.bundled().generate(PROMPT, answer="\u200b")
    lens = bundled()
    tokenizer = copy.deepcopy(lens.tokenizer)
    tokenizer.backend_tokenizer.post_processor = ByteLevel()  # no <s> in front
    with (
        pytest.warns(UserWarning, match="Begin it with a space"),
        pytest.raises(InvalidInput, match="no token before the answer"),
    ):
        Lens(lens.model, tokenizer).generate("th", answer="e")


def test_models_that_generate_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="cannot generate text"):
        Lens.bundled().generate(PROMPT)
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        Lens.bundled().generate(PROMPT, answer=" are")
    config = hf.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=20)
    hf.BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="BertModel cannot generate"):  # not: has no pooler
        Lens.from_pretrained(str(tmp_path)).generate({"input_ids": [[5, 6]]})
    bare = Lens(built("llama"))  # no head: an answer can be given, nothing can be generated
    assert one(mixlens.measure("alti", bare.generate({"input_ids": [[5, 6]]}, answer=[7]))).tokens


def test_a_recording_shows_its_answer() -> None:
    lens = bundled()
    rows = lens.generate(PROMPT, max_new_tokens=4)
    assert rows.produced is not None
    new = [rows.produced[0].ids[place] for place in (rows.targets or ((),))[0]]
    assert rows.answer == lens.tokenizer.decode(new)
    assert repr(rows.answer) in repr(rows)
    assert lens.generate(PROMPT, answer=rows.answer).answer == rows.answer
    assert lens.generate(PROMPT, answer=new).answer == rows.answer
    assert lens.record(PROMPT).answer is None
    by_ids = lens.generate({"input_ids": [[5, 9, 13]]}, answer=new)
    assert by_ids.answer == lens.tokenizer.decode(new)
    assert Lens(lens.model).generate({"input_ids": [[5, 9, 13]]}, answer=new).answer is None


def test_special_tokens_at_the_end_are_left_out() -> None:
    lens = Lens.from_pretrained("src/mixlens/bundled/causal", dtype=torch.float64)
    plain = lens.generate(PROMPT, max_new_tokens=6)
    assert plain.produced is not None
    new = [plain.produced[0].ids[place] for place in (plain.targets or ((),))[0]]
    end = next(i for i in range(2, 6) if new[i] not in new[:i])
    lens.model.generation_config.eos_token_id = [new[end]]
    rows = lens.generate(PROMPT, max_new_tokens=6, explain_end=False)
    assert rows.targets == ((plain.targets or ((),))[0][:end],)
    made, expected = (one(mixlens.measure("alti", each)) for each in (rows, plain))
    np.testing.assert_allclose(
        made.scores, expected.scores[:, :end, : made.scores.shape[-1]], atol=1e-10
    )
    whole = lens.generate(PROMPT, max_new_tokens=6)
    assert len((whole.targets or ((),))[0]) == end + 1
    lens.model.generation_config.eos_token_id = [new[0]]
    alone = lens.generate(PROMPT, max_new_tokens=6, explain_end=False)
    assert len((alone.targets or ((),))[0]) == 1  # nothing else was generated


def test_the_answer_of_an_encoder_and_decoder() -> None:
    sizes = {"num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}
    lens = _bytewise("t5", d_model=16, d_kv=8, d_ff=24, **sizes)
    assert lens.generate("It is", answer="ja nein").answer == "ja nein"


def test_provenance_names_the_token_that_labels_a_target() -> None:
    sizes = {"num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}
    lens = _bytewise("t5", d_model=16, d_kv=8, d_ff=24, **sizes)
    produced = one(mixlens.measure("attention", lens.generate("It is", answer="ja")))
    read = lens.measure("attention", ("It is", "ja"), site="cross")
    assert produced.provenance["target_names"] == "the token produced"
    assert read.provenance["target_names"] == "the token read"
    assert "targets named by the token produced" in format_caption(produced)
    assert "targets named by the token read" in format_caption(read)
    assert "target_names" not in bundled().measure("attention", PROMPT).provenance
