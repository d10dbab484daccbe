"""Prompts with images: `Lens.generate`, labels, segments, and the error messages."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps, Recording
from mixlens.views.viewer.payload import payload_of
from tests.recording.vision_models import SPECIAL, chat, picture, vision_lens

FAMILIES = ("llava", "qwen2_vl", "gemma3", "idefics3")
MEASURES = ("attention", "attention_norm", "alti", "value_zeroing")
MARKS = list(range(len(SPECIAL)))  # random models would generate images


def _generated(lens: Lens, prompt: Any, **options: Any) -> Recording:
    return lens.generate(prompt, max_new_tokens=3, suppress_tokens=MARKS, **options)


def _apart(few: Any, maps: Any, targets: tuple[int, ...]) -> float:
    pairs = ((few.scores[:, k], maps.scores[:, place]) for k, place in enumerate(targets))
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_targets_are_those_of_whole_maps(family: str, count: int) -> None:
    lens = vision_lens(family)
    recording = _generated(lens, chat(*[picture(seed, 64 - 16 * seed) for seed in range(count)]))
    assert recording.targets is not None
    assert recording.produced is not None
    assert recording.site is not None
    assert not recording.is_kept
    (targets,), inputs = recording.targets, dict(recording.inputs)
    with torch.no_grad():
        logits = lens.model(**inputs).logits[0]
    logits[:, MARKS] = -np.inf
    assert [int(logits[place].argmax()) for place in targets] == [
        recording.produced[0].ids[place] for place in targets
    ]
    whole = lens.record(inputs)
    for name in MEASURES:
        few = mixlens.measure(name, recording)
        assert isinstance(few, MixingMaps)
        assert few.provenance["recorded"] == "rows"
        assert _apart(few, mixlens.measure(name, whole, site=recording.site), targets) < 1e-5
    labels = recording.source_tokens(recording.site, 0).labels
    patches = [i for i, label in enumerate(labels) if " patch " in label][::7]
    inside = lens.measure("alti", inputs, targets=patches, site=recording.site)
    maps = mixlens.measure("alti", whole, site=recording.site)
    assert _apart(inside, maps, tuple(patches)) < 1e-5, "patches of Gemma 3 see later ones"
    assert isinstance(inside, MixingMaps)
    assert inside.source_row.labels[patches[0]].startswith("image 1 patch (")


def test_attention_is_that_of_the_native_model() -> None:
    lens = vision_lens("gemma3")
    recording = _generated(lens, chat(picture(), picture(1)))
    assert recording.targets is not None
    model: Any = copy.deepcopy(lens.model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        native = model(**recording.inputs, output_attentions=True).attentions
    ours = mixlens.measure("attention", recording)
    expected = np.stack([layer[0].mean(0)[list(recording.targets[0])].numpy() for layer in native])
    assert isinstance(ours, MixingMaps)
    np.testing.assert_allclose(ours.scores, expected, atol=1e-6)


def test_rollout_of_targets_with_patches_that_see_later_ones() -> None:
    lens = vision_lens("gemma3")
    recording = _generated(lens, chat(picture()))
    assert recording.targets is not None
    whole: Any = lens.measure("alti", dict(recording.inputs), site=recording.site)
    rolled = lens.rollout("alti", recording)
    assert _apart(rolled, whole.rollout(), recording.targets[0]) < 1e-5


def test_a_prompt_of_more_than_4096_tokens() -> None:
    lens = vision_lens("llava")
    words = " ".join(f"w{number % 70}" for number in range(4200))
    recording = lens.generate(chat(picture(), text=words), answer=" a cat")
    assert recording.width > 4200
    few = mixlens.measure("attention", recording)
    assert isinstance(few, MixingMaps)
    assert few.provenance["recorded"] == "rows"
    np.testing.assert_allclose(few.scores.sum(-1), 1, atol=1e-4)


# --------------------------------------------------------------------------- labels and segments


def test_images_are_segments_between_the_turns() -> None:
    lens = vision_lens("qwen2_vl")
    messages = [
        {"role": "user", "content": [*chat(picture(), text="what is it ?")[0]["content"]]},
        {"role": "assistant", "content": "a cat ."},
        {"role": "user", "content": [*chat(picture(1, 48), text="and this ?")[0]["content"]]},
    ]
    recording = _generated(lens, messages)
    row = recording.source_tokens(recording.site, 0)
    assert row.segments is not None
    names = [part.name for part in row.segments if part.name != "(other)"]
    assert names == ["image 1", "user 1", "assistant", "image 2", "user 2", "answer"]
    first = row.labels.index("image 1 patch (0, 0)")
    assert row.labels[first + 11] == "image 1 patch (2, 3)", "48 x 64 pixels are 3 x 4 tokens"
    assert row.text is not None
    assert row.offsets is not None
    start, stop = row.offsets[first]
    assert row.text[start:stop] == "<|image_pad|>"
    maps = mixlens.measure("attention", recording)
    assert isinstance(maps, MixingMaps)
    sums = maps.segments(sink=False)
    assert {"image 1", "image 2", "user 1"} <= set(sums.source_row.labels)


def test_text_and_patches_stay_separate_in_words() -> None:
    lens = vision_lens("llava")
    given = {"images": [picture(), picture(1)], "text": "<image> <image> what is it ?"}
    recording = _generated(lens, given)
    row = recording.source_tokens(recording.site, 0)
    assert row.segments is not None
    assert [part.name for part in row.segments] == ["image 1", "image 2", "text", "answer"]
    maps = mixlens.measure("attention", recording)
    assert isinstance(maps, MixingMaps)
    assert "image 2 patch (3, 3)" in maps.words().source_row.labels


def test_tensors_of_a_processor_are_a_prompt() -> None:
    lens = vision_lens("llava")
    made = lens.processor(text="<image> what is it ?", images=picture(), return_tensors="pt")
    recording = _generated(lens, dict(made))
    row = recording.source_tokens(recording.site, 0)
    assert row.labels[0] == "image 1 patch (0, 0)"
    assert row.segments is not None
    assert [part.name for part in row.segments] == ["image 1", "text", "answer"]


@pytest.mark.parametrize("family", [*FAMILIES, "llava_next", "idefics3_tiles"])
def test_patches_are_where_the_picture_changes(family: str) -> None:
    """Of all tokens, those of a changed part of the picture enter the language model most
    differently.
    """
    lens = vision_lens(family)
    plain = np.full((32, 64, 3), 90, np.uint8)
    changed = plain.copy()
    changed[24:, 32:40] = (250, 10, 200)  # one of 4 x 8 patches
    states = []
    for pixels in (plain, changed):
        recording = lens.generate(chat(Image.fromarray(pixels)), answer=" a cat")
        layer = lens.model.get_submodule(recording.structure.stacks[0].layers[0].path)
        handle = layer.register_forward_pre_hook(
            lambda _, args, kwargs: states.append(args[0] if args else kwargs["hidden_states"]),
            with_kwargs=True,
        )
        with torch.no_grad():
            lens.model(**recording.inputs)
        handle.remove()
    moved = (states[1] - states[0])[0].norm(dim=-1)
    row = recording.source_tokens(recording.site, 0)
    for grid in row.pictures[0].grids:
        left, top, right, bottom = grid.box
        if not (left <= 0.56 <= right and top <= 0.88 <= bottom):
            continue
        rows = range(grid.first, grid.first + grid.rows * grid.stride, grid.stride)
        cells = [start + column for start in rows for column in range(grid.columns)]
        most = cells[int(moved[cells].argmax())] - grid.first
        column = int((0.56 - left) / (right - left) * grid.columns)
        assert divmod(most, grid.stride) == (int((0.88 - top) / (bottom - top) * grid.rows), column)
    assert sum(moved > 0) > 0


def test_tiles_of_adjacent_images_are_separated() -> None:
    for family, count, first in (("llava_next", 52, "overview"), ("idefics3_tiles", 48, "patch")):
        lens = vision_lens(family)
        recording = lens.generate(chat(picture(0, 64, 32), picture(1, 64, 48)), answer=" a cat")
        row = recording.source_tokens(recording.site, 0)
        labels = [label for label in row.labels if label.startswith("image 1 ")]
        assert labels[0] == f"image 1 {first} (0, 0)"
        assert len(labels) == count
        assert "image 2 patch (5, 7)" in row.labels
        assert "image 2 overview (3, 3)" in row.labels
        assert [each.name for each in row.pictures] == ["image 1", "image 2"]


def test_images_are_in_the_payload_and_in_files(tmp_path: Path) -> None:
    recording = vision_lens("llava").generate(chat(picture(0, 64, 32)), answer=" a cat")
    maps = mixlens.measure("attention", recording)
    assert isinstance(maps, MixingMaps)
    (shown,) = payload_of(maps)["images"]
    assert shown["name"] == "image 1"
    assert shown["src"].startswith("data:image/jpeg;base64,")
    box = (0.25, 0.0, 0.75, 1.0)  # LLaVA crops the centre
    assert shown["grids"] == [{"first": 2, "rows": 4, "columns": 4, "stride": 4, "box": box}]
    maps.save(tmp_path / "maps")
    assert mixlens.load(tmp_path / "maps").source_row == maps.source_row


def test_a_file_is_opened(tmp_path: Path) -> None:
    picture().save(tmp_path / "cat.png")
    lens = vision_lens("llava")
    one = lens.generate(chat(str(tmp_path / "cat.png")), answer=" a cat")
    other = lens.generate(chat(picture()), answer=" a cat")
    assert torch.equal(one.inputs["pixel_values"], other.inputs["pixel_values"])


# ----------------------------------------------------------------------------------------- answers


def test_a_given_answer_follows_the_prompt() -> None:
    lens = vision_lens("gemma3")
    recording = lens.generate(chat(picture()), answer=" a cat .")
    assert recording.answer is not None
    assert recording.answer.strip() == "a cat ."
    assert recording.targets is not None
    maps = mixlens.measure("alti", recording)
    assert isinstance(maps, MixingMaps)
    assert maps.tokens == ("a", "cat", ".")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            {"type": "video", "video": "clip.mp4"},
            "Videos in a prompt are not supported",
        ),
        ({"type": "image", "url": "https://x"}, "has url, but no image"),
        ({"type": "image", "image": "missing.png"}, "'missing.png' is not an image file"),
        ({"type": "audio"}, "has no waveform"),
        ({"type": "smell"}, "a part of type 'smell'"),
    ],
)
def test_other_parts_are_explained(part: dict[str, Any], words: str) -> None:
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "what ?"}]}]
    with pytest.raises(InvalidInput, match=words):
        vision_lens("llava").generate(messages)


def test_a_generated_image_is_explained() -> None:
    with pytest.raises(InvalidInput, match=r"placeholder token .* suppress_tokens=\[4\]"):
        vision_lens("llava").generate(chat(picture()), answer=[20, 4, 21])


def test_a_model_without_a_processor_is_explained() -> None:
    lens = vision_lens("llava")
    bare = Lens(lens.model, lens.tokenizer)
    with pytest.raises(InvalidInput, match="needs the model's processor"):
        bare.generate(chat(picture()))


def test_inputs_that_grow_differently_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixlens.text import media_prompts

    grown = media_prompts.continue_tensors

    def wrong(model: Any, prompt: Any, ids: Any) -> dict[str, Any]:
        made = grown(model, prompt, ids)
        if len(ids) > len(prompt.ids):
            made["token_type_ids"][:, len(prompt.ids) :] = 1  # Gemma 3 takes words for patches
        return made

    monkeypatch.setattr("mixlens.text.continuation.continue_tensors", wrong)
    with pytest.raises(mixlens.MixlensError, match=r"different logits|do not match"):
        vision_lens("gemma3").generate(chat(picture()), answer=" a cat . and dog")
