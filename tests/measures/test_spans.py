"""Spans of targets against reference numbers and against vectors that are formed one by one."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps
from mixlens.recording import span_scores, target_pass
from tests import reference
from tests.answers.models import stored
from tests.measures import models, oracles

VECTORS = ("attention_norm", "attention_norm_res", "attention_norm_res_ln", "alti")
MEASURES = (*VECTORS, "contribution_weights", "flow_routes")
SPANS = ("sum", "joint", "mean")
TARGETS, WEIGHTS = [3, 4, 2], [1.0, 0.25, 2.0]


@functools.cache
def decoder(name: str) -> tuple[Lens, dict[str, Tensor]]:
    """A model of `reference/flashtrace`, and its text."""
    ids = reference.arrays(f"flashtrace/{name}.npz")["input_ids"]
    return Lens(stored(reference.FOLDER / "flashtrace", name)), {"input_ids": reference.tokens(ids)}


@functools.cache
def encoder() -> tuple[Lens, dict[str, Tensor]]:
    ids = reference.arrays("spans/bert7_spans.npz")["input_ids"]
    model = reference.pretrained("four_papers", "BertModel")
    return Lens(model), {"input_ids": reference.tokens(ids)}


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12", "bert7"])
def test_reference_numbers(name: str, span: str, whole: bool) -> None:
    lens, x = encoder() if name == "bert7" else decoder(name)
    numbers = reference.arrays(f"spans/{name}_spans.npz")
    chosen: dict[str, Any] = {"targets": numbers["targets"].tolist(), "span": span}
    chosen |= {"weights": numbers["weights"].tolist()}
    # Of whole maps transformers takes the softmax of these decoders in float32.
    bar: dict[str, Any] = {"atol": 1e-6 if whole and name != "bert7" else 1e-10, "rtol": 0}
    for measure in (*MEASURES, "globenc"):
        if f"{measure}/{span}" not in numbers:
            continue
        made = mixlens.measure(measure, lens.record(x), **chosen) if whole else None
        maps = one(made or lens.measure(measure, x, **chosen))
        assert maps.scores.shape == (3, 1, numbers[f"{measure}/{span}"].shape[-1])
        np.testing.assert_allclose(maps.scores[:, 0], numbers[f"{measure}/{span}"], **bar)
        np.testing.assert_allclose(maps.extras["coherence"], numbers["coherence"], **bar)
        if measure == "flow_routes":
            share = numbers[f"{measure}/{span}_residual"]
            np.testing.assert_allclose(maps.extras["residual_share"][:, 0], share, **bar)


@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12", "llama_n7_eps1e-3"])
def test_flashtrace_of_one_span(name: str) -> None:
    """With the positions of the answer themselves, as in the authors' program."""
    (lens, x), numbers = decoder(name), reference.arrays(f"flashtrace/{name}.npz")
    bar = 2e-4 if "eps" in name else 1e-6  # the program has an epsilon of its own
    first, last = json.loads((reference.FOLDER / "flashtrace" / f"{name}.json").read_text())[
        "answer"
    ]
    targets = list(range(first, last + 1))
    for key, weights in (
        ("span", None),
        ("span_weighted", numbers["span_weighted/weights"].tolist()),
    ):
        maps = one(lens.measure("flow_routes", x, targets=targets, span="sum", weights=weights))
        np.testing.assert_allclose(maps.scores[:, 0], numbers[f"{key}/tokens"], atol=bar)
        residual = maps.extras["residual_share"][:, 0]
        np.testing.assert_allclose(residual, numbers[f"{key}/residual"], atol=bar)
        heads = maps.extras["head_share"][:, :, 0]
        np.testing.assert_allclose(heads, numbers[f"{key}/heads"], atol=bar)
        if weights is None:  # which the program leaves out of these
            mlp = maps.extras["feed_forward_share"][:, 0]
            np.testing.assert_allclose(mlp, numbers["span/ffn"], atol=bar)


# --------------------------------------------------------------------------------- every vector


def spanned(block: oracles.Block, measure: str, span: str) -> Tensor:
    """The definition, with T_ij formed for every target and source."""

    def vector(i: int, j: int) -> Tensor:
        if measure in ("attention_norm", "contribution_weights"):
            return block.written(i, j)
        return block.added(i, j) if measure == "attention_norm_res" else block.part(i, j)

    sources = range(block.shape[1])
    t = torch.stack([torch.stack([vector(i, j) for j in sources]) for i in TARGETS])
    w = torch.tensor(WEIGHTS, dtype=t.dtype)
    if measure == "contribution_weights":
        y = t.sum(1)
    else:
        y = torch.stack([block.output(i) for i in TARGETS])
    own = torch.stack([block.normed(i, block.residual[i]) for i in TARGETS])
    if span == "sum":
        t, y, own = (torch.tensordot(w, each, 1)[None] for each in (t, y, own))
        return finished(t, y, own, measure, block.cross)[0]
    if span == "joint":
        t, y, own = (
            torch.einsum("i,i...d->...id", w, each).flatten(-2)[None] for each in (t, y, own)
        )
        return finished(t, y, own, measure, block.cross)[0]
    scores = torch.stack(
        [finished(t[[i]], y[[i]], own[[i]], measure, block.cross)[0] for i in range(len(TARGETS))]
    )
    return w @ scores / w.sum()


def finished(t: Tensor, y: Tensor, own: Tensor, measure: str, cross: bool) -> Tensor:
    """The measure of one target [1, source, width], however long its vectors are."""
    if measure == "contribution_weights":
        return (t @ y[0]) / (y[0] @ y[0])
    if measure != "alti":
        return t.norm(dim=-1)
    gains = (y[:, None].abs() - (y[:, None] - t).abs()).sum(-1).clamp_min(0)
    rest = (y.abs() - (y - own).abs()).sum(-1).clamp_min(0) if cross else 0
    return gains / (gains.sum(-1) + rest)[:, None]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_every_vector_formed(name: str, site: str, span: str) -> None:
    x = models.inputs(name, 9)
    blocks = oracles.blocks_checked(name, models.build(name), x, site)
    recorded = models.recording(name, 9)
    for measure in (*VECTORS, "contribution_weights"):
        if site == "cross" and "_res" in measure:
            continue
        maps = one(
            mixlens.measure(
                measure, recorded, site=site, targets=TARGETS, span=span, weights=WEIGHTS
            )
        )
        for layer, block in enumerate(blocks):
            expected = spanned(block, measure, span)
            np.testing.assert_allclose(maps.scores[layer, 0], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("measure", ["attention_norm", "contribution_weights", "flow_routes"])
def test_heads(measure: str, span: str) -> None:
    """Each head by itself: those of one target alone are the measure's own."""
    recorded = models.recording("llama", 9)
    chosen: dict[str, Any] = {"span": span, "per_head": True}
    alone = one(mixlens.measure(measure, recorded, targets=[5], **chosen))
    whole = one(mixlens.measure(measure, recorded, targets=[5], per_head=True))
    np.testing.assert_allclose(alone.scores, whole.scores, atol=1e-12)
    made = one(mixlens.measure(measure, recorded, targets=[3, 5], weights=[1, 3], **chosen))
    assert made.scores.shape == (2, 4, 1, 9)
    if measure == "attention_norm" and span == "sum":
        each = one(mixlens.measure(measure, recorded, targets=[3, 5], per_head=True)).scores
        expected = (
            each[:, :, 0] + 3 * each[:, :, 1]
        )  # all vectors of a source and head are parallel
        np.testing.assert_allclose(made.scores[:, :, 0], expected, atol=1e-12)


# ------------------------------------------------------------------------------ what may not matter


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("name", ["bert", "gemma2", "gpt_neox"])
def test_a_span_of_one_target_is_the_measure(name: str, span: str) -> None:
    lens, x = Lens(models.build(name)), models.inputs(name, 9)
    for measure in MEASURES:
        alone = one(lens.measure(measure, x, targets=[5]))
        maps = one(lens.measure(measure, x, targets=[5], span=span))
        scores = np.array(maps.scores)
        if measure == "flow_routes":  # the residual stream is no source of a span
            scores[:, 0, 5] += maps.extras["residual_share"][:, 0]
        np.testing.assert_allclose(scores, alone.scores, atol=1e-7)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("rows", [True, False])
def test_blocks_of_targets_change_nothing(
    span: str, rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of long spans are formed a few targets at a time."""
    lens, x = Lens(models.build("llama")), models.inputs("llama", 9)
    chosen: dict[str, Any] = {"targets": [2, 4, 5, 6, 8], "span": span, "weights": [1, 2, 0, 3, 1]}
    given = x if rows else lens.record(x)
    at_once = [one(lens.measure(name, given, **chosen)) for name in (*MEASURES, "attention")
               if not (name == "attention" and span == "joint")]  # fmt: skip
    for module in (span_scores, target_pass):
        monkeypatch.setattr(module, "targets_at_once", lambda *_: 2)
    for maps in at_once:
        again = one(lens.measure(maps.provenance["measure"], given, **chosen))
        np.testing.assert_allclose(again.scores, maps.scores, atol=1e-12)
        for key, extra in maps.extras.items():
            np.testing.assert_allclose(again.extras[key], extra, atol=1e-12)


@pytest.mark.parametrize("span", SPANS)
def test_blocks_of_all_tokens_in_any_order(span: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, x = Lens(models.build("llama")), models.inputs("llama", 6)
    weights = [1, 2, 0, 3, 1, 5]
    monkeypatch.setattr(target_pass, "targets_at_once", lambda *_: 2)
    for name in MEASURES:
        ordered = one(lens.measure(name, x, targets=range(6), span=span, weights=weights))
        order = [4, 0, 5, 1, 3, 2]
        again = lens.measure(
            name, x, targets=order, span=span, weights=[weights[place] for place in order]
        )
        assert one(again).provenance["recorded"] == "rows"
        np.testing.assert_allclose(one(again).scores, ordered.scores, atol=1e-12)


@pytest.mark.parametrize("span", SPANS)
def test_padding_and_other_texts_change_nothing(span: str) -> None:
    lens = Lens(models.build("gpt2"))
    batch = models.padded_inputs("gpt2", [9, 6, 7])
    for measure in MEASURES:
        batched = lens.measure(measure, batch, targets=[2, 4, 5], span=span, weights=WEIGHTS)
        assert isinstance(batched, list)
        for row, length in enumerate((9, 6, 7)):
            x = models.inputs("gpt2", length, seed=row)
            alone = lens.measure(measure, x, targets=[2, 4, 5], span=span, weights=WEIGHTS)
            np.testing.assert_allclose(batched[row].scores, one(alone).scores, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("span", SPANS)
def test_half_precision_is_close(span: str, dtype: torch.dtype) -> None:
    wide = models.randomised(models.BUILDERS["llama"](), 1).to(dtype).float()
    half = models.randomised(models.BUILDERS["llama"](), 1).to(dtype)
    x = models.inputs("llama", 9)
    for measure in MEASURES:
        maps = [
            one(Lens(model).measure(measure, x, targets=[4, 6, 8], span=span)).scores
            for model in (wide, half)
        ]
        assert abs(maps[0] - maps[1]).mean() <= 0.15 * abs(maps[0]).mean(), measure


def test_weights_are_used_as_they_are() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)

    def scores(name: str, span: str, weights: Any) -> np.ndarray:
        maps = one(lens.measure(name, x, targets=[3, 5], span=span, weights=weights))
        return np.asarray(maps.scores)

    for name, grows in (("attention_norm", True), ("attention", True), ("alti", False)):
        once, twice = scores(name, "sum", [1, 3]), scores(name, "sum", torch.tensor([2.0, 6.0]))
        np.testing.assert_allclose(twice, once * (2 if grows else 1), atol=1e-12)
        mean = scores(name, "mean", [1, 3])
        np.testing.assert_allclose(mean, scores(name, "mean", [2, 6]), atol=1e-12)
        each = np.asarray(one(lens.measure(name, x, targets=[3, 5])).scores)
        np.testing.assert_allclose(mean[:, 0], (each[:, 0] + 3 * each[:, 1]) / 4, atol=1e-12)


def test_the_definition_that_suits_a_measure() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 24)

    def chosen(name: str, count: int) -> str:
        maps = one(lens.measure(name, x, targets=list(range(count)), span=True))
        return str(maps.provenance["span"]["definition"])

    assert [chosen(name, 3) for name in ("alti", "attention_norm")] == ["mean", "mean"]
    assert [chosen(name, 20) for name in ("alti", "flow_routes")] == ["sum", "sum"]
    assert [chosen(name, 20) for name in ("value_zeroing", "attention")] == ["mean", "mean"]


# ------------------------------------------------------------------------------------------ results


def test_maps_of_a_span(tmp_path: Path) -> None:
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", max_new_tokens=3)
    maps = one(mixlens.measure("flow_routes", recording, span="sum"))
    assert maps.tokens == ("of the other",)
    assert recording.targets is not None
    assert maps.provenance["span"]["targets"] == list(recording.targets[0])
    assert not maps.facts.same_tokens
    maps.save(tmp_path / "span.mixlens")
    again = one(mixlens.load(tmp_path / "span.mixlens"))
    np.testing.assert_array_equal(again.scores, maps.scores)
    np.testing.assert_array_equal(again.extras["coherence"], maps.extras["coherence"])
    assert again.provenance["span"] == maps.provenance["span"]
    assert again.tokens == maps.tokens
    maps.to_html(tmp_path / "span.html")
    assert "of the other" in (tmp_path / "span.html").read_text()
    assert maps.row(0).token == "of the other"
    for less in (maps.words(), maps.segments()):
        assert less.tokens == maps.tokens
        np.testing.assert_allclose(less.scores.sum(-1), maps.scores.sum(-1), atol=1e-6)
    few = one(lens.measure("alti", recording, targets=["·the"], span="mean"))
    alone = one(lens.measure("alti", recording, targets=["·the"]))
    np.testing.assert_allclose(few.scores, alone.scores, atol=1e-6)


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"targets": []}, "empty"),
        ({"targets": [2, 9]}, "Token 9 is out of range"),
        ({"targets": [2, 2]}, "Target 2 is in the span twice"),
        ({"targets": [2, -7]}, "Target 2 is in the span twice"),
        ({"targets": [2, 3], "weights": [1]}, "1 weights for 2 targets"),
        ({"targets": [2, 3], "weights": [1, -1]}, "The weight -1.0"),
        ({"targets": [2, 3], "weights": [1, float("nan")]}, "The weight nan"),
        ({"targets": [2, 3], "weights": [0, 0]}, "All weights of the span are 0"),
        ({"targets": [2, 3], "weights": "many"}, "not a list of numbers"),
        ({"targets": [2, 3], "weights": {2: 1, 3: 2}}, "not a list of numbers"),
        ({"targets": [2, 3], "weights": [1e38, 1e38]}, "largest weight of the span is 1e\\+38"),
        ({"targets": [2, 3], "weights": [1e-30, 0]}, "largest weight of the span is 1e-30"),
        ({"targets": [2, 3], "weights": [[1, 2], [1, 2]]}, "2 lists of weights for 1 texts"),
        ({"targets": [2, 3], "span": "product"}, "product"),
        ({"targets": [2, 3], "span": None, "weights": [1, 1]}, "weights= needs a span"),
        ({}, "A span needs targets"),
    ],
)
@pytest.mark.parametrize("rows", [True, False])
def test_bad_spans(chosen: dict[str, Any], words: str, rows: bool) -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    with pytest.raises(InvalidInput, match=words):
        lens.measure("alti", x if rows else lens.record(x), **{"span": "sum", **chosen})


@pytest.mark.parametrize(
    ("name", "span", "words"),
    [
        ("attention", "joint", "no vectors of the targets"),
        ("value_zeroing", "sum", "does not support span='sum'.*every value is zeroed"),
        ("attention_norm_ff", "sum", "does not support span='sum'"),
        ("decompx", "mean", "has no spans"),
        ("hidden_token_attribution", "mean", "has no spans"),
    ],
)
def test_measures_without_such_a_span(name: str, span: str, words: str) -> None:
    lens, x = Lens(models.build("bert")), models.inputs("bert", 9)
    with pytest.raises(InvalidInput, match=words):
        lens.measure(name, x, targets=[2, 3], span=span)


def test_released_variants_have_no_spans() -> None:
    lens, x = Lens(models.build("gpt2")), models.inputs("gpt2", 9)
    for name in ("alti", "flow_routes"):
        with pytest.raises(InvalidInput, match="variant='released' does not support spans"):
            lens.measure(name, x, targets=[2, 3], span="sum", variant="released")


# ------------------------------------------------------------------------------------------ rollout


@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12"])
def test_the_rollout_of_a_span(name: str) -> None:
    """The weighted mean of the rollouts of its targets, by one row."""
    (lens, x), numbers = decoder(name), reference.arrays(f"spans/{name}_spans.npz")
    targets, weights = numbers["targets"].tolist(), numbers["weights"].tolist()
    made = lens.rollout("alti", x, targets, span="mean", weights=weights)
    assert made.scores.shape[1] == 1
    np.testing.assert_allclose(made.scores[-1, 0], numbers["alti_rollout/answer"], atol=1e-10)
    whole = lens.rollout("alti", lens.record(x), targets, span=True, weights=weights)
    np.testing.assert_allclose(whole.scores, made.scores, atol=1e-6)
    assert whole.tokens == made.tokens
    assert whole.provenance["span"] == made.provenance["span"]
    each = lens.rollout("alti", x, targets).scores
    expected = np.tensordot(np.array(weights) / np.sum(weights), each, (0, 1))
    np.testing.assert_allclose(made.scores[:, 0], expected, atol=1e-12)
    with pytest.raises(InvalidInput, match="does not support span='sum'"):
        lens.rollout("alti", x, targets, span="sum")
    with pytest.raises(InvalidInput, match="weights= needs a span"):
        lens.rollout("alti", x, targets, weights=weights)
