"""A recording: cost, kept tensors, and independence of irrelevant settings."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.capture import rerun
from mixlens.capture.batch_axes import BatchAxis
from mixlens.capture.layer_calls import LayerCall
from mixlens.structure import model_discovery
from tests.conformance.zoo import (
    HEADS,
    INNER,
    LAYERS,
    VOCABULARY,
    WIDTH,
    built,
    inputs,
    randomised,
)
from tests.zoo.passes import watched


def _same(a: Tensor, b: Tensor, bar: float = 1e-5) -> bool:
    return float((a - b).abs().max() / b.abs().max()) <= bar


@pytest.mark.smoke
def test_after_the_first_use_a_recording_is_one_forward_pass() -> None:
    model = built("bert")
    lens = Lens(model)
    lens.record(inputs("bert"))
    calls = []
    with watched(model.encoder.layer, lambda module, *_: calls.append(module)):
        recording = lens.record(inputs("bert", seed=5))
        for layer in recording.layers():
            layer.sites()
    assert len(calls) == LAYERS, "each layer once, discovery and internals included"


def test_discovery_is_repeated_when_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("beit")  # its layer scales are bare parameters, found by a fit
    lens = Lens(model)
    lens.record(inputs("beit"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lambda" in name:
                parameter.mul_(-2)
    for layer in lens.record(inputs("beit")).layers():
        layer.sites()
    structures = []
    monkeypatch.setattr(
        model_discovery, "discover_structure", lambda *args: structures.append(args)
    )
    lens.record(inputs("beit"))
    assert not structures, "unchanged weights need no second discovery"


def _all_parts_read_both_directions(model: Any) -> None:
    for layer in model.layers:
        layer.self_attn.is_causal = False


def _the_last_part_reads_both_directions(model: Any) -> None:
    model.layers[-1].self_attn.is_causal = False


def _the_config_says_both_directions(model: Any) -> None:
    model.config.is_causal = False


def _calls_say_both_directions(model: Any) -> None:
    for layer in model.layers:
        layer.self_attn.forward = functools.partial(layer.self_attn.forward, is_causal=False)


def _another_activation(model: Any) -> None:
    for layer in model.layers:
        layer.mlp.act_fn = torch.nn.ReLU().eval()


def _a_larger_epsilon(model: Any) -> None:
    for layer in model.layers:
        layer.input_layernorm.variance_epsilon = 3.0


@pytest.mark.parametrize(
    "change",
    [
        _all_parts_read_both_directions,
        _the_last_part_reads_both_directions,
        _the_config_says_both_directions,
        _calls_say_both_directions,
        _another_activation,
        _a_larger_epsilon,
    ],
)
def test_a_model_changed_between_two_calls_gets_a_new_fingerprint(
    change: Callable[[Any], None],
) -> None:
    """No weight changes. torch's attention asks the module for its direction, the modelling file's
    own does not.
    """
    model, fresh = built("llama"), built("llama")
    lens, given = Lens(model), {"input_ids": inputs("llama", rows=1, tokens=10)["input_ids"]}
    measures = ("attention", "effective_attention", "value_zeroing", "decompx")
    before = {name: lens.measure(name, given).scores for name in measures}
    rows = {name: lens.measure(name, given, targets=[3]).scores for name in measures}
    change(model)
    change(fresh)
    with torch.no_grad():
        native = model(**given, output_hidden_states=True).hidden_states[1:-1]
    for layer, theirs in zip(lens.record(given).layers(), native, strict=False):
        assert _same(layer.output, theirs)
    assert lens.verify(given).native_error < 1e-5
    other = Lens(fresh)
    for name in measures:
        maps = lens.measure(name, given).scores
        np.testing.assert_array_equal(maps, other.measure(name, given).scores, name)
        row = lens.measure(name, given, targets=[3]).scores
        np.testing.assert_allclose(row, maps[:, 3:4], atol=1e-5, err_msg=name)
        if name == "decompx":
            assert not np.allclose(maps, before[name])
            assert not np.allclose(row, rows[name])


@pytest.mark.parametrize("name", ["bert", "llama", "bart", "gemma2", "falcon", "gpt2"])
def test_nothing_kept_gives_the_same_numbers(name: str) -> None:
    lens = Lens(built(name))
    kept, dropped = lens.record(inputs(name)), lens.record(inputs(name), memory_budget=0)
    for stack in kept.structure.stacks:
        for one, other in zip(kept.layers(stack.name), dropped.layers(stack.name), strict=True):
            assert one.keeps_internals
            assert not other.keeps_internals
            for a, b in zip(one.sites(), other.sites(), strict=True):
                assert _same(b.weights, a.weights)
                assert _same(b.block_output, a.block_output)


def test_a_larger_budget_keeps_more_layers() -> None:
    lens, given = Lens(built("bert")), inputs("bert")
    kept = []
    for power in range(6, 24):
        layers = lens.record(given, memory_budget=2**power).layers()
        kept.append([layer.keeps_internals for layer in layers])
    assert kept == sorted(kept)
    assert [kept[0], *kept, kept[-1]].count([True, False]) == 1, "twice as much is enough for two"
    assert (kept[0], kept[-1]) == ([False, False], [True, True])


MEMORY_PROGRAM = """
import resource, torch, transformers as hf
from mixlens import Lens
torch.set_num_threads(1)
tokens = 768
for layers in (2, 12):
    config = hf.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=layers, num_attention_heads=8,
        intermediate_size=32, max_position_embeddings=tokens,
    )
    lens = Lens(hf.BertModel(config).eval())
    lens.record({"input_ids": torch.ones(1, 8, dtype=torch.long)})
    given = {"input_ids": torch.ones(1, tokens, dtype=torch.long)}
    for layer in lens.record(given, memory_budget=0).layers():
        layer.site().weights.sum()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_peak_memory_does_not_grow_with_layers_times_n_squared() -> None:
    """One layer's weights are 18 MB here: 12 layers of them would be 215 MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    few, many = map(float, done.stdout.split())
    assert many - few < 60, (few, many)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize(
    "name", ["bert", "llama", "gemma2", "bart", "gpt-neox", "vit", "mixtral", "deberta-v2"]
)
def test_half_precision_is_close(name: str, dtype: torch.dtype) -> None:
    wide = Lens(built(name)).record(inputs(name))
    half = Lens(built(name, dtype)).record(inputs(name, dtype))
    for stack in wide.structure.stacks:
        assert [layer.style for layer in half.structure.stacks[0].layers] == [
            layer.style for layer in wide.structure.stacks[0].layers
        ]
        for a, b in zip(wide.layers(stack.name), half.layers(stack.name), strict=True):
            for x, y in zip(a.sites(), b.sites(), strict=True):
                assert y.weights.dtype == y.block_output.dtype == torch.float32
                assert (x.weights - y.weights).abs().mean() < 0.02
            assert b.rerun(0, copies=1).dtype == torch.float32


def test_grouped_heads_are_resolved() -> None:
    site = Lens(built("llama")).record(inputs("llama")).layers()[0].site()
    assert site.structure.kv_heads == 2
    assert site.head_groups.tolist() == [0, 0, 1, 1]
    assert torch.equal(site.values[:, 0], site.values[:, 1])
    assert not torch.equal(site.values[:, 1], site.values[:, 2])
    assert site.output_weight.shape == (HEADS, WIDTH // HEADS, WIDTH)


def test_gradients_flow_through_a_rerun() -> None:
    layer = Lens(built("bert", torch.float64)).record(inputs("bert")).layers()[0]
    hidden = layer.input[:1].clone().requires_grad_()
    output = layer.rerun(0, hidden=hidden, grad=True)
    (slope,) = torch.autograd.grad(output[0, 2, 3], hidden)
    step = torch.zeros_like(hidden)
    step[0, 4, 5] = 1e-6
    finite = (
        layer.rerun(0, hidden=hidden.detach() + step)
        - layer.rerun(0, hidden=hidden.detach() - step)
    )[0, 2, 3] / 2e-6
    assert abs(float(slope[0, 4, 5] - finite)) < 1e-7
    assert not layer.rerun(0, hidden=hidden).requires_grad


@pytest.mark.parametrize(
    ("head", "extra"),
    [
        ("BertForMaskedLM", {}),
        ("BertForSequenceClassification", {"num_labels": 3}),
        ("BertForTokenClassification", {}),
        ("BertForQuestionAnswering", {}),
        ("BertLMHeadModel", {"is_decoder": True}),
    ],
)
def test_task_heads(head: str, extra: dict[str, Any]) -> None:
    config = hf.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=64,
        **extra,
    )
    model = randomised(getattr(hf, head)(config)).eval()
    recording = Lens(model).record(inputs("bert"))
    assert len(recording.layers()) == LAYERS
    assert recording.sites == (("decoder",) if extra.get("is_decoder") else ("encoder",))


def test_a_boolean_4d_mask_of_the_user() -> None:
    model, ids = built("llama", attention="sdpa"), inputs("llama")["input_ids"]
    mask = torch.ones(9, 9, dtype=torch.bool).tril()
    mask[5:, 2] = False
    given = {"input_ids": ids, "attention_mask": mask.expand(2, 1, 9, 9)}
    recording = Lens(model).record(given)
    assert not recording.layers()[0].site().weights[..., 5:, 2].any()
    with torch.no_grad():
        native = model(**given).last_hidden_state
    assert _same(model.norm(recording.layers()[-1].output), native)


@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_padding_outside_every_window_stays_finite_in_float64(name: str) -> None:
    """Eager attention takes the softmax in float32, where the lowest float64 is minus infinity."""
    lens, given = Lens(built(name, torch.float64, "sdpa")), inputs(name)
    real = {key: value[:1, 5:] for key, value in given.items()}
    given["attention_mask"][0, :5] = 0
    alone, padded = lens.measure("alti", real), lens.measure("alti", given)
    assert isinstance(alone, MixingMaps)
    assert isinstance(padded, list)
    np.testing.assert_allclose(padded[0].scores, alone.scores, atol=1e-6)


def test_two_threads_record_two_models() -> None:
    names = ["bert", "llama", "gpt-j", "deberta-v2"]
    alone = {name: Lens(built(name)).record(inputs(name)).layers()[-1].output for name in names}
    outputs: dict[str, list[Tensor]] = {name: [] for name in names}
    problems: list[BaseException] = []

    def work(name: str) -> None:
        try:
            lens = Lens(built(name))
            for _ in range(5):
                recording = lens.record(inputs(name))
                recording.layers()[0].sites()
                outputs[name].append(recording.layers()[-1].output)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert all(torch.equal(output, alone[name]) for name in names for output in outputs[name])


def test_batches_of_one_and_of_many_rows_agree() -> None:
    lens = Lens(built("falcon-alibi"))
    given = inputs("falcon-alibi", rows=4)
    many = lens.record(given).layers()
    for row in range(4):
        one = lens.record({key: value[row : row + 1] for key, value in given.items()}).layers()
        assert _same(many[-1].output[row], one[-1].output[0])
        assert _same(many[1].rerun(row, copies=2)[1], one[1].output[0])


def test_report_of_a_verified_model() -> None:
    report = Lens(built("bart")).verify(inputs("bart"))
    assert [(stack.name, stack.layers, stack.heads, stack.style) for stack in report.stacks] == [
        ("encoder", LAYERS, HEADS, "post"),
        ("decoder", LAYERS, HEADS, "post"),
    ]
    assert report.sites == ("encoder", "decoder", "cross")
    assert report.stacks[1].cross_attention
    assert report.stacks[1].causal
    assert report.native_error < 1e-5
    assert max(report.stacks[0].errors) < 1e-5


def test_a_report_lists_only_measures_that_are_given() -> None:
    gated = Lens(built("llama", head=True)).verify(inputs("llama")).measures
    assert "MLP is gated" in str(gated["attention_norm_ff"])
    assert gated["decompx"] is gated["alti_logit"] is None
    mixture = Lens(built("mixtral", head=True)).verify(inputs("mixtral")).measures
    assert "its MLP is a mixture" in str(mixture["decompx"])
    pair = Lens(built("t5", head=True)).verify(inputs("t5")).measures
    assert "is defined for models with one stack of layers" in str(pair["alti_logit"])


_ADVICE = re.compile(r"Use ([a-z_]+)(?: or ([a-z_]+))? instead")


@pytest.mark.parametrize(
    ("family", "head"),
    [("bert", True), ("bert", False), ("bart", True), ("gpt2", True), ("llama", False)]
    + [("t5", True), ("mixtral", True), ("gemma2", True), ("deberta", True), ("gpt-neox", True)],
)
def test_a_report_advises_no_measure_that_it_refuses(family: str, head: bool) -> None:
    measures = Lens(built(family, head=head)).verify(inputs(family)).measures
    for name, reason in measures.items():
        match = _ADVICE.search(reason or "")
        for advised in filter(None, match.groups() if match else ()):
            assert measures[advised] is None, f"{name}: {reason}; {advised}: {measures[advised]}"


def test_edited_values_may_be_given_for_query_heads_that_agree() -> None:
    layer = Lens(built("llama")).record(inputs("llama")).layers()[0]
    shared = layer.site().values[1:, ::2] * 0.5  # of the two key-value heads
    assert torch.equal(
        layer.rerun(1, values=shared.repeat_interleave(2, 1)), layer.rerun(1, values=shared)
    )
    with pytest.raises(InvalidInput, match="Pass equal values"):
        layer.rerun(1, values=torch.randn_like(shared.repeat_interleave(2, 1)))


def test_an_argument_that_is_broadcast_in_this_batch_serves_every_row() -> None:
    """Position biases come as [1, head, n, n], or with the mask of a padded row inside as [batch,
    head, n, n].
    """
    hidden, shared, own = torch.randn(2, 3, 4), torch.randn(1, 2, 3, 3), torch.randn(2, 2, 3, 3)
    axes = (BatchAxis(0, 1),) * 3
    call = LayerCall("", torch.nn.Identity(), (hidden, shared, own), {})
    args, _ = rerun.repeat_arguments(call, (axes, {}), text=1, copies=3)
    assert torch.equal(args[0], hidden[1].expand(3, -1, -1))
    assert torch.equal(args[1], shared)
    assert torch.equal(args[2], own[1].expand(3, -1, -1, -1))
