"""Single-target mode: the scores of a few targets equal those of whole maps, without tensors of
size n x n.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.capture.native_attention import NativeCall
from mixlens.contracts import AttentionKind, Targets
from mixlens.errors import InvalidInput, TargetsUnavailable
from mixlens.measures import ready_measures, refusal
from mixlens.measuring.measure import measure_together
from mixlens.recording import target_attention as row_attention
from tests.conformance.families import Family
from tests.conformance.zoo import ZOO, built, inputs
from tests.kernels.decompositions import LargestTensor
from tests.zoo.models import entries

# post-norm, pre-norm, sandwich with soft-cap and window, parallel, window, sinks, experts, biases
MODELS = ["bert", "gpt2", "gemma2", "gpt-neox", "mistral", "gpt-oss", "mixtral", "t5", "bart"]
BY_ROWS = [name for name, spec in ready_measures().items() if spec.row_by_row]


def as_list(maps: MixingMaps | list[MixingMaps]) -> list[MixingMaps]:
    return maps if isinstance(maps, list) else [maps]


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_rows_of_the_maps(name: str) -> None:
    model = built(name).double()
    lens, given = Lens(model), inputs(name)
    given = {key: v.double() if v.is_floating_point() else v for key, v in given.items()}
    whole = lens.record(given)
    for site in whole.sites:
        rows = lens.record(given, targets=[-1, 0], site=site)
        assert not rows.is_kept
        for measure in BY_ROWS:
            if refusal(measure, whole.structure, site) is not None:
                continue
            expected = as_list(mixlens.measure(measure, whole, site=site, targets=[-1, 0]))
            maps = as_list(mixlens.measure(measure, rows))
            if maps[0].provenance["recorded"] != "rows":
                # a second attention follows: whole sequences are needed
                assert measure == "value_zeroing"
                assert len(whole.layers(site)[0].structure.sites) > 1
            for one, other in zip(maps, expected, strict=True):
                np.testing.assert_allclose(one.scores, other.scores, atol=1e-6, rtol=1e-5)
                assert one.tokens == other.tokens
                assert one.facts == other.facts


@pytest.mark.parametrize("bare", sorted(set(ZOO) - set(MODELS)), indirect=True)
def test_every_other_model_scores_targets_or_reports_whole_maps(
    bare: Family,
) -> None:
    """Rows need attention that transformers' interface hands out, and tokens of a text."""
    name, lens, given = bare.name, Lens(bare.models[torch.float32]), inputs(bare.name)
    whole = bare.recordings[torch.float32]
    for site, known in whole.structure.sites.items():
        rows = lens.record(given, targets=[-1, 0], site=site)
        decoder = known.stack.has_cross and known.kind is AttentionKind.SELF
        reads_text = (
            ZOO[name].kind in ("text", "translation") or decoder or known.name == "text_model"
        )
        for measure in ("attention_norm", "value_zeroing"):
            if refusal(measure, whole.structure, site) is not None:
                continue
            expected = as_list(mixlens.measure(measure, whole, site=site, targets=[-1, 0]))
            maps = as_list(mixlens.measure(measure, rows, site=site))
            followed = known.kind is AttentionKind.SELF and len(known.stack.layers[0].sites) > 1
            by_rows = maps[0].provenance["recorded"] == "rows"
            assert by_rows == (
                reads_text
                and whole.structure.backend == "interface"
                and not (measure == "value_zeroing" and followed)
            )
            for one, other in zip(maps, expected, strict=True):
                assert one.tokens == other.tokens
                np.testing.assert_allclose(one.scores, other.scores, atol=2e-5, rtol=1e-4)


def test_a_named_target_takes_rows_and_any_other_model_its_maps() -> None:
    """Bloom's attention does not go through the interface: the same call gives the same numbers,
    and says so.
    """
    for name, recorded in (("llama", "rows"), ("bloom", "maps: its attention does not go")):
        lens, given = Lens(built(name)), inputs(name)
        expected = as_list(mixlens.measure("alti", lens.record(given), targets=[3]))
        for one, other in zip(
            as_list(lens.measure("alti", given, targets=[3])), expected, strict=True
        ):
            assert one.provenance["recorded"].startswith(recorded)
            assert one.target_positions == (3,)
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-6, rtol=1e-5)


def test_nothing_as_large_as_a_map_is_made() -> None:
    model = built("llama")
    model.config.max_position_embeddings = 1024  # rotary: no table is longer for it
    tokens = 600  # heads x n x n would be 1,440,000 numbers; the widest layer has 28,800
    given = {"input_ids": torch.arange(tokens)[None] % 90 + 3}
    lens = Lens(model)
    lens.measure("value_zeroing", {"input_ids": given["input_ids"][:, :20]}, targets=[-1])  # proofs
    for measure in ("attention_norm", "alti", "value_zeroing"):
        with LargestTensor() as largest:
            lens.measure(measure, given, targets=[-1])
        assert largest.numbers < tokens * tokens


def test_left_padding_changes_no_row() -> None:
    lens, given = Lens(built("qwen2")), inputs("qwen2")
    alone = {key: value[:1, :6] for key, value in given.items()}
    pad = torch.zeros(1, given["input_ids"].shape[1] - 6, dtype=torch.long)
    batch = {
        key: torch.cat([torch.cat([pad, alone[key]], 1), value[1:]]) for key, value in given.items()
    }
    expected = lens.measure("value_zeroing", alone, targets=[-1])
    maps = lens.measure("value_zeroing", batch, targets=[-1])
    assert isinstance(expected, MixingMaps)
    assert isinstance(maps, list)
    np.testing.assert_allclose(maps[0].scores, expected.scores, atol=1e-6, rtol=1e-5)


def test_rows_that_do_not_multiply_out_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native output decides: with a wrong scale the maps are taken, and are right."""
    lens, given = Lens(built("gpt2")), inputs("gpt2")
    expected = as_list(lens.measure("attention_norm", given, targets=[-1]))
    right = row_attention._softmax
    monkeypatch.setattr(row_attention, "_softmax", lambda s, sinks: right(s * 1.3, sinks))
    for one, other in zip(
        as_list(lens.measure("attention_norm", given, targets=[-1])), expected, strict=True
    ):
        assert "attention product" in one.provenance["recorded"]
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6, rtol=1e-5)


def test_a_recording_of_rows_gives_other_targets_and_what_it_lacks_from_maps() -> None:
    lens, given = Lens(built("bart")), inputs("bart")
    rows, whole = lens.record(given, targets=[2], site="cross"), lens.record(given)
    for measure, site, targets in (
        ("alti", "cross", [1, 3]),
        ("alti", "decoder", [2]),
        ("hidden_token_attribution", "decoder", [2]),
    ):
        expected = as_list(mixlens.measure(measure, whole, site=site, targets=targets))
        named = None if targets == [2] else targets
        maps = as_list(mixlens.measure(measure, rows, site=site, targets=named))
        by_rows = maps[0].provenance["recorded"] == "rows"
        assert by_rows == (measure == "alti")
        for one, other in zip(maps, expected, strict=True):
            assert one.tokens == other.tokens
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-6, rtol=1e-5)
    with pytest.raises(InvalidInput, match="tokens of decoder"):
        mixlens.measure("alti", rows, site="encoder")


def test_measures_together_are_the_measures_one_by_one() -> None:
    lens, given = Lens(built("llama")), inputs("llama")
    names = ("attention_norm", "alti", "value_zeroing")
    in_one_pass = measure_together(names, lens.record(given, targets=[-1]))
    for name in names:
        alone = as_list(mixlens.measure(name, lens.record(given, targets=[-1])))
        assert as_list(in_one_pass[name]) == alone


def test_an_outlier_value_is_detected_with_few_targets() -> None:
    model, given = built("llama", torch.float32), inputs("llama", rows=1)
    embeddings = model.get_input_embeddings().weight
    with torch.no_grad():  # only the first token has channel 0, and its value lives on it
        embeddings[:, 0] = 0
        embeddings[given["input_ids"][0, 0], 0] = 1.0
        model.layers[0].self_attn.v_proj.weight[:, 0] *= 1e4
    lens = Lens(model)
    recording = lens.record(given, targets=[-1])
    assert not recording.is_kept
    whole = lens.measure("value_zeroing", given).scores[:, -1:]
    rows = mixlens.measure("value_zeroing", recording)
    np.testing.assert_allclose(rows.scores, whole, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("name", ["llama", "bart"])
@pytest.mark.parametrize("rows", [1, 2])
def test_the_only_token_may_be_named_twice(name: str, rows: int) -> None:
    lens, given = Lens(built(name)), {k: v[:, :1] for k, v in inputs(name, rows=rows).items()}
    whole = lens.record(given)
    for site in whole.sites:
        for measure in (name for name in BY_ROWS if not refusal(name, whole.structure, site)):
            expected = as_list(mixlens.measure(measure, whole, site=site))
            twice = as_list(lens.measure(measure, given, site=site, targets=[0, -1]))
            for one, other in zip(twice, expected, strict=True):
                both = np.repeat(other.scores[..., :1, :], 2, axis=-2)
                np.testing.assert_allclose(one.scores, both, atol=1e-6)


@pytest.mark.parametrize("layers", [[1, 0], [0, 0], [-1]])
@pytest.mark.parametrize("measure", ["attention", "value_zeroing"])
def test_layers_come_in_the_order_in_which_they_are_named(measure: str, layers: list[int]) -> None:
    lens, given = Lens(built("llama")), inputs("llama", rows=1)
    whole = as_list(lens.measure(measure, given, layers=layers))[0]
    rows = as_list(lens.measure(measure, given, layers=layers, targets=[-1]))[0]
    assert rows.provenance["recorded"] == "rows"
    assert rows.layers == whole.layers
    np.testing.assert_allclose(rows.scores, whole.scores[:, -1:], atol=1e-6)


def test_targets_of_a_stack_that_reads_patches_of_the_text_are_its_own() -> None:
    """BLT: the tokens of the text are not those of its global transformer."""
    entry = next(entry for entry in entries() if entry.name == "BltModel")
    lens, given = Lens(entry.build()), entry.given()
    site = next(site for site in lens.record(given).sites if site.startswith("global"))
    whole = as_list(lens.measure("attention", given, site=site))[0]
    last = as_list(lens.measure("attention", given, site=site, targets=[-1]))[0]
    np.testing.assert_array_equal(last.scores, whole.scores[:, -1:])
    assert last.tokens == whole.tokens[-1:]


def test_a_mask_of_which_rows_are_not_known_leads_to_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flex attention is given such a mask. It takes minutes to compile."""
    hidden = row_attention._hidden

    def given_blocks(captured: NativeCall, *others: Any) -> object:
        return hidden(replace(captured, mask=object()), *others)

    monkeypatch.setattr(row_attention, "_hidden", given_blocks)
    maps = as_list(Lens(built("llama")).measure("attention", inputs("llama"), targets=[-1]))
    assert "mask" in maps[0].provenance["recorded"]


@pytest.mark.parametrize("positions", [[[5, 6]], [[0, 6]], [[0, 1], [5, 6]]])
def test_targets_outside_of_a_layer_are_unavailable(positions: list[list[int]]) -> None:
    """A model may replace tokens before its layers, so that they have fewer positions."""
    targets = Targets(
        positions=tuple(map(tuple, positions)),
        kind=AttentionKind.SELF,
        lengths=[7] * len(positions),
        source_lengths=[7] * len(positions),
        cut_at=torch.tensor(positions),
    )
    cut = row_attention.TargetCut(targets)
    states = torch.zeros(len(positions), 6, 3)
    with pytest.raises(TargetsUnavailable, match="a layer has 6 positions"):
        cut.of(states, 1)
    assert cut.of(torch.zeros(len(positions), 7, 3), 1).shape[1] == 2
