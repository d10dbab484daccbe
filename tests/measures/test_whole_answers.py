"""A whole answer as the explained output: the authors' numbers, autograd on the plain model, and
the sum over its tokens."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel, measure
from mixlens.errors import EmptyInput
from tests import reference
from tests.measures import models

NAMES = ("llama_n9", "qwen2_n12")


def _explain(lens: Lens, name: str, given: Any, **options: Any) -> MixingMaps:
    maps = lens.measure(name, given, **options)
    assert isinstance(maps, MixingMaps)
    return maps


def _scores(lens: Lens, name: str, given: Any, **options: Any) -> np.ndarray:
    return _explain(lens, name, given, **options).scores


def _log_probabilities(model: nn.Module, ids: Tensor, first: int, **inputs: Any) -> Tensor:
    """Of the tokens from `first` on, by the plain model."""
    logits = model(**(inputs or {"input_ids": ids})).logits
    return logits[:, first - 1 : -1].log_softmax(-1).gather(-1, ids[:, first:, None])[0, :, 0]


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_captum_and_inseq(name: str) -> None:
    model, numbers = reference.whole_answer(name)
    lens, prompt = Lens(model), int(numbers["prompt_length"])
    given = {"input_ids": reference.tokens(numbers["input_ids"])}
    answer = (prompt, given["input_ids"].shape[1])

    def scores(measure: str, **options: Any) -> np.ndarray:
        return _scores(lens, measure, given, answer=answer, **options)[0, 0]

    def mean(measure: str) -> np.ndarray:
        return scores(measure, reduce="mean")

    assert scores("gradient_norm") == pytest.approx(numbers["ours/gradient_norm_l2"], abs=1e-11)
    products = scores("gradient_x_input")
    assert products == pytest.approx(numbers["ours/gradient_x_input"], abs=1e-11)
    assert products[:prompt] == pytest.approx(numbers["gradient_x_input/answer"], abs=1e-11)
    steps = numbers["inseq/gradient_x_input_tokens"].sum(0)
    assert products == pytest.approx(steps, abs=1e-6)
    lengths = np.linalg.norm(numbers["ours/gradient_of_mean"], axis=-1)
    assert mean("gradient_norm") == pytest.approx(lengths, abs=1e-11)
    path = _explain(lens, "integrated_gradients", given, answer=answer, baseline=0)
    captum = numbers["integrated_gradients/answer"]
    assert path.scores[0, 0, :prompt] == pytest.approx(captum, abs=1e-8)
    assert not path.scores[0, 0, prompt:].any()
    whole = (numbers["log_probability"] - numbers["log_probability_at_baseline"]).sum()
    error = float(path.extras["completeness_error"][0])
    assert path.scores.sum() - error == pytest.approx(whole, abs=1e-10)
    every = scores("integrated_gradients", baseline=0, moves="all")
    assert every == pytest.approx(numbers["ours/integrated_gradients_all_move"], abs=1e-8)
    erased = scores("blank_out", replacement=0, signed=True)
    assert erased[:prompt] == pytest.approx(numbers["feature_ablation/answer"], abs=2e-7)
    lifted = _explain(lens, "deep_lift", given, answer=answer, baseline=0)
    assert lifted.scores.sum() == pytest.approx(whole, abs=1e-10)
    assert abs(float(lifted.extras["completeness_error"][0])) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_brute_force_of_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = nn.functional.softmax  # which models call with dtype=float32
    monkeypatch.setattr(nn.functional, "softmax", lambda x, dim, dtype=None: plain(x, dim))
    model, recorded = reference.whole_answer(name, "flashtrace")
    given = {"input_ids": reference.tokens(recorded["input_ids"])}
    numbers = reference.arrays(f"spans/{name}_spans.npz")
    first, last = int(numbers["targets"][0]), int(numbers["targets"][-1])
    options = {"answer": (first + 1, last + 2), "weights": numbers["weights"].tolist()}
    lens = Lens(model)
    updates = _explain(lens, "logit_update", given, **options)
    assert updates.scores[:, 0] == pytest.approx(numbers["logit_update/answer"], abs=1e-10)
    rest = numbers["logit_update/output_bias"] + numbers["logit_update/mlp"]
    assert updates.extras["unattributed"].values == pytest.approx(rest, abs=1e-10)
    carried = _scores(lens, "alti_logit", given, **options)
    assert carried[:, 0] == pytest.approx(numbers["alti_logit/answer"], abs=1e-10)
    for bias in ("column", "absdot"):
        parts = _explain(lens, "decompx_logit", given, bias=bias, **options)
        total = parts.scores.sum()
        if bias == "column":
            total += float(parts.extras["bias"][0])
        assert total == pytest.approx(float(numbers["logit_update/sum_of_logits"]), abs=1e-10)


SIGNED: dict[str, dict[str, Any]] = {
    "gradient_x_input": {},
    "integrated_gradients": {"steps": 3, "baseline": 3},
    "blank_out": {"replacement": 3, "signed": True},
    "logit_update": {"initial": True},
    "alti_logit": {},
    "decompx_logit": {"bias": "equal"},
}


@pytest.fixture(scope="module")
def llama() -> Lens:
    torch.manual_seed(3)
    config = hf.LlamaConfig(**models._CAUSAL, attention_bias=True)
    return Lens(models.randomised(hf.LlamaForCausalLM(config)))


@pytest.mark.parametrize("name", SIGNED)
def test_one_pass_is_the_sum_of_the_tokens(llama: Lens, name: str) -> None:
    """Of all tokens, also with weights. The prompt of every token is that of the answer."""
    given = {"input_ids": torch.tensor([[7, 9, 4, 30, 12, 21, 5, 8]])}
    held = {"moves": "all"} if name in ("integrated_gradients", "blank_out") else {}
    options: dict[str, Any] = {**SIGNED[name], **held}
    tokens = [
        _scores(llama, name, given, answer=(place, place + 1), **options) for place in (4, 5, 6)
    ]
    whole = _scores(llama, name, given, answer=(4, 7), **options)
    assert whole == pytest.approx(sum(tokens), abs=1e-6)  # norms compute in float32
    weighted = _scores(llama, name, given, answer=(4, 7), weights=[2.0, 0.5, -1.0], **options)
    terms = [factor * scores for factor, scores in zip((2.0, 0.5, -1.0), tokens, strict=True)]
    assert weighted == pytest.approx(sum(terms), abs=1e-6)
    mean = _scores(llama, name, given, answer=(4, 7), reduce="mean", **options)
    assert mean == pytest.approx(whole / 3, abs=1e-7)


def test_autograd_on_the_plain_model(llama: Lens) -> None:
    ids, model = torch.tensor([[7, 9, 4, 30, 12, 21]]), cast("Any", llama.model)
    vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
    explained = _log_probabilities(model, ids, 3, inputs_embeds=vectors).sum()
    (slopes,) = torch.autograd.grad(explained, vectors)
    expected = (slopes * vectors).sum(-1)[0].detach().numpy()
    given = {"input_ids": ids}
    assert _scores(llama, "gradient_x_input", given, answer=(3, 6))[0, 0] == pytest.approx(
        expected, abs=1e-7
    )
    with torch.no_grad():
        number = float(explained)
        replaced = [ids.clone() for _ in range(3)]
        for place, copy in enumerate(replaced):
            copy[0, place] = 2
        after = []
        for copy in replaced:
            logits = model(input_ids=copy).logits[:, 2:-1].log_softmax(-1)
            after.append(float(logits.gather(-1, ids[:, 3:, None]).sum()))
    erased = _scores(llama, "blank_out", given, answer=(3, 6), replacement=2, signed=True)
    assert erased[0, 0] == pytest.approx([number - n for n in after] + [0, 0, 0], abs=1e-7)


FOLLOWED: dict[str, Any] = {
    "windows": lambda: hf.MistralForCausalLM(hf.MistralConfig(**models._CAUSAL, sliding_window=3)),
    "soft-caps and norms on branches": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**models._CAUSAL, head_dim=4, sliding_window=4)
    ),
    "experts": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**models._CAUSAL, num_local_experts=3)
    ),
    "parallel blocks": lambda: hf.CohereForCausalLM(hf.CohereConfig(**models._CAUSAL)),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_explained_tokens_alone_give_the_same_as_whole_maps(name: str) -> None:
    """A long text is measured without maps, in blocks of its targets. A recording has maps."""
    torch.manual_seed(0)
    lens = Lens(models.randomised(FOLLOWED[name]()), memory_budget=1000)
    given = {"input_ids": torch.tensor([[7, 9, 4, 30, 12, 21, 5, 8, 3, 3, 11, 17]])}
    whole = lens.record(given)
    for options in (
        {"answer": (6, 10)},
        {"word": 7, "foil": 3, "position": 8, "initial": True},
        {"answer": (3, 12), "layers": [0]},
    ):
        for measured in ("logit_update", "alti_logit"):
            alone = _explain(lens, measured, given, **options)
            maps = measure(measured, whole, **options)
            assert isinstance(maps, MixingMaps)
            assert alone.provenance["recorded"] == "rows"
            assert alone.scores == pytest.approx(maps.scores, abs=1e-6)
            rest = maps.extras["unattributed"].values
            assert alone.extras["unattributed"].values == pytest.approx(rest, abs=1e-6)


def test_small_blocks_change_nothing(llama: Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"input_ids": torch.tensor([[7, 9, 4, 30, 12, 21, 5, 8]])}
    whole = _scores(llama, "alti_logit", given, answer=(6, 8))
    monkeypatch.setattr("mixlens.measures.alti_logit.rows_at_once", lambda *_: 2)
    small = Lens(llama.model, memory_budget=1000)
    maps = _explain(small, "alti_logit", given, answer=(6, 8))
    assert maps.provenance["recorded"] == "rows"
    assert maps.scores == pytest.approx(whole, abs=1e-6)
    with pytest.raises(InvalidInput, match="explains one output of the model, not tokens"):
        llama.measure("alti_logit", given, answer=(6, 8), targets=[3])


def test_attention_gradients_of_an_answer(llama: Lens) -> None:
    """Every row that produces a token has a gradient in the last layer, and no other."""
    given = {"input_ids": torch.tensor([[7, 9, 4, 30, 12, 21]])}
    maps = _explain(llama, "attention_gradient", given, answer=(3, 6))
    rows = maps.scores[-1].any(-1)
    assert rows.tolist() == [False, False, True, True, True, False]
    assert maps.scores.shape == (2, 6, 6)


def test_a_padded_batch_has_an_answer_for_each_text(llama: Lens) -> None:
    ids = torch.tensor([[7, 9, 4, 30, 12, 21], [5, 8, 11, 17, 0, 0]])
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    given = {"input_ids": ids, "attention_mask": mask}
    for name in ("gradient_x_input", "blank_out", "logit_update", "alti_logit", "decompx_logit"):
        options: dict[str, Any] = {"replacement": 3} if name == "blank_out" else {}
        both = llama.measure(name, given, answer=[(3, 6), (2, 4)], **options)
        assert isinstance(both, list)
        first = _scores(llama, name, {"input_ids": ids[:1]}, answer=(3, 6), **options)
        second = _scores(llama, name, {"input_ids": ids[1:, :4]}, answer=(2, 4), **options)
        assert both[0].scores == pytest.approx(first, abs=1e-6)
        assert both[1].scores == pytest.approx(second, abs=1e-6)
    same = llama.measure("gradient_norm", given, answer=(2, 4))
    assert [maps.tokens for maps in same] == [("answer 2–3",)] * 2


def test_encoder_and_decoder() -> None:
    """The answer is the decoder's text, explained at the tokens of either stack."""
    torch.manual_seed(0)
    base: Any = models.build("bart")
    model = models.randomised(hf.BartForConditionalGeneration(base.config))
    lens = Lens(model)
    ids, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[2, 4, 9, 11]])
    given = {"input_ids": ids, "decoder_input_ids": target}

    def number(source: Tensor, read: Tensor) -> float:
        with torch.no_grad():
            logits = model(input_ids=source, decoder_input_ids=read).logits
        by_token = logits[:, :-1].log_softmax(-1).gather(-1, target[:, 1:, None])
        return float(by_token.sum())

    whole = number(ids, target)
    options: dict[str, Any] = {"answer": (1, 4), "replacement": 8, "signed": True}
    for site, moved in (("encoder", ids), ("decoder", target)):
        after = []
        for place in range(4):
            copy = moved.clone()
            copy[0, place] = 8
            after.append(number(copy, target) if site == "encoder" else number(ids, copy))
        every = _scores(lens, "blank_out", given, site=site, moves="all", **options)[0, 0]
        assert every == pytest.approx([whole - n for n in after], abs=1e-9)
    held = _scores(lens, "blank_out", given, site="decoder", **options)[0, 0]
    assert held[0] == pytest.approx(every[0], abs=1e-12)
    assert not held[1:].any()
    sums = [
        _scores(lens, "gradient_x_input", given, site="encoder", answer=(k, k + 1))
        for k in (1, 2, 3)
    ]
    one = _scores(lens, "gradient_x_input", given, site="encoder", answer=(1, 4))
    assert one == pytest.approx(sum(sums), abs=1e-9)


def test_generated_and_given_answers() -> None:
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", answer=" are on the table.")
    whole = measure("gradient_x_input", recording, answer=True)
    assert isinstance(whole, MixingMaps)
    assert whole.tokens == ("answer 'are on the table.'",)
    ids = torch.cat(
        [recording.inputs["input_ids"], torch.tensor([[recording.produced[0].ids[-1]]])],  # type: ignore[index]
        1,
    )
    first = recording.targets[0][0] + 1  # type: ignore[index]
    by_hand = _scores(lens, "gradient_x_input", {"input_ids": ids}, answer=(first, ids.shape[1]))
    assert whole.scores[0, 0] == pytest.approx(by_hand[0, 0, :-1], abs=1e-5)
    same = lens.measure("gradient_x_input", recording, answer=(first, ids.shape[1]))
    assert isinstance(same, MixingMaps)
    assert (same.scores == whole.scores).all()
    word = measure("logit_update", recording, answer="table")
    assert isinstance(word, MixingMaps)
    assert word.tokens == ("answer 'table'",)
    maps = measure("attention_gradient", recording, answer=True)
    assert isinstance(maps, MixingMaps)
    assert len(maps.tokens) == len(recording.targets[0])  # type: ignore[index]
    rolled = lens.rollout("attention_gradient", recording, answer=True)
    assert rolled.tokens == maps.tokens
    every = measure(
        "attention_gradient", lens.record({"input_ids": ids}), answer=(first, len(ids[0]))
    )
    assert isinstance(every, MixingMaps)
    by_hand = every.rollout().scores[:, list(recording.targets[0])]  # type: ignore[index]
    assert rolled.scores == pytest.approx(by_hand[:, :, :-1], abs=1e-5)
    text = _explain(lens, "gradient_norm", "The keys are here and the dogs bark.", answer="dogs")
    assert text.tokens == ("answer 'dogs'",)


def test_positions_as_arrays_and_the_first_position(llama: Lens) -> None:
    """An array is not compared with None, and position 0 is a position."""
    given = {"input_ids": torch.tensor([[7, 9, 4, 30, 12, 21]])}
    for name in ("gradient_norm", "logit_update", "attention_gradient"):
        whole = _explain(llama, name, given, answer=(3, 6))
        for positions in (np.array([3, 6]), torch.tensor([3, 6])):
            assert _explain(llama, name, given, answer=positions).scores == pytest.approx(
                whole.scores
            )
        logits = name == "logit_update"
        explained = "logit" if logits else "log_probability"
        assert whole.provenance["options"]["of"] == explained
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", answer=" are on")
    for name in ("gradient_norm", "logit_update"):
        for place in (0, 1):
            by_recording: Any = measure(name, recording, position=place, word=" dog")
            assert by_recording.tokens == (f"dog at {place}",)
            by_text = lens.measure(name, lens.record(recording.inputs), position=place, word=" dog")
            assert by_recording.scores == pytest.approx(by_text.scores, abs=1e-5)
        same: Any = measure(name, recording, answer=np.array([7, 9]))
        assert same.scores == pytest.approx(measure(name, recording, answer=(7, 9)).scores)
    with pytest.raises(InvalidInput, match="alti scores targets, not an output"):
        llama.measure("alti", given, answer=(3, 6))


def test_requests_without_an_answer_raise(llama: Lens) -> None:
    given = {"input_ids": torch.tensor([[7, 9, 4, 30]])}

    def explain(answer: Any, lens: Lens = llama, text: Any = given, **options: Any) -> None:
        lens.measure("gradient_norm", text, answer=answer, **options)

    for answer, reason in (
        ((0, 2), r"No position predicts the first token. The text has 4 tokens"),
        ((2, 5), r"answer=\(2, 5\) is out of range"),
        ((3, 2), "out of range"),
        ((-2, 4), "out of range"),
        ((1, 2, 3), "is not an answer"),
        (7, "is not an answer"),
        ((1.5, 3), "is not an answer"),
        (True, "needs a prompt with an answer"),
        ([(1, 2), (2, 3)], "2 entries for 1 texts"),
        ("dogs", "does not report which characters"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            explain(answer)
    with pytest.raises(EmptyInput, match=r"answer=\(2, 2\) is empty"):
        explain((2, 2))
    for options, reason in (
        ({"of": "probability"}, "underflows"),
        ({"of": "similarity"}, "Choose log_probability or logit"),
        ({"foil": 3}, "cannot be combined with an answer"),
        ({"word": 3}, "cannot be combined with an answer"),
        ({"weights": [1.0]}, "the answer has 2 tokens"),
        ({"weights": [0, 0]}, "not all zero"),
        ({"weights": ["a", "b"]}, "not a list of numbers"),
        ({"weights": [1, "b"]}, "not a list of numbers"),
        ({"weights": {1: 1, 2: 2}}, "not a list of numbers"),
        ({"reduce": "max"}, "Choose sum or mean"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            explain((2, 4), **options)
    with pytest.raises(InvalidInput, match="`weights` needs an answer"):
        llama.measure("gradient_norm", given, weights=[1.0])
    with pytest.raises(InvalidInput, match="moves='some'"):
        llama.measure("blank_out", given, answer=(2, 4), replacement=3, moves="some")
    with pytest.raises(InvalidInput, match="log-probability cannot be decomposed additively"):
        llama.measure("alti_logit", given, answer=(2, 4), of="log_probability")
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        explain((1, 3), Lens.bundled(), "The dogs bark.")
    lens = Lens.bundled("causal")
    with pytest.raises(InvalidInput, match="occurs 2 times in the text"):
        explain("dogs", lens, "The dogs bark. Some dogs sleep.")
    explain("dogs#2", lens, "The dogs bark. Some dogs sleep.")
    with pytest.raises(InvalidInput, match="does not occur in the text"):
        explain("cats", lens, "The dogs bark.")
    with pytest.raises(EmptyInput, match="is empty"):
        explain(" ", lens, "The dogs bark.")
    with pytest.warns(UserWarning, match="follows the prompt directly"):
        merged = lens.generate("The keys ar", answer="e here.")
    with pytest.raises(InvalidInput, match="covers the end of the prompt"):
        measure("gradient_norm", merged, answer=True)


def test_gradients_of_an_answer_through_experts() -> None:
    """Autograd of the native model, in float64."""
    torch.manual_seed(0)
    config = hf.MixtralConfig(**models._CAUSAL, num_local_experts=4, num_experts_per_tok=2)
    model: Any = models.randomised(hf.MixtralForCausalLM(config)).double()
    ids = torch.tensor([[7, 9, 4, 30, 12, 21, 5, 8]])
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
    model.set_experts_implementation("eager")
    logits = model(inputs_embeds=embedded).logits[0].log_softmax(-1)
    weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    explained = (logits[[3, 4, 5], ids[0, 4:7]] * weights).sum()
    (gradient,) = torch.autograd.grad(explained, embedded)
    given = {"input_ids": ids}
    for name, expected in (
        ("gradient_x_input", (gradient * embedded).sum(-1)),
        ("gradient_norm", gradient.norm(dim=-1)),
    ):
        made = _scores(Lens(model), name, given, answer=(4, 7), weights=weights.tolist())
        wanted = expected[0].detach().numpy()
        assert made[0, 0] == pytest.approx(wanted, rel=1e-6, abs=1e-7 * np.abs(wanted).max())
