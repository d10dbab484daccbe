"""Do learned head weights find the evidence, and do better features than attention help?

    python -m training.leaderboard.heads --model FOLDER/smollm2 --out OUT \
        --data "generated:key_value?documents=4" --data "generated:plain_fact?documents=4"

For every data set, the first prompts that count (`--prompts`) are kept with the scores of every
head by four features, and with the log-odds of the answer after every choice of hidden documents.
Weights are learned on each data set (as `mixlens fit-heads` does) and tested on the others; on
their own data set they are tested on prompts that were left out. A run that was stopped continues
where it was. `--device`, `--workers` and `--minutes` are those of `training.leaderboard.answers`;
`--collect` keeps the prompts and fits nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixlens.answers.answered_prompt import Passage
from mixlens.answers.head_examples import hidden_log_probabilities
from mixlens.answers.head_fitting import HeadExample, fit_weights, mask_features
from mixlens.datasets.examples import EvidencePrompt
from mixlens.datasets.generated_prompts import read
from mixlens.evaluating.case import Case
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import reciprocal_rank
from mixlens.evaluating.statistics import difference_p, interval_of
from mixlens.measuring.answer_odds import log_odds
from mixlens.measuring.measure import measure_together

from . import workers
from .answers import slug

FEATURES = ("attention", "attention_norm", "contribution_weights", "flow_routes")
MOST = 400  # prompts that are tried
STEPS = 300
Prompt = Mapping[str, Any]


def main() -> None:
    """Keep what is needed of every prompt, then fit and test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--collect", action="store_true", help="only keep the prompts")
    chosen = parser.parse_args()
    sets = [Kept(each, chosen.out / slug(each), chosen.prompts) for each in chosen.data]
    finished = workers.run_all(
        list(sets), chosen.model, chosen.device, chosen.workers, chosen.minutes
    )
    for each in sets:
        print(f"{each.name}: {len(each.counting())} prompts")
    if chosen.collect or not finished:
        print("finished" if finished else "not finished: run the command again")
        return
    report = compare({each.name: each.load() for each in sets})
    report["model"] = Path(chosen.model).name
    (chosen.out / "heads.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


class Kept(workers.Queue):
    """A folder with a file for each prompt that counts, and an empty one for each of the others."""

    def __init__(self, address: str, folder: Path, wanted: int) -> None:
        self.name, self.folder, self.wanted = folder.name, folder, wanted
        joint = "&" if "?" in address else "?"
        self.prompts = read(f"{address}{joint}count={MOST}")
        self.next = 0
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:04d}.npz"

    def counting(self) -> list[Path]:
        """Return the files of the first prompts that count. None of the earlier ones is missing."""
        paths = itertools.takewhile(Path.exists, map(self.path, range(len(self.prompts))))
        return [path for path in paths if path.stat().st_size > 0][: self.wanted]

    @property
    def finished(self) -> bool:
        every = all(self.path(number).exists() for number in range(len(self.prompts)))
        return every or len(self.counting()) >= self.wanted

    def next_job(self) -> workers.Job | None:
        while self.next < len(self.prompts) and self.path(self.next).exists():
            self.next += 1
        if self.next >= len(self.prompts) or len(self.counting()) >= self.wanted:
            return None
        self.next += 1
        return keep, (self.next - 1, self.prompts[self.next - 1])

    def take(self, job: workers.Job, result: Any) -> None:
        path = self.path(job[1][0])
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            if result is not None:
                np.savez_compressed(file, **result)
        part.replace(path)

    def load(self) -> list[Prompt]:
        """Return what was kept of the prompts that count."""
        return [dict(np.load(path)) for path in self.counting()]


def keep(number: int, prompt: EvidencePrompt) -> Prompt | None:
    """Return what is kept of a prompt, or None if it does not count."""
    known = KnownEvidence.of(Case(workers.lens(), prompt))
    return _parts(known) if known.counts else None


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
        features[name] = np.stack(by_source).astype(np.float32)
    evidence = np.array(known.example.evidence)
    return {**features, "masks": masks, "odds": log_odds(logs.sum(1)), "evidence": evidence}


def compare(data: Mapping[str, Sequence[Prompt]]) -> dict[str, Any]:
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
    fitted: Sequence[Prompt], tested: Sequence[Prompt], *, same: bool
) -> tuple[Sequence[Prompt], Sequence[Prompt]]:
    """Return the prompts of the fit and of the test: halves, if the data set is the same."""
    half = len(fitted) // 2
    return (fitted[:half], tested[half:]) if same else (fitted, tested)


def _example(kept: Prompt, feature: str) -> HeadExample:
    return HeadExample(mask_features(kept["masks"], kept[feature]), kept["odds"])


def _ranks(tested: Sequence[Prompt], feature: str, weights: np.ndarray) -> np.ndarray:
    scores = [each[feature] @ weights for each in tested]
    evidence = [each["evidence"].tolist() for each in tested]
    return np.array(list(map(reciprocal_rank, scores, evidence)))


if __name__ == "__main__":
    main()
