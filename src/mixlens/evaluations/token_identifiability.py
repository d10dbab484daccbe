"""Token identifiability: how often can the input token be identified from the hidden states of each
layer?

Brunner et al. (2020), section 4 and appendix B. `mixlens.maps.token_identifiability` implements the
probes and the nearest-neighbour test. The default is the fast `ridge` probe, which has a closed
form and is not in the paper. Some options compute more than the rate of each layer:

* `across`: each probe is trained on one layer and tested on all layers (figures 2b, 8-10);
* `offset=k`: identify the token k positions to the right (figures 14-17);
* `single`: identify the input of each layer from the output of the same layer (figures 11-13).

The data are split by sentence, not by token. With `folds=1`, 70 % of the sentences are used for
training, 15 % for validation and 15 % for testing. With more folds, every sentence is tested once,
and 15/85 of the remaining sentences are used for validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput, format_count
from mixlens.evaluating.contracts import Detail, EvaluationSpec, Result
from mixlens.evaluating.states import hidden_states, shuffle_order
from mixlens.evaluating.statistics import interval_of
from mixlens.maps.token_identifiability import Pairs, Probe, ProbeTraining, fit_probe, match_nearest

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SPEC = EvaluationSpec(
    summary="share of tokens whose input can be identified from their last hidden state",
    citation=(
        'Brunner et al. (2020), "On Identifiability in Transformers", section 4 and appendix B'
    ),
    direction="neither",
    kinds=("text", "agreement", "classification", "tagged"),
    of="model",
    cost="1 forward pass; then a probe for each layer and fold",
    reports={
        "layers": Detail("fraction of identified tokens", "state"),
        "chance": Detail("by chance"),
        "tokens": Detail("tokens"),
        "probe": Detail("probe"),
        "metric": Detail("metric"),
    },
)

Split = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Indices of the sentences for training, validation and test."""


def observe(
    case: Case, *, site: str | None = None, layers: Sequence[int] | None = None
) -> dict[str, np.ndarray]:
    """Return the hidden `states` [layer + 1, token, d_model], where layer 0 is the input.

    `layers` selects some layers (layer 0 is always included), and `layer` lists their numbers.
    """
    layer_numbers = None if layers is None else sorted({0, *layers})
    states = hidden_states(case, site, layer_numbers)
    return {
        "states": states,
        "layer": np.arange(len(states)) if layer_numbers is None else np.array(layer_numbers),
    }


def splits(count: int, folds: int = 1, share: float = 1.0) -> list[Split]:
    """Split `count` shuffled sentences into training, validation and test sentences for each fold.

    Only a fraction `share` of the training sentences is used.
    """
    if folds < 1 or not 0 < share <= 1:
        raise InvalidInput(
            f"folds={folds} and share={share} are out of range. Pass at least one fold, and a "
            "share above 0 up to 1."
        )
    every, parts = np.arange(count), []
    tests = [every[-max(1, round(0.15 * count)) :]] if folds == 1 else np.array_split(every, folds)
    if count < folds or count - len(tests[0]) < 2:
        raise InvalidInput(
            f"{format_count(count, 'text')} cannot be split into {format_count(folds, 'fold')}. "
            "Each fold needs a text for training, one for validation and one for testing."
        )
    for test in tests:
        remaining = np.setdiff1d(every, test)
        validation_count = max(1, round(len(remaining) * 15 / 85))
        train = remaining[: len(remaining) - validation_count]
        parts.append(
            (
                train[: max(1, round(share * len(train)))],
                remaining[len(remaining) - validation_count :],
                test,
            )
        )
    return parts


@dataclass(frozen=True)
class _Task:
    """Hidden states of all sentences, and the token to identify from each of them."""

    sentences: Sequence[np.ndarray]  # [layer, token, d_model]
    offset: int
    single: bool
    metric: str

    @property
    def layers(self) -> range:
        return range(1 if self.single else 0, len(self.sentences[0]))

    def candidates(self, sentence: np.ndarray, layer: int) -> np.ndarray:
        vectors: np.ndarray = sentence[layer - 1 if self.single else 0]
        return vectors

    def places(self, sentence: np.ndarray) -> np.ndarray:
        """Return the positions of the tokens for which the sentence has a token at the offset."""
        count = sentence.shape[1]
        return np.arange(
            max(0, -self.offset), max(0, -self.offset, min(count, count - self.offset))
        )

    @property
    def counts(self) -> np.ndarray:
        """Return, for each sentence, the number of tokens that can be tested."""
        return np.array([len(self.places(sentence)) for sentence in self.sentences], np.float64)

    def pairs(self, numbers: np.ndarray, layer: int) -> Pairs:
        places_by_sentence = [(self.sentences[i], self.places(self.sentences[i])) for i in numbers]
        states = np.concatenate(
            [sentence[layer, places] for sentence, places in places_by_sentence]
        )
        inputs = np.concatenate(
            [
                self.candidates(sentence, layer)[places + self.offset]
                for sentence, places in places_by_sentence
            ]
        )
        return Pairs(states, inputs)

    def hits(self, number: int, layer: int, probe: Probe) -> float:
        """Return the number of tokens of one sentence that the probe identifies."""
        sentence = self.sentences[number]
        places, candidates = self.places(sentence), self.candidates(sentence, layer)
        if not len(places):
            return 0.0
        return float(
            match_nearest(
                probe(sentence[layer, places]), candidates, places + self.offset, self.metric
            ).sum()
        )


@dataclass(frozen=True)
class _Found:
    """The number of identified tokens for each layer and sentence (NaN for untested sentences)."""

    test: np.ndarray  # [layer, sentence]
    train: np.ndarray  # [layer]: rate
    cross: np.ndarray  # [training layer, test layer]: hits
    passes: np.ndarray  # [fold, layer]


def _measure_probes(
    task: _Task, parts: Sequence[Split], probe: str, training: ProbeTraining, across: bool
) -> _Found:
    layers, counts = list(task.layers), task.counts
    test = np.full((len(layers), len(counts)), np.nan)
    train, cross = np.zeros((len(layers), 2)), np.zeros((len(layers), len(layers)))
    passes = np.zeros((len(parts), len(layers)))
    for fold, (train_numbers, validation, test_numbers) in enumerate(parts):
        if probe != "naive" and not (counts[train_numbers].any() and counts[validation].any()):
            raise InvalidInput(
                f"No training text has a token at offset {task.offset}. Use longer texts or a "
                "smaller offset."
            )
        for index, layer in enumerate(layers):
            fitted, passes[fold, index] = fit_probe(
                probe,
                task.pairs(train_numbers, layer),
                task.pairs(validation, layer),
                task.metric,
                training,
            )
            test[index, test_numbers] = [
                task.hits(number, layer, fitted) for number in test_numbers
            ]
            train[index] += (
                sum(task.hits(number, layer, fitted) for number in train_numbers),
                counts[train_numbers].sum(),
            )
            if across:
                cross[index] += [
                    sum(task.hits(number, other, fitted) for number in test_numbers)
                    for other in layers
                ]
    return _Found(test, train[:, 0] / np.where(train[:, 1] > 0, train[:, 1], np.nan), cross, passes)


def conclude(
    observations: Sequence[dict[str, Any]],
    *,
    probe: str = "ridge",
    metric: str = "cosine",
    offset: int = 0,
    across: bool = False,
    single: bool = False,
    folds: int = 5,
    share: float = 1.0,
    seed: int = 0,
    training: ProbeTraining | None = None,
) -> Result:
    """Return the fraction of tokens that are identified in the last layer.

    The value of one example is the fraction of its own tokens (NaN if it was not tested). `probe`
    is "ridge", "naive", "linear" or "mlp", and `metric` is "cosine" or "l2". Only a fraction
    `share` of the training sentences is used (figure 7). `training` defines how the linear and mlp
    probes are trained, and on which device.

    `details` has the following results:

    * `layers` [layer]: the rate of each layer; `layer`: the layer numbers (0 is the input itself);
    * `train_layers` [layer]: the rates on the training sentences;
    * `cross` [training layer, test layer]: the rates with `across`;
    * `chance`: the rate of a random guess among the tokens of a sentence;
    * `tokens`: the number of tested tokens;
    * `passes` [layer]: the number of training epochs of a linear or mlp probe, averaged over folds;
    * `probe`, `metric`, `offset` and `folds`: the settings.
    """
    _require_contents(observations, single, across)
    order = shuffle_order(
        [np.ascontiguousarray(observation["states"]).tobytes() for observation in observations],
        seed,
    )
    task = _Task([observations[i]["states"] for i in order], offset, single, metric)
    measured = _measure_probes(
        task, splits(len(order), folds, share), probe, training or ProbeTraining(seed=seed), across
    )
    hits, counts, sizes = (
        measured.test,
        task.counts,
        np.array([sentence.shape[1] for sentence in task.sentences]),
    )
    tested = ~np.isnan(hits[-1])
    total = counts[tested].sum() or np.nan
    layers = hits[:, tested].sum(1) / total
    details = {
        "layers": layers,
        "layer": np.asarray(observations[0]["layer"])[list(task.layers)],
        "train_layers": measured.train,
        "chance": float((counts / sizes)[tested].sum() / total),
        "tokens": int(counts[tested].sum()),
        "passes": measured.passes.mean(0),
        "probe": probe,
        "metric": metric,
        "offset": offset,
        "folds": folds,
        **({"cross": measured.cross / total} if across else {}),
    }
    per_example = np.empty(len(order))
    per_example[order] = hits[-1] / np.where(counts > 0, counts, np.nan)
    pairs = np.stack([hits[-1], counts], 1)[tested & (counts > 0)]
    interval = interval_of(
        pairs, lambda resamples: resamples[..., 0].sum(1) / resamples[..., 1].sum(1), seed=seed
    )
    return Result.of(SPEC, per_example, value=float(layers[-1]), interval=interval, details=details)


def _require_contents(observations: Sequence[dict[str, Any]], single: bool, across: bool) -> None:
    if not len(observations):
        raise InvalidInput("No texts were passed. Pass at least one case.")
    if single and across:
        raise InvalidInput("single and across are mutually exclusive. Pass only one of them.")
    if single and not np.array_equal(
        observations[0]["layer"], np.arange(len(observations[0]["layer"]))
    ):
        raise InvalidInput("single=True needs all layers. Observe the texts without `layers`.")


def evaluate(
    cases: Iterable[Case],
    *,
    site: str | None = None,
    layers: Sequence[int] | None = None,
    **options: Any,
) -> Result:
    """Evaluate all cases. See `observe` and `conclude` for the options."""
    return conclude([observe(case, site=site, layers=layers) for case in cases], **options)
