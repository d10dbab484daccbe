from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel, measure
from mixlens.contracts import Facts
from mixlens.maps.encoder_decoder import alti_through
from mixlens.views.viewer.payload import payload_of
from tests.measures import models, oracles


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_agrees_with_the_loops(name: str, site: str, length: int) -> None:
    made = models.scores("alti", models.recording(name, length), site=site)
    for layer, block in enumerate(
        oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    ):
        torch.testing.assert_close(made.values[layer, 0], oracles.alti(block), atol=1e-10, rtol=0)


@pytest.mark.parametrize(("name", "site"), models.SELF)
def test_rows_sum_to_one_unless_the_properties_differ(name: str, site: str) -> None:
    made = measure("alti", models.recording(name, 9), site=site)
    assert isinstance(made, MixingMaps)
    whole = np.abs(made.scores.sum(-1) - 1) < 1e-12
    assert whole.all() == made.facts.rows_sum_to_one != made.facts.sums_vary
    assert not made.scores[~whole].any()


def test_the_future_gets_exactly_nothing() -> None:
    made = models.scores("alti", models.recording("llama", 9)).values
    assert not made.triu(1).any()


def test_cross_attention_shares_with_the_residual_stream() -> None:
    made = models.scores("alti", models.recording("bart", 9), site="cross")
    sums = made.values.sum(-1) + made.extras["residual_share"]
    assert bool(((sums - 1).abs() < 1e-12).logical_or(sums == 0).all())
    assert not made.known_facts(Facts(rows_sum_to_one=True)).rows_sum_to_one


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_chosen_targets_are_rows_of_the_whole_map(name: str) -> None:
    recorded = models.recording(name, 9)
    whole, made = (
        models.scores("alti", recorded),
        models.scores("alti", recorded, targets=[4, 0, -1]),
    )
    torch.testing.assert_close(made.values, whole.values[:, :, [4, 0, 8]], atol=1e-12, rtol=0)


def test_the_released_variant_adds_its_shift_and_drops_epsilon() -> None:
    recorded = models.recording("bert", 9)  # epsilon is 1e-3 there
    block = oracles.blocks_checked("bert", models.build("bert"), models.inputs("bert", 9))[0]
    y = torch.stack([block.output(i) for i in range(9)])
    block.norm.epsilon = 0.0
    expected = torch.zeros(9, 9, dtype=torch.float64)
    for i in range(9):
        for j in range(9):
            expected[i, j] = max(
                0.0, float(y[i].abs().sum() - (block.part(i, j) - y[i] + 1e-6).abs().sum())
            )
    made = models.scores("alti", recorded, variant="released").values[0, 0]
    torch.testing.assert_close(made, expected / expected.sum(-1, keepdim=True), atol=1e-10, rtol=0)


def test_an_unknown_variant_is_named() -> None:
    with pytest.raises(InvalidInput, match="table2"):
        models.scores("alti", models.recording("bert", 3), variant="table2")


# ---------------------------------------------------------------------- through encoder and decoder


def _expected_through(name: str, length: int) -> np.ndarray:
    """The two-block recursion, entry by entry, from the oracle's own maps."""
    model, given = models.build(name), models.inputs(name, length)
    encoder, decoder, cross = (
        oracles.blocks_checked(name, model, given, site) for site in ("encoder", "decoder", "cross")
    )
    n, m = length, given["decoder_input_ids"].shape[1]
    rolled = torch.eye(n, dtype=torch.float64)
    for block in encoder:
        rolled = oracles.alti(block) @ rolled
    below = torch.cat([torch.zeros(m, n), torch.eye(m)], 1).double()
    layers = []
    for own, across in zip(decoder, cross, strict=True):
        inside, (gains, residual) = oracles.alti(own), oracles.alti_gains(across)
        here = torch.zeros(m, n + m, dtype=torch.float64)
        for t in range(m):
            whole = gains[t].sum() + residual[t]
            for s in range(n):
                for e in range(n):
                    here[t, s] += gains[t, e] / whole * rolled[e, s]
            for j in range(m):
                here[t] += residual[t] / whole * inside[t, j] * below[j]
            here[t] /= here[t].sum()
        below = here.nan_to_num(0)
        layers.append(below)
    return torch.stack(layers).numpy()


def test_through_encoder_and_decoder_agrees_with_the_loops() -> None:
    [through] = alti_through(models.recording("bart", 9))
    np.testing.assert_allclose(through.scores, _expected_through("bart", 9), atol=1e-10)
    assert through.scores.shape == (2, 5, 9 + 5)
    np.testing.assert_allclose(through.scores.sum(-1), 1, atol=1e-12)
    assert len(through.labels) == 14
    np.testing.assert_allclose(through.source_share, through.scores[..., :9].sum(-1))
    assert not np.triu(through.from_prefix, 1).any()


def test_both_sides_are_on_one_page(tmp_path: Path) -> None:
    [through] = alti_through(models.recording("bart", 9))
    through.to_html(tmp_path / "out.html")
    payload = payload_of(through.maps)
    (entry,) = payload["maps"]
    assert "Black Box" in entry["citation"]
    assert payload["texts"][entry["sources"]]["segments"] == [(0, 9, "source"), (9, 14, "prefix")]


def test_through_encoder_and_decoder_does_not_see_padding() -> None:
    model = models.build("bart")
    batched = alti_through(Lens(model).record(models.padded_inputs("bart", [9, 6])))
    for row, length in enumerate([9, 6]):
        [alone] = alti_through(models.recording("bart", length, seed=row))
        np.testing.assert_allclose(batched[row].scores, alone.scores, atol=1e-10)


def test_through_needs_an_encoder_and_a_decoder() -> None:
    with pytest.raises(UnsupportedModel, match="encoder"):
        alti_through(models.recording("bert", 3))
