"""Hops through a reasoning span: the authors' numbers, and what the default variant promises."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.answers.hops import Hops
from mixlens.recording import span_scores, target_pass
from tests import reference
from tests.answers.models import stored

NAMES = ["llama_n9", "qwen2_n12", "llama_n7_eps1e-3"]


@functools.cache
def example(name: str) -> tuple[Lens, dict[str, Tensor], dict[str, np.ndarray], dict[str, Any]]:
    """A model of `reference/flashtrace`, its text, the authors' numbers, and the spans."""
    numbers = reference.arrays(f"flashtrace/{name}.npz")
    about = json.loads((reference.FOLDER / "flashtrace" / f"{name}.json").read_text())
    spans = {key: list(range(about[key][0], about[key][1] + 1)) for key in ("answer", "reasoning")}
    lens = Lens(stored(reference.FOLDER / "flashtrace", name))
    return lens, {"input_ids": reference.tokens(numbers["input_ids"])}, numbers, spans


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_released_hops_are_the_authors(name: str, count: int) -> None:
    lens, x, numbers, spans = example(name)
    made = lens.hops(x, **spans, hops=count, variant="released")
    bar = 5e-4 if "eps" in name else 1e-6  # the program has an epsilon of its own
    np.testing.assert_allclose(made.scores, numbers[f"hops_{count}/sum"], atol=bar, rtol=0)
    np.testing.assert_allclose(made.spans, numbers[f"hops_{count}/totals"], atol=bar, rtol=0)
    np.testing.assert_allclose(made.passed_on, numbers[f"hops_{count}/ratios"], atol=bar, rtol=0)
    np.testing.assert_allclose(made.by_hop[1:], numbers[f"hops_{count}/per_hop"], atol=bar, rtol=0)
    residual = numbers[f"hops_{count}/residual_by_layer"]
    np.testing.assert_allclose(made.residual_share, residual, atol=bar, rtol=0)
    assert made.unexplained is None


@pytest.mark.parametrize("recursion", ["stop_words", "both", "in_all_gen", "split_hop"])
@pytest.mark.parametrize("name", NAMES[:2])
def test_variants_of_the_recursion_are_the_authors(name: str, recursion: str) -> None:
    lens, x, numbers, spans = example(name)
    chosen: dict[str, Any] = {"variant": "released", "recursion": recursion}
    if recursion in ("stop_words", "both"):
        chosen["left_out"] = np.flatnonzero(numbers["variants/left_out"]).tolist()
    made = lens.hops(x, **spans, hops=2, **chosen)
    key = f"variants/{recursion}"
    np.testing.assert_allclose(made.scores, numbers[f"{key}/sum"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(made.spans, numbers[f"{key}/totals"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(made.by_hop[1:], numbers[f"{key}/per_hop"], atol=1e-6, rtol=0)
    if len(numbers[f"{key}/ratios"]):
        np.testing.assert_allclose(made.passed_on, numbers[f"{key}/ratios"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", NAMES[:2])
def test_avg_is_the_authors(name: str, count: int) -> None:
    lens, x, numbers, spans = example(name)
    made = lens.hops(x, **spans, hops=count, variant="released", aggregation="avg")
    np.testing.assert_allclose(made.scores, numbers[f"hops_{count}/avg"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(made.by_hop[1:], numbers[f"hops_{count}/per_hop"], atol=1e-6, rtol=0)


def test_avg_of_segments_divides_by_their_number() -> None:
    """The reasoning of two tokens has two segments, not five."""
    lens, x, _, spans = example("llama_n9")
    chosen: dict[str, Any] = {**spans, "variant": "released", "recursion": "split_hop"}
    made = lens.hops(x, **chosen, hops=5)
    average = lens.hops(x, **chosen, hops=5, aggregation="avg")
    assert len(spans["reasoning"]) == 2
    np.testing.assert_allclose(average.scores, made.scores / 2, rtol=1e-12)


@pytest.mark.parametrize("threshold", ["0.2", "0.5"])
@pytest.mark.parametrize("name", NAMES[:2])
def test_thresholds_are_the_authors(name: str, threshold: str) -> None:
    lens, x, _, spans = example(name)
    path = reference.FOLDER / "flashtrace" / "hops_thresholds.json"
    stored_numbers = json.loads(path.read_text())[name]
    expected = stored_numbers[threshold]
    chosen: dict[str, Any] = {"variant": "released", "threshold": float(threshold)}
    made = lens.hops(x, **spans, hops=2, **chosen)
    np.testing.assert_allclose(made.scores, expected["sum"], atol=1e-6, rtol=0)
    average = lens.hops(x, **spans, hops=2, aggregation="avg", **chosen)
    np.testing.assert_allclose(average.scores, expected["avg"], atol=1e-6, rtol=0)
    ran = len(made.spans)
    np.testing.assert_allclose(made.spans, expected["totals"][:ran], atol=1e-6, rtol=0)
    np.testing.assert_allclose(made.passed_on, expected["ratios"][:ran], atol=1e-6, rtol=0)
    assert not np.any(expected["totals"][ran:])  # the program adds zeros if nothing is passed on
    without = lens.hops(x, **spans, hops=2, variant="released")
    assert np.abs(made.scores - without.scores).max() > 0.01
    if threshold == "0.5":  # weights of an answer with a left-out token are divided by their sum
        left_out = [spans["answer"][1]]
        made = lens.hops(x, **spans, hops=0, left_out=left_out, **chosen)
        expected = np.delete(stored_numbers["left_out"], left_out)
        np.testing.assert_allclose(np.delete(made.spans[0], left_out), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threshold", [0.5, 2.0])
@pytest.mark.parametrize("name", NAMES[:2])
def test_thresholds_of_spans_are_the_authors(name: str, threshold: float, weighted: bool) -> None:
    lens, x, numbers, spans = example(name)
    weights = numbers["span_weighted/weights"] / numbers["span_weighted/weights"].sum()
    key = f"span_{'weighted_' if weighted else ''}threshold_{threshold}"
    maps = lens.measure(
        "flow_routes",
        x,
        targets=spans["answer"],
        span="sum",
        weights=weights.tolist() if weighted else None,
        threshold=threshold,
    )
    assert not isinstance(maps, list)
    np.testing.assert_allclose(maps.scores[:, 0], numbers[f"{key}/tokens"], atol=1e-6, rtol=0)
    for extra, own in (("residual_share", "residual"), ("head_share", "heads")):
        made = np.asarray(maps.extras[extra])[..., 0]
        np.testing.assert_allclose(made, numbers[f"{key}/{own}"], atol=1e-6, rtol=0)
    if not weighted:  # the program ignores weights in the shares of the MLP
        made = np.asarray(maps.extras["feed_forward_share"])[:, 0]
        np.testing.assert_allclose(made, numbers[f"{key}/ffn"], atol=1e-6, rtol=0)
    last = spans["answer"][-1]
    one = lens.measure("flow_routes", x, targets=[last], threshold=threshold)
    same = lens.measure("flow_routes", x, targets=[last], span="sum", threshold=threshold)
    assert not isinstance(one, list)
    assert not isinstance(same, list)
    values, shares = one.scores[:, 0].copy(), np.asarray(one.extras["residual_share"])[:, 0]
    values[:, last] -= shares  # a span has its residual stream apart
    np.testing.assert_allclose(values, same.scores[:, 0], atol=1e-9)


@pytest.mark.parametrize("recursion", ["reasoning", "both", "in_all_gen", "split_hop"])
def test_normalised_scores_and_the_rest_sum_to_one(recursion: str) -> None:
    lens, x, _, _ = example("qwen2_n12")
    made = lens.hops(x, answer=[8, 9, 10], reasoning=[4, 5, 6, 7], hops=3, recursion=recursion)
    assert made.unexplained is not None
    assert (made.scores >= 0).all()
    np.testing.assert_allclose(made.scores.sum() + made.unexplained, 1)
    assert 0 < made.unexplained < 1
    assert not made.scores[5:].any()  # the first token of the reasoning is at 5
    fewer = lens.hops(x, answer=[8, 9, 10], reasoning=[4, 5, 6, 7], hops=1, recursion=recursion)
    assert fewer.unexplained is not None
    assert made.unexplained <= fewer.unexplained + (recursion == "split_hop")


def test_the_default_by_hand() -> None:
    """Targets are producing positions: the weight of a target is the score of the token after."""
    lens, x, _, _ = example("qwen2_n12")

    def span(targets: list[int], weights: list[float] | None = None) -> np.ndarray:
        maps = lens.measure("flow_routes", x, targets=targets, span="sum", weights=weights)
        assert not isinstance(maps, list)
        total: np.ndarray = maps.scores[:, 0].sum(0)
        return total / total.sum()

    first = span([8, 9, 10])
    second = span([4, 5, 6, 7], first[[5, 6, 7, 8]].tolist())
    prompt = np.arange(12) < 5
    expected = prompt * (first + first[[5, 6, 7, 8]].sum() * second)
    made = lens.hops(x, answer=[8, 9, 10], reasoning=[4, 5, 6, 7])
    np.testing.assert_allclose(made.scores, expected, atol=1e-12)
    table = made.to_dataframe()
    assert list(table.columns) == ["position", "token", "score", "hop 0", "hop 1"]
    np.testing.assert_array_equal(table["score"], made.scores)
    whole = lens.hops(lens.record(x), answer=[8, 9, 10], reasoning=[4, 5, 6, 7])
    np.testing.assert_allclose(whole.scores, expected, atol=1e-6)


def test_all_hops_share_one_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the weights of a span are computed in blocks of targets."""
    lens, x, _, spans = example("qwen2_n12")
    lens.hops(x, **spans, hops=1)  # the structure of the model is known from here on
    passes = []
    handle = lens.model.model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        alone = lens.hops(x, **spans, hops=0)
        few = len(passes)
        whole = lens.hops(x, **spans, hops=3, variant="released")
    finally:
        handle.remove()
    assert len(passes) <= 2 * few
    assert len(alone.spans) == 1
    for module in (span_scores, target_pass):
        monkeypatch.setattr(module, "targets_at_once", lambda *_: 2)
    again = lens.hops(x, **spans, hops=3, variant="released")
    np.testing.assert_allclose(again.spans, whole.spans, atol=1e-12)


def test_a_generated_answer() -> None:
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", max_new_tokens=4)
    made = lens.hops(recording, hops=0)
    assert recording.targets is not None
    assert made.settings["answer"] == list(recording.targets[0])
    assert made.scores[: recording.targets[0][0] + 1].all()
    both = lens.hops(recording, hops=1, recursion="both")
    assert made.unexplained is not None
    assert both.unexplained is not None
    assert both.unexplained < made.unexplained


def test_the_last_token_of_an_answer_counts() -> None:
    """It is not in the recorded text, because the model does not read it."""
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", answer=" are old")
    alone = lens.measure("flow_routes", recording, span="sum")
    assert not isinstance(alone, list)
    expected = alone.scores[:, 0].sum(0)
    made = lens.hops(recording, hops=0)
    np.testing.assert_allclose(made.spans[0], expected / expected.sum(), atol=1e-6)
    text = "The keys to the cabinet"
    single = lens.measure("flow_routes", text, targets=-1, span="sum").scores[:, 0].sum(0)
    last = lens.hops(text, answer=[-1], hops=0)
    np.testing.assert_allclose(last.scores, single / single.sum(), atol=1e-6)
    with pytest.raises(InvalidInput, match="'Ġold', is not in the recorded text"):
        lens.hops(recording, hops=0, variant="released")


def test_a_left_out_last_token_does_not_count() -> None:
    lens = Lens.bundled("causal")
    recording = lens.generate("The keys to the cabinet", answer=" are old.")
    assert recording.targets is not None
    without = lens.hops(recording, answer=recording.targets[0][:-1], hops=0, recursion="stop_words")
    made = lens.hops(recording, hops=0, recursion="stop_words")
    np.testing.assert_allclose(made.spans, without.spans, atol=1e-6)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"answer": []}, "no positions"),
        ({"answer": [8], "left_out": [9]}, "All tokens of the answer are left out"),
        ({"answer": None}, "no positions"),
        ({"answer": [99]}, "out of range"),
        ({"reasoning": [-99]}, "out of range"),
        ({"reasoning": [8]}, "in the answer and in the reasoning"),
        ({"answer": [4, 5], "reasoning": [6, 7]}, r"\(from position 6\) is after the answer"),
        ({"reasoning": None}, "A hop needs the reasoning"),
        ({"hops": -1}, "out of range"),
        ({"variant": "paper"}, "paper"),
        ({"recursion": "deep"}, "deep"),
        ({"aggregation": "mean"}, "mean"),
        ({"aggregation": "avg"}, "aggregation='avg' is an option of the authors' program"),
        ({"threshold": 0.5}, "threshold=0.5 is an option of the authors' program"),
        ({"threshold": -1, "variant": "released"}, "threshold=-1 is out of range"),
    ],
)
def test_bad_hops(chosen: dict[str, Any], words: str) -> None:
    lens, x, _, _ = example("qwen2_n12")
    spans: dict[str, Any] = {"answer": [8, 9, 10], "reasoning": [4, 5]}
    with pytest.raises(InvalidInput, match=words):
        lens.hops(x, **{**spans, **chosen})


def test_a_model_that_reads_both_ways_produces_nothing() -> None:
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        Lens.bundled().hops("The dogs bark.", answer=[3], reasoning=[1, 2])


def test_hops_are_kept(tmp_path: Path) -> None:
    lens, text = Lens.bundled("causal"), "The dogs are old. So they sleep"
    for variant in ("normalised", "released"):
        made = lens.hops(text, answer=[6, 7], reasoning=[3, 4, 5], hops=2, variant=variant)
        made.save(tmp_path / "hops.json")
        again = Hops.load(tmp_path / "hops.json")
        for name, value in vars(made).items():
            np.testing.assert_array_equal(getattr(again, name), value)
        assert again.top() == made.top()
    (tmp_path / "other.json").write_text(
        (tmp_path / "hops.json").read_text().replace("hops 1", "x")
    )
    with pytest.raises(InvalidInput, match="does not hold scores of hops"):
        Hops.load(tmp_path / "other.json")
    with pytest.raises(InvalidInput, match="does not hold scores of hops"):
        Hops.load(tmp_path / "none.json")
