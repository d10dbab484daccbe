"""Do learned head weights find the evidence, and do better features than attention help?

    python -m training.leaderboard.heads --model FOLDER/smollm2 --out OUT \
        --data "generated:key_value?documents=4" --data "generated:plain_fact?documents=4"

For every data set, the first prompts that count (`--prompts`) are kept with the scores of every
head by four features, and with the log-odds of the answer after every choice of hidden documents.
Weights are learned on each data set (as `mixlens fit-heads` does) and tested on the others; on
their own data set they are tested on prompts that were left out. A run that was stopped continues
where it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixlens import Lens
from mixlens.answers.answered_prompt import Passage
from mixlens.answers.head_examples import hidden_log_probabilities
from mixlens.answers.head_fitting import HeadExample, fit_weights, mask_features
from mixlens.datasets.generated_prompts import read
from mixlens.evaluating.case import Case
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import reciprocal_rank
from mixlens.evaluating.statistics import difference_p, interval_of
from mixlens.measuring.answer_odds import log_odds
from mixlens.measuring.measure import measure_together

from .answers import slug

FEATURES = ("attention", "attention_norm", "contribution_weights", "flow_routes")
MOST = 400  # prompts that are tried
STEPS = 300
Kept = Mapping[str, Any]


def main() -> None:
    """Keep what is needed of every prompt, then fit and test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=40)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    lens = Lens.from_pretrained(chosen.model)
    for address in chosen.data:
        collect(lens, address, chosen.out / slug(address), chosen.prompts)
    report = compare({slug(each): load(chosen.out / slug(each)) for each in chosen.data})
    report["model"] = Path(chosen.model).name
    (chosen.out / "heads.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def collect(lens: Lens, address: str, folder: Path, prompts: int) -> None:
    """Write a file for each prompt that counts, and an empty one for each of the others."""
    folder.mkdir(exist_ok=True)
    joint = "&" if "?" in address else "?"
    for number, prompt in enumerate(read(f"{address}{joint}count={MOST}")):
        if sum(path.stat().st_size > 0 for path in folder.glob("*.npz")) >= prompts:
            return
        path = folder / f"{number:04d}.npz"
        if path.exists():
            continue
        known = KnownEvidence.of(Case(lens, prompt))
        if known.counts:
            np.savez(path, **_parts(known))
        else:
            path.touch()


def _parts(known: KnownEvidence) -> dict[str, np.ndarray]:
    """Return features [source, layer * head], masks, log-odds and evidence of one prompt. The first
    token, an attention sink, belongs to no document.
    """
    sources = [
        Passage(f"document {number}", "", tuple(token for token in tokens if token))
        for number, tokens in enumerate(known.documents)
    ]
    masks = np.array(list(itertools.product((False, True), repeat=len(sources))))
    lens = known.case.lens
    logs = hidden_log_probabilities(lens.model, known.prompt, sources, masks)
    features: dict[str, np.ndarray] = {}
    made: Any = measure_together(FEATURES, known.case.recording, per_head=True)
    for name, maps in made.items():
        mean = maps.scores.astype(np.float64).mean(2)  # over the tokens of the answer
        by_source = [mean[:, :, list(s.tokens)].sum(-1).reshape(-1) for s in sources]
        features[name] = np.stack(by_source)
    evidence = np.array(known.example.evidence)
    return {**features, "masks": masks, "odds": log_odds(logs.sum(1)), "evidence": evidence}


def load(folder: Path) -> list[Kept]:
    """Return the prompts of a data set that count."""
    return [dict(np.load(path)) for path in sorted(folder.glob("*.npz")) if path.stat().st_size > 0]


def compare(data: Mapping[str, Sequence[Kept]]) -> dict[str, Any]:
    """Return reciprocal ranks for each feature, data set of the fit and data set of the test."""
    rows, ranks = [], {}
    for feature, source, target in itertools.product(FEATURES, data, data):
        fitted, tested = split(data[source], data[target], same=source == target)
        learned = fit_weights([[_example(each, feature)] for each in fitted], STEPS).weights
        values = {"learned": _ranks(tested, feature, learned)}
        values["equal"] = _ranks(tested, feature, np.ones_like(learned))
        ranks[feature, source, target] = values["learned"]
        attention = ranks["attention", source, target]
        low, high = interval_of(values["learned"])
        rows.append(
            {
                "feature": feature,
                "fitted on": source,
                "tested on": target,
                "fitted": len(fitted),
                "tested": len(tested),
                "learned": float(np.mean(values["learned"])),
                "low": low,
                "high": high,
                "equal weights": float(np.mean(values["equal"])),
                "p against equal": difference_p(values["learned"], values["equal"]),
                "p against attention": difference_p(values["learned"], attention),
            }
        )
    return {"rows": rows}


def split(
    fitted: Sequence[Kept], tested: Sequence[Kept], *, same: bool
) -> tuple[Sequence[Kept], Sequence[Kept]]:
    """Return the prompts of the fit and of the test: halves, if the data set is the same."""
    half = len(fitted) // 2
    return (fitted[:half], tested[half:]) if same else (fitted, tested)


def _example(kept: Kept, feature: str) -> HeadExample:
    return HeadExample(mask_features(kept["masks"], kept[feature]), kept["odds"])


def _ranks(tested: Sequence[Kept], feature: str, weights: np.ndarray) -> np.ndarray:
    scores = [each[feature] @ weights for each in tested]
    evidence = [each["evidence"].tolist() for each in tested]
    return np.array(list(map(reciprocal_rank, scores, evidence)))


if __name__ == "__main__":
    main()
