"""Value Zeroing against a loop of layer calls, and by two independent routes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens
from mixlens.contracts import AttentionKind
from mixlens.kernels.distances import Distance
from mixlens.measures import value_zeroing
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroing_fast import FastZeroing, fast_zeroing
from mixlens.replay.zeroing_literal import LiteralZeroing, ZeroedBlock
from tests.measures import models
from tests.measures import oracles_intervention as oracles

# A float64 Gemma or Llama still takes its softmax in float32; the oracle runs the same code, so
# nothing of that shows here.
TOLERANCE = 1e-10


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_equals_the_loop_over_zeroed_values(name: str, site: str, length: int) -> None:
    expected = oracles.value_zeroing(name, site, models.build(name), models.inputs(name, length))
    made = models.scores("value_zeroing", models.recording(name, length), site=site).values[:, 0]
    assert made.abs().max() > 1e-6
    torch.testing.assert_close(made, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_per_head_equals_the_loop_over_query_heads(name: str, site: str) -> None:
    expected = oracles.value_zeroing_per_head(
        name, site, models.build(name), models.inputs(name, 6)
    )
    made = models.scores(
        "value_zeroing", models.recording(name, 6), site=site, per_head=True
    ).values[:, 0]
    assert made.shape[1] == 4
    torch.testing.assert_close(made, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "spearman"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_distances(name: str, distance: str, normalised: bool) -> None:
    site = models.recording(name, 7).sites[0]
    expected = oracles.value_zeroing(
        name, site, models.build(name), models.inputs(name, 7), distance, normalised
    )
    made = models.scores(
        "value_zeroing", models.recording(name, 7), distance=distance, normalised=normalised
    ).values[:, 0]
    torch.testing.assert_close(made, expected, atol=TOLERANCE, rtol=0)


def test_cosine_keeps_its_digits_in_float32() -> None:
    model = models.randomised(models.BUILDERS["bert"]()).float()
    ids = models.inputs("bert", 9)
    with torch.no_grad():  # values of almost nothing: the true distances lie around 1e-10
        for layer in model.encoder.layer:
            layer.attention.self.value.weight *= 2e-4
            layer.attention.self.value.bias *= 2e-4
    made = models.scores("value_zeroing", Lens(model).record(ids)).values[:, 0].double()
    exact = models.scores("value_zeroing", Lens(model.double()).record(ids)).values[:, 0]
    assert exact.max() < 1e-8
    assert ((made - exact).abs() <= 0.05 * exact + 1e-13).all()


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_two_routes_agree(name: str, site: str) -> None:
    """Values edited inside the attention function, and c_ij subtracted from its output."""
    recorded = models.recording(name, 8)
    made = models.scores("value_zeroing", recorded, site=site).values[:, 0]
    kind = AttentionKind.CROSS if site == "cross" else AttentionKind.SELF
    for index, layer in enumerate(recorded.layers(site)):
        parts = layer.site(kind)
        groups = parts.structure.heads // parts.structure.kv_heads
        values = parts.values[:, ::groups].expand(parts.weights.shape[-1], -1, -1, -1).clone()
        sources = torch.arange(len(values))
        values[sources, :, sources] = 0
        after, before = layer.rerun(values=values, kind=kind), layer.rerun(copies=1)
        distance = 1 - torch.cosine_similarity(after, before, -1)
        torch.testing.assert_close(made[index], distance.T, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_fast_rows_equal_whole_sequences(name: str, site: str) -> None:
    recorded = models.recording(name, 8)
    kind = AttentionKind.CROSS if site == "cross" else AttentionKind.SELF
    for layer in recorded.layers(site):
        layer_rest = LayerRest(layer, kind)
        targets = torch.tensor([0, 2, 2, 3, 4, 2])
        texts = torch.zeros_like(targets)
        edited = (
            layer_rest.site.projected[texts, targets]
            * torch.linspace(0.5, 2, 6, dtype=torch.float64)[:, None]
        )
        if layer_rest.mode == "sequences":
            continue
        copies = layer_rest.site.projected[:1].repeat(len(targets), 1, 1)
        copies[torch.arange(len(targets)), targets] = edited
        whole = layer.rerun(0, attention_output=copies, kind=kind)
        expected = whole[torch.arange(len(targets)), targets]
        torch.testing.assert_close(layer_rest(texts, targets, edited), expected, atol=1e-10, rtol=0)


def test_which_layers_take_the_fast_way() -> None:
    def modes(name: str, site: str, kind: AttentionKind = AttentionKind.SELF) -> set[str]:
        return {LayerRest(layer, kind).mode for layer in models.recording(name, 8).layers(site)}

    assert (
        modes("bert", "encoder")
        == modes("gpt2", "decoder")
        == modes("llama", "decoder")
        == modes("gemma2", "decoder")
        == {"shortcut"}
    )
    assert modes("bart", "cross", AttentionKind.CROSS) == {"shortcut"}
    assert modes("gpt_neox", "decoder") == {"sum"}
    assert modes("bart", "decoder") == {"sequences"}  # cross-attention follows


def form_of(name: str, site: str, index: int = 1, model: Any = None) -> Any:
    """The fast form of a layer (None if there is none), the literal one, and a block."""
    given = models.inputs(name, 9)
    if model is None:
        model = models.build(name)
        if name == "llama":  # its norms compute in float32, so the two forms agree to that only
            model = copy.deepcopy(model).float()
    kind = AttentionKind.CROSS if site == "cross" else AttentionKind.SELF
    layer_rest = LayerRest(Lens(model).record(given).layers(site)[index], kind)
    weights, distance = layer_rest.site.weights, Distance("cosine")
    places = torch.arange(weights.shape[2])[None]
    real = torch.ones(1, *weights.shape[2:], dtype=torch.bool)
    return (
        fast_zeroing(layer_rest, weights, lambda t, _: t, real, distance, folded=True),
        LiteralZeroing(layer_rest, weights, places, distance),
        weights,
    )


@pytest.mark.parametrize("head", [None, 2])
@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("bert", "encoder"),
        ("gpt2", "decoder"),
        ("llama", "decoder"),
        ("bart", "encoder"),
        ("bart", "cross"),
    ],
)
def test_the_fast_form_equals_the_literal_one(name: str, site: str, head: int | None) -> None:
    fast, literal, weights = form_of(name, site)
    count, sources = weights.shape[2:]
    segments = [torch.tensor([0, 2]), torch.tensor([1]), torch.arange(sources)]
    for block in (
        ZeroedBlock(slice(0, 1), slice(2, count), slice(1, 4), head),
        ZeroedBlock(slice(0, 1), slice(0, count), slice(1, 3), head, segments),
    ):
        linked = torch.ones(1, count, 3 if block.segments is None else 2, dtype=torch.bool)
        linked = linked[:, block.targets]
        expected = literal.distances(block, linked)
        tolerance: dict[str, Any] = {"atol": 1e-5 if name == "llama" else 1e-12, "rtol": 0}
        torch.testing.assert_close(fast.distances(block, linked), expected, **tolerance)
        assert expected.max() > 1e-5


@pytest.mark.parametrize(
    ("name", "site"), [("gemma2", "decoder"), ("gpt_neox", "decoder"), ("bart", "decoder")]
)
def test_layers_without_a_plain_mlp_have_no_fast_form(name: str, site: str) -> None:
    assert form_of(name, site)[0] is None


def test_products_that_are_off_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FastZeroing.distances
    monkeypatch.setattr(FastZeroing, "distances", lambda *given: right(*given) * 1.0001)
    assert form_of("bert", "encoder", model=models.randomised(models.BUILDERS["bert"]()))[0] is None


def test_products_that_miss_what_the_layer_returned_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = FastZeroing._run_unedited
    wrong = lambda self, sums: right(self, sums * 1.01)  # noqa: E731
    monkeypatch.setattr(FastZeroing, "_run_unedited", wrong)
    assert form_of("bert", "encoder")[0] is None


def test_where_no_fast_way_gives_what_the_layer_returned_whole_sequences_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Lens(models.build("bert")).record(models.inputs("bert", 6))
    expected = models.scores("value_zeroing", recorded, layers=[0]).values
    recorded.layers()[0].native_output.add_(0.1)
    sequences, run = [], LiteralZeroing._run_sequences

    def noted(*given: Any) -> torch.Tensor:
        sequences.append(given)
        return run(*given)

    monkeypatch.setattr(LiteralZeroing, "_run_sequences", noted)
    made = models.scores("value_zeroing", recorded, layers=[0]).values
    assert sequences
    torch.testing.assert_close(made, expected, atol=TOLERANCE, rtol=0)


def test_a_wrong_shortcut_is_not_used() -> None:
    recorded = Lens(models.build("bert")).record(models.inputs("bert", 6))
    layer_rest = LayerRest(recorded.layers()[0], AttentionKind.SELF)
    layer_rest.layer.native_output.add_(0.1)  # as if the shortcut missed what the layer returned
    layer_rest.require_recorded_output(torch.tensor([0]), torch.tensor([2]))
    assert layer_rest.mode == "sequences"


def test_shortcuts_are_undone_after_an_exception() -> None:
    model = models.build("bert")
    recorded = Lens(model).record(models.inputs("bert", 6))
    layer_rest = LayerRest(recorded.layers()[0], AttentionKind.SELF)

    def fail(*given: object) -> None:
        raise ArithmeticError

    rest = model.encoder.layer[0].intermediate.register_forward_hook(fail)
    with pytest.raises(ArithmeticError):
        layer_rest(torch.tensor([0]), torch.tensor([1]), torch.zeros(1, 16, dtype=torch.float64))
    rest.remove()
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_token_without_attention_has_no_effect() -> None:
    """A mask with a hole: no target reads token 2, so zeroing it changes nothing at all."""
    ids = models.inputs("bert", 7)
    ids["attention_mask"][0, 2] = 0
    made = models.scores("value_zeroing", Lens(models.build("bert")).record(ids)).values[:, 0]
    assert (made[..., 2] == 0).all()
    assert (made[..., [0, 1, 3, 4, 5, 6]] > 0).all()


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "gpt_neox"])
def test_the_future_has_no_effect(name: str) -> None:
    made = models.scores("value_zeroing", models.recording(name, 8)).values[:, 0]
    assert (made.triu(1) == 0).all()
    assert (made.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_a_sliding_window_leaves_out_what_it_hides() -> None:
    config = hf.MistralConfig(**models._CAUSAL, sliding_window=3)
    model = models.randomised(hf.MistralModel(config))
    made = models.scores("value_zeroing", Lens(model).record(models.inputs("llama", 8))).values[
        :, 0
    ]
    far = torch.ones(8, 8, dtype=torch.bool).tril(-3)
    assert (made[:, far] == 0).all()
    assert (made[:, ~far & torch.ones(8, 8, dtype=torch.bool).tril()] > 0).all()


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_padding_and_batching_change_nothing(name: str, site: str) -> None:
    lengths = [5, 9, 7]
    batched = models.scores(
        "value_zeroing",
        Lens(models.build(name)).record(models.padded_inputs(name, lengths)),
        site=site,
    ).values
    for row, length in enumerate(lengths):
        alone = models.scores(
            "value_zeroing", models.recording(name, length, seed=row), site=site
        ).values[:, 0]
        torch.testing.assert_close(
            batched[:, row, : alone.shape[1], : alone.shape[2]],
            alone,
            atol=1e-6 if name in models.FLOAT32_SOFTMAX else 1e-10,
            rtol=0,
        )


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("bert", "encoder"),
        ("llama", "decoder"),
        ("gpt_neox", "decoder"),
        ("bart", "decoder"),
        ("bart", "cross"),
    ],
)
def test_chosen_targets_and_layers_are_rows_of_the_whole(name: str, site: str) -> None:
    recorded = models.recording(name, 8)
    whole = models.scores("value_zeroing", recorded, site=site).values
    part = models.scores("value_zeroing", recorded, site=site, layers=[1], targets=[-1, 2]).values
    last = whole.shape[2] - 1
    torch.testing.assert_close(part, whole[1:, :, [last, 2]], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_small_chunks_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = models.recording(name, 8)
    whole = models.scores("value_zeroing", recorded, per_head=True).values
    monkeypatch.setattr("mixlens.kernels.chunks.LARGEST", 5000)
    torch.testing.assert_close(
        models.scores("value_zeroing", recorded, per_head=True).values, whole, atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("pairs", [1, 20, 10**6])
def test_rows_of_texts_together_are_those_of_each_alone(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens = Lens.bundled(dtype=torch.float64)
    texts = ["The old dog.", "Nobody has seen the keys to the old cabinet.", "The dog saw a bird."]
    alone = [lens.measure("value_zeroing", text, targets=[-2, 1]).scores for text in texts]
    monkeypatch.setattr(value_zeroing, "rows_at_once", lambda *_: pairs)
    batch = lens.measure("value_zeroing", texts, targets=[-2, 1])
    for own, expected in zip(batch, alone, strict=True):
        assert own.provenance["recorded"] == "rows"
        np.testing.assert_allclose(own.scores, expected, rtol=1e-9, atol=1e-15)


def test_mixtures_of_experts_and_attention_inside_the_residual_module() -> None:
    sizes = {**models._CAUSAL, "num_local_experts": 4}
    built = [
        hf.MixtralModel(hf.MixtralConfig(**sizes)),
        hf.AlbertModel(hf.AlbertConfig(**models._SIZES, embedding_size=8)),
        hf.BloomModel(hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4)),
    ]
    for model in built:
        recorded = Lens(models.randomised(model)).record(models.inputs("llama", 6))
        made = models.scores("value_zeroing", recorded).values[:, 0]
        for index, layer in enumerate(recorded.layers()):
            assert LayerRest(layer, AttentionKind.SELF).mode == "shortcut"
            site = layer.site()
            values = (
                site.values[:, :: site.structure.heads // site.structure.kv_heads]
                .expand(6, -1, -1, -1)
                .clone()
            )
            values[torch.arange(6), :, torch.arange(6)] = 0
            distance = 1 - torch.cosine_similarity(
                layer.rerun(values=values), layer.rerun(copies=1), -1
            )
            torch.testing.assert_close(made[index], distance.T, atol=1e-7, rtol=0)


def test_bfloat16_is_close_to_float32() -> None:
    model = hf.LlamaModel(hf.LlamaConfig(**models._CAUSAL)).eval()
    ids = models.inputs("llama", 8)
    wide = models.scores("value_zeroing", Lens(model).record(ids)).values
    half = models.scores("value_zeroing", Lens(model.to(torch.bfloat16)).record(ids)).values
    assert half.dtype == torch.float32
    assert (half - wide).abs().max() < 0.05 * wide.max()


def test_unknown_distance_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cosine, euclidean, spearman"):
        models.scores("value_zeroing", models.recording("bert", 3), distance="manhattan")
