"""Probing: how well does the hidden state of the target encode its label (such as singular or
plural), layer by layer?

Mohebbi et al. (2023), section 6, after Voita & Titov (2020): the minimum description length of the
labels, under an online code with a linear probe. `online_code` describes the code and how it
differs from the paper. Compression is 1.0 if the states carry no information about the labels, for
any number of examples. `variant="mohebbi2023"` reproduces the released code, whose compression
starts at 1.44; see `released_costs` in `online_code`.

This evaluates the model. `agreement_with` evaluates a measure: in the layers where a probe can read
the label from the target, the measure should show that the cue has been mixed into it (table 2 of
the paper).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.online_code import (
    RELEASED_FRACTIONS,
    bits,
    block_ends,
    blockwise,
    label_bits,
    logistic,
    mixed_bits,
    released_costs,
    released_fit,
)
from mixlens.evaluating.states import hidden_states, shuffle_order
from mixlens.evaluating.statistics import interval_of, spearman, spearman_rows

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

VARIANTS = ("paper", "mohebbi2023")

SPEC = EvaluationSpec(
    summary="how much the hidden state of the target compresses the label, by an online code",
    citation=(
        'Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", section 6; Voita &'
        " Titov (2020)"
    ),
    direction="higher",
    kinds=("agreement", "classification"),
    of="model",
    chance=1.0,
    through="cue_alignment",
    through_summary=(
        "rank correlation over layers of a measure's cue alignment and the probe's compression"
    ),
    cost="1 forward pass; then some 40 small logistic regressions for each layer",
    reports={
        "layers": Detail("compression", "state"),
        "bits": Detail("bits of the code", "state"),
        "uniform_bits": Detail("bits of a uniform code"),
        "labels_only": Detail("compression by label frequencies only"),
    },
)


def observe(case: Case, *, of: str = "target") -> dict[str, np.ndarray]:
    """Return the `label` of an example and the `states` [layer + 1, d_model] of the target.

    With `of="cue"`, the states are the mean over the tokens of the cue.
    """
    label = getattr(case.example, "label", None)
    if label is None:
        raise InvalidInput("The example has no label for a probe. Use data with labels.")
    if of not in ("target", "cue"):
        raise InvalidInput(f"Unknown of={of!r}. Choose target or cue.")
    places = (
        [case.target] if of == "target" else [token for tokens in case.cues for token in tokens]
    )
    site = case.recording.structure.stacks[-1].name
    return {"states": hidden_states(case, site)[:, places].mean(1), "label": np.array(str(label))}


def conclude(
    observations: Sequence[dict[str, Any]], *, variant: str = "paper", seed: int = 0
) -> Result:
    """Return the mean compression over the layers.

    The value of one example is the number of bits saved, compared with the log2(classes) bits of a
    uniform code.

    `details` has the following results:

    * `layers` [layer + 1]: compression (entry 0 is the input of the first layer);
    * `bits` [layer + 1]: code lengths (the variant adds bits and nats, as the released code does);
    * `uniform_bits`: the length of a uniform code;
    * `blocks`: where each block ends, in examples;
    * `classes` and `counts`: the classes and the number of examples of each;
    * `labels_only`: the compression of a code that counts labels and uses no state (above 1 if the
      classes are unbalanced);
    * `variant`: the variant that was used.
    """
    if variant not in VARIANTS:
        raise InvalidInput(f"Unknown variant {variant!r}. Choose one of: {', '.join(VARIANTS)}.")
    names, labels = np.unique(
        [str(observation["label"]) for observation in observations], return_inverse=True
    )
    if len(names) < 2:
        raise InvalidInput(
            f"All examples have the label {names[0]}. A probe needs at least two labels."
            if len(names)
            else "No example has a label. A probe needs at least two labels."
        )
    order = shuffle_order(
        [
            str(observation["label"]).encode()
            + np.ascontiguousarray(observation["states"]).tobytes()
            for observation in observations
        ],
        seed,
    )
    states, sent = (
        np.stack([observations[i]["states"] for i in order]).astype(np.float64),
        labels[order],
    )
    ends = (
        block_ends(len(sent)) if variant == "paper" else block_ends(len(sent), RELEASED_FRACTIONS)
    )
    costs = np.stack(
        [
            _costs(states[:, layer], sent, len(names), ends, variant, seed)
            for layer in range(states.shape[1])
        ],
        1,
    )
    uniform = math.log2(len(names))
    per_example = np.empty(len(order))
    per_example[order] = uniform - costs[:, 1:].mean(1)
    layers = uniform / costs.mean(0)
    return Result.of(
        SPEC if variant == "paper" else replace(SPEC, chance=uniform / math.log(len(names))),
        per_example,
        value=float(layers[1:].mean()),
        interval=interval_of(
            costs[:, 1:], lambda resamples: (uniform / resamples.mean(1)).mean(1), seed=seed
        ),
        details={
            "layers": layers,
            "bits": costs.sum(0),
            "uniform_bits": uniform * len(sent),
            "blocks": ends,
            "classes": names.tolist(),
            "counts": np.bincount(labels),
            "labels_only": uniform * len(sent) / label_bits(sent, len(names)),
            "variant": variant,
        },
    )


def _costs(
    states: np.ndarray,
    labels: np.ndarray,
    classes: int,
    ends: tuple[int, ...],
    variant: str,
    seed: int,
) -> np.ndarray:
    """Return the code length of each label [example], given the states of one layer."""
    if variant == "mohebbi2023":
        return released_costs(
            blockwise(states, labels, classes, ends, partial(released_fit, seed=seed))[0],
            labels,
            ends[0],
        )
    online_bits = bits(blockwise(states, labels, classes, ends, logistic), labels)
    return mixed_bits(np.concatenate([online_bits, np.full((1, len(labels)), math.log2(classes))]))


def evaluate(
    cases: Iterable[Case], *, of: str = "target", variant: str = "paper", seed: int = 0
) -> Result:
    """Evaluate all cases. With `of="cue"`, the probe reads the state of the cue instead of the
    target.
    """
    return conclude([observe(case, of=of) for case in cases], variant=variant, seed=seed)


def conclude_through(result: Result, observations: Sequence[dict[str, Any]]) -> Result | None:
    """Return how well a measure's layers agree with the probe (Mohebbi et al. 2023, table 2).

    The result is None if the measure does not have values for each layer.
    """
    compression = np.asarray(result.details["layers"], np.float64)
    layers = [observation["layers"] for observation in observations]
    if not layers or len(layers[0]) not in (len(compression), len(compression) - 1):
        return None
    each = np.array(layers, np.float64)
    of_layers = compression[len(compression) - each.shape[1] :]
    interval = interval_of(each, lambda resamples: spearman_rows(of_layers, resamples.mean(1)))
    value = agreement_with(compression, each.mean(0))
    return Result(value, np.empty(0), interval, "higher", 0.0)


def agreement_with(
    layers_of_compression: Sequence[float] | np.ndarray,
    layers_of_cue_alignment: Sequence[float] | np.ndarray,
) -> float:
    """Return Spearman's correlation, across layers, between compression and a measure's cue
    alignment.

    See Mohebbi et al. (2023), table 2. If compression has one entry more than cue alignment, its
    first entry (the input of the first layer) is ignored.
    """
    compression, alignment = (
        np.asarray(side, np.float64) for side in (layers_of_compression, layers_of_cue_alignment)
    )
    if len(compression) == len(alignment) + 1:
        compression = compression[1:]
    if len(compression) != len(alignment):
        raise InvalidInput(
            f"{len(compression)} layers of compression do not match {len(alignment)} layers "
            "of cue alignment. Pass the same layers."
        )
    return spearman(compression, alignment)
