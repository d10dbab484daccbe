"""What an experiment says of itself, what it is given and what it gives back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.evaluating.case import Case
from mixlens.papers.memory import Memory, label_of
from mixlens.papers.questions import Asker, Question, Sent, packed
from mixlens.runs.journal import Journal
from mixlens.runs.observing import Progress, Workers, work_through

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mixlens.datasets.examples import Example
    from mixlens.lens import Lens

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class ExperimentSpec:
    """A figure or table of a paper."""

    title: str  # what it shows
    finding: str  # what the paper found, in our words
    # Of examples; "text" takes the texts of any kind but alignments; none: it needs no data.
    kinds: tuple[str, ...]
    data: str  # the paper's data, in words
    # Where such data lies in a folder of data sets: glob patterns, the first that is there is read.
    files: tuple[str, ...] = ()
    own_files: tuple[str, ...] = ()  # those of them that are the paper's own data
    models: tuple[str, ...] = ("bert-base-uncased",)  # the paper's own checkpoints
    # "any" model, a "masked", a "causal" or any language model ("language"), a "classifier", a
    # "translation" model
    needs: str = "any"
    cost: str = "one forward pass for each text"
    # By checkpoint, then by the name in `Outcome.measured`.
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    also: tuple[str, ...] = ()  # further figures and tables that the same protocol gives
    compares: bool = False  # does it need a second model?
    # Plain texts are cut after this many tokens (special ones not counted), as the paper does.
    longest: int | None = None
    texts: int | None = None  # how many texts the paper took, if not all of its data


class Experiment(Protocol):
    """What a file in `mixlens.papers` is."""

    @property
    def SPEC(self) -> ExperimentSpec:
        """What it shows."""

    def run(self, setting: Setting, /, *args: Any, **options: Any) -> Outcome:
        """The protocol."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that an experiment runs on."""

    lens: Lens
    examples: Sequence[Example]
    seed: int = 0
    other: Lens | None = None  # a second model, if two are compared
    progress: Progress | None = None
    context: Mapping[str, Any] = field(default_factory=dict)  # further files by name
    # By measure, if not the usual ones.
    measure_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    journal: Journal = field(default_factory=Journal)
    workers: Workers | None = None  # who asks, if not this process

    def track(self, items: Sequence[Item]) -> Iterator[Item]:
        """The items, with progress: for what takes long and is not done text by text."""
        for number, item in enumerate(items, 1):
            yield item
            if self.progress is not None:
                self.progress(number, len(items), 0)

    def observe(self, questions: Mapping[Key, Callable[[Case], Any]]) -> Observations[Key]:
        """Asks the same questions of every text and writes the answers down text by text.

        A text that one of them cannot be asked of is left out of all, so that answers compare. A
        question that the model refuses is left out for every text.
        """
        labels = {
            key: f"{number} {label_of(questions[key])}" for number, key in enumerate(questions)
        }
        asked = hashlib.sha256("\n".join(labels.values()).encode()).hexdigest()[:16]
        by_label = {labels[key]: question for key, question in questions.items()}
        tasks = {f"{asked} {number}": example for number, example in enumerate(self.examples)}
        work_through(
            tasks,
            Asker(self.lens, by_label, self.measure_options, self.memory),
            self.journal,
            self.progress,
            engine=None if self.workers is None else self.workers.engine,
            start=None if self.workers is None else self._sent(self.workers, by_label).start,
        )
        return _collect(list(self.journal.entries(tasks)), labels)

    def _sent(self, workers: Workers, questions: Mapping[str, Question]) -> Sent:
        return Sent(
            workers=workers if self.other is not None else replace(workers, other=None),
            packed=packed(questions, self.lens, self.other),
            measure_options=self.measure_options,
        )


@dataclass(frozen=True)
class Observations(Generic[Key]):
    """Answers of the texts that could be used, in their order, by question."""

    answers: dict[Key, list[Any]]
    skipped: list[tuple[str, str]]  # texts, and why
    left_out: dict[Key, str]  # questions, and why


def _collect(entries: Sequence[Mapping[str, Any]], labels: Mapping[Key, str]) -> Observations[Key]:
    refused: dict[str, str] = {}
    skipped: list[tuple[str, str]] = []
    for piece in entries:
        for error in piece["errors"]:
            if error["error"] == UnsupportedModel.__name__:
                refused.setdefault(error["question"], error["reason"])
            else:
                skipped.append((piece["example"], error["reason"]))
    left_out = {key: refused[label] for key, label in labels.items() if label in refused}
    answers: dict[Key, list[Any]] = {key: [] for key in labels if key not in left_out}
    for piece in entries:
        seen = {entry["question"]: entry["seen"] for entry in piece["observations"]}
        if all(labels[key] in seen for key in answers):
            for key, kept in answers.items():
                kept.append(seen[labels[key]])
    if not any(answers.values()):
        reasons = [reason for _, reason in skipped[:1]] or list(left_out.values())[:1]
        raise InvalidInput("none of the texts could be used: " + "; ".join(reasons))
    return Observations(answers, skipped, left_out)


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, and whether it holds here; None if these data cannot say."""

    statement: str
    holds: bool | None
    numbers: str = ""


def verdict(holds: bool, *numbers: float) -> bool | None:
    """Whether it holds, or None if one of the numbers that it rests on is not there."""
    return None if any(number != number for number in numbers) else bool(holds)


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment."""

    tables: Mapping[str, pd.DataFrame]  # the first is the main one
    figures: Mapping[str, Figure] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)  # the numbers that the paper prints
    findings: Sequence[Finding] = ()
    skipped: Sequence[tuple[str, str]] = ()  # texts that were left out, and why
    notes: str = ""

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidInput("an experiment gives at least one table")
