"""Score the documents of generated prompts by many methods, for the page on answers.

    python -m training.leaderboard.answers --model FOLDER/smollm2 --out OUT \
        --data "generated:key_value?documents=4" --counted 200 --removal 40

Each data set is a file of JSON lines in OUT, one line for each prompt, in the order in which they
are ready. Before the methods run, the prompts are checked in their order, so that it is known which
of them are the first that count. Data sets take turns, so that an early stop leaves all of them
with about the same number of prompts, and a run that was stopped continues where it was. The
prompts before the first one that is missing are valid. `docs.answer_leaderboard` makes the page
from them. `--kept docs/leaderboard/answers` goes on after the prompts that the page has already.

`--device cuda --workers 14` runs 14 processes that share a GPU. `--minutes` stops in time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixlens import Lens
from mixlens.datasets.examples import EvidencePrompt
from mixlens.datasets.generated_prompts import read
from mixlens.evaluating.case import Case
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import recovery
from training.leaderboard.document_methods import BASELINES, METHODS, score_documents

from . import workers

LAYER = ("attention", "attention_norm", "alti", "flow_routes", "contribution_weights")
CHEAP = (*LAYER, "gradient_norm", "logit_update", "leave_one_out", *BASELINES)
DEAR = ("gradient_x_input", "value_zeroing_segments", "context_cite")
TURN = 10  # prompts that are checked at a time
HOPELESS = (100, 5)  # stop if fewer than 5 of the first 100 prompts count
Line = dict[str, Any]


def main() -> None:
    """Run all data sets in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", help="of the model in file names (its folder by default)")
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--counted", type=int, default=200, help="stop after so many that count")
    parser.add_argument("--removal", type=int, default=40, help="of them with the dear methods")
    parser.add_argument("--most", type=int, default=600, help="prompts that are tried")
    parser.add_argument("--kept", type=Path, help="cells whose prompts are not run again")
    parser.add_argument("--methods", help="instead of the cheap ones, separated by commas")
    parser.add_argument("--costs", type=int, default=0, help="only time so many prompts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    name = chosen.name or Path(chosen.model).name
    if chosen.costs:
        workers.begin(chosen.model, chosen.device)
        passes = costs(workers.lens(), read(f"{chosen.data[0]}&count={chosen.costs + 1}"))
        (chosen.out / f"costs-{name}.json").write_text(json.dumps(passes) + "\n")
        return
    cells = [
        Cell(address, chosen.out / f"{name}-{slug(address)}.jsonl", chosen)
        for address in chosen.data
    ]
    finished = workers.run_all(cells, chosen.model, chosen.device, chosen.workers, chosen.minutes)
    for cell in cells:
        print(cell)
    print("finished" if finished else "not finished: run the command again")


def slug(address: str) -> str:
    """Return a file name for `generated:fact?documents=4`."""
    return re.sub(r"[^a-z0-9_]+", "-", address.removeprefix("generated:"))


class Cell(workers.Queue):
    """One data set and its file. Its jobs check prompts, in order, and score those that count."""

    def __init__(self, address: str, path: Path, chosen: Any) -> None:
        self.name, self.path, self.chosen = path.stem, path, chosen
        joint = "&" if "?" in address else "?"
        self.prompts = read(f"{address}{joint}count={chosen.most}")
        self.written: dict[str, bool] = {}  # whether they count, by name
        if path.exists():
            lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            self.written = {line["name"]: line["counts"] for line in lines}
        self.checked, self.counted = _kept(chosen.kept, path.stem)
        self.unwritten = 0
        self.to_score: deque[tuple[EvidencePrompt, Line, list[str]]] = deque()
        self.checking = False

    @property
    def _all_checked(self) -> bool:
        prompts, least = HOPELESS
        hopeless = self.checked >= prompts and self.counted < least
        done = self.checked >= len(self.prompts) or self.counted >= self.chosen.counted
        return hopeless or done

    @property
    def finished(self) -> bool:
        return self._all_checked and not self.unwritten

    def next_job(self) -> workers.Job | None:
        while not self.checking and not self._all_checked:
            counts = self.written.get(self.prompts[self.checked].name)
            if counts is None:
                break
            self.checked += 1
            self.counted += counts
        if len(self.to_score) < TURN and not self.checking and not self._all_checked:
            rest = self.prompts[self.checked : self.checked + TURN]
            new = itertools.takewhile(lambda prompt: prompt.name not in self.written, rest)
            self.checking = True
            return check, (list(new),)
        if self.to_score:
            return observe, self.to_score.popleft()
        return None

    def take(self, job: workers.Job, result: Any) -> None:
        if job[0] is observe:
            self.unwritten -= 1
            self._write(result)
            return
        self.checking = False
        for line in result:
            if self._all_checked:  # later prompts are none of the first that count
                return
            if line["counts"]:
                self.unwritten += 1
                self.to_score.append((self.prompts[self.checked], line, self._methods()))
            else:
                self._write(line)
            self.checked += 1
            self.counted += line["counts"]

    def _methods(self) -> list[str]:
        """Return the methods of the next prompt that counts."""
        cheap = self.chosen.methods.split(",") if self.chosen.methods else CHEAP
        return [*cheap, *(DEAR if self.counted < self.chosen.removal else ())]

    def _write(self, line: Line) -> None:
        self.written[line["name"]] = line["counts"]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def __str__(self) -> str:
        scored = self.counted - self.unwritten
        return f"{self.name}: {self.checked} tried, {self.counted} count, {scored} scored"


def _kept(folder: Path | None, name: str) -> tuple[int, int]:
    """Return how many prompts a kept cell has, and how many of them count."""
    if folder is None or not (folder / f"{name}.json").exists():
        return 0, 0
    cell = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return cell["tried"], cell["counted"]


def check(prompts: Sequence[EvidencePrompt]) -> list[Line]:
    """Return a line for each prompt, without scores."""
    return [_line(KnownEvidence.of(Case(workers.lens(), prompt))) for prompt in prompts]


def observe(prompt: EvidencePrompt, line: Line, methods: Sequence[str]) -> Line:
    """Return the line of a prompt with the scores of every document by these methods."""
    known = KnownEvidence.of(Case(workers.lens(), prompt, pass_measures=LAYER))
    return {**line, "methods": {method: _scores(known, method) for method in methods}}


def _line(known: KnownEvidence) -> Line:
    return {
        "name": known.example.name,
        "answered": known.is_answered,
        "counts": known.counts,
        "tokens": known.length,
        "evidence": known.example.evidence,
        "documents": len(known.example.documents),
    }


def _scores(known: KnownEvidence, method: str) -> dict[str, Any]:
    start = time.process_time()
    entry: dict[str, Any] = {"scores": _rounded(score_documents(known, method))}
    entry["seconds"] = round(time.process_time() - start, 3)
    if method not in METHODS:
        entry["with_sink"] = _rounded(score_documents(known, method, sink=True))
        tokens = known.scores(method)
        example, counted = known.example, range(1, known.length)
        numbers = recovery(tokens, known.documents, example.evidence, known.needles, counted)
        entry["tokens"] = round(numbers.token_recovery, 4)
    return entry


def costs(lens: Lens, prompts: Sequence[EvidencePrompt]) -> dict[str, float]:
    """Return the CPU time of each method alone, in forward passes of the prompt with its answer:
    the median over prompts. The first prompt warms up.
    """
    names = [m for m in (*CHEAP, *DEAR, "value_zeroing") if m not in BASELINES]
    seconds: dict[str, list[float]] = {name: [] for name in ("forward", *names)}
    for prompt in prompts:
        for name in seconds:
            known = KnownEvidence.of(Case(lens, prompt))
            ids = torch.tensor([[*known.prompt.ids, *known.prompt.answer_ids]])
            ids = ids.to(lens.model.device)
            start = time.process_time()
            if name == "forward":
                with torch.no_grad():
                    lens.model(input_ids=ids, logits_to_keep=1)
            else:
                score_documents(known, name)
            seconds[name].append(time.process_time() - start)
    median = {name: float(np.median(spent[1:])) for name, spent in seconds.items()}
    return {name: round(median[name] / median["forward"], 2) for name in names}


def _rounded(scores: np.ndarray) -> list[float]:
    return [float(f"{score:.6g}") for score in scores]


if __name__ == "__main__":
    main()
