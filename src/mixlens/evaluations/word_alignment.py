"""Word alignment: do a measure's cross-attention maps align each target word with the source word
that it translates?

Kobayashi et al. (2020), section 5. The model reads the gold translation. Scores are summed over the
pieces of a source word and averaged over the pieces of a target word. Each target word is linked to
the source word with the largest score. The links are compared with gold links by the alignment
error rate (AER) over the whole corpus (Och & Ney 2003). The options are:

    AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), where A are the predicted links, S the sure and
    P the possible gold links (including S).

* `setting`: "AWI" uses the scores of the decoding step that reads the target word (alignment with
  input), and "AWO" uses the step that predicts it (alignment with output).
* `eos`: how to treat target words whose largest score is that of the source's end token (or another
  special token). "drop" leaves these target words without a link, as in the paper; "exclude"
  ignores the scores of special tokens.
* `layer`: a number counted from 0, or "best", the layer with the lowest AER on the same sentences.
  This choice is optimistic, and the interval does not account for it. `details["held_out_aer"]`
  avoids it: each half of the sentences uses the layer that is best on the other half.

Signed scores are compared by absolute value. A target whose scores are all zero (which happens with
ALTI) gets no link. Output measures (gradients, erasure) explain each piece of the translation in
turn and have a single layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from mixlens.datasets.examples import Aligned
from mixlens.errors import InvalidInput
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluating.parallel import Range, WordInputs, word_inputs
from mixlens.evaluating.statistics import interval_of
from mixlens.measures import spec_of

if TYPE_CHECKING:
    from mixlens.evaluating.case import Case

SETTINGS = ("AWI", "AWO")
EOS = ("drop", "exclude")
COUNTS = ("links", "in_sure", "in_possible", "sure")
"""|A|, |A and S|, |A and P|, |S|."""

Link = tuple[int, int]

_INPUTS: WeakKeyDictionary[Case, WordInputs] = (
    WeakKeyDictionary()
)  # a case is used in several settings

SPEC = EvaluationSpec(
    summary=(
        "difference between a measure's word links and gold alignments (alignment error rate)"
    ),
    citation=(
        'Kobayashi et al. (2020), "Attention is Not Only a Weight", section 5; Och & Ney (2003) for'
        " the error rate"
    ),
    direction="lower",
    kinds=("alignment",),
)


# ------------------------------------------------------------------------------------------ metrics


def link_counts(
    links: frozenset[Link], sure: frozenset[Link], possible: frozenset[Link]
) -> tuple[int, int, int, int]:
    """Return the link counts from which the alignment error rate is computed, in the order of
    `COUNTS`.

    Sure links always count as possible.
    """
    return len(links), len(links & sure), len(links & (possible | sure)), len(sure)


def error_rate(counts: np.ndarray) -> np.ndarray:
    """Return the alignment error rate from counts [..., 4].

    It is NaN if there are neither predicted nor sure links.
    """
    links, in_sure, in_possible, sure = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    return 1 - _ratio(in_sure + in_possible, links + sure)


def precision(counts: np.ndarray) -> np.ndarray:
    """Return the fraction of predicted links that are possible."""
    return _ratio(counts[..., 2], counts[..., 0])


def recall(counts: np.ndarray) -> np.ndarray:
    """Return the fraction of sure links that are predicted."""
    return _ratio(counts[..., 1], counts[..., 3])


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    ratio: np.ndarray = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return ratio


# --------------------------------------------------------------------------------------- alignments


def soft_alignment(
    case: Case, measure: str, *, setting: str = "AWI"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores between words, and between target words and special tokens.

    Their shapes are [layer, target word, source word] and [layer, target word, special token].
    """
    if setting not in SETTINGS:
        raise InvalidInput(f"Unknown setting {setting!r}. Choose AWI or AWO.")
    if case not in _INPUTS:
        _INPUTS[case] = word_inputs(case.lens, _require_aligned(case))
    inputs = _INPUTS[case]
    sizes = np.abs(_scores(case, measure, inputs).astype(np.float64))
    if not np.isfinite(sizes).all():
        raise InvalidInput(
            f"{measure} has NaN or infinite scores on {case.example.name}. Exclude this example or "
            "the measure."
        )
    shift = 1 if setting == "AWO" else 0
    rows = _indicator([(a - shift, b - shift) for a, b in inputs.target], sizes.shape[1])
    columns = _indicator(inputs.source, sizes.shape[2])
    by_word = np.einsum("wt,lts->lws", rows / rows.sum(1, keepdims=True), sizes)
    return by_word @ columns.T, by_word[..., columns.sum(0) == 0]


def hard_alignments(
    words: np.ndarray, special: np.ndarray, *, eos: str = "drop"
) -> list[frozenset[Link]]:
    """Return the links (source, target) of each layer.

    Every target word is linked to the source word with the largest score, unless that score is zero
    or `eos` excludes the link.
    """
    if eos not in EOS:
        raise InvalidInput(f"Unknown eos {eos!r}. Choose drop or exclude.")
    best, size = words.argmax(-1), words.max(-1)
    linked = size > 0
    if eos == "drop" and special.shape[-1]:
        linked &= size >= special.max(-1)
    return [
        frozenset(
            (int(source), target) for target, source in enumerate(best_sources) if is_linked[target]
        )
        for best_sources, is_linked in zip(best, linked, strict=True)
    ]


def _require_aligned(case: Case) -> Aligned:
    if not isinstance(case.example, Aligned):
        raise InvalidInput(
            f"{case.example.kind} examples have no gold alignments. Use alignment data."
        )
    return case.example


def _scores(case: Case, measure: str, inputs: WordInputs) -> np.ndarray:
    """Return the scores [layer, decoder position, encoder token]."""
    spec = spec_of(measure)
    if not spec.explains_output:
        return case.maps(measure).scores
    whole = spec.gives == "maps"  # then the scores of the decoder's position count
    site = "cross" if whole else case.recording.structure.stacks[0].name
    by_position = [
        case.maps(measure, site=site, position=position, word=token).scores[
            :, position if whole else 0
        ]
        for position, token in enumerate(inputs.produced)
    ]
    return np.stack(by_position, 1)


def _indicator(ranges: Sequence[Range], width: int) -> np.ndarray:
    """Return an indicator matrix [word, token] with 1 for the tokens of each word, and 0
    elsewhere.
    """
    tokens = np.arange(width)
    return np.array([(first <= tokens) & (tokens < stop) for first, stop in ranges], np.float64)


# --------------------------------------------------------------------------------------- evaluation


def observe(case: Case, measure: str, *, setting: str = "AWI", eos: str = "drop") -> dict[str, Any]:
    """Return the link counts of one sentence pair as `counts` [layer, 4], in the order of
    `COUNTS`.
    """
    example = _require_aligned(case)
    links = hard_alignments(*soft_alignment(case, measure, setting=setting), eos=eos)
    return {
        "counts": [
            link_counts(layer_links, example.sure, example.possible) for layer_links in links
        ]
    }


def conclude(observations: Sequence[dict[str, Any]], *, layer: int | str = "best") -> Result:
    """Return the alignment error rate (AER) of one layer.

    `details` has AER, precision and recall of each layer, their mean, the best layer and its
    held-out AER.
    """
    if not observations:
        raise InvalidInput("No sentence pairs were passed. Pass at least one case.")
    counts = np.array(
        [observation["counts"] for observation in observations], np.float64
    )  # sentence, layer, 4
    total = counts.sum(0)
    rates = error_rate(total)
    layer_number = _layer(rates, layer)
    details = {
        "layer": layer_number,
        "layer_chosen": "on the same sentences" if layer == "best" else "given",
        "aer": rates,
        "precision": precision(total),
        "recall": recall(total),
        "best_layer": _layer(rates, "best"),
        "mean_aer": float(rates.mean()),
        "held_out_aer": _held_out(counts),
    }
    return Result.of(
        SPEC,
        error_rate(counts[:, layer_number]),
        value=float(rates[layer_number]),
        interval=interval_of(
            counts[:, layer_number], lambda resamples: error_rate(resamples.sum(1))
        ),
        details=details,
    )


def _layer(rates: np.ndarray, layer: int | str) -> int:
    if layer == "best":
        if np.isnan(rates).all():
            raise InvalidInput(
                "No sentence has a predicted or a gold link. Pass data with gold links."
            )
        return int(np.nanargmin(rates))
    if isinstance(layer, str) or not -len(rates) <= layer < len(rates):
        raise InvalidInput(
            f"Layer {layer!r} is out of range. Pass best, or a number from 0 to {len(rates) - 1}."
        )
    return layer % len(rates)


def _held_out(counts: np.ndarray) -> float:
    """Return the AER if the layer for each half of the sentences (even, odd) is chosen on the other
    half.
    """
    halves = counts[::2].sum(0), counts[1::2].sum(0)
    if any(np.isnan(error_rate(half)).all() for half in halves):
        return float("nan")
    best = [_layer(error_rate(half), "best") for half in halves]
    return float(error_rate(halves[0][best[1]] + halves[1][best[0]]))


def evaluate(
    cases: Iterable[Case],
    measure: str,
    *,
    setting: str = "AWI",
    eos: str = "drop",
    layer: int | str = "best",
) -> Result:
    """Return the alignment error rate (AER) of a corpus. `details` has the AER of each layer.

    The interval is a bootstrap over sentences, applied to the ratio of sums.
    """
    return conclude(
        [observe(case, measure, setting=setting, eos=eos) for case in cases], layer=layer
    )
