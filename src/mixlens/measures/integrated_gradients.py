"""Integrated gradients: the contribution of each token's representation along a path from a
baseline to the text.

Sundararajan, Taly, Yan 2017, Axiomatic Attribution for Deep Networks (ICML), eq. 1: (x_j - x'_j) .
integral over a of d f(x' + a (x - x')) / d x_j, by Gauss-Legendre quadrature. Attributions add up
to f(x) - f(baseline). `completeness_error` is the error of this sum; increase `steps` to reduce it.

Two other paths are available. With `path="sequential"` (Enguehard 2023, Sequential Integrated
Gradients, ACL Findings), each token has its own path, on which only this token starts from the
baseline. Its score approximates f(x) - f(x with this token replaced), and `completeness_error` has
one value per token. With `path="discretised"` (Sanyal & Ren 2021, Discretized Integrated Gradients,
EMNLP), the path leads from each word to a baseline word through the embeddings of other words. It
integrates over the word embeddings, not over the first layer's input, and its left Riemann sums add
up to f(x) - f(baseline) only approximately.

On a discretised path, gradients are computed near real word embeddings. From the current anchor
word the path continues to one of its nearest neighbours. It visits no word twice, and goes to the
baseline only if no other neighbour is left. Channels of an anchor that do not lie between the last
point and the baseline are moved into this interval, so that every channel is monotonic. After the
last anchor the path jumps to the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.kernels.chunks import rows_at_once, split_chunks
from mixlens.kernels.gradients import Hidden, Value, path_mean, path_sum, token_path_means
from mixlens.replay.attribution import (
    ModelFromWords,
    attribute_output,
    baseline_token,
    copies_at_once,
    moving_counts,
    word_places,
)
from mixlens.replay.attribution import baseline as baseline_of
from mixlens.replay.explained_output import Explained

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


PATHS = ("straight", "sequential", "discretised")

SPEC = Spec(
    summary=(
        "gradient of one output times the change of each token's representation, averaged over a"
        " path from a baseline"
    ),
    citation='Sundararajan et al. (2017), "Axiomatic Attribution for Deep Networks", ICML, eq. 1',
    use_when=(
        "for signed attributions of one prediction that add up to the difference between the text"
        " and a baseline"
    ),
    cost="`steps` forward and backward passes per layer and text; n times that if sequential",
    facts=Facts(signed=True),
    sites=(AttentionKind.SELF,),
    explains_output=True,
    explains_embedding=True,
    reads="output",
    gives="rows",
    limitations=(
        "follows a path from zero on which a pre-norm model hardly changes, because the norm"
        " removes the length of an embedding. Norms give a negative score to the content that an"
        " intermediate token does not pass on. The path leads through texts on which a lookup or a"
        " count gives different answers"
    ),
    memory=lambda sizes: sizes.graph + sizes.chunk,
    least={"steps": 4},
    rounding=3e-5,
    half_precision=None,
)

MOST_STEPS = 10**6


def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    reduction: str = "sum",
    steps: int = 50,
    baseline: str | int = "zero",
    path: str = "straight",
    anchors: str = "greedy",
    moves: str = "prompt",
) -> Scores:
    """Return the attributions.

    `reduction` is "sum", "l2" or "l1"; `baseline` is "zero", "pad", "mask" or a token id; `path` is
    "straight", "sequential" or "discretised"; `anchors` (of a discretised path) is "greedy" or
    "maxcount". If an answer is explained, `moves` ("prompt" or "all") selects the tokens whose path
    starts at the baseline.
    """
    if not 1 <= steps <= MOST_STEPS:
        raise InvalidInput(f"steps={steps} is out of range. Pass 1 to {MOST_STEPS:,}.")
    if path not in PATHS:
        raise InvalidInput(f"Unknown path {path!r}. Choose one of: {', '.join(PATHS)}.")
    if path == "discretised":
        moving = moving_counts(recording, request, output, moves)
        return _through_words(
            recording, request, output, reduction, steps, baseline, anchors, moving
        )
    size = copies_at_once(recording, request, output)
    moving = moving_counts(recording, request, output, moves)
    errors: list[Tensor] = []

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        base = baseline_of(recording, request, layer, baseline, hidden, moving)
        if path == "straight":
            parts = (hidden - base) * path_mean(value, base, hidden, steps=steps, size=size)
            errors.append(_error(recording, output, value, base, parts))
            return parts
        slopes = token_path_means(value, base, hidden, moving, steps=steps, size=size)
        parts = (hidden - base) * slopes
        errors.append(_token_errors(recording, output, value, base, hidden, parts))
        return parts

    scores = attribute_output(recording, request, output, attribute, reduction)
    return _with_errors(scores, errors)


def _through_words(
    recording: Recording,
    request: Request,
    output: Explained,
    reduction: str,
    steps: int,
    baseline: str | int,
    anchors: str,
    moving: Sequence[int],
) -> Scores:
    if anchors not in ANCHORS:
        raise InvalidInput(f"Unknown anchors {anchors!r}. Choose one of: {', '.join(ANCHORS)}.")
    if baseline == "zero":
        raise InvalidInput(
            "A discretised path needs a baseline word, and zero is not a word. Pass "
            "baseline='mask' or 'pad'."
        )
    if steps < 2:
        raise InvalidInput(f"steps={steps} is too small for a discretised path. Pass at least 2.")
    token = baseline_token(recording, baseline)
    model, errors = ModelFromWords(recording, request.site), list[Tensor]()
    size = copies_at_once(recording, request, output)

    def attribute(value: Value, layer: int, hidden: Hidden) -> Tensor:
        places, vectors = word_places(recording, request, model.ids), model.vocabulary()
        for text, count in enumerate(moving):
            places[text, count:] = False
        neighbours = min(NEIGHBOURS, len(vectors))
        at_once = rows_at_once(
            (len(vectors) + 4 * neighbours * vectors.shape[1]) * vectors.element_size(),
            recording.memory_budget,
        )
        points = hidden.repeat(steps, 1, 1, 1)  # special tokens do not move
        points[:, places] = word_path(
            model.ids[places], token, vectors, steps=steps, anchors=anchors, size=at_once
        )
        parts = path_sum(value, points, size=size)
        errors.append(_error(recording, output, value, points[0], parts))
        return parts

    return _with_errors(
        attribute_output(recording, request, output, attribute, reduction, model), errors
    )


@torch.no_grad()
def _error(
    recording: Recording, output: Explained, value: Value, base: Hidden, parts: Hidden
) -> Tensor:
    """Return each text's completeness error: its sum of attributions minus (f(x) - f(baseline))."""
    texts = torch.arange(len(base), device=base.device)
    return parts.flatten(1).sum(1) - (output(recording.output, texts) - value(base, texts))


@torch.no_grad()
def _token_errors(
    recording: Recording,
    output: Explained,
    value: Value,
    base: Hidden,
    hidden: Hidden,
    parts: Hidden,
) -> Tensor:
    """Return the completeness error of each token on a sequential path, where only this token
    changes.
    """
    texts = torch.arange(len(base), device=base.device)
    whole, errors = output(recording.output, texts), []
    for token in range(hidden.shape[1]):
        replaced = hidden.clone()
        replaced[:, token] = base[:, token]
        errors.append(parts[:, token].sum(-1) - (whole - value(replaced, texts)))
    return torch.stack(errors, 1)


def _with_errors(scores: Scores, errors: list[Tensor]) -> Scores:
    error = torch.stack(errors)
    return replace(
        scores,
        extras={"completeness_error": error},
        extra_dims={"completeness_error": ("source",) if error.dim() == 3 else ()},
    )


ANCHORS = ("greedy", "maxcount")
NEIGHBOURS = 500  # as in the authors' code

Words = Int[Tensor, " word"]
Vectors = Float[Tensor, "vocabulary width"]


def word_path(
    words: Words,
    baseline: int,
    vectors: Vectors,
    *,
    steps: int,
    anchors: str,
    size: int,
    neighbours: int = NEIGHBOURS,
) -> Float[Tensor, "step word width"]:
    """Return the discretised path from the baseline to each word, with `steps` points.

    `size` words are processed at a time. The next anchor is the neighbour that has to be moved
    least (`anchors="greedy"`), or the neighbour with the most channels that need not be moved
    ("maxcount").
    """
    word_paths = [
        anchor_words(part, baseline, vectors, steps=steps, anchors=anchors, neighbours=neighbours)
        for part in split_chunks(words, size)
    ]
    path, end = torch.cat(word_paths, 1), vectors[baseline]
    points = [vectors[path[0]]]
    for step in path[1:]:
        points.append(_move_into_range(vectors[step], end, points[-1], steps))
    points.append(end.expand_as(points[0]))
    return torch.stack(points[::-1])


def anchor_words(
    words: Words, baseline: int, vectors: Vectors, *, steps: int, anchors: str, neighbours: int
) -> Int[Tensor, "anchor word"]:
    """Return each word and its `steps` - 2 anchors, in order from the word to the baseline."""
    end, path = vectors[baseline], [words]
    count = min(neighbours, len(vectors) - 1)
    for _ in range(steps - 2):
        now = path[-1]
        distances = torch.cdist(vectors[now], vectors)
        distances.scatter_(1, now[:, None], torch.inf)  # a word is not its own neighbour
        near = distances.topk(count, largest=False, sorted=True).indices
        start, anchor = vectors[now][:, None], vectors[near]
        if anchors == "greedy":
            cost = torch.linalg.vector_norm(
                anchor - _move_into_range(anchor, end, start, steps), dim=-1
            )
        else:
            cost = -_between(anchor, end, start).sum(-1).to(vectors.dtype)
        is_used = (near[..., None] == torch.stack(path, -1)[:, None]).any(-1) | (near == baseline)
        best = cost.masked_fill(is_used, torch.inf).min(1)
        following = near.gather(1, best.indices[:, None])[:, 0]
        is_done = torch.isinf(best.values) | (now == baseline)
        path.append(torch.where(is_done, torch.full_like(now, baseline), following))
    return torch.stack(path)


def _between(anchor: Tensor, end: Tensor, start: Tensor) -> Tensor:
    """Return a mask of the channels of an anchor that lie between two points."""
    low, high = torch.minimum(start, end), torch.maximum(start, end)
    return (low <= anchor) & (anchor <= high)


def _move_into_range(anchor: Tensor, end: Tensor, start: Tensor, steps: int) -> Tensor:
    """Return the anchor, with channels out of range replaced by a step towards `end`."""
    return torch.where(_between(anchor, end, start), anchor, start - (start - end) / steps)
