"""`python -m benchmarks.peers`: compare mixlens with other libraries on the same model, text and
threads, in one process.

What is compared: Captum, inseq and TransformerLens. BertViz is left out: it draws attention weights
and computes nothing. A peer that is not installed has rows that say so. To install all three next
to the pinned versions:

    pip install -c constraints.txt ".[eval]" "transformer-lens==4.3.0" treescope
    pip install --no-deps "inseq==0.7.1"

inseq comes without its dependencies because it asks for typeguard<=2.13.3, which it never imports
and TransformerLens excludes.

Models have random weights and the bundled tokenizer. Each library has a copy of the model of its
own, since not all of them leave it as it was. Loading is not timed; a call is, from the text to the
scores (Captum and TransformerLens: from the token ids; mixlens has the text in every row). The
first call of both is the comparison of their numbers and the warm-up. Where both define the same
quantity and the numbers differ by more than `AGREEMENT` of the largest (`ROUNDED` for inseq's value
zeroing), the command fails.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

import mixlens
from benchmarks import models
from benchmarks.peer_rows import NAMES, NEXT, Call, Case, Task, relative, tasks
from benchmarks.report import (
    RESULTS,
    Figure,
    circumstances,
    described,
    number,
    save,
    say,
    table,
    write_section,
)
from benchmarks.timing import Timing, in_turns, threads

INSTALL = {
    "captum": "captum",
    "inseq": "inseq",
    "transformer_lens": "transformer-lens",
}  # what pip calls them
KINDS = {"GPT-2": "GPT2LMHeadModel", "GPT-J": "GPTJForCausalLM", "BLOOM": "BloomForCausalLM"}
WORDS = (
    "the old man and his two dogs are in the house with a small red door which they can not open"
)


@dataclass(frozen=True)
class Sizes:
    tokens: tuple[int, ...] = (64, 128)
    layers: int = 12
    width: int = 768
    heads: int = 12
    repeats: int = 7
    long: int = 3  # repeats of what takes seconds
    seconds: float = 30.0  # no further repeat of a comparison after these
    threads: int = 2
    only: str = ""  # a part of the names of the rows that are wanted
    clock: Callable[[], float] = time.perf_counter


TINY = Sizes(tokens=(12,), layers=2, width=32, heads=4, repeats=2, long=1, seconds=1.0, threads=1)


@dataclass(frozen=True)
class Row:
    """What came of one task on one text."""

    task: Task
    tokens: int
    ours: Timing
    theirs: Timing | None
    difference: float | None
    remark: str

    @property
    def key(self) -> str:
        return f"{self.task.label}, {self.task.model}, {self.tokens} tokens"

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.theirs.best / self.ours.best

    def cells(self) -> list[str]:
        options = "".join(f", {name}={value!r}" for name, value in self.task.options.items())
        return [
            self.task.label,
            f"`{self.task.measure}`{options}",
            self.task.model,
            str(self.tokens),
            "—" if self.theirs is None else str(self.theirs),
            str(self.ours),
            "—" if self.ratio is None else f"{number(self.ratio)}×",
            (
                "—"
                if self.difference is None
                else f"{self.difference:.0e}"
                if self.difference
                else "0"
            ),
            self.remark,
        ]


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def case(name: str, tokens: int, sizes: Sizes) -> Case:
    """The shape of GPT-2 small, as GPT-2, GPT-J or BLOOM, and a text of `tokens` tokens, the first
    mark included.
    """
    folder = Path(mixlens.__file__).parent / "bundled" / "causal"
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    kind: Any = getattr(transformers, KINDS[name])
    width = (
        {"hidden_size": sizes.width}
        if name == "BLOOM"
        else {"n_embd": sizes.width, "n_positions": 256}
    )
    more = {"rotary_dim": sizes.width // sizes.heads} if name == "GPT-J" else {}
    made = kind.config_class(
        n_layer=sizes.layers,
        n_head=sizes.heads,
        vocab_size=len(tokenizer),
        **width,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        architectures=[kind.__name__],
        **more,
    )
    made._attn_implementation = "eager"
    single = [
        word
        for word in WORDS.split()
        if len(tokenizer(" " + word, add_special_tokens=False)["input_ids"]) == 1
    ]
    text = "The " + " ".join(random.Random(0).choices(single, k=tokens - 2))
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    if ids.shape[1] != tokens:
        raise ValueError(f"the text has {ids.shape[1]} tokens, not {tokens}")
    (word,) = tokenizer(NEXT, add_special_tokens=False)["input_ids"]
    return Case(models.randomised(kind(made)), tokenizer, text, ids, word)


def compared(task: Task, given: Case, sizes: Sizes) -> Row:
    lens = mixlens.Lens(given.model, given.tokenizer)
    ours: Call = partial(lens.measure, task.measure, given.text, **task.options)
    maps = ours()
    runs: dict[str, Call] = {"ours": ours}
    difference, remark = None, task.scope
    if not installed(task.peer):
        remark = (
            "not installed: see `python -m benchmarks.peers --help`, or pip install"
            f" {INSTALL[task.peer]}"
        )
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call, read = task.prepare(given)
                theirs = read(call()).detach()
        except Exception as error:  # of the peer, whatever it is
            lines = str(error).splitlines() or [""]
            remark = (
                f"does not run with transformers {transformers.__version__}:"
                f" {type(error).__name__}: {lines[0][:100]}"
            )
        else:
            same = task.compare or (lambda _, theirs, ours: (relative(theirs, ours), ""))
            difference, said = same(given, theirs, task.ours(maps, torch.tensor(maps.scores)))
            remark = "; ".join(part for part in (remark, said) if part)
            runs = {"theirs": call, **runs}
    repeats = sizes.long if task.long else sizes.repeats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = in_turns(
            runs, repeats=repeats, seconds=sizes.seconds, warm_up=False, clock=sizes.clock
        )
    return Row(task, given.ids.shape[1], times["ours"], times.get("theirs"), difference, remark)


def measured(sizes: Sizes) -> list[Row]:
    rows = []
    for tokens in sizes.tokens:
        cases = {name: case(name, tokens, sizes) for name in KINDS}
        for task in tasks():
            if sizes.only in f"{task.label} {task.measure}" and tokens <= (task.only or tokens):
                rows.append(compared(task, cases[task.model], sizes))
                say("  " + "; ".join(cell for cell in rows[-1].cells() if cell))
    return rows


HEADER = [
    "peer",
    "mixlens",
    "model",
    "tokens",
    "peer's time",
    "mixlens' time",
    "peer / mixlens",
    "difference",
    "remarks",
]


def figures(rows: Sequence[Row]) -> list[Figure]:
    ratios = [
        Figure(f"{row.key}: ratio", row.ratio, at_least=True, unit="×")
        for row in rows
        if row.ratio is not None
    ]
    same = [(row, row.difference) for row in rows if row.difference is not None]
    return ratios + [
        Figure(f"{row.key}: difference", difference, row.task.within, tracked=False)
        for row, difference in same
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="very small models: tests the benchmark, says nothing about speed",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where the results go (default: benchmarks/results/peers.json, and the docs)",
    )
    parser.add_argument("--only", default="", help="rows whose names hold this; nothing is written")
    parser.add_argument(
        "--processor",
        action="store_true",
        help="seconds of the processor on one thread, for a busy machine; nothing is written",
    )
    chosen = parser.parse_args(arguments)
    sizes = replace(TINY if chosen.tiny else Sizes(), only=chosen.only)
    if chosen.processor:
        sizes = replace(sizes, threads=1, clock=time.process_time)
    in_part = bool(chosen.only or chosen.processor)
    with threads(sizes.threads):
        rows = measured(sizes)
    facts = circumstances(
        "python -m benchmarks.peers" + (" --tiny" if chosen.tiny else ""), threads=sizes.threads
    )
    facts["versions"] |= {
        name: importlib.metadata.version(INSTALL[name]) for name in NAMES if installed(name)
    }
    shown = table(HEADER, [row.cells() for row in rows])
    say("\n" + shown + "\n\n" + described(facts))
    wrong = [figure.key for figure in figures(rows) if figure.passed is False]
    if chosen.out is not None or not (chosen.tiny or wrong or in_part):
        lines = [dict(zip(HEADER, row.cells(), strict=True)) for row in rows]
        save(chosen.out or RESULTS / "peers.json", facts, figures(rows), rows=lines)
    if chosen.out is None and not (chosen.tiny or wrong or in_part):
        write_section("peers", f"{described(facts)}\n\n{shown}")
    for line in wrong:
        say("WRONG:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
