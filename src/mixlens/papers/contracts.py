"""Types of an experiment: its description, its inputs and its outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.evaluating.case import Case
from mixlens.papers.questions import Asker, Memory, Question, Sent, label_of, pack_questions
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

    title: str  # a one-line title
    finding: str  # the paper's finding, in our words
    # Kinds of examples. "text" accepts texts of any kind but alignments; empty if it needs no data.
    kinds: tuple[str, ...]
    data: str  # the paper's data
    # Glob patterns for such data in a folder of data sets; the first match is read.
    files: tuple[str, ...] = ()
    generated: str = ""  # address of the data that are used if none are passed
    own_files: tuple[str, ...] = ()  # patterns that match the paper's own data
    models: tuple[str, ...] = ("bert-base-uncased",)  # the paper's own checkpoints
    # the kind of model: "any", "masked", "causal", "language" (masked or causal), "classifier",
    # "translation" or "speech"
    needs: str = "any"
    cost: str = "one forward pass for each text"
    # By checkpoint, then by the name in `Outcome.measured`.
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    also: tuple[str, ...] = ()  # other figures and tables of the same protocol
    compares: bool = False  # whether it needs a second model
    # Plain texts are cut after this many tokens (without special tokens), as in the paper.
    longest: int | None = None
    texts: int | None = None  # number of texts in the paper, if not all of its data


class Experiment(Protocol):
    """Protocol of a module that defines an experiment."""

    @property
    def SPEC(self) -> ExperimentSpec:
        """Return the description."""

    def run(self, setting: Setting, /, *args: Any, **options: Any) -> Outcome:
        """Run the protocol."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All inputs of an experiment."""

    lens: Lens
    examples: Sequence[Example]
    seed: int = 0
    other: Lens | None = None  # the second model of a comparison
    progress: Progress | None = None
    context: Mapping[str, Any] = field(default_factory=dict)  # further files by name
    # Options by measure, if not the usual ones.
    measure_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    journal: Journal = field(default_factory=Journal)
    workers: Workers | None = None  # the process pool, if not this process

    def track(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the items and report progress.

        Use this method for long loops over anything other than texts.
        """
        for number, item in enumerate(items, 1):
            yield item
            if self.progress is not None:
                self.progress(number, len(items), 0)

    def observe(self, questions: Mapping[Key, Callable[[Case], Any]]) -> Observations[Key]:
        """Ask all questions about every text, and save the answers text by text.

        A question is a function of a `Case`. If one question cannot be answered for a text, that
        text is skipped for all questions, so that their results stay comparable. If the model does
        not support a question, that question is skipped for all texts.
        """
        labels = {
            key: f"{number} {label_of(questions[key])}" for number, key in enumerate(questions)
        }
        question_digest = hashlib.sha256("\n".join(labels.values()).encode()).hexdigest()[:16]
        by_label = {labels[key]: question for key, question in questions.items()}
        tasks = {
            f"{question_digest} {number}": example for number, example in enumerate(self.examples)
        }
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
            packed=pack_questions(questions, self.lens, self.other),
            measure_options=self.measure_options,
        )


@dataclass(frozen=True)
class Observations(Generic[Key]):
    """The answers to each question for all texts that could be used, in the order of the texts."""

    answers: dict[Key, list[Any]]
    skipped: list[tuple[str, str]]  # skipped texts, with reasons
    left_out: dict[Key, str]  # skipped questions, with reasons


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
        text_answers = {entry["question"]: entry["seen"] for entry in piece["observations"]}
        if all(labels[key] in text_answers for key in answers):
            for key, column in answers.items():
                column.append(text_answers[labels[key]])
    if not any(answers.values()):
        reasons = [reason for _, reason in skipped[:1]] or list(left_out.values())[:1]
        raise InvalidInput("No text could be used: " + "; ".join(reasons))
    return Observations(answers, skipped, left_out)


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, and whether the experiment reproduces it. `holds` is None if the data
    do not decide it.
    """

    statement: str
    holds: bool | None
    numbers: str = ""


def verdict(holds: bool, *numbers: float) -> bool | None:
    """Return whether a finding holds, or None if a required number is NaN."""
    return None if any(number != number for number in numbers) else bool(holds)


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment."""

    tables: Mapping[str, pd.DataFrame]  # the first is the main table
    figures: Mapping[str, Figure] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)  # the numbers that the paper prints
    findings: Sequence[Finding] = ()
    skipped: Sequence[tuple[str, str]] = ()  # skipped texts, with reasons
    notes: str = ""

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidInput("The experiment returned no table. Return at least one.")
