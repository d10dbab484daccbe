"""`lens.compare`: left-out measures, order and cost."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps, Recording, UnsupportedModel, measure
from mixlens.errors import OutOfMemory
from mixlens.maps.comparison import Comparison
from mixlens.measuring.comparing import compare
from mixlens.measuring.timing import estimated_seconds, first_tokens
from tests.conformance.zoo import built, inputs, randomised

TEXT = "The dogs near the river [MASK] old."
FEW = ["attention", "alti", "gradient_norm"]


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def comparison(lens: Lens) -> Comparison:
    return lens.compare(TEXT, only=FEW, explain={"word": "are", "foil": "is"}, cue="dogs")


def test_only_the_target_s_row_is_computed_and_it_is_the_same(lens: Lens) -> None:
    for aggregate in ("mean", "last", 2):
        row = lens.compare(TEXT, "river", only=["alti"], aggregate=aggregate).scores["alti"]
        layers = lens.measure("alti", TEXT).row("river").scores.astype(np.float64)
        layers = layers / np.abs(layers).sum(-1, keepdims=True)
        picked = {"mean": layers.mean(0), "last": layers[-1], 2: layers[2]}[aggregate]
        assert np.allclose(row, picked / np.abs(picked).sum(), atol=1e-6)
    text = "The disestablishers [MASK] old."
    word = lens.compare(text, 2, only=["alti"], words=True, aggregate="last")
    maps = lens.measure("alti", text)
    assert len(maps.words().tokens) < len(maps.tokens)
    assert (word.target_token, word.sources) == ("disestablishers", maps.words().source_tokens)
    assert np.allclose(
        word.scores["alti"], maps.words().row("disestablishers").scores[-1], atol=1e-5
    )


@pytest.mark.parametrize("words", [False, True])
def test_single_targets_are_aggregated_as_from_maps(lens: Lens, words: bool) -> None:
    """By name no map is formed; a recording of the whole text has them all."""
    chosen: dict[str, Any] = {"only": ["alti", "attention_norm"], "aggregate": "rollout"}
    text = "The disestablishers [MASK] old."
    rows = lens.compare(text, 2, words=words, **chosen)
    maps = compare(lens.record(text), 2, words=words, **chosen)
    assert rows.sources == maps.sources
    for name in chosen["only"]:
        np.testing.assert_allclose(rows.scores[name], maps.scores[name], atol=2e-6)
        np.testing.assert_allclose(rows.by_layer[name], maps.by_layer[name], atol=2e-6)


def test_a_target_of_cross_attention_is_not_a_source() -> None:
    lens = Lens(built("marian"))
    given = {name: value[:1] for name, value in inputs("marian").items()}
    comparison = lens.compare(given, 3, site="cross", only=["attention", "attention_norm"])
    assert comparison.own_source is None
    assert len(comparison.others) == len(comparison.sources) == 9
    order = np.argsort(-comparison.scores["attention"])
    assert [comparison.rank_of(int(i))["attention"] for i in order] == list(range(1, 10))
    frame = comparison.to_dataframe().drop(columns="source").abs()
    expected = frame.corr(method="spearman").loc["attention", "attention_norm"]
    assert comparison.agreement().loc["attention", "attention_norm"] == pytest.approx(expected)


def test_the_target_itself_is_left_out_of_ranks(comparison: Comparison) -> None:
    assert comparison.own_source == comparison.target == comparison.sources.index("[MASK]")
    assert comparison.target not in comparison.others
    assert sorted(comparison.rank_of(int(i))["alti"] for i in comparison.others) == list(
        range(1, len(comparison.sources))
    )


def test_agreement_is_of_sizes(comparison: Comparison) -> None:
    flipped = {
        name: values * (-1) ** np.arange(len(values)) for name, values in comparison.scores.items()
    }
    signed = Comparison(**{**vars(comparison), "scores": flipped})
    assert signed.agreement().equals(comparison.agreement())


def test_the_explained_output_is_reported(lens: Lens, comparison: Comparison) -> None:
    assert comparison.explained == f"are vs is at {comparison.target}"
    assert "explains are vs is" in repr(comparison)
    assert len(repr(comparison)) < 300
    assert comparison.to_dict()["explained"] == comparison.explained
    plain = lens.compare(TEXT, only=["gradient_norm"])
    assert plain.explained == f"{lens.predictions(TEXT, top=1)[0][0]} at {comparison.target}"


def test_a_classifier_is_explained_by_its_label() -> None:
    config = built("bert").config
    config.num_labels, config.id2label = 2, {0: "dull", 1: "lively"}
    model = randomised(hf.BertForSequenceClassification(config)).eval()
    given = {name: value[:1] for name, value in inputs("bert").items()}
    comparison = Lens(model).compare(
        given, only=["attention", "gradient_norm"], explain={"label": 1}
    )
    assert (comparison.explained, comparison.target) == ("lively", 0)
    with pytest.raises(InvalidInput, match=r"Unknown class 'livly'. Did you mean lively\?"):
        Lens(model).compare(given, explain={"label": "livly"})
    assert {name for name, _ in Lens(model).predictions(given)} == {"dull", "lively"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"cue": "the"}, r"cue the: 'the' occurs at positions 1, 4. .*the#1 or the#2"),
        ({"cue": "cat"}, "cue cat: Unknown token 'cat'"),
        ({"cue": 99}, "cue 99: Token 99 is out of range"),
        ({"target": "the"}, "occurs at positions 1, 4"),
        ({"explain": {"word": "zzzz"}}, "'zzzz' is not one token"),
        ({"explain": {"wrod": "are"}}, r"Unknown output option 'wrod'. Did you mean word\?"),
        ({"explain": {"word": "are", "foil": "are"}}, "Pass a different foil"),
        ({"only": ["attention"], "explain": {"word": "are"}}, "explains an output"),
        ({"only": ["attentoin"]}, "Did you mean attention"),
        ({"only": []}, "list of measures is empty"),
        ({"options": {"foo": {}}}, "Unknown measure 'foo'"),
        ({"only": FEW, "options": {"globenc": {}}}, "globenc, which is not compared"),
        ({"aggregate": "sideways"}, "Choose one of: mean, rollout, last"),
        ({"aggregate": 6}, "Layer 6 is out of range"),
        ({"explain": "are"}, "explain is str. Pass a dict"),
        ({"options": {"attention": 3}}, r"options\['attention'\] is int"),
        ({"only": [3]}, "Unknown measure 3"),
    ],
)
def test_errors_are_raised_before_anything_is_measured(
    lens: Lens, chosen: dict[str, Any], words: str
) -> None:
    asked: list[str] = []
    with pytest.raises(InvalidInput, match=words):
        lens.compare(TEXT, progress=lambda name, done, total: asked.append(name), **chosen)
    assert not asked


def test_ranks_of_what_is_no_source(comparison: Comparison) -> None:
    assert comparison.rank_of("dogs") == comparison.rank_of(2)
    for wrong, words in ((99, "has 10 tokens"), ("cat", "Unknown token 'cat'")):
        with pytest.raises(InvalidInput, match=words):
            comparison.rank_of(wrong)


def test_slow_measures_are_left_out(lens: Lens) -> None:
    long = " ".join(["the dogs near the old river"] * 12) + " [MASK] ."
    seen: list[tuple[str, int, int]] = []
    comparison = lens.compare(
        long,
        only=["attention", "blank_out"],
        budget=0.4,
        progress=lambda *step: seen.append(step),
    )
    assert list(comparison.scores) == ["attention"]
    assert "more than the budget of 0.4 s" in comparison.left_out["blank_out"]
    assert seen == [("attention", 0, 2), ("blank_out", 1, 2)]


@pytest.mark.parametrize("power", [0, 1, 2, 3])
@pytest.mark.parametrize("constant", [0.0, 0.05])
def test_time_is_foretold_from_short_runs(
    power: int, constant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def seconds(size: int) -> float:
        return constant + 2e-3 * (size / 16) ** power

    def run(size: int) -> None:
        nonlocal clock
        clock += seconds(size)

    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, name, lambda: clock)
    for budget in (seconds(256) / 3, seconds(256) * 3):
        estimate = estimated_seconds(run, lambda size: size, 256, budget)  # type: ignore[arg-type, return-value]
        assert (estimate > budget) == (seconds(256) > budget)
        short = estimated_seconds(run, lambda size: size, 20, 0.0)  # type: ignore[arg-type, return-value]
        assert short >= seconds(16), "a text too short for a second run"


def test_first_tokens() -> None:
    ids = torch.arange(8).reshape(1, 8)
    cut = first_tokens({"input_ids": ids, "attention_mask": ids}, 3)
    assert cut is not None
    assert cut["attention_mask"].tolist() == [[0, 1, 2]]
    assert first_tokens({"input_ids": ids[..., None]}, 3) is None, "several codes for each token"
    assert first_tokens({"pixel_values": ids}, 3) is None
    assert first_tokens({"pixel_values": torch.ones(1, 3, 4, 4)}, 3) is None


def test_one_text_at_a_time(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match="one text at a time"):
        compare(lens.record([TEXT, TEXT]), 0)


def test_a_named_target_is_compared_by_rows_from_one_pass() -> None:
    lens = Lens.bundled("causal")
    text = "The keys to the cabinet near the old doors are on the table."
    only = ["attention", "attention_norm", "alti", "value_zeroing"]
    lens.compare(text, -1, only=only)  # proofs
    passes: list[int] = []
    hook = lens.model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        made = lens.compare(text, -1, only=only, words=True, aggregate=2)
    finally:
        hook.remove()
    assert len(passes) == 1
    expected = compare(lens.record(text), -1, only=only, words=True, aggregate=2)
    assert list(made.scores) == only
    assert made.sources == expected.sources
    for name in only:
        assert made.provenance[name]["recorded"] == "rows"
        np.testing.assert_allclose(made.scores[name], expected.scores[name], atol=2e-6)
        np.testing.assert_allclose(made.by_layer[name], expected.by_layer[name], atol=2e-6)
    with pytest.raises(InvalidInput, match="Layer 6 is out of range"):
        lens.compare(text, -1, only=only, aggregate=6)


@pytest.fixture(scope="module")
def continued() -> tuple[Lens, Recording]:
    lens = Lens.bundled("causal")
    recording = lens.generate("The cat sleeps here.", answer=" It is old.")
    assert not recording.is_kept
    return lens, recording


@pytest.mark.parametrize("aggregate", ["mean", "rollout"])
@pytest.mark.parametrize("words", [False, True])
def test_a_produced_token_is_named_as_in_maps(
    continued: tuple[Lens, Recording], words: bool, aggregate: str
) -> None:
    """A target is the position that produced the token, and has its name."""
    lens, recording = continued
    only = ["alti", "effective_attention", "attention_gradient"]  # by rows, signed, and an output
    chosen: dict[str, Any] = {"only": only, "words": words, "aggregate": aggregate}
    made = lens.compare(recording, "old", **chosen)
    maps = measure("alti", recording)
    assert isinstance(maps, MixingMaps)
    assert made.target_token == ("old" if words else "Ġold")
    assert made.target == (maps.words() if words else maps).row("old").target
    assert made.own_source is not None
    assert made.sources[made.own_source] in ("is", "Ġis"), "what the position has read"
    assert made.explained == f"old at {maps.row('old').target}"
    whole = compare(
        lens.record("The cat sleeps here. It is old"), 8, explain={"word": "old"}, **chosen
    )
    assert made.sources == whole.sources
    for name in only:
        np.testing.assert_allclose(made.scores[name], whole.scores[name], atol=2e-6)
        np.testing.assert_allclose(made.by_layer[name], whole.by_layer[name], atol=2e-6)


def test_a_recording_is_compared_by_measures_of_an_output_too(
    continued: tuple[Lens, Recording],
) -> None:
    lens, recording = continued
    made = lens.compare(recording, only=["random", "gradient_norm"], budget=60)
    assert made.target_token == ".", "the last that was produced"
    alone = measure("gradient_norm", recording, targets=["."])
    assert isinstance(alone, MixingMaps)
    row = alone.scores[0, 0].astype(np.float64)
    np.testing.assert_allclose(made.scores["gradient_norm"], row / row.sum(), atol=1e-6)
    assert made.segments().sources == ("(first token)", "prompt", "answer")
    foil = lens.compare(recording, "old", only=["gradient_norm"], explain={"foil": "new"})
    assert foil.explained == "old vs new at 8"
    named = lens.record("The cat sleeps here.", targets=["cat", "here"])
    assert lens.compare(named, only=["alti", "gradient_norm"]).target_token == "Ġhere"
    assert lens.compare(lens.record("The cat"), only=["alti"]).target_token == "Ġcat"


def test_a_recording_is_compared_at_the_site_that_it_was_made_for() -> None:
    lens = Lens(built("bart", head=True))
    recording = lens.generate({"input_ids": [5, 6, 7]}, answer=[8, 9])
    made = lens.compare(recording, only=["attention", "attention_norm"])
    assert (made.target_token, len(made.sources), made.own_source) == ("9", 3, None)
    assert len(lens.compare(recording, "8", site="decoder", only=["attention"]).sources) == 2


def test_a_reason_does_not_repeat_the_name_of_its_measure() -> None:
    """It is shown next to the name; raised alone, the error begins with it."""
    lens = Lens.bundled()
    asked = ["alti_logit", "attention"]
    compared = lens.compare("The dogs [MASK].", only=asked)
    assert compared.left_out["alti_logit"].startswith("layer 0 of encoder: a norm")
    with pytest.raises(UnsupportedModel, match=r"^alti_logit, layer 0 of encoder: a norm"):
        lens.measure("alti_logit", "The dogs [MASK].")


def test_memory_that_runs_out_is_not_a_measure_that_does_not_apply() -> None:
    model = built("gpt2")
    lens, given, full = Lens(model), inputs("gpt2", rows=1), list[bool]()

    def run_out(*call: Any) -> None:
        if full:
            raise torch.OutOfMemoryError("out of memory")

    model.h[0].mlp.register_forward_pre_hook(run_out)
    recording = lens.record(given)
    lens.compare(recording, -1, only=["hidden_token_attribution"])
    full.append(True)
    with pytest.raises(OutOfMemory, match="memory ran out"):
        lens.compare(recording, -1, only=["hidden_token_attribution"])


ANSWERED = ("Tom has a red ball. Lily has a blue", " car and she is happy.")


def test_an_answer_is_compared_as_a_span_and_as_an_output() -> None:
    lens = mixlens.Lens.bundled("causal")
    recording = lens.generate(ANSWERED[0], answer=ANSWERED[1])
    names = ["alti", "attention", "gradient_x_input", "logit_update", "attention_gradient"]
    compared = lens.compare(recording, answer=True, only=names)
    assert list(compared.left_out) == ["attention_gradient"]
    names.remove("attention_gradient")
    assert compared.target_token == "car and she is happy."
    assert compared.own_source is None
    assert compared.explained == "answer 'car and she is happy.'"
    first = recording.targets[0][0] + 1  # type: ignore[index]
    for name in names:
        spec = mixlens.list_measures()[name]
        own: dict[str, Any] = {"span": "mean"} if spec.gives == "maps" else {}
        own |= {"answer": True} if spec.explains_output else {}
        maps: Any = mixlens.measure(name, recording, **own)
        row = maps.scores[:, 0].astype(np.float64)
        if spec.gives == "maps":
            row = row / np.abs(row).sum(1, keepdims=True)
        row = row.mean(0) if spec.gives == "maps" else row.sum(0)
        assert compared.scores[name] == pytest.approx(row / np.abs(row).sum(), abs=1e-5), name
    part = lens.compare(recording, answer=(first, first + 2), span="sum", only=names[:1])
    summed: Any = mixlens.measure("alti", recording, targets=[first - 1, first], span="sum")
    row = summed.scores[:, 0] / summed.scores[:, 0].sum(1, keepdims=True)
    assert part.scores["alti"] == pytest.approx(row.mean(0), abs=1e-5)
    words = lens.compare(recording, span=True, only=names[:3], words=True)
    assert sum(words.scores["alti"]) == pytest.approx(1, abs=1e-5)
    assert words.sources[2] == "has"


def test_the_label_of_an_answer_is_its_text_not_the_tokens_in_front_of_it() -> None:
    lens = mixlens.Lens.bundled("causal")
    text, names = "".join(ANSWERED), ["alti", "gradient_x_input"]
    compared = lens.compare(text, answer="and she", only=names)
    assert (compared.target_token, compared.explained) == ("and she", "answer 'and she'")
    span = lens.compare(text, target=[11, 12], span="mean", only=names[:1])
    place = span.target
    assert lens.compare(text, answer=(place + 1, place + 3), only=names[:1]).target == place
    generated = lens.generate(ANSWERED[0], answer=ANSWERED[1])
    assert lens.compare(generated, answer="and she", only=names).target_token == "and she"


def test_spans_of_a_text_are_compared() -> None:
    lens = mixlens.Lens.bundled("causal")
    text = "".join(ANSWERED)
    named = lens.compare(text, [6, 7, 8], span=True, only=["alti", "attention", "gradient_norm"])
    assert named.explained is not None
    alone = lens.compare(text, [6, 8], span="sum", only=["alti"])  # cut to its targets
    assert alone.by_layer["alti"].shape == (6, len(alone.sources))
    masked = mixlens.Lens.bundled()
    both = masked.compare("The dogs [MASK] old.", [2, 3], span=True, only=["alti", "gradient_norm"])
    assert "is bidirectional" in both.left_out["gradient_norm"]
    for given, message in (
        ({"target": [1, 2]}, "names several targets. Pass span="),
        ({"span": True}, "A span needs targets"),
        ({"target": [1, 2], "answer": (2, 3)}, "are mutually exclusive"),
        ({"target": [1, 2], "span": True, "aggregate": "rollout"}, "is for one target"),
        ({"target": [1, 2], "span": True, "explain": {"word": "old"}}, "cannot be combined"),
        ({"target": [1, 4], "span": True}, "are not adjacent"),
        ({"target": [1, 99], "span": True}, "99"),
        ({"target": [1, 2], "span": "some"}, "span"),
    ):
        with pytest.raises(InvalidInput, match=message):
            lens.compare(text, **given)
