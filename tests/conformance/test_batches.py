"""A text gets the same scores in any batch as alone: next to longer and shorter ones, padded on
either side with any id, in a list, in tensors and in a corpus run.

The models are classifiers that read the last token before the padding, the last [EOS], the last
column or the first token, and models that see their padding or rotate by the longest text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.recording.batch_independence import DependentTexts
from mixlens.runs.corpus_run import run_corpus
from mixlens.runs.job import ModelSource
from tests.conformance.zoo import randomised
from tests.runs.sentences import job_for, write_corpus

WORDS, PAD, EOS = 60, 2, 1
SIZES: dict[str, Any] = {"vocab_size": WORDS, "num_labels": 3, "pad_token_id": PAD}
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
LLAMA: dict[str, Any] = {**SMALL, "intermediate_size": 24, "num_key_value_heads": 2}
T5: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
BART: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "forced_eos_token_id": EOS,
}
CLASSIFIERS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2": ("GPT2", {"n_embd": 16, "n_layer": 2, "n_head": 2}),
    "a token outside": ("Llama", {**LLAMA, "pad_token_id": -1}),
    "Llama": ("Llama", LLAMA),
    "Mistral": ("Mistral", LLAMA),
    "Qwen2": ("Qwen2", LLAMA),
    "OPT": ("OPT", {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "Bloom": ("Bloom", {"hidden_size": 16, "n_layer": 2, "n_head": 2}),
    "Falcon": ("Falcon", {**SMALL, "alibi": False}),
    "GPTNeoX": ("GPTNeoX", {**SMALL, "intermediate_size": 24}),
    "Bert": ("Bert", {**SMALL, "intermediate_size": 24}),
    "Bart": ("Bart", BART),
    "T5": ("T5", T5),
    "XLNet": ("XLNet", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}),
    "MobileBert": (
        "MobileBert",
        {
            **SMALL,
            "embedding_size": 16,
            "intermediate_size": 24,
            "intra_bottleneck_size": 16,
            "num_feedforward_networks": 2,
        },
    ),
    "ConvBert": ("ConvBert", {**SMALL, "embedding_size": 16, "intermediate_size": 24}),
}
LENGTHS = (9, 4, 1, 7)
MEASURES: dict[str, dict[str, Any]] = {
    "attention": {},
    "attention_norm_res": {},
    "alti": {},
    "value_zeroing": {"targets": [-1]},
    "gradient_norm": {"label": 1, "of": "logit"},
    "blank_out": {"label": 1, "of": "logit", "replacement": "zero"},
}


def classifier(name: str) -> nn.Module:
    family, own = CLASSIFIERS[name]
    config = getattr(hf, f"{family}Config")(
        **{**SIZES, "eos_token_id": EOS, "bos_token_id": 0, "decoder_start_token_id": 0, **own}
    )
    torch.manual_seed(0)
    model: nn.Module = getattr(hf, f"{family}ForSequenceClassification")(config)
    return randomised(model.double().eval())


def tokens(length: int, seed: int) -> Tensor:
    """They end with one [EOS], as the tokenizers of BART and T5 end a text."""
    drawn = torch.randint(5, WORDS, (length,), generator=torch.Generator().manual_seed(seed))
    drawn[-1] = EOS
    return drawn


TEXTS = [tokens(length, seed) for seed, length in enumerate(LENGTHS)]


def alone(number: int, name: str = "") -> dict[str, Tensor]:
    made = {
        "input_ids": TEXTS[number][None],
        "attention_mask": torch.ones(1, LENGTHS[number], dtype=torch.long),
    }
    return _with_decoder(made) if name in ("Bart", "T5") else made


def _with_decoder(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """BART and T5 classify by the decoder's state at the [EOS], given the same tokens."""
    return {**given, **{f"decoder_{key}": value for key, value in given.items()}}


def padded(side: str, padding: int, name: str = "") -> dict[str, Tensor]:
    width = max(LENGTHS)
    ids, mask = torch.full((4, width), padding), torch.zeros(4, width, dtype=torch.long)
    for number, text in enumerate(TEXTS):
        part = slice(0, len(text)) if side == "right" else slice(width - len(text), width)
        ids[number, part], mask[number, part] = text, 1
    made = {"input_ids": ids, "attention_mask": mask}
    return _with_decoder(made) if name in ("Bart", "T5") else made


def measured(lens: Lens, name: str, given: Any) -> list[MixingMaps] | None:
    """None if the measure is not defined for the model."""
    try:
        maps = lens.measure(name, given, **MEASURES[name])
    except mixlens.UnsupportedModel:
        return None
    return maps if isinstance(maps, list) else [maps]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_text_of_a_batch_has_the_scores_that_it_has_alone(name: str) -> None:
    lens, tested = Lens(classifier(name)), 0
    for measure in MEASURES:
        expected = [measured(lens, measure, alone(number, name)) for number in range(len(TEXTS))]
        for side, padding in (("right", PAD), ("left", 7)):
            made = measured(lens, measure, padded(side, padding, name))
            if made is None:
                continue
            tested += 1
            for one, other in zip(made, expected, strict=True):
                assert other is not None
                np.testing.assert_allclose(one.scores, other[0].scores, atol=1e-9, rtol=1e-7)
                assert one.facts == other[0].facts
    assert tested >= 4


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_explained_output_is_that_of_the_model_alone(name: str) -> None:
    model = classifier(name)
    lens = Lens(model)
    made = measured(lens, "gradient_norm", padded("right", 9, name))
    assert made is not None
    site = lens.record(alone(0, name)).structure.stacks[0]
    layer = model.get_submodule(site.layers[0].path)
    for number, maps in enumerate(made):
        entered: list[Tensor] = []

        def keep(module: Any, args: Any, kwargs: Any, entered: list[Tensor] = entered) -> None:
            values = (*args, *kwargs.values())
            entered.append(next(v for v in values if torch.is_tensor(v) and v.is_floating_point()))

        handle = layer.register_forward_pre_hook(keep, with_kwargs=True)
        logit = model(**alone(number, name)).logits[0, 1]
        handle.remove()
        (slope,) = torch.autograd.grad(logit, entered[0])
        expected = slope.reshape(LENGTHS[number], -1).norm(dim=-1)
        torch.testing.assert_close(torch.tensor(maps.scores[0, 0]), expected, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", ["GPT2", "Bert", "MobileBert"])
def test_embeddings_of_a_batch_have_the_scores_that_each_text_has_alone(name: str) -> None:
    lens, given = Lens(classifier(name)), padded("right", PAD)
    model: Any = lens.model
    states = model.get_input_embeddings()(given["input_ids"]).detach()
    mask = given["attention_mask"]
    made = measured(lens, "gradient_norm", {"inputs_embeds": states, "attention_mask": mask})
    assert made is not None
    for number, (maps, length) in enumerate(zip(made, LENGTHS, strict=True)):
        one = {
            "inputs_embeds": states[number : number + 1, :length],
            "attention_mask": mask[number : number + 1, :length],
        }
        expected = measured(lens, "gradient_norm", one)
        assert expected is not None
        np.testing.assert_allclose(maps.scores, expected[0].scores, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", ["MobileBert", "ConvBert"])
def test_recordings_of_padded_texts_are_refused_if_a_model_sees_its_padding(name: str) -> None:
    lens = Lens(classifier(name))
    with pytest.raises(DependentTexts, match=r"depends on padding.* Pass one text at a time"):
        lens.record(padded("right", PAD))
    with pytest.raises(InvalidInput, match=r"`Lens.measure` and corpus runs do this"):
        lens.measure_batch("attention", padded("right", PAD))
    same = {key: torch.cat([value, value]) for key, value in alone(0).items()}
    assert lens.record(same).batch == 2  # nothing is padded


# ---------------------------------------------------------------------- lengths that change a model

ROTARY: dict[str, dict[str, Any]] = {
    "longrope": {
        "short_factor": [1.0] * 4,
        "long_factor": [3.0] * 4,
        "original_max_position_embeddings": 6,
    },
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 6},
}


def rotated(kind: str, limit: int = 6) -> nn.Module:
    rotary = {"rope_type": kind, "rope_theta": 100.0, **ROTARY[kind]}
    own: dict[str, Any] = {
        "vocab_size": WORDS,
        "pad_token_id": PAD,
        "eos_token_id": None,
        "max_position_embeddings": limit,
        "rope_parameters": rotary,
        "attn_implementation": "eager",
    }
    config = hf.LlamaConfig(**LLAMA, **own)
    torch.manual_seed(0)
    return randomised(hf.LlamaForCausalLM(config).double().eval())


@pytest.mark.parametrize("kind", ROTARY)
@pytest.mark.parametrize("side", ["right", "left"])
def test_frequencies_are_those_of_the_text_and_not_of_the_longest(kind: str, side: str) -> None:
    lens = Lens(rotated(kind))
    lens.measure("gradient_norm", alone(0), word=5)  # a long one first: dynamic NTK remembers it
    made = lens.measure("attention", padded(side, PAD), per_head=True)
    assert isinstance(made, list)
    for number, maps in enumerate(made):
        with torch.no_grad():
            own = rotated(kind)(**alone(number), output_attentions=True, use_cache=False).attentions
        np.testing.assert_allclose(maps.scores, torch.cat(own).numpy(), atol=1e-7, rtol=0)


def test_a_continuation_across_a_change_of_frequencies_is_refused() -> None:
    prompt = {"input_ids": TEXTS[1][None]}  # of 4 tokens: up to 6 have the same frequencies
    for kind in ("longrope", "dynamic"):
        lens = Lens(rotated(kind))
        assert lens.generate(prompt, max_new_tokens=3).batch == 1
        with pytest.raises(InvalidInput, match=r"after 6, .* by at most 3 tokens"):
            lens.generate(prompt, max_new_tokens=4)
    long = {"input_ids": TEXTS[0][None]}
    assert Lens(rotated("longrope")).generate(long, max_new_tokens=4).batch == 1
    with pytest.raises(InvalidInput, match=r"after 9, .* by at most 1 token"):
        Lens(rotated("dynamic")).generate(long, max_new_tokens=2)


# ------------------------------------------------------------------------------ one token, and rows


@pytest.mark.skipif(not hasattr(hf, "Gemma4ForCausalLM"), reason="transformers has no Gemma 4 yet")
def test_a_text_of_one_token_proves_nothing_for_longer_ones() -> None:
    from tests.zoo.models import entries

    entry = next(e for e in entries() if e.key == "Gemma4ForCausalLM")
    lens = Lens(entry.build())
    given = {"input_ids": entry.given()["input_ids"][:1]}
    lens.measure("value_zeroing", {"input_ids": given["input_ids"][:, :1]})
    after = lens.measure("value_zeroing", given)
    assert isinstance(after, MixingMaps)
    fresh = Lens(entry.build()).measure("value_zeroing", given)
    assert isinstance(fresh, MixingMaps)
    assert np.array_equal(after.scores, fresh.scores)


def test_rows_are_divided_for_each_text_and_target() -> None:
    lens = Lens(classifier("GPT2"))
    with torch.no_grad():  # large biases: in some rows no source helps, and ALTI is empty
        for block in lens.model.transformer.h:
            block.attn.c_proj.bias.mul_(30)
    texts = [tokens(9, seed) for seed in range(12)]
    single = [lens.measure("alti", {"input_ids": text[None]}) for text in texts]
    assert {maps.facts.rows_sum_to_one for maps in single} == {True, False}
    batch = lens.measure("alti", {"input_ids": torch.stack(texts)})
    assert isinstance(batch, list)
    for text, one, other in zip(texts, single, batch, strict=True):
        assert one.facts == other.facts
        expected = one.without_sink()
        np.testing.assert_allclose(other.without_sink().scores, expected.scores, atol=1e-12)
        for target in (0, 3, -1):
            row = lens.measure("alti", {"input_ids": text[None]}, targets=[target])
            chosen = one.at(targets=[target])
            assert row.facts == chosen.facts
            for maps in (chosen, row):
                np.testing.assert_allclose(
                    maps.without_sink().scores, expected.at(targets=[target]).scores, atol=1e-12
                )


def test_padding_of_an_encoder_that_is_not_measured_is_no_source() -> None:
    config = hf.PegasusXConfig(
        **{**BART, "vocab_size": WORDS, "pad_token_id": PAD, "decoder_start_token_id": 0},
        num_global_tokens=4,
        block_size=8,
    )
    torch.manual_seed(0)
    lens = Lens(randomised(hf.PegasusXForConditionalGeneration(config).double().eval()))
    start = torch.tensor([[0, 8, 9]])
    made = lens.measure(
        "attention",
        {**padded("right", PAD), "decoder_input_ids": start.repeat(4, 1)},
        site="cross",
    )
    assert isinstance(made, list)
    for number, maps in enumerate(made):
        given = {**alone(number), "decoder_input_ids": start}
        expected = lens.measure("attention", given, site="cross")
        assert isinstance(expected, MixingMaps)
        assert maps.source_tokens == expected.source_tokens
        np.testing.assert_allclose(maps.scores, expected.scores, atol=1e-10)


def test_a_corpus_run_measures_such_texts_one_by_one(tmp_path: Path) -> None:
    tokenizer = Lens.bundled("masked").tokenizer
    config = hf.MobileBertConfig(**CLASSIFIERS["MobileBert"][1], vocab_size=len(tokenizer))
    torch.manual_seed(0)
    randomised(hf.MobileBertModel(config)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    corpus = write_corpus(tmp_path / "corpus.txt", 6)
    job = job_for(corpus, tmp_path / "out", measures=("attention",), keep="scores")
    counts = run_corpus(job, ModelSource(name=str(tmp_path / "model"), threads=1))
    assert (counts.texts, counts.errors) == (6, 0)
    results, lens = mixlens.load(tmp_path / "out"), Lens.from_pretrained(str(tmp_path / "model"))
    for number, text in enumerate(corpus.read_text().splitlines(), 1):
        expected = lens.measure("attention", text)
        np.testing.assert_allclose(
            results.maps(str(number)).scores, expected.scores, atol=1e-6, rtol=0
        )
