"""Hidden states that are not [batch, tokens, d_model]: grids, packed rows, rows of series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens.capture.attention_call import AttentionCall, Listener
from mixlens.capture.batch_axes import Blocks, Bounds, batch_axes, copy_text
from mixlens.capture.packed_attention import PackedAttention, combine_packed_calls
from mixlens.contracts import AttentionKind
from tests.zoo import native
from tests.zoo.models import entries

ENTRIES = {entry.key: entry for entry in entries()}


def attention(tokens: int, heads: int = 2, d_head: int = 3) -> AttentionCall:
    weights = torch.rand(1, heads, tokens, tokens).softmax(-1)
    values = torch.randn(1, heads, tokens, d_head)
    return AttentionCall(weights, values, (weights @ values).transpose(1, 2), "interface")


def test_pieces_are_blocks_of_the_whole_map() -> None:
    calls = [attention(count) for count in (2, 3, 2, 3)]  # two rows of five tokens
    (whole,) = combine_packed_calls(calls, 2, 5)
    assert whole.weights.shape == (2, 2, 5, 5)
    assert torch.equal(whole.weights[1, :, :2, :2], calls[2].weights[0])
    assert not whole.weights[1, :, :2, 2:].any()
    torch.testing.assert_close((whole.weights @ whole.values).transpose(1, 2), whole.output)


def test_one_call_for_all_rows_is_cut_into_rows() -> None:
    calls = [attention(count) for count in (4, 4)]
    both = torch.block_diag(*(call.weights[0, 0] for call in calls))[None, None]
    values = torch.cat([call.values[:, :1] for call in calls], 2)
    (whole,) = combine_packed_calls(
        [AttentionCall(both, values, (both @ values).transpose(1, 2), "interface")], 2, 4
    )
    assert torch.equal(whole.weights[1, 0], calls[1].weights[0, 0])
    torch.testing.assert_close((whole.weights @ whole.values).transpose(1, 2), whole.output)


def test_an_edit_of_values_reaches_each_piece_at_its_place() -> None:
    edited: list[Tensor] = []

    def zeroed(number: int, values: Tensor) -> Tensor:
        assert (number, values.shape) == (0, (2, 2, 5, 3))
        values = values.clone()
        values[1, :, 3] = 0  # the second row's second piece
        return values

    packed = PackedAttention(Listener(edit_values=zeroed), 2, 5)
    for call in (attention(count) for count in (2, 3, 2, 3)):
        edited.append(packed.values(call.values))
        packed.capture(AttentionCall(call.weights, edited[-1], call.output, "interface"))
    assert [int((values == 0).all(-1).sum()) for values in edited] == [0, 0, 0, 2]
    assert not edited[3][0, :, 1].any()


def test_bounds_and_masks_of_packed_rows_grow_with_copies() -> None:
    bounds = torch.tensor([0, 2, 5])
    assert batch_axes(bounds, torch.tensor([0, 2, 5, 7, 10]), 1, 2) == Bounds()
    assert copy_text(bounds, Bounds(), 0, 3, 1).tolist() == [0, 2, 5, 7, 10, 12, 15]
    mask = torch.full((1, 1, 3, 3), -9.0).tril(-1)
    twice = Blocks(-5.0).copies(mask, 0, 2)
    assert twice.shape == (1, 1, 6, 6)
    assert (twice[0, 0, 0, 5], twice[0, 0, 5, 3]) == (-5, -9)
    assert batch_axes(mask, twice, 1, 2) == Blocks(-5.0)
    assert not isinstance(batch_axes(mask, twice + 1 * (twice == -5).triu(), 1, 2), Blocks)


def recorded(name: str) -> tuple[Any, Any, mixlens.Recording]:
    entry = ENTRIES[name]
    model, given = entry.build(), entry.given()
    return model, given, mixlens.Lens(model).record(given)


def test_images_that_are_packed_into_one_row_do_not_see_each_other() -> None:
    _, given, recording = recorded("Ernie4_5_VLMoeModel")
    sizes = given["image_grid_thw"].prod(-1).tolist()
    weights = recording.layers("vision_tower")[0].site().weights
    assert weights.shape[0] == recording.rows("vision_tower") == 1
    assert len(sizes) > 1
    assert weights.shape[-1] == sum(sizes)
    blocks = torch.block_diag(*(torch.ones(size, size) for size in sizes)).bool()
    assert not weights[0][:, ~blocks].any()
    assert weights[0][:, blocks].all()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("PatchTSTModel", (2, 2)),
        ("Sam3TrackerModel", (2, 256)),
        ("Qwen2_5_VLModel", (1, 2)),
        ("LukeModel", (2, 10)),
        ("FSMTModel", (2, 7)),
        ("XLNetModel", (2, 7)),  # values by a product with a bare parameter
        ("MLCDVisionModel", (2, 226)),
        ("Mask2FormerModel", (2, 10)),  # ten copies of ten tokens; inside, rows come first
    ],
)
def test_value_zeroing_is_that_of_the_model_itself(name: str, shape: Any) -> None:
    """In rows of tokens, and by a hook on the model's own values in the form that it has."""
    model, given, recording = recorded(name)
    layer = recording.layers()[-1]
    assert layer.input.shape[:2] == shape
    scores = mixlens.measure("value_zeroing", recording, layers=[len(recording.layers()) - 1])
    first = (scores[0] if isinstance(scores, list) else scores).scores[0]
    module = model.get_submodule(layer.structure.path)
    channels = native.value_channels(model, given, layer.site().values[0], module)
    assert channels is not None
    without = (
        native.output_without(model, given, channels, place, module, layer.width)
        for place in (None, 1)
    )
    whole, edited = (native.first_tokens(output, *layer.input.shape[1:]) for output in without)
    expected = native.cosine_distance(edited, whole)[: len(first)]
    torch.testing.assert_close(torch.tensor(first[:, 1]).double(), expected, rtol=2e-3, atol=1e-7)


def test_as_many_rows_as_tokens_are_not_confused() -> None:
    """Both axes of a part that has the tokens first are the same then."""
    model, given, _ = recorded("FSMTModel")
    ids = (name for name in given if name.endswith(("ids", "mask")))
    many = {name: given[name][:1].repeat(7, 1) for name in ids}
    for name in ("input_ids", "decoder_input_ids"):
        many[name][:, 1:-1] = torch.randint(3, 40, many[name][:, 1:-1].shape)
    several, one = (
        mixlens.Lens(model).measure("value_zeroing", inputs)
        for inputs in (many, {name: value[2:3] for name, value in many.items()})
    )
    assert many["input_ids"].shape == (7, 7)
    assert isinstance(several, list)
    alone = one[0] if isinstance(one, list) else one
    torch.testing.assert_close(
        torch.tensor(several[2].scores), torch.tensor(alone.scores), rtol=1e-3, atol=1e-6
    )


def test_entities_are_behind_the_words() -> None:
    model, given, recording = recorded("LukeModel")
    assert given["entity_attention_mask"].sum(1).tolist() == [2, 1]
    assert recording.target_tokens("encoder", 0).labels[-3:] == ("70", "entity 0", "entity 1")
    assert len(recording.target_tokens("encoder", 1)) == 8
    padded = {**given, "attention_mask": given["attention_mask"].clone()}
    padded["attention_mask"][1, -2:] = 0
    with pytest.raises(mixlens.InvalidInput, match="padding would separate the two streams"):
        mixlens.Lens(model).record(padded)


def test_a_stage_that_ends_by_pooling_is_not_a_layer_but_the_blocks_inside_are() -> None:
    _, _, recording = recorded("SegformerModel")
    assert recording.layers()[0].structure.path == "stages.3.blocks.0"
    assert all("not the tokens themselves" in why for why in recording.structure.left_out.values())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("HieraModel", r"pieces of the sequence \(weights \(2, 1, 4, 64, 64\)"),
        ("LongT5EncoderModel", "pieces of the sequence"),
        ("NystromformerModel", "not the product of one attention matrix"),
    ],
)
def test_a_refusal_names_what_the_layer_does(name: str, reason: str) -> None:
    with pytest.raises(mixlens.UnsupportedModel, match=reason):
        recorded(name)


@torch.no_grad()
def lxmert_outputs(model: Any, given: Any, path: str, call: int, source: int | None) -> Tensor:
    """Words and boxes after the first layer of both, with one row of what a module returns set to
    zero in one of its calls.
    """
    runs, seen = -1, []

    def zero(module: Any, args: Any, output: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        edited = output.clone()
        if runs == call and source is not None:
            edited[:, source] = 0
        return edited

    layer = model.encoder.x_layers[0]
    handles = [
        layer.get_submodule(path).register_forward_hook(zero),
        layer.register_forward_hook(lambda *its: seen.append(torch.cat(its[2][:2], 1))),
    ]
    model(**given)
    for handle in handles:
        handle.remove()
    return seen[0][0].double()


def test_streams_that_read_each_other_in_one_layer() -> None:
    """LXMERT's words and boxes: one module attends from words to boxes, and from boxes to words."""
    model, given, recording = recorded("LxmertModel")
    words, boxes = given["input_ids"].shape[1], given["visual_feats"].shape[1]
    assert recording.sites[-2:] == ("x_layers", "cross")
    labels = recording.source_tokens("cross", 0).labels
    assert (len(labels), labels[words]) == (words + boxes, "box 0")
    weights = recording.layers("cross")[0].site(AttentionKind.CROSS).weights
    assert not weights[..., :words, :words].any()
    assert not weights[..., words:, words:].any()
    own = model(**given, output_attentions=True).cross_encoder_attentions[0]
    torch.testing.assert_close(weights[..., :words, words:], own)

    zeroing: dict[str, Tensor] = {}
    for name in ("cross", "x_layers"):
        maps = mixlens.measure("value_zeroing", recording, site=name)
        assert isinstance(maps, list)
        zeroing[name] = torch.tensor(maps[0].scores[0])
    for name, path, call, source, column in (
        ("cross", "visual_attention.att.value", 0, 3, words + 3),  # words read a box
        ("cross", "visual_attention.att.value", 1, 2, 2),
        ("x_layers", "lang_self_att.self.value", 0, 2, 2),
        ("x_layers", "visn_self_att.self.value", 0, 3, words + 3),
    ):
        whole, edited = (lxmert_outputs(model, given, path, call, s) for s in (None, source))
        expected = native.cosine_distance(edited, whole)
        assert expected.max() > 1e-6
        ours = zeroing[name][:, column].double()
        torch.testing.assert_close(ours, expected, atol=1e-9, rtol=1e-3)


def test_streams_of_the_same_length_are_left_out() -> None:
    """Which of them attends to which shows in their numbers of tokens."""
    entry = ENTRIES["LxmertModel"]
    given = entry.given()
    count = given["visual_feats"].shape[1]
    cut = {
        name: value[:, :count]
        if name in ("input_ids", "attention_mask", "token_type_ids")
        else value
        for name, value in given.items()
    }
    recording = mixlens.Lens(entry.build()).record(cut)
    assert "x_layers" not in recording.sites
    reason = recording.structure.left_out["encoder.x_layers.0"]
    assert f"both streams have {count} tokens" in reason


@pytest.mark.parametrize(
    ("name", "site"), [("LukeModel", "encoder"), ("Qwen2_5_VLModel", "visual")]
)
def test_targets_from_whole_maps_are_reported(name: str, site: str) -> None:
    """Of words with entities, and of images that are packed into one row."""
    entry = ENTRIES[name]
    lens, given = mixlens.Lens(entry.build()), entry.given()
    reason = "its layers are not modules that take and return [batch, tokens, d_model]."
    assert lens.verify(given).from_maps[site] == reason
    few = lens.record(given, targets=[1], site=site)
    assert few.not_cut == reason
    rows, maps = (
        mixlens.measure("value_zeroing", recording, site=site)
        for recording in (few, lens.record(given))
    )
    row, whole = (maps[0] if isinstance(maps, list) else maps for maps in (rows, maps))
    assert row.scores.shape[1] == 1
    np.testing.assert_allclose(row.scores[:, 0], whole.scores[:, 1], atol=1e-7)


def test_rounding_that_a_layer_amplifies_is_not_taken_for_a_different_result() -> None:
    """The scores of CLIPSeg's decoder are in the hundreds."""
    _, _, recording = recorded("CLIPSegForImageSegmentation")
    assert "decoder.layers" in recording.sites


def test_a_stage_with_layers_is_not_reported_without_attention() -> None:
    _, _, recording = recorded("GroupViTVisionModel")
    # the first two stages end by attention of their own, from groups to patches
    stages = [f"vision_model.encoder.stages.{number}" for number in (0, 1)]
    assert list(recording.structure.left_out) == stages
