"""Which reading of a map over layers finds the word that decides the answer?

For each agreement example the row of the masked word (or of the last token before the target) is
read as the mean of the layers, the last layer and the rollout. An example counts if a token of the
cue has the largest score of all other tokens, special tokens left out. Examples that the model
itself gets wrong are skipped. Without files, the bundled agreement sentences are read.

    python -m benchmarks.readings FILE … --model masked --examples 100
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

import numpy as np

from mixlens import Lens
from mixlens import datasets as corpus
from mixlens.errors import MixlensError
from mixlens.evaluating.case import Case
from mixlens.evaluating.sources import special
from mixlens.evaluations.accuracy import prefers_target
from mixlens.maps.one_row import AGGREGATES

MEASURES = ("value_zeroing", "alti", "attention", "attention_norm")


def cue_ranks_first(case: Case, measure: str, reading: str) -> bool:
    """Does a token of the cue have the largest score of the tokens that are words?"""
    sizes = np.abs(case.target_row(measure, reading))
    sizes[special(case)] = -1
    sizes[case.target] = -1
    return int(sizes.argmax()) in {token for tokens in case.cues for token in tokens}


def count_found(cases: Iterable[Case]) -> tuple[int, float, Counter[tuple[str, str]]]:
    """Return the number of examples, of hits by chance, and of hits by measure and reading."""
    total, chance, counts = 0, 0.0, Counter[tuple[str, str]]()
    for case in cases:
        try:
            cues = {token for tokens in case.cues for token in tokens}
            words = int((~special(case)).sum()) - int(not special(case)[case.target])
            if words < 2 or case.target in cues or not prefers_target(case):
                continue
            hits = {
                (measure, reading): cue_ranks_first(case, measure, reading)
                for measure in MEASURES
                for reading in AGGREGATES
            }
        except MixlensError:
            continue
        total, chance = total + 1, chance + len(cues) / words
        counts.update({key: int(hit) for key, hit in hits.items()})
    return total, chance, counts


def main() -> None:
    """Print one table for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--model", default="masked", help="masked, causal, or a name or folder")
    parser.add_argument("--examples", type=int, default=100)
    given = parser.parse_args()
    bundled = given.model in ("masked", "causal")
    lens = Lens.bundled(given.model) if bundled else Lens.from_pretrained(given.model)
    files = [corpus.read(path, "agreement") for path in given.data] or [corpus.bundled()]
    for data in files:
        cases = (Case(lens, example) for example in data.sample(given.examples).examples)
        total, chance, counts = count_found(cases)
        print(f"{data.name}: {total} examples, by chance {chance:.1f}")
        print(f"{'':16}" + "".join(f"{reading:>9}" for reading in AGGREGATES))
        for measure in MEASURES:
            cells = "".join(f"{counts[measure, reading]:9}" for reading in AGGREGATES)
            print(f"{measure:16}{cells}", flush=True)


if __name__ == "__main__":
    main()
