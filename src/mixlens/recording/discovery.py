"""Finds out how a layer is put together from the numbers of one run, and from nothing else.

For each attention call: the output projection is the affine module that takes A V; norms and scales
that follow it are the branch; the residual add is the first tensor that is a linear combination of
the stream and the branch. Whether a norm after that sum is the block's output norm (post-norm) or
the feed-forward part's input norm (pre-norm) is settled by trying both: only one of them explains
the layer's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.recording.differences import difference, row_sizes
from mixlens.recording.events import Core, Event, LayerTrace
from mixlens.recording.norms import LinearisedNorm, linearised
from mixlens.recording.projection import affine_map
from mixlens.recording.structure import FeedForwardStructure, LayerStructure, SiteStructure, Witness

Scale = float | Tensor
_NEGLIGIBLE = 1e-3  # a coefficient below this is noise, not a part of the sum


def structure_of(path: str, trace: LayerTrace, axes: Any) -> LayerStructure:
    """The layer's structure, or `UnsupportedModel` with the step that could not be explained."""
    explainer = _Explainer(path, trace)
    for detours in (
        False,
        True,
    ):  # a residual taken after a norm (Bloom's option) only where the plain reading fails
        explainer.detours = detours
        for sites, feed_forward in explainer.explanations(0, trace.hidden):
            return LayerStructure(path, tuple(sites), feed_forward, axes)
    raise UnsupportedModel(f"layer `{path}`: {explainer.obstacle}")


def _is_identity(matrix: Tensor) -> bool:
    square = matrix.shape[0] == matrix.shape[1]
    return square and torch.equal(matrix, torch.eye(len(matrix)).to(matrix))


def _no_later(weights: Tensor) -> bool:
    targets, sources = weights.shape[-2:]
    return targets == sources > 1 and not bool(weights[0].triu(1).any())


@dataclass
class _Sum:
    """total = residual_scale * residual + branch_scale * branch"""

    total: Tensor
    residual_from: str | None
    residual_scale: float
    branch_scale: Scale
    event: Event | None  # the submodule that takes the sum; None: it is the layer's output
    position: int = 0


class _Explainer:
    def __init__(self, path: str, trace: LayerTrace) -> None:
        self.trace, self.path = trace, path
        self.hidden, self.output = trace.hidden, trace.output
        self.d_model = int(self.hidden.shape[-1])
        self.tolerance = 1e-9 if self.hidden.dtype == torch.float64 else 2e-5
        self.obstacle = (
            "its output is not explained by its parts. Nothing is reported rather than a wrong"
            " number."
        )
        self.detours = False
        self._norms: dict[int, LinearisedNorm | None] = {}

    # ---------------------------------------------------------------------------------- comparisons

    def same(self, a: Tensor | None, b: Tensor | None) -> bool:
        if a is None or b is None or a.shape != b.shape:
            return False
        return difference(b, a) <= self.tolerance

    def negligible(self, branch: Tensor, stream: Tensor) -> bool:
        """Is the branch rounding next to the stream, at every token?"""
        return bool((row_sizes(branch) <= self.tolerance * row_sizes(stream)).all())

    def exact(self, total: Tensor, parts: list[Tensor]) -> bool:
        """Is the total the sum of the parts, number by number?

        One large channel of one token must not hide the others. A sum rounds in proportion to its
        summands.
        """
        summands = torch.stack([part.abs() for part in parts]).sum(0)
        error = (torch.stack(parts).sum(0) - total).abs()
        slack = 1e-3 * row_sizes(total)[:, None]
        return bool((error <= self.tolerance * (summands + slack)).all())

    def fitted(self, total: Tensor, parts: list[Tensor]) -> list[float] | None:
        """Coefficients of total = sum of c_k part_k, or None if no such sum is exact or a part
        plays no role.
        """
        target, *rows = (x.reshape(-1, x.shape[-1]).double() for x in (total, *parts))
        size = row_sizes(torch.stack([target, *rows])).amax(0)[:, None]
        size = torch.where(size > 0, size, 1.0)  # every token counts the same
        matrix = torch.stack([(row / size).reshape(-1) for row in rows], 1)
        solution = torch.linalg.lstsq(matrix, (target / size).reshape(-1, 1)).solution[:, 0]
        snapped = torch.where((solution - 1).abs() < 1e-4, torch.ones_like(solution), solution)
        for coefficients in (snapped, solution):
            scaled = [c * row for c, row in zip(coefficients, rows, strict=True)]
            if self.exact(target, scaled):
                found = [float(c) for c in coefficients]
                return found if min(abs(c) for c in found) > _NEGLIGIBLE else None
        return None

    def fitted_by_channel(self, total: Tensor, residual: Tensor, branch: Tensor) -> Tensor | None:
        """One factor per channel for the branch: layer scales held as bare parameters (BEiT)."""
        t, r, b = (x.reshape(-1, self.d_model).double() for x in (total, residual, branch))
        if len(t) < 3:
            return None
        size = row_sizes(torch.stack([t, r, b])).amax(0)[:, None]
        weighted = b / torch.where(size > 0, size, 1.0).square()
        scale = ((t - r) * weighted).sum(0) / (b * weighted).sum(0).clamp_min(1e-30)
        if not self.exact(t, [r, scale * b]) or scale.abs().max() < _NEGLIGIBLE:
            return None
        return scale.to(total.dtype)

    def norm(self, event: Event) -> LinearisedNorm | None:
        """The module's linear form where it is a norm or a scale that changes its input."""
        if event.output is None or not event.inputs or event.output.shape != self.hidden.shape:
            return None
        if event.inputs[0].shape != self.hidden.shape or self.same(event.inputs[0], event.output):
            return None
        key = id(event.module)
        if key not in self._norms:
            self._norms[key] = linearised(event.module, self.d_model, self.hidden)
        return self._norms[key]

    # ------------------------------------------------------------------------------------ the layer

    def explanations(
        self, index: int, stream: Tensor
    ) -> Iterator[tuple[list[SiteStructure], FeedForwardStructure | None]]:
        if index == len(self.trace.cores):
            for feed_forward in self.feed_forwards(stream):
                yield [], feed_forward
            return
        for site, after, parallel in self.sites(index, stream):
            if parallel is not None:
                yield [site], parallel
                continue
            for rest, feed_forward in self.explanations(index + 1, after):
                yield [site, *rest], feed_forward

    def sites(
        self, index: int, stream: Tensor
    ) -> Iterator[tuple[SiteStructure, Tensor, FeedForwardStructure | None]]:
        """Ways to read one attention site: its structure, the stream after it, and the feed-forward
        part where it is parallel.
        """
        core = self.trace.cores[index]
        projection = self.projection(core)
        branch, branch_paths, branch_norm, end = self.branch(projection)
        weights, values = core.call.weights, core.call.values
        kind, own_sources = self.sources(index)
        site = SiteStructure(
            kind=kind,
            own_sources=own_sources,
            own_values=any(self.trace.own_sources[index]),
            heads=int(weights.shape[1]),
            kv_heads=int(values.shape[1]),
            d_head=int(values.shape[-1]),
            causal=self.is_causal(index),
            output_projection=projection.path,
            branch=branch_paths,
            branch_norm=branch_norm,
            input_norm=self.input_norm(core, stream),
        )
        found = self.residual_sum(stream, branch, end)
        if found is not None:
            site = replace(
                site,
                residual_scale=found.residual_scale,
                branch_scale=found.branch_scale,
                residual_from=found.residual_from,
            )
            seen = None if found.event is None else Witness(found.event.path, "in", found.position)
            yield replace(site, witness=seen), found.total, None
            for event in self.trace.events:
                form = self.norm(event) if event.start >= end and event.inputs else None
                if form is not None and form.scaled and self.same(event.inputs[0], found.total):
                    assert event.output is not None
                    seen = Witness(event.path, "out")
                    yield replace(site, output_norm=event.path, witness=seen), event.output, None
            self.obstacle = (
                f"attention was found (`{projection.path}` and its residual), but what the layer"
                " does afterwards does not add up to its output. Nothing is reported rather than a"
                " wrong number."
            )
            return
        if index + 1 == len(self.trace.cores):
            yield from self.parallel(site, core, stream, branch)
        else:
            self.obstacle = f"no residual sum follows the attention output `{projection.path}`"

    def sources(self, index: int) -> tuple[AttentionKind, str | None]:
        """Whose tokens an attention reads, and where its own are if it reads others as well."""
        own, targets = self.trace.own_sources[index], int(self.hidden.shape[1])
        others = len(own) - targets
        if not any(own):  # the values may be those of an earlier layer of its stack (Gemma 4)
            shared = _no_later(self.trace.cores[index].call.weights)
            return AttentionKind.SELF if shared else AttentionKind.CROSS, None
        if others == 0:  # a token whose value is constant (nothing of it is read) is a token still
            return AttentionKind.SELF, None
        if others > 0 and own == (True,) * targets + (False,) * others:
            return AttentionKind.SELF, "first"
        if others > 0 and own == (False,) * others + (True,) * targets:
            return AttentionKind.SELF, "last"
        raise UnsupportedModel(
            f"layer `{self.path}`: its attention reads {len(own)} sources for {targets} tokens, and"
            f" {sum(own)} of them follow its input: they are not the tokens themselves (keys and"
            " values are pooled, or made for other places), so no score belongs to a token"
        )

    def is_causal(self, index: int) -> bool:
        """Does no token read a later one of its own stack?"""
        kind, own_sources = self.sources(index)
        if kind is AttentionKind.CROSS:
            return False
        weights = self.trace.cores[index].call.weights
        count = int(weights.shape[2])
        own = weights[..., -count:] if own_sources == "last" else weights[..., :count]
        return _no_later(own)

    def projection(self, core: Core) -> Event:
        """The affine module that takes A V."""
        batch, targets, heads, d_head = core.call.output.shape
        product = core.call.output.reshape(batch, targets, heads * d_head)
        for event in self.trace.events:
            if (
                event.start < core.tick
                or not event.inputs
                or event.inputs[0].numel() != product.numel()
            ):
                continue
            if event.output is None or event.output.shape != self.hidden.shape:
                continue
            if self.same(event.inputs[0].reshape(product.shape), product):
                affine = affine_map(event.module, heads * d_head, self.hidden)
                # dropout hands on what it takes, and so does every map of nothing
                if affine is not None and not _is_identity(affine[0]):
                    return event
        raise UnsupportedModel(
            f"layer `{self.path}`: no linear module takes the product of attention weights and"
            " values as it is (a gate, a norm or another mixing step stands between them and the"
            " output projection), so the output cannot be split by source token. Nothing is"
            " reported rather than a wrong number."
        )

    def branch(self, projection: Event) -> tuple[Tensor, tuple[str, ...], bool, int]:
        """Norms and scales that the projection's output passes before the residual: value, paths,
        is any a norm, end tick.
        """
        assert projection.output is not None
        value, paths, any_norm, end = projection.output, [], False, projection.end
        progress = True
        while progress:
            progress = False
            for event in self.trace.events:
                if event.start > end and event.inputs and self.same(event.inputs[0], value):
                    form = self.norm(event)
                    if form is not None:
                        assert event.output is not None
                        value, end, progress = event.output, event.end, True
                        paths.append(event.path)
                        any_norm |= form.scaled
                        break
        return value, tuple(paths), any_norm, end

    def input_norm(self, core: Core, stream: Tensor) -> str | None:
        for event in self.trace.events:
            if event.end < core.tick and event.inputs and self.same(event.inputs[0], stream):
                form = self.norm(event)
                if form is not None and form.scaled and self.feeds(event, core):
                    return event.path
        return None

    def feeds(self, norm: Event, core: Core) -> bool:
        """Does a module that runs before or around the attention call take the norm's output?"""
        return any(
            norm.end < event.start < core.tick
            and any(self.same(tensor, norm.output) for tensor in event.inputs)
            for event in self.trace.events
        )

    def residual_sum(self, stream: Tensor, branch: Tensor, end: int) -> _Sum | None:
        """The first tensor that is stream + branch (scaled), or that with the output of an earlier
        module as the residual.
        """
        later: list[tuple[Tensor, Event | None, int]] = [
            (tensor, event, position)
            for event in self.trace.events
            if event.start > end
            for position, tensor in enumerate(event.inputs)
            if tensor.shape == self.hidden.shape
        ]
        later.append((self.output, None, 0))
        residuals: list[tuple[str | None, Tensor]] = [(None, stream)]
        residuals += [
            (event.path, event.output)
            for event in self.trace.events
            if self.detours
            and event.end <= end
            and event.output is not None
            and event.output.shape == self.hidden.shape
            if self.norm(event) is not None
        ]
        if self.negligible(branch, stream):  # idle attention: the sum is the stream itself
            for total, event, position in later:
                if self.same(total, stream):
                    return _Sum(total, None, 1.0, 1.0, event, position)
        for total, event, position in later:
            if self.same(total, branch) or self.same(total, stream):
                continue
            for source, residual in residuals:
                scales = self.fitted(total, [residual, branch])
                if scales is not None:
                    return _Sum(total, source, scales[0], scales[1], event, position)
        for total, event, position in later:
            if not self.same(total, branch) and not self.same(total, stream):
                by_channel = self.fitted_by_channel(total, stream, branch)
                if by_channel is not None:
                    return _Sum(total, None, 1.0, by_channel, event, position)
        return None

    def parallel(
        self, site: SiteStructure, core: Core, stream: Tensor, branch: Tensor
    ) -> Iterator[tuple[SiteStructure, Tensor, FeedForwardStructure]]:
        """output = stream + attention + feed-forward, in one sum."""
        for event in sorted(
            self.trace.events, key=lambda event: (event.path.count("."), -event.end)
        ):
            if (
                event.output is None
                or event.output.shape != self.hidden.shape
                or event.path in core.inside
            ):
                continue
            if self.same(event.output, branch) or self.same(event.output, self.output):
                continue
            if event.inputs and self.same(event.inputs[0], event.output):
                continue
            scales = self.fitted(self.output, [stream, branch, event.output])
            if scales is not None and self.unmoved(event, site.output_projection):
                feed_forward = FeedForwardStructure(output=event.path, branch_scale=scales[2])
                found = replace(
                    site,
                    parallel=True,
                    residual_scale=scales[0],
                    branch_scale=scales[1],
                    witness=Witness(event.path, "out"),
                )
                yield found, self.output, feed_forward
                return
        self.obstacle = f"no residual sum follows the attention output `{site.output_projection}`"

    def unmoved(self, event: Event, projection: str) -> bool:
        """Does a module return the same if the attention output is another?"""
        returned = next(e.output for e in self.trace.events if e.path == projection)
        assert returned is not None
        after = self.trace.output_if(event.path, {projection: returned.flip(-1)})
        return self.same(event.output, after)

    def feed_forwards(self, stream: Tensor) -> Iterator[FeedForwardStructure | None]:
        """Ways to explain the layer's output from the stream after its last attention site."""
        last = self.trace.cores[-1]
        after = [event for event in self.trace.events if event.start > last.tick]
        if self.same(stream, self.output):
            yield self.idle_feed_forward(stream, after)
            return
        sums: list[tuple[str | None, Tensor]] = [(None, self.output)]
        for event in reversed(after):
            if (
                event.inputs
                and self.same(event.output, self.output)
                and self.norm(event) is not None
            ):
                sums.append((event.path, event.inputs[0]))
        input_norm = next(
            (
                event.path
                for event in after
                if event.inputs and self.same(event.inputs[0], stream) and self.norm(event)
            ),
            None,
        )
        for norm_path, total in sums:
            for event in sorted(after, key=lambda event: (event.path.count("."), -event.end)):
                if (
                    event.output is None
                    or event.output.shape != total.shape
                    or self.same(event.output, total)
                ):
                    continue
                if self.same(event.output, stream) or (
                    event.inputs and self.same(event.inputs[0], event.output)
                ):
                    continue
                scales = self.fitted(total, [stream, event.output])
                if scales is not None:
                    yield FeedForwardStructure(
                        output=event.path,
                        residual_scale=scales[0],
                        branch_scale=scales[1],
                        input_norm=input_norm,
                        output_norm=norm_path,
                    )
                    continue
                by_channel = self.fitted_by_channel(total, stream, event.output)
                if by_channel is not None:
                    yield FeedForwardStructure(
                        output=event.path,
                        branch_scale=by_channel,
                        input_norm=input_norm,
                        output_norm=norm_path,
                    )

    def idle_feed_forward(self, stream: Tensor, after: list[Event]) -> FeedForwardStructure | None:
        """A feed-forward part that adds nothing to these tokens, which it may to others; None if
        the layer has none.
        """
        for event in sorted(after, key=lambda event: (event.path.count("."), -event.end)):
            if event.output is None or event.output.shape != stream.shape:
                continue
            weighs = any(parameter.dim() > 1 for parameter in event.module.parameters())
            if weighs and self.negligible(event.output, stream):
                return FeedForwardStructure(output=event.path)
        return None
