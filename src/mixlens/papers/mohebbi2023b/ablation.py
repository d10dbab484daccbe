"""Mohebbi et al. (2023b): does the spoken or the written cue decide the spelling of a homophone?

The decoder reads the sentence up to the target. As in the paper, the experiment compares the mean
probability of the target's tokens before and after a change. The cue is replaced with silence in
the audio, with the unknown token in the text, or in both.

If an example has a foil, the experiment also compares the logits of the two spellings at the first
token in which they differ. If it has a cue for the other spelling, this cue also replaces the
original one in the audio, in the text, or in both. A positive effect means that the cue favours its
own spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from mixlens.datasets.speech import RATE
from mixlens.errors import InvalidInput
from mixlens.papers.contracts import ExperimentSpec, Finding, Outcome, Setting
from mixlens.papers.mohebbi2023b import paper
from mixlens.views import figures

if TYPE_CHECKING:
    from mixlens.datasets.examples import Spoken
    from mixlens.evaluating.case import Case

# By change: the clip, and the text.
CHANGES = {
    "silent audio": ("silent", "own"),
    "blank text": ("own", "blank"),
    "both": ("silent", "blank"),
    "other audio": ("other", "own"),
    "other text": ("own", "other"),
    "other both": ("other", "other"),
}
_NAN = float("nan")

SPEC = ExperimentSpec(
    title="effect of the cue on the spelling of a homophone, removed or replaced in audio or text",
    finding=(
        "the text that the decoder has already generated decides the spelling, and the audio "
        "of the cue hardly matters"
    ),
    kinds=("speech",),
    data=paper.DATA,
    generated=paper.GENERATED,
    models=(),
    needs="speech",
    cost="seven forward passes for each text",
)


def observe(case: Case) -> dict[str, dict[str, float]]:
    """Return the effect of each change of the cue.

    Each effect consists of the decrease in the target's probability and in the logit difference.
    The entry `before` contains both values for the original cue.
    """
    speech = paper.speech_of(case)
    if not speech.has_decoder:
        raise InvalidInput("This model has no decoder. Pass an encoder-decoder model.")
    example = speech.example
    clips = {"own": example.audio, "silent": _silence_cue(example), "other": example.other_audio}
    texts = {"own": speech.ids, "blank": _with_blank(speech), "other": _with_other(speech)}
    states = {name: _encode_clip(speech, clip) for name, clip in clips.items() if clip is not None}
    choice = _choice(speech)
    answers = {
        name: _score_target(speech, states[clip], ids, choice)
        for name, (clip, text) in [("before", ("own", "own")), *CHANGES.items()]
        if clip in states and (ids := texts[text]) is not None
    }
    before = answers.pop("before")
    falls = {
        name: {key: before[key] - after[key] for key in before} for name, after in answers.items()
    }
    return {"before": before, **falls}


def _places(speech: paper.Speech, words: Sequence[int]) -> list[int]:
    return [place for word in words for place in speech.tokens[word]]


def _with_blank(speech: paper.Speech) -> list[int]:
    unknown = speech.lens.tokenizer.unk_token_id
    if not isinstance(unknown, int):
        raise InvalidInput("The tokenizer has no unknown token. Pass a model with one.")
    cue = _places(speech, speech.example.cue)
    return [unknown if place in cue else number for place, number in enumerate(speech.ids)]


def _with_other(speech: paper.Speech) -> list[int] | None:
    """Return the transcript with the other cue and the same target."""
    if speech.example.other_cue is None:
        return None
    cue = _places(speech, speech.example.cue)
    other = _replace_word(speech, speech.example.other_cue, speech.example.cue[0])
    return [*speech.ids[: cue[0]], *other, *speech.ids[cue[-1] + 1 :]]


def _replace_word(speech: paper.Speech, word: str, number: int) -> list[int]:
    """Return the token ids of `word` if it replaces word `number` of the transcript.

    The tokens include the space before the word, if there is one.
    """
    text, (start, _) = f" {speech.example.text}", speech.example.words[number]
    lead = text[start] if text[start] == " " else ""
    return list(speech.lens.tokenizer(f"{lead}{word}", add_special_tokens=False).input_ids)


def _silence_cue(example: Spoken) -> bytes:
    samples = np.frombuffer(example.audio, "<i2").copy()
    for word in example.cue:
        start, end = example.times[word]
        samples[round(start * RATE) : round(end * RATE)] = 0
    return samples.tobytes()


@torch.no_grad()
def _encode_clip(speech: paper.Speech, audio: bytes) -> Any:
    """Return the encoder's output for a clip."""
    model: Any = speech.lens.model
    features = speech.lens.processor(**speech.hear(audio), return_tensors="pt")
    encoder_input = features[model.main_input_name].to(model.device, model.dtype)
    return model.get_encoder()(encoder_input)


def _choice(speech: paper.Speech) -> tuple[int, int, int] | None:
    """Find the first token in which target and foil differ.

    Return its index in the target, the token of the target and the token of the foil.
    """
    if speech.example.foil is None:
        return None
    target = [speech.ids[place] for place in _places(speech, speech.example.target)]
    foil = _replace_word(speech, speech.example.foil, speech.example.target[0])
    for number, (one, other) in enumerate(zip(target, foil, strict=False)):
        if one != other:
            return number, one, other
    raise InvalidInput(
        f"{speech.example.foil!r} and the target begin with the same tokens, so no token decides"
        " between them. Remove the example."
    )


@torch.no_grad()
def _score_target(
    speech: paper.Speech, states: Any, ids: list[int], choice: tuple[int, int, int] | None
) -> dict[str, float]:
    """Return the mean probability of the target's tokens, and the difference between the logits of
    target and foil.
    """
    shift = len(ids) - len(speech.ids)  # the other cue may have a different number of tokens
    places = [place + shift for place in _places(speech, speech.example.target)]
    target_ids = [ids[place] for place in places]
    model: Any = speech.lens.model
    decoder_ids = torch.tensor([ids[: places[-1]]], device=model.device)
    logits = model(encoder_outputs=states, decoder_input_ids=decoder_ids).logits[0].float()
    target_logits = logits[[place - 1 for place in places]]
    probabilities = target_logits.softmax(-1)[torch.arange(len(target_ids)), target_ids]
    difference = _NAN
    if choice is not None:
        number, target, foil = choice
        difference = float(target_logits[number, target] - target_logits[number, foil])
    return {"probability": float(probabilities.mean()), "difference": difference}


def run(setting: Setting) -> Outcome:
    """Change the cue of every sentence, and measure the effect on the probability of the target."""
    observations = setting.observe({"effects": observe})
    answers = observations.answers["effects"]
    effects = {
        (name, key): np.array([each.get(name, {}).get(key, _NAN) for each in answers])
        for name in CHANGES
        for key in ("probability", "difference")
    }
    effects_with_values = {
        key: values for key, values in effects.items() if not np.isnan(values).all()
    }
    rows = [
        {"change": name, "of": key, **paper.effect(values)}
        for (name, key), values in effects_with_values.items()
    ]
    drops = {
        name: drop_values
        for (name, key), drop_values in effects_with_values.items()
        if key == "probability"
    }
    figure = figures.bars(
        {"": {name: float(np.nanmean(values)) for name, values in drops.items()}},
        intervals={
            "": {
                name: (paper.effect(values)["low"], paper.effect(values)["high"])
                for name, values in drops.items()
            }
        },
        title="fall of the target's probability",
        y_label="fall",
    )
    measured = {f"{row['change']}, {row['of']}": row["mean"] for row in rows}
    return Outcome(
        {"ablation": pd.DataFrame(rows)},
        {"ablation": figure},
        measured,
        _findings(
            effects_with_values, np.array([each["before"]["difference"] for each in answers])
        ),
        observations.skipped,
    )


def _findings(effects: dict[tuple[str, str], np.ndarray], differences: np.ndarray) -> list[Finding]:
    silent = paper.effect(
        effects["blank text", "probability"] - effects["silent audio", "probability"]
    )
    findings = [
        Finding(
            "a blank instead of the written cue lowers the target's probability more than silence"
            " instead of the spoken cue",
            paper.is_positive(silent),
            paper.in_words(silent),
        )
    ]
    if ("other text", "difference") in effects:
        numbers = differences[~np.isnan(differences)]
        text, audio = (effects[f"other {part}", "difference"] for part in ("text", "audio"))
        gap = paper.effect(text - audio)
        findings += [
            _decides("the written cue decides the spelling", text),
            _decides("the spoken cue decides the spelling", audio),
            Finding(
                "replacing the written cue has a larger effect than replacing the spoken cue",
                paper.is_positive(gap),
                f"{paper.in_words(gap)}; with both cues unchanged, the model prefers the right"
                f" spelling in {int((numbers > 0).sum())} of {len(numbers)} texts",
            ),
        ]
    return findings


def _decides(statement: str, values: np.ndarray) -> Finding:
    summary = paper.effect(values)
    return Finding(statement, paper.is_positive(summary), paper.in_words(summary))
