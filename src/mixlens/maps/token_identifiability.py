"""Identify an input token from a hidden state.

Probes map hidden states back to input embeddings, and a nearest-neighbour test scores them.

Brunner et al. 2020, On Identifiability in Transformers, section 4 and appendix B.1. A token is
identified if the probe's output is nearer to the token's own input embedding than to the embedding
of any other token in the same sentence. Equal input embeddings (of a repeated word, in a model that
adds positions later) count as one.

The probes of the paper are `naive` (the hidden state itself), `linear` (without a bias) and `mlp`
(one hidden layer of 1,000 units with GELU). The last two are trained as in the paper: with Adam at
a learning rate of 1e-4, batches of 256 and Glorot uniform initialisation, until the loss on
held-out sentences has not decreased for 20 epochs. `ridge` is not in the paper. It is linear least
squares in closed form, with a regularisation chosen on the held-out sentences. The loss is the
cosine distance or the squared Euclidean distance. `ridge` always minimises the squared distance,
and uses the metric only to choose the regularisation and to find nearest neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mixlens.errors import InvalidInput

PROBES = ("naive", "linear", "mlp", "ridge")
METRICS = ("cosine", "l2")
_STRENGTHS = (1e-6, 1e-4, 1e-2, 1e-1, 1.0)

Probe = Callable[[Float[np.ndarray, "token d_model"]], Float[np.ndarray, "token d_input"]]
"""A function from hidden states to input embeddings."""


@dataclass(frozen=True, kw_only=True)
class ProbeTraining:
    """Training settings of probes. The defaults are the values of the paper."""

    rate: float = 1e-4
    batch: int = 256
    patience: int = 20
    most_passes: int = 5000
    hidden: int = 1000
    device: str = "cpu"
    seed: int = 0


@dataclass(frozen=True)
class Pairs:
    """Hidden states, and the input embeddings that a probe should predict from them."""

    states: Float[np.ndarray, "token d_model"]
    inputs: Float[np.ndarray, "token d_input"]


def match_nearest(
    answers: Float[np.ndarray, "token d_input"],
    candidates: Float[np.ndarray, "candidate d_input"],
    own_tokens: Int[np.ndarray, " token"],
    metric: str = "cosine",
) -> Bool[np.ndarray, " token"]:
    """Return, for each output of a probe, whether the nearest candidate is the right one.

    `own_tokens` contains the index of the right candidate for each output.
    """
    _require(metric, METRICS, "metric")
    answers, candidates = answers.astype(np.float64), candidates.astype(np.float64)
    if metric == "cosine":
        nearness = answers @ _unit(candidates).T  # the norm of the output does not change the order
    else:
        nearness = 2 * answers @ candidates.T - (candidates**2).sum(-1)
    nearest = nearness.argmax(-1)
    right: np.ndarray = (nearest == own_tokens) | (
        candidates[nearest] == candidates[own_tokens]
    ).all(-1)
    return right


def fit_probe(
    probe: str,
    train: Pairs,
    validation: Pairs,
    metric: str = "cosine",
    training: ProbeTraining | None = None,
) -> tuple[Probe, int]:
    """Return a probe trained on `train`, and the number of epochs.

    `validation` contains the held-out sentences, which are used for early stopping or to choose the
    regularisation.
    """
    _require(probe, PROBES, "probe")
    _require(metric, METRICS, "metric")
    if probe == "naive":
        return (lambda states: states), 0
    if probe == "ridge":
        return _ridge(train, validation, metric), 0
    return _train_probe(probe, train, validation, metric, training or ProbeTraining())


def _require(value: str, choices: tuple[str, ...], what: str) -> None:
    if value not in choices:
        raise InvalidInput(f"Unknown {what} {value!r}. Choose one of: {', '.join(choices)}.")


def _unit(vectors: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: np.ndarray = vectors / np.where(sizes > 0, sizes, 1)
    return unit


def _ridge(train: Pairs, validation: Pairs, metric: str) -> Probe:
    states = train.states.astype(np.float64)
    values, basis = np.linalg.eigh(states.T @ states)
    rotated_inputs = basis.T @ (states.T @ train.inputs.astype(np.float64))
    scale = max(float(values.mean()), np.finfo(np.float64).tiny)
    maps = [
        basis @ (rotated_inputs / (values.clip(0) + strength * scale)[:, None])
        for strength in _STRENGTHS
    ]
    expected = torch.from_numpy(validation.inputs.astype(np.float64))
    losses = [
        float(_loss(torch.from_numpy(validation.states.astype(np.float64) @ one), expected, metric))
        for one in maps
    ]
    best = maps[int(np.argmin(losses))]
    return lambda states: states.astype(np.float64) @ best


def _loss(answers: Tensor, expected: Tensor, metric: str) -> Tensor:
    if metric == "cosine":
        return 1 - nn.functional.cosine_similarity(answers, expected, dim=-1).mean()
    return (answers - expected).square().sum(-1).mean()


def _network(probe: str, d_in: int, d_out: int, hidden: int) -> nn.Module:
    if probe == "linear":
        network: nn.Module = nn.Linear(d_in, d_out, bias=False)
    else:
        network = nn.Sequential(nn.Linear(d_in, hidden), nn.GELU(), nn.Linear(hidden, d_out))
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    return network


def _train_probe(
    probe: str, train: Pairs, validation: Pairs, metric: str, training: ProbeTraining
) -> tuple[Probe, int]:
    device = torch.device(training.device)
    states, inputs, other_states, other_inputs = (
        torch.tensor(array, dtype=torch.float32, device=device)
        for array in (train.states, train.inputs, validation.states, validation.inputs)
    )
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(training.seed)
        network = _network(probe, states.shape[1], inputs.shape[1], training.hidden).to(device)
        optimiser = torch.optim.Adam(network.parameters(), lr=training.rate)
        best, least, waited, passes = copy.deepcopy(network.state_dict()), float("inf"), 0, 0
        while waited < training.patience and passes < training.most_passes:
            for batch in torch.split(torch.randperm(len(states)).to(device), training.batch):
                loss = _loss(network(states[batch]), inputs[batch], metric)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            with torch.no_grad():
                new_loss = float(_loss(network(other_states), other_inputs, metric))
            passes, waited = passes + 1, waited + 1
            if new_loss < least:
                best, least, waited = copy.deepcopy(network.state_dict()), new_loss, 0
    network.load_state_dict(best)
    network.requires_grad_(False)

    def answer(test_states: np.ndarray) -> np.ndarray:
        numbers: np.ndarray = (
            network(torch.tensor(test_states, dtype=torch.float32, device=device)).cpu().numpy()
        )
        return numbers

    return answer, passes
