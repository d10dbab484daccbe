"""Norm statistics: how attention weights and the norms of transformed vectors differ.

Kobayashi et al. (2020), section 4 and appendix A. f(x) is the value vector multiplied by the head's
output projection, and x is the input of attention (after the input norm, if a layer has one). The
evaluation answers four questions:

* How much do |f(x)| and |x| vary between tokens (tables 1 and 4)? This is measured by the
  coefficient of variation of each head.
* How much weight, and how much of the norm |alpha f(x)|, goes to [CLS], [SEP], comma and full stop,
  and other tokens (figure 3)? As in the authors' code, both are summed over the sources of a
  category, and averaged over targets and then over texts.
* Do weight and |f(x)| cancel out (table 2)? This is measured by Spearman's correlation over the
  target-source pairs of all heads and layers, for each category of sources, on a uniform sample of
  bounded size.
* Do frequent tokens get less weight, and do they have smaller norms (figure 6)? This is measured by
  the correlation of frequency rank (1 is the most frequent) with the weight and |f(x)| of all
  occurrences, averaged over heads, layers and targets. Tokens without a rank come last.

Pairs whose source the target cannot attend to are excluded. `singular_values` computes figure 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixlens.contracts import AttentionKind, Request
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.drawn_pairs import DrawnPairs, join_pairs
from mixlens.evaluating.states import CATEGORIES, categories, generator_of
from mixlens.evaluating.statistics import interval_of, spearman
from mixlens.kernels.differences import difference, rounding
from mixlens.replay.intervention import token_input
from mixlens.replay.value_map import value_map
from mixlens.structure.norms import norm_of

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.evaluating.case import Case
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording


SPEC = EvaluationSpec(
    summary=(
        "spread of the norms of transformed vectors, and their relation to attention weights, "
        "token categories and frequency"
    ),
    citation='Kobayashi et al. (2020), "Attention is Not Only a Weight", section 4 and appendix A',
    direction="neither",
    kinds=("text", "agreement", "classification", "tagged"),
    of="model",
    cost="1 forward pass + head n^2 per layer",
    reports={
        "x.mean": Detail("mean norm of a layer's input vectors", "layer"),
        "x.cv": Detail("their spread (standard deviation / mean)", "layer"),
        "correlation.cls": Detail("rank correlation of weight and norm, [CLS]"),
        "correlation.sep": Detail("rank correlation of weight and norm, [SEP]"),
        "correlation.punctuation": Detail("rank correlation of weight and norm, punctuation"),
        "correlation.other": Detail("rank correlation of weight and norm, other tokens"),
        "frequency.weight": Detail("rank correlation of frequency rank and weight"),
        "frequency.norm": Detail("rank correlation of frequency rank and norm"),
    },
)

MOMENTS = ("count", "sum", "squares", "max", "min")


def observe(
    case: Case, *, site: str | None = None, sample: int = 1000, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return sums over one text, in a dict with these keys:

    * `f` [layer, head, 5] and `x` [layer, 5]: the `MOMENTS` of the norms |f(x)| and |x|;
    * `weights` and `norms` [layer, head, category]: weight and norm per category, averaged over
      targets;
    * `sources` [category]: the number of target-source pairs per head;
    * `token`, `category`, `token_weight` and `token_norm` [token];
    * `pairs` [pair, 5]: category, layer, head, weight and |f(x)| of the sampled pairs, with the
      `priority` [pair] and the `threshold` [category] of the sample.

    `sample` is the maximum number of pairs in each category, from which rank correlations are
    computed.
    """
    request = _request(case.recording, site)
    kinds = categories(case, request.site)
    count, layers = len(kinds), case.recording.layers(request.site)
    visible = np.ones((count, count), bool)
    if layers[0].structure.sites[0].causal:
        visible = np.tril(visible)
    heads = layers[0].structure.sites[0].heads
    sampled_pairs = DrawnPairs.of(
        (len(layers), heads), visible, kinds, sample, generator_of(case, seed)
    )
    statistics: dict[str, list[np.ndarray]] = {
        key: [] for key in ("f", "x", "weights", "norms", "token_weight", "token_norm")
    }
    for number, (layer, parts) in enumerate(request.sites(case.recording)):
        weights = parts.weights[0, :, :count, :count].detach().double().cpu().numpy()
        sizes = parts.transformed()[0, :, :count].detach().double().norm(dim=-1).cpu().numpy()
        input_norms = read_by(layer, parts)[0, :count].detach().double().norm(dim=-1).cpu().numpy()
        sampled_pairs.fill(number, weights, sizes)
        statistics["f"].append(_moments(sizes))
        statistics["x"].append(_moments(input_norms))
        for key, scores in (("weights", weights), ("norms", weights * sizes[:, None])):
            statistics[key].append(
                np.stack(
                    [
                        scores[..., kinds == kind].sum(-1).mean(-1)
                        for kind in range(len(CATEGORIES))
                    ],
                    -1,
                )
            )
        statistics["token_weight"].append(weights.sum(1).mean(0) / visible.sum(0))
        statistics["token_norm"].append(sizes.mean(0))
    of_tokens = {key: np.mean(statistics.pop(key), 0) for key in ("token_weight", "token_norm")}
    return {
        **{key: np.stack(values) for key, values in statistics.items()},
        **of_tokens,
        "category": kinds,
        "token": token_input(case.recording, request.site)[1][0, :count].cpu().numpy(),
        "sources": np.array([visible[:, kinds == kind].sum() for kind in range(len(CATEGORIES))]),
        "pairs": sampled_pairs.pairs,
        "priority": sampled_pairs.priority,
        "threshold": sampled_pairs.threshold,
    }


def _request(recording: Recording, site: str | None) -> Request:
    request = Request.resolved(recording, site=site, layers=None, targets=None, per_head=True)
    if request.kind != AttentionKind.SELF:
        raise InvalidInput(
            "Norm statistics need self-attention. Choose the encoder or the decoder."
        )
    if len({layer.structure.sites[0].heads for layer in recording.layers(request.site)}) > 1:
        raise UnsupportedModel(
            "The layers of this model differ in their number of heads, so norm statistics "
            "cannot be tabulated. Choose layers with the same number."
        )
    return request


def _moments(values: np.ndarray) -> np.ndarray:
    count = np.full(values.shape[:-1], values.shape[-1], np.float64)
    return np.stack(
        [count, values.sum(-1), (values**2).sum(-1), values.max(-1), values.min(-1)], -1
    )


def conclude(
    observations: Sequence[dict[str, Any]],
    *,
    ranks: Mapping[int, int] | None = None,
    most: int = 20_000,
    seed: int = 0,
) -> Result:
    """Return the coefficient of variation of |f(x)|, averaged over heads.

    The value of a text is the coefficient of variation within that text. `ranks` maps token ids to
    frequency ranks, which are by default counted over these texts. `most` is the number of pairs of
    each category in the sample.

    `details` has the following results:

    * `f` and `x`: dicts of `mean`, `std`, `cv`, `max` and `min`, [layer, head] and [layer];
    * `categories`: the names of the categories;
    * `category_weight` and `category_norm` [layer, head, category]: see figure 3 (0 for a category
      that does not occur);
    * `category_weight_per_pair` and `category_norm_per_pair`: the mean over target-source pairs of
      the category (NaN if there are none);
    * `correlation`: for each category, Spearman's rho between weight and |f(x)|;
    * `pairs`: the sample behind this correlation, as a dict of the arrays `category`, `layer`,
      `head`, `weight` and `norm`;
    * `frequency`: see `frequencies`.
    """
    if not len(observations):
        return Result.of(SPEC, [])
    moments = np.stack([observation["f"] for observation in observations])
    flat = moments[..., :3].reshape(len(moments), -1, 3)
    cv = _statistics(moments)["cv"]
    pairs = join_pairs(observations, most)
    details = {
        "f": _statistics(moments),
        "x": _statistics(np.stack([observation["x"] for observation in observations])),
        "categories": CATEGORIES,
        **_by_category(observations),
        "pairs": pairs,
        "frequency": frequencies(observations, ranks),
        "correlation": {
            name: spearman(
                pairs["weight"][pairs["category"] == kind], pairs["norm"][pairs["category"] == kind]
            )
            for kind, name in enumerate(CATEGORIES)
        },
    }
    return Result.of(
        SPEC,
        [float(_statistics(head_moments[None])["cv"].mean()) for head_moments in moments],
        value=float(cv.mean()),
        details=details,
        interval=interval_of(
            flat, lambda resamples: _variation(resamples.sum(1)).mean(-1), seed=seed
        ),
    )


def _statistics(moments: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean, standard deviation, coefficient of variation, maximum and minimum of norms, from
    their moments [text, ..., 5].
    """
    sums = moments[..., :3].sum(0)
    mean = sums[..., 1] / sums[..., 0]
    cv = _variation(sums)
    return {
        "mean": mean,
        "std": cv * mean,
        "cv": cv,
        "max": moments[..., 3].max(0),
        "min": moments[..., 4].min(0),
    }


def _variation(sums: np.ndarray) -> np.ndarray:
    """Return the coefficient of variation from the count, the sum and the sum of squares.

    It is NaN if all norms are zero.
    """
    mean = np.where(sums[..., 1] > 0, sums[..., 1] / sums[..., 0], np.nan)
    variation: np.ndarray = np.sqrt(np.clip(sums[..., 2] / sums[..., 0] - mean**2, 0, None)) / mean
    return variation


def _by_category(observations: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    sources = np.array([observation["sources"] for observation in observations], np.float64)
    targets = np.array([len(observation["token"]) for observation in observations], np.float64)
    means = {}
    for key, name in (("weights", "category_weight"), ("norms", "category_norm")):
        totals = np.stack([observation[key] for observation in observations])
        means[name] = totals.mean(0)
        pairs = sources.sum(0)
        means[f"{name}_per_pair"] = np.einsum("t,tlhc->lhc", targets, totals) / np.where(
            pairs > 0, pairs, np.nan
        )
    return means


def frequencies(
    observations: Sequence[dict[str, Any]], ranks: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """Return how the frequency rank of a token correlates with its weight and its norm.

    `weight` and `norm` are Spearman's rho over all occurrences of tokens. `other_weight` and
    `other_norm` use only tokens of the category "other". The arrays `rank`, `token`, `category`,
    `token_weight` and `token_norm` list these occurrences.
    """
    columns = {
        key: np.concatenate([observation[key] for observation in observations])
        for key in ("token", "category", "token_weight", "token_norm")
    }
    if ranks is None:
        tokens, counts = np.unique(columns["token"], return_counts=True)
        # Equally frequent tokens share a rank.
        higher = [int((counts > count).sum()) + 1 for count in counts]
        ranks = dict(zip(tokens.tolist(), higher, strict=True))
    last = max(ranks.values(), default=0) + 1
    rank = np.array([ranks.get(int(token), last) for token in columns["token"]])
    correlations: dict[str, Any] = {"rank": rank, **columns}
    other = columns["category"] == CATEGORIES.index("other")
    for name in ("weight", "norm"):
        correlations[name] = spearman(rank, columns[f"token_{name}"])
        correlations[f"other_{name}"] = spearman(rank[other], columns[f"token_{name}"][other])
    return correlations


def singular_values(recording: Recording) -> np.ndarray:
    """Return the singular values [layer, head, d_head] of the affine map from x to f(x).

    The bias is an additional row of the matrix (Kobayashi et al. 2020, figure 9).
    """
    request = _request(recording, None)
    with torch.no_grad():
        return np.stack(
            [
                singular_values_of(layer, parts).cpu().numpy()
                for layer, parts in request.sites(recording)
            ]
        )


def evaluate(
    cases: Iterable[Case],
    *,
    ranks: Mapping[int, int] | None = None,
    site: str | None = None,
    sample: int = 1000,
    most: int = 20_000,
    seed: int = 0,
) -> Result:
    """Evaluate all cases. `sample` is the maximum number of pairs to sample per category and
    text.
    """
    return conclude(
        [observe(case, site=site, sample=sample, seed=seed) for case in cases],
        ranks=ranks,
        most=most,
        seed=seed,
    )


def read_by(layer: Layer, site: Attention) -> Tensor:
    """Return the input of a layer's self-attention, [batch, target, d_model]: the residual stream,
    after the input norm if there is one.
    """
    path = site.structure.input_norm
    norm = None if path is None else norm_of(layer.module.get_submodule(path), layer.input)
    return layer.input if norm is None else norm(layer.input)


def singular_values_of(layer: Layer, site: Attention) -> Tensor:
    """Return the d_head largest singular values [head, d_head] of x -> f(x) = (x W_V + b_V) W_O, in
    descending order.

    The matrix of this affine map has d_model + 1 rows, the last one for the bias. All other
    singular values are zero.
    """
    triangle = torch.linalg.qr(site.output_weight.double().transpose(1, 2), mode="r")[
        1
    ]  # W_O = R^T Q^T: Q is orthogonal and keeps lengths
    values: Tensor = torch.linalg.svdvals(
        _affine_values(layer, site).double() @ triangle.transpose(1, 2)
    )
    return values


def _affine_values(layer: Layer, site: Attention) -> Tensor:
    """Return the value projection of each head, [head, d_model + 1, d_head], with its bias as the
    last row.
    """
    block_input, values = read_by(layer, site)[0], site.values[0]
    try:
        weight, bias = value_map(layer, site)
    except UnsupportedModel:
        pass
    else:
        if (
            weight.shape[1] == block_input.shape[-1]
        ):  # otherwise it is a later one of several modules
            bar = rounding(values, layer.native_input.dtype)
            if difference(block_input @ weight + bias[:, None], values) <= bar:
                return torch.cat([weight, bias[:, None]], 1)
    raise UnsupportedModel(
        f"layer {layer.index} of {layer.stack.name}: no affine module computes the value "
        "vectors from the input of attention (the model may compute them in several steps), so "
        "singular values are not available. Choose another evaluation."
    )
