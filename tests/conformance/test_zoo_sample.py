"""A sample of the zoo, chosen for different styles: every measure and every independent check of
`tests/zoo/checks.py`. `make zoo` takes all classes.
"""

from __future__ import annotations

import pytest
import transformers

from mixlens import Lens, UnsupportedModel
from tests.zoo.checks import Examination, examined
from tests.zoo.models import entries
from tests.zoo.rules import checked_rules

SAMPLE = {
    "Ernie4_5_VLMoeModel": "packed images next to a text, experts for each",
    "FSMTModel": "the tokens before the batch",
    "IdeficsModel": "its config in a tuple",
    "Lfm2MoeModel": "a hybrid with convolutions and experts",
    "LlavaNextVideoForConditionalGeneration": "one tower that sees images and frames in turn",
    "LukeModel": "words and entities, two streams",
    "M2M100Model": "an encoder and a decoder of texts",
    "MptForCausalLM": "a bias that grows with distance",
    "MT5EncoderModel": "a learnt bias by distance",
    "MuseGlimmerAssistantModel": "a decoder that reads itself and others in one call",
    "PatchTSTModel": "a row for each variable of a series",
    "PhiModel": "a parallel feed-forward part",
    "SwitchTransformersModel": "experts with a capacity, and a router that casts itself",
    "TimesFm2_5ModelForPrediction": "patches of a time series",
    "XLMModel": "layers that are spread over four lists",
    "XLNetModel": "projections that are bare parameters",
}
ENTRIES = {entry.key: entry for entry in entries()}


@pytest.mark.parametrize("name", SAMPLE)
def test_independent_checks(name: str) -> None:
    if not hasattr(transformers, ENTRIES[name].config_class):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    finding = examined(ENTRIES[name])
    assert finding["verdict"] in ("verified", "part")
    assert finding["violations"] == []
    assert finding["foreign"] == []
    assert {"measures", "model untouched"} < finding["checks"].keys()


HEADS = {
    "AlbertForMaskedLM": ("heads",),
    "CanineForSequenceClassification": ("heads",),
    "Gemma4UnifiedForConditionalGeneration": ("options",),  # as many audio frames as tokens
    "IdeficsForVisionText2Text": ("options",),  # a mask of the images that each token sees
    "M2M100ForConditionalGeneration": ("heads", "options"),
    "MptForCausalLM": ("heads", "options"),
    "SiglipForImageClassification": ("heads",),
    "UMT5ForTokenClassification": ("heads",),
}


@pytest.mark.parametrize("name", sorted({*SAMPLE, *HEADS}))
def test_rules(name: str) -> None:
    if not hasattr(transformers, ENTRIES[name].config_class):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    rules = HEADS.get(name, ()) + (("changed", "masks") if name in SAMPLE else ())
    finding = checked_rules(ENTRIES[name], rules)
    assert finding["violations"] == []
    assert finding["foreign"] == []
    assert set(rules) - finding["held"].keys() <= {"masks"}  # some take no mask
    assert finding["held"].get("changed") in (None, 8)


def test_a_class_does_not_depend_on_a_stack_that_its_head_does_not_read() -> None:
    entry = ENTRIES["CanineForSequenceClassification"]
    lens = Lens(entry.build())
    maps = lens.measure("deep_lift", entry.given(), site="final_char_encoder")
    assert isinstance(maps, list)
    assert not maps[0].scores.any()
    with pytest.raises(UnsupportedModel, match="no gradient reaches final_char_encoder"):
        lens.measure("gradient_norm", entry.given(), site="final_char_encoder")


def test_speech_in_the_place_of_a_text() -> None:
    entry = ENTRIES["SeamlessM4TModel"]
    recording = Lens(entry.build()).record(entry.given())
    assert recording.sites == ("encoder", "decoder", "cross")
    examination = Examination(recording.model, entry.given())
    examination.value_zeroing("value zeroing", recording, entry.given())
    assert examination.violations == []
    assert "value zeroing" in examination.done


def test_layers_of_different_lengths_are_stacks_of_their_own() -> None:
    entry = ENTRIES["LlavaNextVideoForConditionalGeneration"]
    recording = Lens(entry.build()).record(entry.given())
    assert recording.sites == ("vision_tower", "vision_tower.2", "language_model")
    assert [recording.rows(site) for site in recording.sites] == [10, 16, 2]
