"""The papers' experiments on more models and larger samples, all at once, within a time limit.

    python -m training.leaderboard.papers --folder FOLDER --out OUT --seconds 350 --device cuda

FOLDER is what `training.leaderboard.models` makes. Fine-tuned models are made in it, if they are
not there. Each run is one `mixlens reproduce`; stopped ones go on. `--only 'gte*/mohebbi2023/*'`
picks some of them, by model and experiment. `python -m docs.results_pages --take OUT/results` takes
what they leave. Small models are run on the processor, the others, and all that asks for Hidden
Token Attribution, on the device. Experiments of one run share what measures say, if one process
runs them: several workers do not.
"""

from __future__ import annotations

import argparse
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from .rows import CAUSAL, MASKED, OfModels, below
from .run import Runner, log

QUICK = ("probes=naive,ridge", "folds=2")  # probes in closed form, which the paper does not have
ATTRIBUTION = ("brunner2020/fig3a", "brunner2020/fig3b", "brunner2020/fig4", "brunner2020/fig18")
NORMS = (
    *("kobayashi2020/fig3", "kobayashi2020/fig4", "kobayashi2020/fig6", "kobayashi2020/fig9"),
    *("kobayashi2020/table1", "kobayashi2020/table2"),
)
EFFECTIVE = ("brunner2020/fig1a", "brunner2020/fig1bc", "brunner2020/fig6")
CUES = ("mohebbi2023/fig1", "mohebbi2023/figA2", "mohebbi2023/fig3", "mohebbi2023/table3")
MASKING = ("modarressi2023/table1",)
CLASSES = ("ferrando2022/fig3", "ferrando2022/fig6", "ferrando2022/table2")


@dataclass(frozen=True, kw_only=True)
class Run(OfModels):
    """Experiments on one model; `results` is the name of the model on the pages."""

    results: str
    names: tuple[str, ...]
    texts: int
    data: str = ""
    options: tuple[str, ...] = ()
    on_device: bool = False
    workers: int = 1

    def arguments(self, folder: Path, out: Path, device: str) -> list[str]:
        """Of `mixlens`."""
        parts = ["reproduce", *self.names, "--model", below(str(folder), self.model)]
        parts += ["--data", str(folder / self.data), "--sample", str(self.texts)]
        for option in self.options:
            parts += ["-o", option]
        parts += ["--other-model", below(str(folder), self.other)] if self.other else []
        parts += ["--out", str(out), "--workers", str(self.workers), "--threads", "1"]
        return [*parts, "--device", device if self.on_device else "cpu"]


RUNS = (
    Run(results="masked", model=MASKED, names=ATTRIBUTION, texts=200, on_device=True, workers=2),
    Run(results="masked", model=MASKED, names=("brunner2020/fig26",), texts=300, on_device=True),
    Run(
        results="masked",
        model=MASKED,
        names=("brunner2020/fig2b",),
        texts=408,
        options=("folds=2",),
        on_device=True,
    ),
    Run(
        results="masked",
        model=MASKED,
        names=("brunner2020/fig7",),
        texts=150,
        options=("probes=ridge", "learner=ridge", "folds=5"),
    ),
    Run(results="masked", model=MASKED, names=CUES, texts=300, workers=3),
    Run(results="masked", model=MASKED, names=("mohebbi2023/figA1",), texts=300),
    Run(results="masked", model=MASKED, names=("ferrando2022/table2sva",), texts=100, workers=8),
    Run(results="causal", model=CAUSAL, names=("mohebbi2023/table3",), texts=150),
    Run(results="sst2", model="masked-sst2", names=("ferrando2022/fig5",), texts=30),
    Run(results="sst2", model="masked-sst2", names=MASKING, texts=300),
    Run(results="minilm-sst2", model="minilm-sst2", names=MASKING, texts=300, on_device=True),
    Run(results="gte-sst2", model="gte-sst2", names=MASKING, texts=300, on_device=True, workers=2),
    Run(
        results="sst2",
        model="masked-sst2",
        names=(*CLASSES, "ferrando2022/fig7"),
        texts=100,
        other="minilm-sst2",
        on_device=True,
    ),
    Run(results="minilm-sst2", model="minilm-sst2", names=CLASSES, texts=100, on_device=True),
    Run(results="minilm", model="minilm", names=ATTRIBUTION, texts=60, on_device=True),
    Run(results="gte", model="gte-small", names=NORMS, texts=200),
    Run(results="gte", model="gte-small", names=EFFECTIVE, texts=100),
    Run(
        results="gte",
        model="gte-small",
        names=ATTRIBUTION[:2],
        texts=60,
        on_device=True,
        workers=2,
    ),
    Run(
        results="gte",
        model="gte-small",
        names=ATTRIBUTION[2:],
        texts=60,
        options=("probes=8",),  # means over many tokens, which so few suffice for
    ),
    Run(
        results="gte",
        model="gte-small",
        names=("brunner2020/fig2a", "brunner2020/fig11"),
        texts=100,
        options=(*QUICK, "metrics=cosine"),
    ),
    Run(
        results="gte-prompt",
        model="gte-prompt",
        names=("mohebbi2023/fig1", "mohebbi2023/figA2", "mohebbi2023/table3"),
        texts=100,
        data="blimp_unseen",
        on_device=True,
    ),
    Run(
        results="gte-prompt",
        model="gte-prompt",
        names=("mohebbi2023/fig3",),
        texts=100,
        data="blimp_unseen",
        on_device=True,
        workers=2,
    ),
    Run(results="gte-sst2", model="gte-sst2", names=CLASSES, texts=100, on_device=True),
    Run(
        results="gte-sst2",
        model="gte-sst2",
        names=("ferrando2022/fig7",),
        texts=100,
        other="minilm-sst2",
        on_device=True,
        workers=2,
    ),
    Run(results="smollm2", model="smollm2", names=(*NORMS[:1], *NORMS[2:], EFFECTIVE[0]), texts=40),
)


def picked(patterns: str) -> list[Run]:
    """The runs whose `results/experiment` matches a pattern; commas are between patterns."""
    runs = []
    for one in RUNS:
        names = tuple(
            name
            for name in one.names
            if any(fnmatchcase(f"{one.results}/{name}", each) for each in patterns.split(","))
        )
        runs += [replace(one, names=names)] if names else []
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, help="at most so many: a quick look")
    parser.add_argument("--only", default="*", help="patterns with commas between them")
    parser.add_argument("--at-once", type=int, default=len(RUNS))
    chosen = parser.parse_args()
    runner = Runner(chosen.folder, chosen.out, seconds=chosen.seconds, device=chosen.device)
    signal.signal(signal.SIGTERM, runner.stop)

    def work(one: Run) -> None:
        name = f"{one.results} {one.names[0].replace('/', '_')}"
        place = chosen.out / "results" / one.results
        arguments = one.arguments(chosen.folder, place, chosen.device)
        log(f"{name}: {runner.missing(one.models) or runner.command(name, arguments) or 'done'}")

    runs = [
        replace(one, texts=min(one.texts, chosen.texts or one.texts)) for one in picked(chosen.only)
    ]
    models = {name for one in runs for name in one.models}
    with runner.training_of(models), ThreadPoolExecutor(chosen.at_once) as pool:
        list(pool.map(work, runs))


if __name__ == "__main__":
    main()
