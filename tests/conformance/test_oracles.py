"""The fast implementations agree with the papers' equations on every supported family.

The equations are taken literally: every vector T_ij is formed, every value is zeroed in its own run
of the layer, every entry of a Jacobian is one derivative. They start from the parts of a recording,
which `test_recording` holds against the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from benchmarks.naive import relative_error
from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.structure.norms import norm_of
from tests.conformance.families import Family
from tests.conformance.zoo import FAMILIES, ZOO, inputs

Oracle = Callable[[Layer, Attention], Tensor]


def written(site: Attention) -> Tensor:
    """c_ij, [target, source, d_model]"""
    f = torch.stack(
        [site.values[0, h] @ site.output_weight[h] for h in range(len(site.output_weight))]
    )
    return torch.einsum("hij,hjd->ijd", site.weights[0], f)


def added(site: Attention) -> tuple[Tensor, Tensor]:
    """c_ij after the norms and scales of its branch, and x_i next to it."""
    parts, state = written(site), site.projected[0]
    for norm in site.branch:
        parts, state = norm.linear(parts) * norm.inverse_sigma(state)[:, None, None], norm(state)
    factor = site.structure.branch_scale
    return (
        parts * (factor.to(parts) if isinstance(factor, Tensor) else factor),
        site.residual[0] * site.structure.residual_scale,
    )


def on_diagonal(parts: Tensor, own: Tensor, site: Attention) -> Tensor:
    parts = parts.clone()
    if site.structure.kind is AttentionKind.SELF:
        for i in range(len(own)):
            parts[i, i] += own[i]
    return parts


def normed(site: Attention) -> tuple[Tensor, Tensor]:
    """T_ij without the residual, and the residual's own part."""
    parts, own = added(site)
    if site.output_norm is None:
        return parts, own
    branch = site.projected[0]
    for norm in site.branch:
        branch = norm(branch)
    factor = site.structure.branch_scale
    total = own + branch * (factor.to(branch) if isinstance(factor, Tensor) else factor)
    sigma = site.output_norm.inverse_sigma(total)
    return (
        site.output_norm.linear(parts) * sigma[:, None, None],
        site.output_norm.linear(own) * sigma[:, None],
    )


def attention_norm(layer: Layer, site: Attention) -> Tensor:
    return written(site).norm(dim=-1)


def contribution_weights(layer: Layer, site: Attention) -> Tensor:
    parts = written(site)
    whole = parts.sum(1, keepdim=True)
    return (parts * whole).sum(-1) / whole.square().sum(-1)


def attention_norm_res(layer: Layer, site: Attention) -> Tensor:
    return on_diagonal(*added(site), site).norm(dim=-1)


def attention_norm_res_ln(layer: Layer, site: Attention) -> Tensor:
    return on_diagonal(*normed(site), site).norm(dim=-1)


def globenc(layer: Layer, site: Attention) -> Tensor:
    feed_forward = layer.structure.feed_forward
    assert feed_forward is not None
    assert feed_forward.output_norm is not None
    second = norm_of(layer.module.get_submodule(feed_forward.output_norm), site.block_output)
    assert second is not None
    sigma = second.inverse_sigma(layer.read_hook(HookPoint(feed_forward.output_norm, "in"))[0])
    parts = on_diagonal(*normed(site), site) * feed_forward.residual_scale
    return (second.linear(parts) * sigma[:, None, None]).norm(dim=-1)


def alti(layer: Layer, site: Attention) -> Tensor:
    parts, own = normed(site)
    y = site.block_output[0]

    def gain(part: Tensor) -> Tensor:
        return (y.abs().sum(-1) - (y - part).abs().sum(-1)).clamp_min(0)

    gains = torch.stack([gain(part) for part in on_diagonal(parts, own, site).unbind(1)], 1)
    rest = gain(own) if site.structure.kind is AttentionKind.CROSS else torch.zeros_like(y[:, 0])
    return (gains / (gains.sum(-1) + rest)[:, None]).nan_to_num(0)


def effective_attention(layer: Layer, site: Attention) -> Tensor:
    """The mean over heads of A less what lies in the left null space of the rows of T that the
    target sees.
    """
    weights = site.weights[0]
    result = torch.zeros_like(weights)
    for h, i in np.ndindex(*weights.shape[:2]):
        seen = weights[h, i].nonzero()[:, 0]
        left, sizes, _ = torch.linalg.svd(
            site.values[0, h, seen] @ site.output_weight[h], full_matrices=True
        )
        rank = int((sizes > len(seen) * torch.finfo(sizes.dtype).eps * 10 * sizes[0]).sum())
        result[h, i, seen] = left[:, :rank] @ (left[:, :rank].T @ weights[h, i, seen])
    return result.mean(0)


def value_zeroing(layer: Layer, site: Attention) -> Tensor:
    kind, columns = site.structure.kind, []
    before = layer.rerun(0, copies=1, kind=kind)[0].double()
    for j in range(site.values.shape[2]):
        values = site.values[:1, :: site.structure.heads // site.structure.kv_heads].clone()
        values[:, :, j] = 0
        after = layer.rerun(0, values=values, kind=kind)[0].double()
        columns.append(1 - torch.cosine_similarity(after, before, dim=-1))
    return torch.stack(columns, 1)


ORACLES: dict[str, Oracle] = {
    oracle.__name__: oracle
    for oracle in (
        attention_norm,
        contribution_weights,
        attention_norm_res,
        attention_norm_res_ln,
        globenc,
        alti,
        effective_attention,
        value_zeroing,
    )
}


def jacobian_shares(layers: list[Layer]) -> Tensor:
    """|d e_i / d x_j|, each row divided by its sum, after every layer."""
    start = layers[0].input[:1]

    def after(count: int) -> Callable[[Tensor], Tensor]:
        def run(hidden: Tensor) -> Tensor:
            for layer in layers[:count]:
                hidden = layer.rerun(0, hidden=hidden, grad=True)
            return hidden[0]

        return run

    shares = []
    for count in range(1, len(layers) + 1):
        entries = torch.autograd.functional.jacobian(after(count), start)[
            :, :, 0
        ]  # target, channel, source, channel
        norms = entries.square().sum((1, 3)).sqrt()
        shares.append(norms / norms.sum(-1, keepdim=True))
    return torch.stack(shares)


def expected(recording: Recording, site: str, oracle: Oracle) -> Tensor:
    kind = recording.structure.site(site).kind
    return torch.stack([oracle(layer, layer.site(kind)) for layer in recording.layers(site)])


def scores_of(name: str, recording: Recording, site: str) -> np.ndarray[Any, Any] | None:
    try:
        maps = mixlens.measure(name, recording, site=site)
    except (
        UnsupportedModel,
        InvalidInput,
    ):  # refused with its reason: `test_measures` looks at these
        return None
    return np.asarray((maps[0] if isinstance(maps, list) else maps).scores)


@pytest.mark.parametrize("bare", FAMILIES, indirect=True)
def test_fast_forms_are_the_equations(bare: Family) -> None:
    """In float64 both ways start from one recording; the measures in float32 are held against the
    equations in float64.
    """
    recordings = [
        Lens(bare.models[dtype]).record(inputs(bare.name, dtype, rows=1))
        for dtype in (torch.float64, torch.float32)
    ]
    exact, animal = recordings[0], ZOO[bare.name]
    narrow = (
        animal.narrow_block_norm or not animal.float64_inside
    )  # softmax or norms in float32 whatever comes in
    bars = (1e-6 if narrow else 1e-10, 1e-5)
    held = set()
    for site in exact.sites:
        truths = {
            measure: partial(expected, exact, site, oracle) for measure, oracle in ORACLES.items()
        }
        if exact.structure.site(site).kind is AttentionKind.SELF:
            truths["hidden_token_attribution"] = partial(jacobian_shares, exact.layers(site))
        for measure, truth in truths.items():
            scores = [scores_of(measure, recording, site) for recording in recordings]
            if scores[0] is None:
                assert scores[1] is None
                continue
            held.add(measure)
            right = truth()
            for given, bar in zip(scores, bars, strict=True):
                assert given is not None
                assert given.shape == right.shape
                assert relative_error(given, right) <= bar, (site, measure, bar)
    refused = {"globenc"} if animal.style != "post" or len(exact.sites) > 1 else set()
    assert held >= {*ORACLES, "hidden_token_attribution"} - refused
