"""Gradient measures against plain autograd loops, Captum, and the axioms that they must satisfy."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import Tensor, nn

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel
from mixlens.contracts import Facts
from mixlens.kernels.rescale import curve, differences_explained, softmax
from tests.measures import models
from tests.measures import oracles_intervention as oracles

GAIN = torch.tensor([0.5, -1.2, 2.0, 0.3, 1.1], dtype=torch.float64)
HEADS = {
    "classifier": lambda: hf.BertForSequenceClassification(
        hf.BertConfig(  # type: ignore[call-arg]
            **models._SIZES,
            max_position_embeddings=40,
            num_labels=3,
            id2label={0: "bad", 1: "fair", 2: "good"},
        )
    ),
    "masked": lambda: hf.BertForMaskedLM(
        hf.BertConfig(**models._SIZES, max_position_embeddings=40)
    ),
    "causal": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**models._CAUSAL)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**models._CAUSAL, head_dim=4, query_pre_attn_scalar=4)
    ),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**models._SIZES, max_position_embeddings=40)
    ),
    "translator": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**models._BART)),
}
ONLY_REFUSED = {
    "regression": lambda: hf.BertForSequenceClassification(
        hf.BertConfig(**models._SIZES, max_position_embeddings=40, num_labels=1)  # type: ignore[call-arg]
    ),
    "tagger": lambda: hf.BertForTokenClassification(
        hf.BertConfig(**models._SIZES, max_position_embeddings=40, num_labels=3)  # type: ignore[call-arg]
    ),
}
LAYERS = {
    "classifier": lambda m: m.bert.encoder.layer,
    "masked": lambda m: m.bert.encoder.layer,
    "causal": lambda m: m.transformer.h,
    "llama": lambda m: m.model.layers,
    "gemma2": lambda m: m.model.layers,
    "gpt_neox": lambda m: m.gpt_neox.layers,
    "translator": lambda m: m.model.encoder.layers,
}


@functools.cache
def build(name: str) -> Any:
    return models.randomised({**HEADS, **ONLY_REFUSED}[name]())


def inputs(name: str, length: int = 6, seed: int = 0) -> dict[str, Any]:
    return models.inputs("bart" if name == "translator" else name, length, seed=seed)


def options(name: str) -> dict[str, Any]:
    chosen: dict[str, dict[str, Any]] = {
        "classifier": {"label": "good"},
        "masked": {"position": 2, "word": 7},
    }
    return chosen.get(name, {"word": 7})


def number(name: str, of: str) -> Any:
    def of_output(output: Any) -> Any:
        logits = output.logits[0]
        if name != "classifier":
            logits = logits[2 if name == "masked" else -1]
        chosen = 2 if name == "classifier" else 7
        return (logits.softmax(-1) if of == "probability" else logits)[chosen]

    return of_output


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize("name", HEADS)
def test_gradients_equal_autograd(name: str, of: str, layer: int) -> None:
    model, given = build(name), inputs(name)
    run, hidden = oracles.as_function_of_layer_input(
        model, LAYERS[name](model)[layer], given, number(name, of)
    )
    recorded = Lens(model).record(given)
    slope = oracles.gradient(run, hidden)
    norm = models.scores("gradient_norm", recorded, layers=[layer], of=of, **options(name))
    assert norm.layers is not None
    assert list(norm.layers) == [layer]
    assert norm.values.shape == (1, 1, 1, 6)
    tolerance: dict[str, Any] = {
        "atol": 1e-6 if name == "llama" else 1e-10,
        "rtol": 1e-6,
    }  # Llama takes its softmax in float32
    torch.testing.assert_close(norm.values[0, 0, 0], (slope**2).sum(-1) ** 0.5, **tolerance)
    product = models.scores("gradient_x_input", recorded, layers=[layer], of=of, **options(name))
    torch.testing.assert_close(product.values[0, 0, 0], (slope * hidden[0]).sum(-1), **tolerance)
    assert product.facts == Facts(signed=True)
    size = models.scores(
        "gradient_x_input", recorded, layers=[layer], of=of, reduction="l1", **options(name)
    )
    torch.testing.assert_close(size.values[0, 0, 0], (slope * hidden[0]).abs().sum(-1), **tolerance)
    assert size.facts == Facts(signed=False)


@pytest.mark.parametrize("name", ["classifier", "masked", "causal", "translator"])
def test_integrated_gradients_equal_the_quadrature(name: str) -> None:
    model, given = build(name), inputs(name)
    run, hidden = oracles.as_function_of_layer_input(
        model, LAYERS[name](model)[1], given, number(name, "logit")
    )
    expected = oracles.integrated_gradients(run, hidden, steps=8).sum(-1)
    made = models.scores(
        "integrated_gradients",
        Lens(model).record(given),
        layers=[1],
        of="logit",
        steps=8,
        **options(name),
    )
    torch.testing.assert_close(made.values[0, 0, 0], expected, atol=1e-12, rtol=1e-9)


def test_integrated_gradients_equal_captum() -> None:
    from captum.attr import IntegratedGradients

    model, given = build("masked"), inputs("masked")
    run, hidden = oracles.as_function_of_layer_input(
        model, LAYERS["masked"](model)[1], given, number("masked", "logit")
    )
    theirs: Any = IntegratedGradients(
        lambda copies: torch.stack([run(copy[None]) for copy in copies])
    )
    expected = theirs.attribute(hidden, torch.zeros_like(hidden), n_steps=8).sum(-1)[0]
    made = models.scores(
        "integrated_gradients",
        Lens(model).record(given),
        layers=[1],
        of="logit",
        steps=8,
        **options("masked"),
    )
    # Captum keeps its steps in float32.
    torch.testing.assert_close(made.values[0, 0, 0], expected, atol=1e-7, rtol=0)


def test_integrated_gradients_add_up() -> None:
    recorded = Lens(build("masked")).record(inputs("masked"))
    made = models.scores("integrated_gradients", recorded, steps=100, **options("masked"))
    change = made.values.sum() - made.extras["completeness_error"].sum()
    assert change.abs() > 1e-4
    assert made.extras["completeness_error"].abs().max() < 1e-6 * change.abs()


@pytest.mark.parametrize("baseline", ["zero", "pad"])
@pytest.mark.parametrize("name", HEADS)
def test_deep_lift_adds_up_on_every_block(name: str, baseline: str) -> None:
    model, given = build(name), inputs(name)
    model.config.pad_token_id = 0
    recorded = Lens(model).record(given)
    made = models.scores(
        "deep_lift", recorded, layers=[1], of="logit", baseline=baseline, **options(name)
    )
    run, hidden = oracles.as_function_of_layer_input(
        model, LAYERS[name](model)[1], given, number(name, "logit")
    )
    base = torch.zeros_like(hidden)
    if baseline == "pad":
        empty = {**given, "input_ids": torch.zeros_like(given["input_ids"])}
        base = oracles.as_function_of_layer_input(
            model, LAYERS[name](model)[1], empty, number(name, "logit")
        )[1]
    with torch.no_grad():
        change = run(hidden) - run(base)
    torch.testing.assert_close(
        made.values.sum(),
        change,
        atol=1e-5 if name == "gemma2" else 1e-6,
        rtol=1e-3 if name == "gemma2" else 1e-6,
    )


def test_deep_lift_equals_captum_where_captum_has_the_rules() -> None:
    from captum.attr import DeepLift

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6, 8),
        nn.ReLU(),
        nn.Linear(8, 5),
        nn.Tanh(),
        nn.Linear(5, 4),
        nn.Sigmoid(),
        nn.Linear(4, 1),
    ).double()
    x, base = torch.randn(3, 6, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    made, wanted, off = differences_explained(lambda both: network(both)[:, 0], x, base)
    peer: Any = DeepLift(network)
    torch.testing.assert_close(made, peer.attribute(x, base).detach(), atol=1e-10, rtol=0)
    assert off.abs().max() < 1e-12
    assert wanted.abs().max() > 1e-3


def test_deep_lift_rules_pass_on_exact_differences() -> None:
    torch.manual_seed(0)
    both = torch.randn(4, 5, dtype=torch.float64) * 3
    both[2, 0] = both[0, 0]  # no difference at all in one place
    both[:, 4] = float("-inf")
    leaf = both.clone().requires_grad_()
    made = softmax(leaf, -1)
    weights = torch.randn(5, dtype=torch.float64)
    slope = torch.autograd.grad((made[:2] * weights).sum(), leaf)[0][:2, :4]
    difference = ((made[:2] - made[2:]) * weights).sum()
    torch.testing.assert_close(
        (slope * (both[:2] - both[2:])[:, :4]).sum(), difference.detach(), atol=1e-12, rtol=0
    )
    leaf = both[:, :4].clone().requires_grad_()
    bent = curve(torch.tanh, leaf)
    slope = torch.autograd.grad(bent[:2].sum(), leaf)[0][:2]
    torch.testing.assert_close(
        slope * (leaf[:2] - leaf[2:]), bent[:2] - bent[2:], atol=1e-12, rtol=0
    )


def _by_hand(x: Tensor) -> Tensor:
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return inverse * x  # Llama has the factors the other way round


@pytest.mark.parametrize(
    "rule",
    [
        _by_hand,
        lambda x: F.rms_norm(x, [5], GAIN),
        lambda x: F.rms_norm(x, [5], GAIN, 1e-3),
        lambda x: torch.einsum("bd,bd->bd", x, x.tanh()),
        lambda x: x / (1 + x.square()),
    ],
)
def test_deep_lift_adds_up_through(rule: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(1)
    x, base = torch.randn(2, 3, 5, dtype=torch.float64)
    _, wanted, off = differences_explained(lambda both: (rule(both) * GAIN).sum(-1), x, base)
    assert off.abs().max() < 1e-12
    assert wanted.abs().min() > 1e-3


@pytest.mark.parametrize("rule", [torch.tanh, lambda x: F.softmax(x, 0), _by_hand])
def test_deep_lift_sees_rows_that_are_not_inputs_and_baselines(
    rule: Callable[[Tensor], Tensor],
) -> None:
    """Turned, five rows are no two halves: they keep their own derivative, and the sum is off."""
    torch.manual_seed(1)
    x, base = torch.randn(2, 1, 5, dtype=torch.float64)
    off = differences_explained(lambda both: (rule(both.T).T * GAIN).sum(-1), x, base)[2]
    assert off.abs().min() > 1e-3


def test_deep_lift_refuses_what_does_not_add_up() -> None:
    model = models.randomised(
        hf.BloomForCausalLM(hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4))
    )
    with pytest.raises(UnsupportedModel, match="integrated_gradients"):
        models.scores("deep_lift", Lens(model).record(inputs("causal")))
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_smoothing_is_the_mean_over_noisy_copies() -> None:
    recorded = Lens(build("classifier")).record(inputs("classifier"))
    plain = models.scores("gradient_norm", recorded).values
    quiet = models.scores("gradient_norm", recorded, smooth=3, noise=0.0).values
    torch.testing.assert_close(quiet, plain, atol=1e-12, rtol=0)
    noisy = models.scores("gradient_norm", recorded, smooth=4, noise=0.2).values
    assert (noisy - plain).abs().max() > 1e-4
    assert torch.equal(noisy, models.scores("gradient_norm", recorded, smooth=4, noise=0.2).values)
    assert not torch.equal(
        noisy, models.scores("gradient_norm", recorded, smooth=4, noise=0.2, seed=1).values
    )


@pytest.mark.parametrize(
    ("measure", "extra"),
    [
        ("gradient_norm", {}),
        ("gradient_norm", {"smooth": 3}),
        ("gradient_x_input", {}),
        ("integrated_gradients", {"steps": 5}),
        ("deep_lift", {}),
    ],
)
@pytest.mark.parametrize("name", ["classifier", "masked", "causal"])
def test_padding_and_batching_change_nothing(name: str, measure: str, extra: Any) -> None:
    lengths = [5, 8]
    given = models.padded_inputs(name, lengths)
    batched = models.scores(measure, Lens(build(name)).record(given), **options(name), **extra)
    assert len(batched.target_labels or ()) == 2
    for row, length in enumerate(lengths):
        alone = models.scores(
            measure,
            Lens(build(name)).record(inputs(name, length, seed=row)),
            **options(name),
            **extra,
        )
        torch.testing.assert_close(
            batched.values[:, row, :, :length], alone.values[:, 0], atol=1e-10, rtol=1e-8
        )


def test_the_model_is_left_as_it_was() -> None:
    model = build("masked")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    for measure in ("gradient_norm", "integrated_gradients", "deep_lift", "blank_out"):
        extra: dict[str, Any] = {"replacement": "zero"} if measure == "blank_out" else {}
        models.scores(measure, Lens(model).record(inputs("masked")), **options("masked"), **extra)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
        assert parameter.requires_grad
    assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]


# -------------------------------------------------------------------------------- what is explained


def tokenizer() -> hf.PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel

    words = ["[PAD]", "[UNK]", "[MASK]", "the", "keys", "are", "is", "here", "."] + [
        f"w{i}" for i in range(41)
    ]
    plain = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]"
    )


def test_the_models_own_prediction_is_the_default() -> None:
    recorded = Lens(build("masked"), tokenizer()).record("the keys [MASK] here .")
    predicted = int(recorded.output.logits[0, 2].argmax())
    made = models.scores("gradient_norm", recorded)
    named = models.scores("gradient_norm", recorded, word=predicted, position=2)
    assert torch.equal(made.values, named.values)
    assert made.layers is not None
    assert list(made.layers) == [0]
    recorded = Lens(build("classifier")).record(inputs("classifier"))
    best = int(recorded.output.logits[0].argmax())
    assert models.scores("gradient_norm", recorded).target_labels == (
        ["bad", "fair", "good"][best],
    )


def test_words_and_foils() -> None:
    recorded = Lens(build("masked"), tokenizer()).record("the keys [MASK] here .")
    made = models.scores("gradient_x_input", recorded, word="are", foil="is", of="logit")
    assert made.target_labels == ("are vs is at 2",)
    are, without = (
        models.scores("gradient_x_input", recorded, word=word, of="logit").values
        for word in ("are", "is")
    )
    torch.testing.assert_close(made.values, are - without, atol=1e-12, rtol=0)
    paired = models.scores("gradient_norm", recorded, word="are", foil="is")
    assert (
        paired.values - models.scores("gradient_norm", recorded, word="are").values
    ).abs().max() > 1e-6


def test_each_text_may_have_its_own_word() -> None:
    texts = ["the keys [MASK] here .", "the [MASK] ."]
    batched = models.scores(
        "gradient_norm", Lens(build("masked"), tokenizer()).record(texts), word=["are", "keys"]
    )
    assert batched.target_labels == ("are at 2", "keys at 1")
    alone = models.scores(
        "gradient_norm", Lens(build("masked"), tokenizer()).record(texts[1]), word="keys"
    )
    torch.testing.assert_close(batched.values[:, 1, :, :3], alone.values[:, 0], atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("name", "text", "given", "message"),
    [
        ("masked", "the keys are here .", {}, "0 mask tokens"),
        ("masked", "the [MASK] [MASK] .", {}, "2 mask tokens"),
        ("masked", "the [MASK] .", {"label": 1}, "instead of `label`"),
        ("masked", "the [MASK] .", {"word": "elephants"}, "not one token"),
        ("masked", "the [MASK] .", {"word": 999}, "out of range"),
        ("masked", "the [MASK] .", {"position": 7}, "out of range"),
        ("classifier", "the keys .", {"label": "great"}, "bad, fair, good"),
        ("classifier", "the keys .", {"label": 5}, "3 classes"),
        ("classifier", "the keys .", {"word": "are"}, "instead of `word`"),
        ("classifier", "the keys .", {"of": "entropy"}, "Choose probability"),
        ("regression", "the keys .", {}, "numbers, not probabilities"),
        ("tagger", "the keys .", {}, "Pass the token's index as `position`"),
        ("tagger", "the keys .", {"position": 1, "word": "are"}, "Pass `label` instead of `word`"),
    ],
)
def test_unsupported_outputs_raise_with_the_reason(
    name: str, text: str, given: Any, message: str
) -> None:
    recorded = Lens(build(name), tokenizer()).record(text)
    with pytest.raises(InvalidInput, match=message):
        models.scores("gradient_norm", recorded, **given)


@pytest.mark.parametrize(
    ("measure", "given", "message"),
    [
        ("gradient_norm", {}, "The mask token is unknown without a tokenizer"),
        ("gradient_x_input", {"reduction": "mean", "position": 1}, "Unknown reduction 'mean'"),
        ("integrated_gradients", {"baseline": "unk", "position": 1}, "Unknown baseline 'unk'"),
        (
            "integrated_gradients",
            {"baseline": "mask", "position": 1},
            "no mask token. Pass baseline",
        ),
    ],
)
def test_output_measures_without_a_tokenizer(
    measure: str, given: dict[str, Any], message: str
) -> None:
    recorded = Lens(build("masked")).record(inputs("masked"))
    with pytest.raises(InvalidInput, match=message):
        models.scores(measure, recorded, **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda logits: logits[:, 1:], "logits have 5 positions, but the last layer has 6 tokens"),
        (
            lambda logits: logits[None],
            r"Logits of shape \(1, 1, 6, 50\) for 1 texts belong neither",
        ),
    ],
)
def test_logits_of_an_unknown_form_are_refused(
    change: Callable[[Tensor], Tensor], message: str
) -> None:
    recorded = Lens(build("masked")).record(inputs("masked"))
    recorded.output.logits = change(recorded.output.logits)
    with pytest.raises(InvalidInput, match=message):
        models.scores("gradient_norm", recorded, position=1)


def test_the_first_layer_must_be_measured_or_a_different_one_named() -> None:
    model = copy.deepcopy(build("masked"))
    LAYERS["masked"](model)[0].register_forward_hook(lambda module, given, output: 2 * output)
    recorded = Lens(model).record(inputs("masked"))
    with pytest.raises(UnsupportedModel, match="1 or a later one"):
        models.scores("gradient_norm", recorded, position=1)
    named = models.scores("gradient_norm", recorded, position=1, layers=[1])
    assert named.values.isfinite().all()


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        ("gradient_norm", {}),
        ("gradient_norm", {"smooth": 2}),
        ("integrated_gradients", {"steps": 2}),
        ("integrated_gradients", {"steps": 2, "path": "sequential"}),
    ],
)
def test_a_gradient_that_is_cut_off_is_not_zero(measure: str, options: dict[str, Any]) -> None:
    model: Any = HEADS["masked"]().eval()
    model.cls.register_forward_pre_hook(lambda part, given: (given[0].detach(),))
    given = {"input_ids": torch.arange(3, 9)[None]}
    with pytest.raises(UnsupportedModel, match="no gradient reaches"):
        Lens(model).measure(measure, given, position=-1, **options)


def test_the_graph_keeps_no_inputs_of_linear_modules() -> None:
    """Only gradients of weights would need them, so the weights are frozen in the pass."""
    model, given = build("llama"), inputs("llama")
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    entering: list[Tensor] = []
    projections = [layer.mlp.down_proj for layer in model.model.layers]
    handles = [
        part.register_forward_pre_hook(lambda _, args: entering.append(args[0]))
        for part in projections
    ]
    lens = Lens(model)
    lens.measure("gradient_norm", given, position=-1)
    entering.clear()
    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            lens.measure("gradient_norm", given, position=-1)
    finally:
        for handle in handles:
            handle.remove()
    kept = {tensor.data_ptr() for tensor in saved}
    assert len(entering) == len(projections)
    assert not kept & {tensor.data_ptr() for tensor in entering}
    assert all(weight.requires_grad for weight in model.parameters())


def test_embeddings_are_explained_as_their_tokens_are() -> None:
    """Logits of every position are made for them, and of the last alone for tokens."""
    model, given = build("llama"), inputs("llama")
    embedded = {"inputs_embeds": model.get_input_embeddings()(given["input_ids"])}
    of_tokens, of_vectors = (
        Lens(model).measure("logit_update", each) for each in (given, embedded)
    )
    assert isinstance(of_tokens, MixingMaps)
    assert isinstance(of_vectors, MixingMaps)
    np.testing.assert_allclose(of_vectors.scores, of_tokens.scores, rtol=1e-9)


def test_models_without_a_head_and_requests_for_targets_are_refused() -> None:
    with pytest.raises(InvalidInput, match="a checkpoint with a head"):
        models.scores("gradient_norm", models.recording("bert", 4))
    with pytest.raises(InvalidInput, match="instead of targets"):
        models.scores(
            "gradient_norm", Lens(build("classifier")).record(inputs("classifier")), targets=[1]
        )
    with pytest.raises(InvalidInput, match="l2 or l1"):
        models.scores(
            "gradient_norm", Lens(build("classifier")).record(inputs("classifier")), reduction="sum"
        )


class _Overwriting(nn.Module):
    """An activation whose backward pass fails, as that of mixtures of experts in transformers 5.8:
    it changes a tensor in place that the backward pass needs.
    """

    def forward(self, hidden: Tensor) -> Tensor:
        gate = hidden.sigmoid()
        made = gate * hidden
        gate.add_(0.0)
        return made


def test_a_model_without_a_backward_pass_is_named() -> None:
    lens = Lens.bundled()
    model: Any = lens.model
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = _Overwriting().eval()
    text = "The keys to the cabinet [MASK] here."
    for name in ("gradient_x_input", "integrated_gradients", "attention_gradient"):
        with pytest.raises(UnsupportedModel, match=r"BertForMaskedLM overwrites a tensor"):
            lens.measure(name, text, word="are")
    compared = lens.compare(text, only=["alti", "gradient_x_input"])
    assert list(compared.scores) == ["alti"]
    assert "overwrites a tensor" in compared.left_out["gradient_x_input"]
