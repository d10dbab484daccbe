"""A sample of the zoo, chosen for different styles: every measure and every independent check of
`tests/zoo/checks.py`. `make zoo` takes all classes.
"""

from __future__ import annotations

import pytest

from mixlens import Lens
from tests.zoo.checks import examined
from tests.zoo.models import entries

SAMPLE = {
    "CanineForSequenceClassification": "a class that does not depend on the last stack",
    "Ernie4_5_VLMoeModel": "an image next to a text, experts for each",
    "Idefics2Model": "queries that read themselves and the image in one call",
    "Lfm2MoeModel": "a hybrid with convolutions and experts",
    "LlavaNextVideoForConditionalGeneration": "one tower that sees images and frames in turn",
    "M2M100Model": "an encoder and a decoder of texts",
    "MptForCausalLM": "a bias that grows with distance",
    "MT5EncoderModel": "a learnt bias by distance",
    "PhiModel": "a parallel feed-forward part",
    "SeamlessM4TModel": "speech in the place of a text",
    "SwitchTransformersModel": "experts with a capacity, and a router that casts itself",
    "T5Gemma2Model": "a decoder that reads itself and the encoder in one call",
    "TimesFm2_5ModelForPrediction": "patches of a time series",
}
ENTRIES = {entry.key: entry for entry in entries() if entry.key in SAMPLE}


@pytest.mark.parametrize("name", SAMPLE)
def test_independent_checks(name: str) -> None:
    finding = examined(ENTRIES[name])
    assert finding["verdict"] in ("verified", "part")
    assert finding["violations"] == []
    assert finding["foreign"] == []
    assert {"measures", "model untouched"} < finding["checks"].keys()


def test_layers_of_different_lengths_are_stacks_of_their_own() -> None:
    entry = ENTRIES["LlavaNextVideoForConditionalGeneration"]
    recording = Lens(entry.build()).record(entry.given())
    assert recording.sites == ("vision_tower", "vision_tower.2", "language_model")
    assert [recording.rows(site) for site in recording.sites] == [10, 16, 2]
