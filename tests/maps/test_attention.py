"""Alternative attention weights with the same output, and bounds of each weight."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import torch

from mixlens import InvalidInput, Lens
from mixlens.contracts import AttentionKind
from mixlens.maps.alternative_attention import alternative_attention, attention_bounds
from mixlens.maps.attention_identifiability import identifiability
from mixlens.recording.recording import Recording
from tests.measures import models, oracles


@pytest.mark.smoke
@pytest.mark.parametrize("length", [3, 5, 14])
@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_the_report_agrees_with_the_loops(name: str, site: str, length: int) -> None:
    table = identifiability(models.recording(name, length), site)
    assert dict(table.sizes) == {"layer": 2, "head": 4}
    for layer, block in enumerate(
        oracles.blocks_checked(name, models.build(name), models.inputs(name, length), site)
    ):
        effective = oracles.effective_attention(block)
        for head in range(4):
            line = table.sel(layer=layer, head=head)
            t = block.f[head]
            with_ones = torch.cat([t, torch.ones(len(t), 1, dtype=t.dtype)], 1)
            assert int(line["rank"]) == int(torch.linalg.matrix_rank(t))
            assert int(line["null_dimension"]) == len(t) - int(torch.linalg.matrix_rank(t))
            assert int(line["null_dimension_simplex"]) == len(t) - int(
                torch.linalg.matrix_rank(with_ones)
            )
            raw, left = block.attention[head], effective[head]
            if block.causal:
                visible = torch.ones_like(raw).tril().bool()
                raw, left = raw[visible], left[visible]
            share = float(((raw - left) ** 2).sum() / (raw**2).sum())
            assert abs(float(line["null_share"]) - share) < 1e-10
            assert (
                abs(float(line["pearson"]) - np.corrcoef(raw.flatten(), left.flatten())[0, 1])
                < 1e-10
            )


def test_several_rows_give_a_table_each_and_padding_does_not_show() -> None:
    tables = identifiability(
        Lens(models.build("bert")).record(models.padded_inputs("bert", [14, 5]))
    )
    for row, length in enumerate([14, 5]):
        alone = identifiability(models.recording("bert", length, seed=row))
        assert isinstance(tables, list)
        assert not isinstance(alone, list)
        for name in alone:
            np.testing.assert_allclose(
                tables[row][name].to_numpy(), alone[name].to_numpy(), atol=1e-10
            )


def layer_output(
    recorded: Recording, layer: int, head: int, target: int, weights: np.ndarray, site: str | None
) -> torch.Tensor:
    """What the whole layer returns for the target with a different row of attention, by running it
    with a different attention output.
    """
    kind = AttentionKind.CROSS if site == "cross" else AttentionKind.SELF
    parts = recorded.layers(site)[layer].site(kind)
    attention = parts.weights.clone()
    attention[0, head, target, :] = torch.from_numpy(weights).to(attention)
    projected = (attention @ parts.values).transpose(1, 2).flatten(2) @ parts.output_weight.flatten(
        0, 1
    ) + parts.output_bias
    return recorded.layers(site)[layer].rerun(attention_output=projected, kind=kind)[0, target]


@pytest.mark.parametrize(("name", "site"), models.SITES)
@pytest.mark.parametrize("target", [1, -1])
def test_the_alternative_is_a_distribution_with_the_same_layer_output(
    name: str, site: str, target: int
) -> None:
    recorded = models.recording(name, 14)
    alternative = alternative_attention(recorded, 1, 2, target, site)
    assert alternative.weights.min() >= 0
    assert abs(alternative.weights.sum() - 1) < 1e-7
    assert alternative.output_error < 1e-8
    row = target % (5 if site in ("decoder", "cross") and name == "bart" else 14)
    expected = layer_output(recorded, 1, 2, row, alternative.original, site)
    torch.testing.assert_close(
        layer_output(recorded, 1, 2, row, alternative.weights, site), expected, atol=1e-7, rtol=0
    )
    visible = (
        row + 1
        if recorded.layers(site)[1]
        .site(AttentionKind.CROSS if site == "cross" else AttentionKind.SELF)
        .structure.causal
        else 14
    )
    assert not alternative.weights[visible:].any()
    if visible > 5:  # rank of [T, 1]: then there is a different one
        assert alternative.distance > 0.05
    else:
        assert alternative.distance == 0


def test_more_starts_never_bring_it_nearer() -> None:
    recorded = models.recording("bert", 14)
    near, far = (
        alternative_attention(recorded, 0, 0, 3, starts=starts).distance for starts in (1, 12)
    )
    assert far >= near
    assert alternative_attention(recorded, 0, 0, 3, starts=12).distance == far


@pytest.mark.parametrize(
    ("name", "target"), [("bert", 4), ("llama", 13), ("llama", 6), ("bart", 2)]
)
def test_bounds_hold_the_weight_and_are_reached(name: str, target: int) -> None:
    recorded, site = models.recording(name, 14), "cross" if name == "bart" else None
    limits = attention_bounds(recorded, 0, 1, target, site)
    assert (limits.lower <= limits.original).all()
    assert (limits.original <= limits.upper).all()
    assert (limits.upper - limits.lower).max() > 0.01
    values = (
        recorded.layers(site)[0]
        .site(AttentionKind.CROSS if site else AttentionKind.SELF)
        .values[0, 1]
        .numpy()
    )
    for rows, bounds in ((limits.lower_rows, limits.lower), (limits.upper_rows, limits.upper)):
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-7)
        np.testing.assert_allclose(rows.diagonal(), bounds)
        np.testing.assert_allclose(
            rows @ values, np.tile(limits.original @ values, (len(rows), 1)), atol=1e-7
        )
    if name == "llama":
        assert not limits.upper[target + 1 :].any()
    for _ in range(3):  # no alternative leaves the bounds
        other = alternative_attention(recorded, 0, 1, target, site).weights
        assert (other >= limits.lower - 1e-7).all()
        assert (other <= limits.upper + 1e-7).all()


@pytest.mark.parametrize("length", [3, 5])
def test_bounds_collapse_where_the_output_fixes_the_weights(length: int) -> None:
    bounds = attention_bounds(models.recording("bert", length), 1, 1, 0)
    assert np.array_equal(bounds.lower, bounds.original)
    assert np.array_equal(bounds.upper, bounds.original)


def test_bounds_are_those_of_an_exhaustive_search() -> None:
    """One dimension of freedom: the feasible rows are a line, and its ends are known."""
    recorded = models.recording("bert", 6)  # [T, 1] has rank 5
    bounds = attention_bounds(recorded, 0, 0, 2)
    site = recorded.layers()[0].site()
    columns = np.hstack([site.values[0, 0].numpy(), np.ones((6, 1))])
    direction = np.linalg.svd(columns)[0][:, -1]
    steps = -bounds.original / direction
    lowest, highest = max(steps[direction > 0]), min(steps[direction < 0])
    ends = np.stack([bounds.original + lowest * direction, bounds.original + highest * direction])
    np.testing.assert_allclose(bounds.lower, ends.min(0), atol=1e-8)
    np.testing.assert_allclose(bounds.upper, ends.max(0), atol=1e-8)
    np.testing.assert_allclose(
        alternative_attention(recorded, 0, 0, 2).distance,
        np.abs(ends - bounds.original).sum(1).max(),
        atol=1e-7,
    )


def test_float32_models_keep_the_output_to_1e_5() -> None:
    model = models.randomised(models.BUILDERS["bert"]()).float()
    recorded = Lens(model).record(models.inputs("bert", 20))
    alternative = alternative_attention(recorded, 0, 1, 7)
    assert alternative.distance > 0.5
    expected, made = (
        layer_output(recorded, 0, 1, 7, weights, None)
        for weights in (alternative.original, alternative.weights)
    )
    assert (expected - made).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("wrong", [{"head": 4}, {"target": 14}, {"row": 1}, {"layer": 2}])
def test_wrong_places_are_named(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=str(next(iter(wrong.values())))):
        attention_bounds(
            models.recording("bert", 14), **{"layer": 0, "head": 0, "target": 0, **wrong}
        )


def test_a_missing_scipy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without_scipy(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    with pytest.raises(ImportError, match=r"mixlens\[eval\]"):
        attention_bounds(models.recording("bert", 14), 0, 0, 0)
