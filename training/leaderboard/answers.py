"""Score the documents of generated prompts by many methods, for the page on answers.

    python -m training.leaderboard.answers --model FOLDER/smollm2 --out OUT \
        --data "generated:key_value?documents=4" --counted 200 --removal 40

Each data set is a file of JSON lines in OUT, one line for each prompt. A run that was stopped
continues where it was. Several data sets take turns, so that an early stop leaves all of them with
about the same number of prompts. `docs.answer_leaderboard` makes the page from the files.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixlens import Lens
from mixlens.datasets.examples import EvidencePrompt
from mixlens.datasets.generated_prompts import read
from mixlens.evaluating.case import Case
from mixlens.evaluating.document_methods import BASELINES, METHODS, score_documents
from mixlens.evaluating.known_evidence import KnownEvidence
from mixlens.evaluating.recovery import recovery

LAYER = ("attention", "attention_norm", "alti", "flow_routes", "contribution_weights")
CHEAP = (*LAYER, "gradient_norm", "logit_update", "leave_one_out", *BASELINES)
DEAR = ("gradient_x_input", "value_zeroing_segments", "context_cite")
TURN = 10  # prompts of one data set before the next


def main() -> None:
    """Run all data sets in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", help="of the model in file names (its folder by default)")
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--counted", type=int, default=200, help="stop after so many that count")
    parser.add_argument("--removal", type=int, default=40, help="of them with the dear methods")
    parser.add_argument("--most", type=int, default=1000, help="prompts that are tried")
    parser.add_argument("--methods", help="instead of the cheap ones, separated by commas")
    parser.add_argument("--continue", dest="cells", type=Path, help="cells whose prompts are done")
    parser.add_argument("--costs", type=int, default=0, help="only time so many prompts")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    lens = Lens.from_pretrained(chosen.model)
    name = chosen.name or Path(chosen.model).name
    if chosen.costs:
        passes = costs(lens, read(f"{chosen.data[0]}&count={chosen.costs + 1}"))
        (chosen.out / f"costs-{name}.json").write_text(json.dumps(passes) + "\n")
        return
    turns = [
        observe_all(lens, address, chosen.out / f"{name}-{slug(address)}.jsonl", chosen)
        for address in chosen.data
    ]
    while turns:
        for turn in list(turns):
            if sum(1 for _ in zip(range(TURN), turn, strict=False)) < TURN:
                turns.remove(turn)


def slug(address: str) -> str:
    """Return a file name for `generated:fact?documents=4`."""
    return re.sub(r"[^a-z0-9_]+", "-", address.removeprefix("generated:"))


def observe_all(lens: Lens, address: str, path: Path, chosen: Any) -> Iterator[None]:
    """Write a line for each prompt, until enough of them count."""
    joint = "&" if "?" in address else "?"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done, counted = len(lines), sum(line["counts"] for line in lines)
    cell = chosen.cells / f"{path.stem}.json" if chosen.cells else None
    if cell is not None and cell.exists():
        before = json.loads(cell.read_text(encoding="utf-8"))
        done, counted = done + before["tried"], counted + before["counted"]
    cheap = chosen.methods.split(",") if chosen.methods else CHEAP
    for prompt in read(f"{address}{joint}count={chosen.most}")[done:]:
        if counted >= chosen.counted:
            return
        line = observe(lens, prompt, [*cheap, *(DEAR if counted < chosen.removal else ())])
        counted += line["counts"]
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        yield


def observe(lens: Lens, prompt: EvidencePrompt, methods: Sequence[str]) -> dict[str, Any]:
    """Return the scores of every document by these methods, if the prompt counts."""
    case = Case(lens, prompt, pass_measures=LAYER)
    known = KnownEvidence.of(case)
    line: dict[str, Any] = {
        "name": prompt.name,
        "counts": known.counts,
        "tokens": known.length,
        "evidence": prompt.evidence,
        "documents": len(prompt.documents),
    }
    if known.counts:
        line["methods"] = {method: _scores(known, method) for method in methods}
    return line


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
