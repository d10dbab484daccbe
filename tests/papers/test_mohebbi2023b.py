"""Homophones in speech: frames and tokens of words, and the effect of a cue."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import mixlens
from mixlens.datasets.examples import Spoken
from mixlens.datasets.speech import waveform
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.papers.mohebbi2023b import ablation, cues, paper
from mixlens.papers.reproduction import reproduce, require_model
from tests.papers.settings import dataset_for, lens_for


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(lens_for("speech"), dataset_for("speech", 1).examples[0])


def _example(case: Case) -> Spoken:
    assert isinstance(case.example, Spoken)
    return case.example


def test_frames_follow_the_rounding_of_the_authors() -> None:
    assert paper.frames_of([(0.0, 0.05), (0.05, 0.1), (0.1, 0.101)], 0.02, 50) == [
        [0, 1, 2],
        [3, 4],
        [5],
    ]
    with pytest.raises(InvalidInput, match="longer than the 5 frames"):
        paper.frames_of([(0.05, 0.13)], 0.02, 5)


def test_tokens_spell_their_words(case: Case) -> None:
    known, example = paper.speech_of(case), _example(case)
    for (first, last), places in zip(example.words, known.tokens, strict=True):
        spelled = known.lens.tokenizer.decode([known.ids[place] for place in places])
        assert spelled.strip() == example.text[first:last]


@pytest.mark.parametrize("site", paper.SITES)
def test_scores_of_words_are_sums_of_attention(case: Case, site: str) -> None:
    known, example = paper.speech_of(case), _example(case)
    scores = known.word_scores("attention", site)
    maps = case.lens.measure("attention", known.recording, site=site)
    targets, places = list(maps.target_positions), known.frames
    rows = known.frames[example.target[0]]
    if site != "encoder":
        rows = [place - 1 for place in known.tokens[example.target[0]]]
    if site == "decoder":
        places = known.tokens[: example.target[0]]
    expected = np.zeros((len(maps.scores), len(example.words)))
    for layer, scored in enumerate(maps.scores):
        for row in rows:
            words = np.array([scored[targets.index(row)][each].sum() for each in places])
            expected[layer, : len(words)] += words / words.sum() / len(rows)
    assert np.allclose(scores, expected, atol=1e-6)


def test_value_zeroing_zeroes_whole_words(case: Case) -> None:
    known, example = paper.speech_of(case), _example(case)
    rows = known.frames[example.target[0]]
    maps = case.lens.measure(
        "value_zeroing", known.recording, site="encoder", targets=rows, segments=known.frames
    )
    expected = (maps.scores / maps.scores.sum(-1, keepdims=True)).mean(1)
    assert np.allclose(known.word_scores("value_zeroing", "encoder"), expected, atol=1e-6)
    seen = cues.observe(case, measure="value_zeroing", site="encoder")
    assert np.allclose(seen["cue"], expected[:, 1])
    assert np.allclose(seen["others"], expected[:, 1] / (1 - expected[:, 3]), atol=1e-6)
    assert seen["chance"] == pytest.approx(1 / 3)


def test_effects_are_those_of_changed_inputs(case: Case) -> None:
    known, example = paper.speech_of(case), _example(case)
    lens, wave = case.lens, waveform(example.audio, known.rate)
    start, end = (round(time * known.rate) for time in example.times[1])
    silent = wave.copy()
    silent[start:end] = 0
    assert example.other_audio is not None
    clips = {"own": wave, "silent": silent, "other": waveform(example.other_audio, known.rate)}
    blank = [
        lens.tokenizer.unk_token_id if place in known.tokens[1] else number
        for place, number in enumerate(known.ids)
    ]
    other = list(lens.tokenizer(f" {example.text.replace('will', 'are')}").input_ids)
    texts = {"own": known.ids, "blank": blank, "other": other}
    foil = lens.tokenizer(" here", add_special_tokens=False).input_ids
    target = lens.tokenizer(" hear", add_special_tokens=False).input_ids
    differs = [one != two for one, two in zip(target, foil, strict=True)].index(True)

    def asked(clip: str, text: str) -> tuple[float, float]:
        ids = texts[text]
        shift = len(ids) - len(known.ids)
        made = lens.processor(audio=clips[clip], sampling_rate=known.rate, return_tensors="pt")
        with torch.no_grad():
            logits = lens.model(
                input_features=made.input_features, decoder_input_ids=torch.tensor([ids])
            ).logits[0]
        rows = logits[[place + shift - 1 for place in known.tokens[3]]]
        probability = np.mean([row.softmax(-1)[n] for row, n in zip(rows, target, strict=True)])
        return float(probability), float(
            rows[differs, target[differs]] - rows[differs, foil[differs]]
        )

    seen = ablation.observe(case)
    before = asked("own", "own")
    assert tuple(seen["before"].values()) == pytest.approx(before, abs=1e-5)
    for name, (clip, text) in ablation.CHANGES.items():
        after = asked(clip, text)
        expected = tuple(one - two for one, two in zip(before, after, strict=True))
        if (clip, text) == ("silent", "own"):  # resampled after it was silenced
            assert tuple(seen[name].values()) == pytest.approx(expected, abs=1e-2)
        else:
            fall = seen[name]["probability"], seen[name]["difference"]
            assert clip == "silent" or fall == pytest.approx(expected, abs=1e-5), name


def test_statements_give_counts_and_chance() -> None:
    row = paper.effect(np.array([0.5, 0.2, math.nan, -0.1]))
    assert "positive for 2 of 3 texts (chance: 1.5)" in paper.in_words(row)
    assert paper.is_positive(row) is None
    assert paper.is_positive(paper.effect(np.arange(12.0) + 1)) is True
    assert paper.is_positive(paper.effect(-np.arange(12.0) - 1)) is False
    excess = {("encoder", "value_zeroing"): -np.arange(12.0) - 1}
    assert [finding.holds for finding in cues._findings(excess)] == [False]
    excess["decoder", "value_zeroing"] = np.arange(12.0) + 1
    assert [finding.holds for finding in cues._findings(excess)] == [True, True, True]


def test_an_encoder_alone_has_no_decoder() -> None:
    data = dataset_for("speech", 2)
    lens = lens_for("speech-encoder")
    result = reproduce("mohebbi2023b/cues", lens, data)
    assert result.outcome is not None
    assert set(result.outcome.tables["cues"]["attention"]) == {"encoder"}
    assert len(result.outcome.findings) == 1
    with pytest.raises(InvalidInput, match="no decoder"):
        reproduce("mohebbi2023b/ablation", lens, data)


def test_models_without_audio_are_rejected() -> None:
    from mixlens.papers import module

    with pytest.raises(InvalidInput, match="does not take audio"):
        require_model(module("mohebbi2023b/cues").SPEC, mixlens.Lens.bundled())
