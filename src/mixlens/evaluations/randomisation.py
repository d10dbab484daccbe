"""Randomisation: does a measure notice when what the model has learnt is gone?

Adebayo et al. (2018), "Sanity Checks for Saliency Maps", section 3: weights are drawn anew, and the
measure's row for the target is compared with the one before by Spearman's rank correlation rho (of
sizes of scores, over all sources but the target). A measure whose row stays the same is blind to
the weights: it shows the text or the architecture (positions, a causal mask), not the model.

What is judged is |rho|, text by text: a row turned upside down shows the old one as well as an
equal row does, and a rho somewhat below zero is chance, no better than one as far above. So no
measure gets 0: of two unrelated rows of n sources, |rho| is about sqrt(2 / (pi (n - 1))) on
average, .27 for n = 10. Signed rhos, which the paper plots, are next to it.

* `mode="cascading"`: layers from the last one down to the first, then everything else (embeddings,
  head). The value is that of the fully random model; `curve=True` adds every step before it. The
  paper begins with the head; in most measures the head has no part.
* `mode="independent"`: one layer at a time. The value is the mean over the layers.

Every weight is drawn from a normal distribution with its tensor's own mean and standard deviation,
norms and biases too, with a seed; the paper takes the network's own initialisation. One draw serves
all texts, so that the interval speaks of texts, not of draws. Output measures still explain the
word or class that the trained model was asked for. The model itself is never touched: random models
are copies that share every weight that is not drawn anew. If layers share their weights
(ALBERT), the first step draws them all.
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
from mixlens.evaluating.sources import counted, rank_agreement
from mixlens.evaluating.statistics import known_mean
from mixlens.lens import Lens
from mixlens.measures import list_measures
from mixlens.replay.explained_output import explained, logits_of

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case
    from mixlens.structure.model_structure import ModelStructure

MODES = ("cascading", "independent")

SPEC = EvaluationSpec(
    summary=(
        "size of the rank correlation of a measure's row with that of the same model after its"
        " weights were drawn at random"
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


def drawn_anew(name: str, parameter: torch.Tensor, seed: int) -> torch.Tensor:
    """Numbers of the same mean and standard deviation: the same for the same name and seed, on
    every machine.
    """
    key = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") >> 1
    wide = parameter.detach().double()
    noise = torch.randn(
        parameter.shape, generator=torch.Generator().manual_seed(key), dtype=torch.float64
    ).to(wide.device)
    return (wide.mean() + wide.std(correction=0) * noise).to(parameter.dtype)


def randomised(
    model: nn.Module,
    names: frozenset[str],
    seed: int = 0,
    drawn: dict[str, nn.Parameter] | None = None,
) -> nn.Module:
    """A copy whose named parameters are drawn anew and whose other parameters and buffers are those
    of the model.

    A parameter that goes by two names (tied embeddings) is drawn where its first name is among
    them. `drawn` remembers what was drawn.
    """
    drawn = {} if drawn is None else drawn
    kept: dict[int, Any] = {
        id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())
    }
    for name, parameter in model.named_parameters():
        if name in names and parameter.is_floating_point():
            if name not in drawn:
                drawn[name] = nn.Parameter(
                    drawn_anew(name, parameter, seed), requires_grad=parameter.requires_grad
                )
            kept[id(parameter)] = drawn[name]
    return copy.deepcopy(model, kept)


class _Drawn:
    """The random models of one lens and seed; each weight is drawn once, however many models hold
    it.
    """

    def __init__(self, state: object) -> None:
        self.state = state
        self.weights: dict[str, nn.Parameter] = {}
        self.lenses: dict[frozenset[str], Lens] = {}


def random_lens(lens: Lens, names: frozenset[str], seed: int) -> Lens:
    """A lens on the random model, remembered until the seed or a weight of the true one changes."""
    state = (
        seed,
        tuple((parameter._version, parameter.data_ptr()) for parameter in lens.model.parameters()),
    )
    drawn = _LENSES.get(lens)
    if drawn is None or drawn.state != state:
        drawn = _LENSES[lens] = _Drawn(state)
    if names not in drawn.lenses:
        model = randomised(lens.model, names, seed, drawn.weights)
        drawn.lenses[names] = Lens(model, lens.tokenizer, memory_budget=lens.memory_budget)
    return drawn.lenses[names]


def steps(
    model: nn.Module, structure: ModelStructure, mode: str = "cascading"
) -> list[tuple[str, frozenset[str]]]:
    """What is random at each step: a name, and the parameters."""
    if mode not in MODES:
        raise InvalidInput(f"there is no mode {mode!r}; choose one of: {', '.join(MODES)}")
    everything = frozenset(name for name, _ in model.named_parameters())
    stages: list[tuple[str, frozenset[str]]] = []
    gone: frozenset[str] = frozenset()
    for stack, index in reversed(structure.calls):
        own = frozenset(
            name for name in everything if name.startswith(stack.layers[index].path + ".")
        )
        gone = gone | own
        stages.append((f"{stack.name} {index}", gone if mode == "cascading" else own))
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
    """`value`: |rho|; `curve`: the same at each step, `signed`: rho at each step, `steps`: their
    names.
    """
    plan = steps(case.lens.model, case.recording.structure, mode)
    plan = plan if curve or mode == "independent" else plan[-1:]
    specs = list_measures()
    named = asked(case) if measure in specs and specs[measure].explains_output else {}
    before = case.target_row(measure, aggregate, **named)
    counting = counted(case, special_tokens=True, own=False)
    correlations = []
    for _, names in plan:
        after = case.under(random_lens(case.lens, names, seed)).target_row(
            measure, aggregate, **named
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


def asked(case: Case) -> dict[str, Any]:
    """Options that name the output which the trained model was asked for, or predicts."""
    if case.explain:
        return dict(case.explain)
    output = explained(case.recording, of="logit")
    kind = "label" if logits_of(case.recording.output).dim() == 2 else "word"
    place = {} if output.positions is None else {"position": int(output.positions[0])}
    return {kind: int(output.chosen[0]), **place}


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """The mean of |rho|; `details["curve"]` and `details["signed"]` are the means of |rho| and of
    rho at each of `details["steps"]`.
    """
    details: dict[str, Any] = {}
    if len(observations):
        curves = {
            key: known_mean([seen[key] for seen in observations]) for key in ("curve", "signed")
        }
        details = {"steps": observations[0]["steps"], **curves}
    return Result.of(SPEC, [seen["value"] for seen in observations], details=details)


def evaluate(
    cases: Iterable[Case],
    measure: str,
    *,
    mode: str = "cascading",
    curve: bool = False,
    aggregate: str | int = "rollout",
    seed: int = 0,
) -> Result:
    """The mean over cases of |rho| for the fully random model (or of the layers);
    `details["curve"]` holds the steps that were taken.
    """
    return conclude(
        [
            observe(case, measure, mode=mode, curve=curve, aggregate=aggregate, seed=seed)
            for case in cases
        ]
    )
