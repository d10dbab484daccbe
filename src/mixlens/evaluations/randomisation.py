"""Randomisation: do a measure's scores change when the model's weights are randomised?

Adebayo et al. (2018), "Sanity Checks for Saliency Maps", section 3: weights are randomised, and the
measure's scores for the target are compared with those of the trained model by Spearman's rank
correlation rho (of absolute scores, over all sources but the target). A measure whose scores stay
the same does not depend on the weights. It reflects the text or the architecture (positions, a
causal mask), not the model.

The value is |rho| of each text, because inverted scores depend on the original scores just as much.
A slightly negative rho is due to chance. Even unrelated scores do not give 0: for n sources, |rho|
is about sqrt(2 / (pi (n - 1))) on average, .27 for n = 10. `signed` holds rho itself, which the
paper plots.

* `mode="cascading"`: the layers are randomised one after another from the last to the first, then
  everything else (embeddings, head). The value is that of the fully random model. `curve=True` adds
  all intermediate steps. The paper begins with the head, which has no effect on most measures.
* `mode="independent"`: one layer at a time is randomised. The value is the mean over the layers.

Every weight, including norms and biases, is drawn with a fixed seed from a normal distribution with
the mean and standard deviation of its tensor. The paper uses the network's own initialisation. All
texts share one random model, so the interval describes the variation between texts, not between
seeds. Output measures still explain the word or class that the trained model predicts. The model
itself is never changed: random models are copies that share all other weights. If layers share
their weights (ALBERT), the first step randomises them all.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.sources import rank_agreement, select_sources
from mixlens.evaluating.statistics import nan_mean
from mixlens.lens import Lens
from mixlens.measures import ready_measures
from mixlens.replay.explained_output import logits_of, select_explained

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.structure.model_structure import ModelStructure

MODES = ("cascading", "independent")

SPEC = EvaluationSpec(
    summary=(
        "absolute rank correlation of a measure's scores with those of the same model with "
        "random weights"
    ),
    citation='Adebayo et al. (2018), "Sanity Checks for Saliency Maps", section 3',
    direction="lower",
    kinds=("agreement", "classification"),
    cost=(
        "the measure once more for each random model (one; with `curve`, or independently, one for"
        " each layer)"
    ),
)

_LENSES: WeakKeyDictionary[Lens, _Drawn] = WeakKeyDictionary()


def draw_anew(name: str, parameter: torch.Tensor, seed: int) -> torch.Tensor:
    """Return a random tensor with the mean and standard deviation of `parameter`.

    The random numbers depend only on the name and the seed.
    """
    key = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") >> 1
    wide = parameter.detach().double()
    noise = torch.randn(
        parameter.shape, generator=torch.Generator().manual_seed(key), dtype=torch.float64
    ).to(wide.device)
    return (wide.mean() + wide.std(correction=0) * noise).to(parameter.dtype)


def randomise_parameters(
    model: nn.Module,
    names: frozenset[str],
    seed: int = 0,
    random_values: dict[str, nn.Parameter] | None = None,
) -> nn.Module:
    """Return a copy of the model with the named parameters randomised. The copy shares all other
    parameters and buffers with the model. A parameter with two names (tied embeddings) is
    randomised if its first name is in `names`. `random_values` caches random weights.
    """
    random_values = {} if random_values is None else random_values
    replacements: dict[int, Any] = {
        id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())
    }
    for name, parameter in model.named_parameters():
        if name in names and parameter.is_floating_point():
            if name not in random_values:
                random_values[name] = nn.Parameter(
                    draw_anew(name, parameter, seed), requires_grad=parameter.requires_grad
                )
            replacements[id(parameter)] = random_values[name]
    return copy.deepcopy(model, replacements)


class _Drawn:
    """The randomised models of one lens and seed. Each random weight is drawn once and shared by
    all models.
    """

    def __init__(self, state: object) -> None:
        self.state = state
        self.weights: dict[str, nn.Parameter] = {}
        self.lenses: dict[frozenset[str], Lens] = {}


def random_lens(lens: Lens, names: frozenset[str], seed: int) -> Lens:
    """Return a lens on the model with the named parameters randomised.

    The lens is cached until the seed or a weight of the trained model changes.
    """
    state = (
        seed,
        tuple((parameter._version, parameter.data_ptr()) for parameter in lens.model.parameters()),
    )
    cache = _LENSES.get(lens)
    if cache is None or cache.state != state:
        cache = _LENSES[lens] = _Drawn(state)
    if names not in cache.lenses:
        model = randomise_parameters(lens.model, names, seed, cache.weights)
        cache.lenses[names] = Lens(model, lens.tokenizer, memory_budget=lens.memory_budget)
    return cache.lenses[names]


def steps(
    model: nn.Module, structure: ModelStructure, mode: str = "cascading"
) -> list[tuple[str, frozenset[str]]]:
    """Return the name of each randomisation step, with the names of the parameters that are random
    in this step.
    """
    if mode not in MODES:
        raise InvalidInput(f"Unknown mode {mode!r}. Choose one of: {', '.join(MODES)}.")
    everything = frozenset(name for name, _ in model.named_parameters())
    stages: list[tuple[str, frozenset[str]]] = []
    randomised: frozenset[str] = frozenset()
    for stack, index in reversed(structure.calls):
        stage_names = frozenset(
            name for name in everything if name.startswith(stack.layers[index].path + ".")
        )
        randomised = randomised | stage_names
        stages.append((f"{stack.name} {index}", randomised if mode == "cascading" else stage_names))
    return [*stages, ("everything", everything)] if mode == "cascading" else stages


def observe(
    case: Case,
    measure: str,
    *,
    mode: str = "cascading",
    curve: bool = False,
    aggregate: str | int = "rollout",
    seed: int = 0,
) -> dict[str, Any]:
    """Return `value` (|rho|), `curve` (|rho| at each step), `signed` (rho at each step) and `steps`
    (the names of the steps).
    """
    plan = steps(case.lens.model, case.recording.structure, mode)
    plan = plan if curve or mode == "independent" else plan[-1:]
    specs = ready_measures()
    output_options = (
        select_output(case) if measure in specs and specs[measure].explains_output else {}
    )
    before = case.target_row(measure, aggregate, **output_options)
    counting = select_sources(case, special_tokens=True, include_target=False)
    correlations = []
    for _, names in plan:
        after = case.under(random_lens(case.lens, names, seed)).target_row(
            measure, aggregate, **output_options
        )
        correlations.append(rank_agreement(before, after, counting))
    sizes = [abs(rho) for rho in correlations]
    value = sizes[-1] if mode == "cascading" else float(np.mean(sizes))
    return {
        "value": value,
        "curve": sizes,
        "signed": correlations,
        "steps": [name for name, _ in plan],
    }


def select_output(case: Case) -> dict[str, Any]:
    """Return options that select the output to explain in all models.

    The output is that of the example or, if the example has none, the prediction of the trained
    model.
    """
    if case.explain:
        return dict(case.explain)
    output = select_explained(case.recording, of="logit")
    kind = "label" if logits_of(case.recording.output).dim() == 2 else "word"
    place = {} if output.positions is None else {"position": int(output.positions[0])}
    return {kind: int(output.chosen[0]), **place}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the mean of |rho|. `details["curve"]` and `details["signed"]` are the means of |rho|
    and of rho at each of `details["steps"]`.
    """
    details: dict[str, Any] = {}
    if len(observations):
        curves = {
            key: nan_mean([observation[key] for observation in observations])
            for key in ("curve", "signed")
        }
        details = {"steps": observations[0]["steps"], **curves}
    return Result.of(SPEC, [observation["value"] for observation in observations], details=details)


def evaluate(
    cases: Iterable[Case],
    measure: str,
    *,
    mode: str = "cascading",
    curve: bool = False,
    aggregate: str | int = "rollout",
    seed: int = 0,
) -> Result:
    """Return the mean of |rho| over cases, for the fully random model or, in the mode
    "independent", averaged over the layers.

    `details["curve"]` holds the value of each step.
    """
    return conclude(
        [
            observe(case, measure, mode=mode, curve=curve, aggregate=aggregate, seed=seed)
            for case in cases
        ]
    )
