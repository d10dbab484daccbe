"""Paths from words to a baseline word through the vectors of other words.

Sanyal & Ren 2021, Discretized Integrated Gradients for Explaining Language Models (EMNLP):
gradients are computed where the model was trained. From the current anchor word the path continues
to one of its nearest neighbours, none twice, the baseline only if nothing else is left. Channels of
an anchor that are not between the last point and the baseline are moved there, so that every
channel is monotonic. After the last anchor the path jumps to the baseline.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.kernels.chunks import chunked

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
    """Return `steps` points for each word, from the baseline to the word itself; `size` words at a
    time.

    `anchors`: "greedy" takes the neighbour that is moved least, "maxcount" the one with the most
    channels in place.
    """
    rows = [
        anchor_words(part, baseline, vectors, steps=steps, anchors=anchors, neighbours=neighbours)
        for part in chunked(words, size)
    ]
    path, end = torch.cat(rows, 1), vectors[baseline]
    points = [vectors[path[0]]]
    for step in path[1:]:
        points.append(_moved(vectors[step], end, points[-1], steps))
    points.append(end.expand_as(points[0]))
    return torch.stack(points[::-1])


def anchor_words(
    words: Words, baseline: int, vectors: Vectors, *, steps: int, anchors: str, neighbours: int
) -> Int[Tensor, "anchor word"]:
    """Return the words themselves, and `steps` - 2 anchors of each, from the word towards the
    baseline.
    """
    end, path = vectors[baseline], [words]
    count = min(neighbours, len(vectors) - 1)
    for _ in range(steps - 2):
        now = path[-1]
        distances = torch.cdist(vectors[now], vectors)
        distances.scatter_(1, now[:, None], torch.inf)  # a word is not its own neighbour
        near = distances.topk(count, largest=False, sorted=True).indices
        start, anchor = vectors[now][:, None], vectors[near]
        if anchors == "greedy":
            cost = torch.linalg.vector_norm(anchor - _moved(anchor, end, start, steps), dim=-1)
        else:
            cost = -_between(anchor, end, start).sum(-1).to(vectors.dtype)
        used = (near[..., None] == torch.stack(path, -1)[:, None]).any(-1) | (near == baseline)
        best = cost.masked_fill(used, torch.inf).min(1)
        following = near.gather(1, best.indices[:, None])[:, 0]
        done = torch.isinf(best.values) | (now == baseline)
        path.append(torch.where(done, torch.full_like(now, baseline), following))
    return torch.stack(path)


def _between(anchor: Tensor, end: Tensor, start: Tensor) -> Tensor:
    """Return which channels of an anchor are between two points."""
    low, high = torch.minimum(start, end), torch.maximum(start, end)
    return (low <= anchor) & (anchor <= high)


def _moved(anchor: Tensor, end: Tensor, start: Tensor, steps: int) -> Tensor:
    """Return the anchor, with channels outside replaced by a step towards the end."""
    return torch.where(_between(anchor, end, start), anchor, start - (start - end) / steps)
