"""Infer the structure of a layer from the activations of one run.

For each attention call, `attention_reading` finds the attention block, and `mlp_reading` the part
after it. A norm after the residual sum is either the block's output norm (post-norm) or the MLP's
input norm (pre-norm). mixlens tries both, and only one of them explains the layer's output. If
neither does, the layer may be open: its output is not a known sum, but its attention can be
captured, and the rest of the layer runs unchanged.

Some layers have no attention block that can be split by source: they mix several streams per token
(Gemma 3n, DeepSeek V4), apply a norm between A V and the output projection (BitNet), or multiply
the residual by factors (Doge). Their attention weights and values are still known, and the layer
can be re-run with edited values. This is enough for `attention` and `value_zeroing`. If a linear
module reads A V, the norms of each source's vectors are known, too.

mixlens verifies that A V is the output of attention, that each value depends on one token alone
(Inkling uses a convolution), and that the layer passes each token's state on without attention
(through a residual connection). A list of attention modules whose residual is added outside the
list (XLM) is not a list of layers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import attention_product, rounding, row_sizes
from mixlens.structure.attention_reading import (
    TurnedProjection,
    branch_of,
    entries,
    input_norm_of,
    projection_of,
    residual_sum,
)
from mixlens.structure.layer_structure import (
    AttentionStructure,
    FeedForwardStructure,
    LayerStructure,
)
from mixlens.structure.layer_trace import Evidence, LayerTrace
from mixlens.structure.mlp_reading import feed_forwards, parallel, several_parts

_LAST_WORDS = " mixlens reports nothing rather than a wrong number."


def structure_of(path: str, trace: LayerTrace, axes: Any) -> LayerStructure:
    """Return the structure of the layer, or an open structure if a step could not be explained.

    If the attention cannot be verified either, raise `UnsupportedModel` with this step in its
    message.
    """
    evidence = Evidence(path, trace)
    try:
        return _explain_layer(evidence, axes)
    except TurnedProjection:
        raise
    except UnsupportedModel as error:
        why = str(error).removeprefix(f"layer `{path}`: ").removesuffix(_LAST_WORDS).rstrip(".")
        sites = open_sites(evidence, why)
        if sites is None:
            raise
    return LayerStructure(path, sites, None, axes)


def _explain_layer(evidence: Evidence, axes: Any) -> LayerStructure:
    path, explainer = evidence.path, _Explainer(evidence)
    for several in (False, True):
        for entry, stream in explainer.starts():
            # try a residual after a norm (Bloom's option) only if the plain reading fails
            for detours in (False, True):
                explainer.detours, explainer.several = detours, several
                for (first, *sites), ending in explainer.explanations(0, stream):
                    return LayerStructure(
                        path,
                        (replace(first, enters=entry), *sites),
                        None if isinstance(ending, tuple) else ending,
                        axes,
                        further=ending if isinstance(ending, tuple) else (),
                    )
    raise UnsupportedModel(f"layer `{path}`: {explainer.obstacle}")


_Rest = FeedForwardStructure | tuple[str, ...] | None  # one part, several, or none


class _Explainer:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.trace = evidence, evidence.trace
        self.detours = self.several = False
        self.projection = functools.cache(lambda index: projection_of(evidence, index))
        self.obstacle = f"its parts do not explain its output.{_LAST_WORDS}"

    @functools.cached_property
    def entries(self) -> list[tuple[HookPoint, Tensor]]:
        return list(entries(self.evidence))

    def starts(self) -> Iterator[tuple[HookPoint | None, Tensor]]:
        """Yield the tensors that may be the input of the first attention block: the layer's input,
        and residual sums after earlier modules of the layer.
        """
        yield None, self.trace.hidden
        yield from self.entries

    def explanations(
        self, index: int, stream: Tensor
    ) -> Iterator[tuple[list[AttentionStructure], _Rest]]:
        if index == len(self.trace.cores):
            rests = several_parts if self.several else feed_forwards
            for parts in rests(self.evidence, stream):
                yield [], parts
            return
        for site, after, parallel_mlp in self.sites(index, stream):
            if parallel_mlp is not None:
                yield [site], parallel_mlp
                continue
            for later, feed_forward in self.explanations(index + 1, after):
                yield [site, *later], feed_forward

    def sites(
        self, index: int, stream: Tensor
    ) -> Iterator[tuple[AttentionStructure, Tensor, FeedForwardStructure | None]]:
        """Yield each possible structure of one attention call, the residual stream after the call,
        and the parallel MLP, if any.
        """
        core = self.trace.cores[index]
        projection, gated = self.projection(index)
        branch, branch_paths, branch_norm, end = branch_of(self.evidence, projection)
        weights, values = core.call.weights, core.call.values
        kind, own_sources = sources_of(self.evidence, index)
        site = AttentionStructure(
            kind=kind,
            own_sources=own_sources,
            own_values=any(self.trace.own_sources[index]),
            heads=int(weights.shape[1]),
            kv_heads=int(values.shape[1]),
            d_head=int(values.shape[-1]),
            causal=is_causal(self.evidence, index),
            projection=projection.path,
            gated=gated,
            branch=branch_paths,
            branch_norm=branch_norm,
            input_norm=input_norm_of(self.evidence, core, stream),
            has_sink=has_sink(weights),
        )
        total = residual_sum(self.evidence, stream, branch, end, self.detours)
        if total is not None:
            site = replace(
                site,
                residual_scale=total.residual_scale,
                branch_scale=total.branch_scale,
                residual_from=total.residual_from,
            )
            hook_point = (
                None if total.event is None else HookPoint(total.event.path, "in", total.position)
            )
            yield replace(site, hook_point=hook_point), total.total, None
            for event in self.trace.events:
                form = self.evidence.norm(event) if event.start >= end and event.inputs else None
                if (
                    form is not None
                    and form.scaled
                    and self.evidence.same(event.inputs[0], total.total)
                ):
                    assert event.output is not None
                    hook_point = HookPoint(event.path, "out")
                    yield (
                        replace(site, output_norm=event.path, hook_point=hook_point),
                        event.output,
                        None,
                    )
            self.obstacle = (
                f"its attention was found (`{projection.path}` and its residual), but the "
                f"rest of the layer does not add up to its output.{_LAST_WORDS}"
            )
            return
        if index + 1 == len(self.trace.cores):
            yield from parallel(self.evidence, site, core, stream, branch)
        self.obstacle = (
            "no module takes the sum of the stream and the attention output "
            f"`{projection.path}`. The sum is computed outside the layer, in parts, or with "
            "other factors or steps"
        )


def open_sites(evidence: Evidence, why: str) -> tuple[AttentionStructure, ...] | None:
    """Return the attention blocks of an open layer, or None if they cannot be verified either.

    `why` is the reason why the layer's output cannot be explained. It is stored in the result.
    """
    for core in evidence.trace.cores:
        weights, values = core.call.weights, core.call.values
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
        _, error = attention_product(weights, values, core.call.output)
        if not error <= rounding(evidence.hidden):
            return None
    output, moved_values = _run_without_attention(evidence)
    if not _passes_states_on(output, evidence.tolerance):
        return None
    if any(core.call.across for core in evidence.trace.cores):
        why = "two streams attend in it, each in its own calls, and no module takes A V of both"
    sites = tuple(_open_site(evidence, index, why) for index in range(len(evidence.trace.cores)))
    _require_values_of_tokens(evidence, moved_values)
    return sites


def _open_site(evidence: Evidence, index: int, why: str) -> AttentionStructure:
    call = evidence.trace.cores[index].call
    kind, own_sources = sources_of(evidence, index)
    try:
        projection, gated = projection_of(evidence, index, any_width=True)
    except UnsupportedModel:
        path, gated = None, False
    else:
        path = projection.path
    return AttentionStructure(
        kind=kind,
        own_sources=own_sources,
        own_values=any(evidence.trace.own_sources[index]),
        heads=int(call.weights.shape[1]),
        kv_heads=int(call.values.shape[1]),
        d_head=int(call.values.shape[-1]),
        causal=is_causal(evidence, index),
        across=call.across,
        projection=path,
        gated=gated,
        branch=(),
        branch_norm=False,
        has_sink=has_sink(call.weights),
        open=why,
    )


def _run_without_attention(evidence: Evidence) -> tuple[Tensor, Tensor]:
    """Run the layer with all attention values set to zero and the input of one token changed.

    Return the layer's output, and the values of the first attention call in this run, before they
    are set to zero.
    """
    first: list[Tensor] = []

    def nothing(number: int, values: Tensor) -> Tensor:
        if number == 0:
            first.append(values.clone())
        return torch.zeros_like(values)

    edited_hidden = evidence.hidden.clone()
    place = edited_hidden.shape[1] // 2
    edited_hidden[:, place] = edited_hidden[:, place].flip(-1)
    output = evidence.trace.again(edit_values=nothing, new_hidden=edited_hidden).output
    return output, torch.stack(first).sum(0)  # pieces have zeros at the positions of the others


def _passes_states_on(output: Tensor, tolerance: float) -> bool:
    """Return whether the layer passes the input of each token on to its output without attention.

    `output` contains the outputs of two texts with different inputs, which must therefore differ at
    every token.
    """
    first, second = output
    apart, size = row_sizes(first - second), torch.maximum(row_sizes(first), row_sizes(second))
    return bool((apart > tolerance * size).all())


def _require_values_of_tokens(evidence: Evidence, moved_values: Tensor) -> None:
    """Raise an error if changing one token's input changes the values of several tokens in the
    first attention call.
    """
    values = evidence.trace.cores[0].call.values
    gaps, sizes = row_sizes(moved_values - values), row_sizes(values)
    followed = int((gaps > evidence.tolerance * sizes).flatten(0, 1).any(0).sum())
    if followed > 1:
        raise UnsupportedModel(
            f"layer `{evidence.path}`: {followed} values of its attention depend on one token "
            "(a convolution or a delay computes them), so no score belongs to one token"
        )


def sources_of(evidence: Evidence, index: int) -> tuple[AttentionKind, str | None]:
    """Return whether an attention call attends to the tokens of its own stack or of another stack.

    If it attends to both, also return whether its own tokens come "first" or "last" among the
    sources.
    """
    is_own, targets = evidence.trace.own_sources[index], int(evidence.hidden.shape[1])
    other_count = len(is_own) - targets
    if evidence.trace.cores[index].call.across:
        return AttentionKind.CROSS, None
    if not any(is_own):  # the values may come from an earlier layer of its stack (Gemma 4)
        shared = _no_later(evidence.trace.cores[index].call.weights)
        return AttentionKind.SELF if shared else AttentionKind.CROSS, None
    if other_count == 0:  # a token with a constant value (which does not depend on it) still counts
        return AttentionKind.SELF, None
    if other_count > 0 and is_own == (True,) * targets + (False,) * other_count:
        return AttentionKind.SELF, "first"
    if other_count > 0 and is_own == (False,) * other_count + (True,) * targets:
        return AttentionKind.SELF, "last"
    raise UnsupportedModel(
        f"layer `{evidence.path}`: its attention reads {len(is_own)} sources for {targets} "
        f"tokens, and {sum(is_own)} of them depend on its input. They are not the tokens "
        "themselves (keys and values are pooled, or computed for other positions), so no "
        "score belongs to a token"
    )


def is_causal(evidence: Evidence, index: int) -> bool:
    """Return whether no token attends to a later token of its own stack."""
    kind, own_sources = sources_of(evidence, index)
    if kind is AttentionKind.CROSS:
        return False
    weights = evidence.trace.cores[index].call.weights
    count = int(weights.shape[2])
    own_weights = weights[..., -count:] if own_sources == "last" else weights[..., :count]
    return _no_later(own_weights)


def _no_later(weights: Tensor) -> bool:
    targets, sources = weights.shape[-2:]
    return targets == sources > 1 and not bool(weights[0].triu(1).any())


def has_sink(weights: Float[Tensor, "batch head target source"]) -> bool:
    """Return whether an attention sink absorbs part of the softmax, so that the weights sum to less
    than one.

    The tolerance is larger for half-precision weights, because each of them is rounded. Targets
    that attend to nothing are ignored.
    """
    sums = weights[0].detach().double().sum(-1)
    bar = 2e-2 if weights.element_size() < 4 else 1e-4
    return bool((((1 - sums).abs() > bar) & (sums != 0)).any())
