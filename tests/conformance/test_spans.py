"""Spans of targets on every supported family, against sums and stacks of vectors that are formed
one by one, for whole maps and for a few targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from benchmarks.naive import relative_error
from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.contracts import AttentionKind
from mixlens.recording.attention import Attention
from tests.conformance.families import Family
from tests.conformance.test_oracles import normed, on_diagonal, written
from tests.conformance.zoo import FAMILIES, ZOO, inputs

WEIGHTS = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)


def stacked(site: Attention, targets: list[int], measure: str, span: str) -> Tensor:
    """The scores of a span from T_ij [target, source, d_model]."""
    if measure == "contribution_weights":
        parts = written(site)[targets]
        total, own = parts.sum(1), torch.zeros_like(parts[:, 0])
    else:
        parts, own = normed(site)
        parts, own = on_diagonal(parts, own, site)[targets], own[targets]
        total = site.block_output[0, targets]
    if span == "sum":
        parts, total, own = (torch.tensordot(WEIGHTS, each, 1) for each in (parts, total, own))
    else:
        parts, total, own = (
            torch.einsum("i,i...d->...id", WEIGHTS, each).flatten(-2)
            for each in (parts, total, own)
        )
    if measure == "contribution_weights":
        return parts @ total / (total @ total)
    if measure == "attention_norm_res_ln":
        return parts.norm(dim=-1)
    gains = (total.abs() - (total - parts).abs()).sum(-1).clamp_min(0)
    rest = (total.abs() - (total - own).abs()).sum(-1).clamp_min(0)
    cross = site.structure.kind is AttentionKind.CROSS
    return gains / (gains.sum() + (rest if cross else 0))


@pytest.mark.parametrize("bare", FAMILIES, indirect=True)
def test_spans_are_sums_and_stacks_of_vectors(bare: Family) -> None:
    given = inputs(bare.name, torch.float64, rows=1)
    lens, animal = Lens(bare.models[torch.float64]), ZOO[bare.name]
    recording = lens.record(given)
    narrow = animal.narrow_block_norm or not animal.float64_inside
    site = recording.sites[-1]
    count = recording.lengths[recording.structure.stack_of(site).name][0]
    targets = [count - 1, 0, count // 2]
    kind = recording.structure.site(site).kind
    compared = 0
    for measure in ("attention_norm_res_ln", "alti", "contribution_weights"):
        for span in ("sum", "joint"):
            chosen: dict[str, Any] = {
                "targets": targets,
                "span": span,
                "weights": WEIGHTS.tolist(),
                "site": site,
            }
            try:
                maps = mixlens.measure(measure, recording, **chosen)
            except (UnsupportedModel, InvalidInput) as error:
                assert "span" not in str(error)
                continue
            expected = torch.stack(
                [
                    stacked(layer.site(kind), targets, measure, span)
                    for layer in recording.layers(site)
                ]
            )
            few = lens.measure(measure, given, **chosen)
            compared += 1
            for made in (maps, few):
                assert not isinstance(made, list)
                off = relative_error(np.asarray(made.scores[:, 0]), expected)
                assert off <= (1e-6 if narrow else 1e-10), (measure, span)
    assert compared >= 4
