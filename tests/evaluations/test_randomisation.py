from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from scipy.stats import spearmanr

from mixlens import Lens
from mixlens.datasets.examples import Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluations import randomisation
from mixlens.evaluations.randomisation import draw_anew, random_lens, randomise_parameters, steps
from tests.evaluations.sentences import cases, lens


def state(model: torch.nn.Module) -> dict[str, bytes]:
    return {name: tensor.detach().numpy().tobytes() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("model", ["masked", "causal"])
def test_the_model_is_left_bit_by_bit_as_it_was(model: str) -> None:
    own, case = lens(model), cases(model)[0]
    before, versions = (
        state(own.model),
        [(p._version, p.data_ptr(), p.requires_grad) for p in own.model.parameters()],
    )
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in own.model.modules()]
    randomisation.observe(case, "alti")
    with pytest.raises(InvalidInput):
        randomisation.observe(case, "alti", aggregate="middle")
    assert state(own.model) == before
    assert [(p._version, p.data_ptr(), p.requires_grad) for p in own.model.parameters()] == versions
    assert [
        (len(m._forward_hooks), len(m._forward_pre_hooks)) for m in own.model.modules()
    ] == hooks


def test_weights_keep_their_mean_and_spread_and_norms_are_drawn_too() -> None:
    model = lens().model
    everything = frozenset(name for name, _ in model.named_parameters())
    copied = randomise_parameters(model, everything, 0)
    weights = [dict(one.named_parameters()) for one in (model, copied)]
    pairs = {name: (weights[0][name].detach(), weights[1][name].detach()) for name in everything}
    for name, (old, new) in pairs.items():
        assert (new.shape, new.dtype) == (old.shape, old.dtype)
        if float(old.std()) > 0:
            assert not torch.equal(old, new), name
        if old.numel() > 10_000:
            assert float(new.mean() - old.mean()) == pytest.approx(
                0, abs=5 * float(old.std()) / old.numel() ** 0.5
            ), name
            assert float(new.std()) == pytest.approx(float(old.std()), rel=0.05), name
    assert any(
        name.endswith("LayerNorm.weight") and float(old.std()) > 0
        for name, (old, _) in pairs.items()
    )


def test_draws_depend_on_seed_and_name_alone() -> None:
    weight = torch.randn(4, 5)
    assert torch.equal(draw_anew("a", weight, 0), draw_anew("a", weight, 0))
    assert not torch.equal(draw_anew("a", weight, 0), draw_anew("b", weight, 0))
    assert not torch.equal(draw_anew("a", weight, 0), draw_anew("a", weight, 1))
    assert torch.equal(draw_anew("a", torch.full((3,), 2.0), 0), torch.full((3,), 2.0))


def test_steps_go_down_from_the_last_layer() -> None:
    case = cases()[0]
    plan = steps(lens().model, case.recording.structure)
    assert [name for name, _ in plan] == [f"encoder {i}" for i in (5, 4, 3, 2, 1, 0)] + [
        "everything"
    ]
    sizes = [len(names) for _, names in plan]
    assert sizes == sorted(set(sizes))
    assert all(".5." in name for name in plan[0][1])
    alone = steps(lens().model, case.recording.structure, "independent")
    assert len({len(names) for _, names in alone}) == 1
    assert not alone[0][1] & alone[1][1]


def test_a_step_changes_its_layers_only_and_shares_the_rest() -> None:
    case = cases()[0]
    _, names = steps(lens().model, case.recording.structure)[1]
    copied: Any = randomise_parameters(lens().model, names, 0)
    for (name, old), (_, new) in zip(
        lens().model.named_parameters(), copied.named_parameters(), strict=True
    ):
        assert (new is old) == (name not in names)
    model: Any = lens().model
    assert copied.get_output_embeddings().weight is model.get_output_embeddings().weight


@pytest.mark.parametrize("model", ["masked", "causal"])
def test_noise_is_blind_to_the_weights_and_measures_are_not(model: str) -> None:
    assert randomisation.evaluate(cases(model), "random").value == pytest.approx(1)
    for measure in ("alti", "blank_out", "gradient_x_input"):
        result = randomisation.evaluate(cases(model), measure)
        assert result.value < 0.7
        assert result.direction == "lower"


@functools.cache
def classifier() -> Case:
    torch.manual_seed(0)
    config = hf.BertConfig(  # type: ignore[call-arg]
        vocab_size=len(lens().tokenizer),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        num_labels=5,
    )
    one = Lens(hf.BertForSequenceClassification(config).eval(), lens().tokenizer)
    return Case(one, Labelled(name="x", text="The keys are on the old table .", label="1"))


def test_it_is_the_correlation_with_the_random_models_row() -> None:
    case = classifier()
    seen = randomisation.observe(case, "value_zeroing", curve=True)
    assert seen["curve"] == [abs(rho) for rho in seen["signed"]]
    assert seen["steps"] == ["encoder 1", "encoder 0", "everything"]
    assert (
        seen["value"]
        == seen["curve"][-1]
        == pytest.approx(randomisation.observe(case, "value_zeroing")["value"])
    )
    others = np.arange(len(case.row)) != case.target
    for correlation, (_, names) in zip(
        seen["signed"], steps(case.lens.model, case.recording.structure), strict=True
    ):
        other = Case(
            Lens(randomise_parameters(case.lens.model, names), lens().tokenizer), case.example
        )
        expected = spearmanr(
            case.target_row("value_zeroing")[others], other.target_row("value_zeroing")[others]
        ).statistic
        assert correlation == pytest.approx(expected, abs=1e-6)


def test_a_correlation_below_zero_is_no_better_than_one_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rhos = iter([-0.5, 0.5, -0.2, 0.4, float("nan")])
    monkeypatch.setattr(randomisation, "rank_agreement", lambda *_: next(rhos))
    result = randomisation.evaluate([classifier()] * 2, "attention")
    assert (result.value, *result.per_example) == pytest.approx((0.5, 0.5, 0.5))
    assert (*result.details["curve"], *result.details["signed"]) == pytest.approx((0.5, 0.0))
    alone = randomisation.observe(classifier(), "attention", mode="independent")
    assert alone["value"] == pytest.approx(0.3)
    assert np.isnan(randomisation.observe(classifier(), "attention")["value"])


def test_independent_layers() -> None:
    seen = randomisation.observe(classifier(), "attention", mode="independent")
    assert len(seen["curve"]) == 2
    assert seen["value"] == pytest.approx(np.mean(seen["curve"]))
    result = randomisation.evaluate([classifier()] * 2, "attention", mode="independent")
    assert list(result.details["curve"]) == pytest.approx(seen["curve"])
    assert result.details["steps"] == ["encoder 1", "encoder 0"]


def test_a_classifier_goes_on_explaining_the_class_of_the_trained_model() -> None:
    case = Case(classifier().lens, classifier().example)
    predicted = int(case.recording.output.logits.argmax())
    assert randomisation.select_output(case) == {"label": predicted}
    randomisation.observe(case, "gradient_norm")
    (beside,) = case._other_cases.values()
    (key,) = beside._maps
    assert key == ("gradient_norm", repr([("label", predicted)]))


def test_random_models_go_with_their_lens_and_follow_its_weights() -> None:
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    one = Lens(hf.BertModel(config).eval())
    names = frozenset({"encoder.layer.0.attention.self.query.weight"})
    first = random_lens(one, names, 0)
    assert random_lens(one, names, 0) is first
    assert random_lens(one, names, 1) is not first
    second = random_lens(one, names, 0)
    with torch.no_grad():
        next(one.model.parameters()).add_(1.0)
    assert random_lens(one, names, 0) is not second
    gone = weakref.ref(random_lens(one, names, 0))
    del one, first, second
    gc.collect()
    assert gone() is None


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidInput, match="mode"):
        randomisation.observe(cases()[0], "alti", mode="sideways")
    assert np.isnan(randomisation.conclude([]).value)
