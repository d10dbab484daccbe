"""What an experiment says of itself, what it is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mixlens.errors import InvalidInput, MixlensError, UnsupportedModel
from mixlens.experiments.memory import Memory

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mixlens.corpus.examples import Example
    from mixlens.evaluations.case import Case
    from mixlens.lens import Lens

Key = TypeVar("Key")


@dataclass(frozen=True)
class Spec:
    """A figure or table of a paper."""

    title: str  # what it shows
    finding: str  # what the paper found, in our words
    kinds: tuple[
        str, ...
    ]  # of examples; "text" takes the texts of any kind but alignments; none: it needs no data
    data: str  # the paper's data, in words
    files: tuple[
        str,
        ...,
        # where such data is in a folder of data sets: glob patterns; the first match is read
    ] = ()
    own_files: tuple[str, ...] = ()  # those of them that are the paper's own data
    models: tuple[str, ...] = ("bert-base-uncased",)  # the paper's own checkpoints
    # "any" model, a "masked" or other language model ("language"), a "classifier", a "translation"
    # model
    needs: str = "any"
    cost: str = "one forward pass for each text"
    published: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # by checkpoint, then by the name in `Outcome.measured`
    also: tuple[str, ...] = ()  # further figures and tables that the same protocol gives
    compares: bool = False  # does it need a second model?
    longest: int | None = (
        # plain texts are cut after so many tokens (special ones not counted), as the paper does
        None
    )
    texts: int | None = None  # how many texts the paper took, where not all of its data


class Experiment(Protocol):
    """What a file in `mixlens.experiments` is."""

    @property
    def SPEC(self) -> Spec:
        """What it shows."""

    def run(self, setting: Setting, /, *args: Any, **options: Any) -> Outcome:
        """The protocol."""


@dataclass(frozen=True)
class Setting:
    """Everything that an experiment runs on."""

    lens: Lens
    examples: Sequence[Example]
    seed: int = 0
    other: Lens | None = None  # a second model, where two are compared
    track: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, label: (
        items
    )  # shows progress
    context: Mapping[str, Any] = field(default_factory=dict)  # further files by name
    measure_options: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # by measure, where not the usual ones
    memory: Memory = field(default_factory=Memory)

    def cases(self) -> Iterable[Case]:
        """The examples as cases, one at a time, with progress."""
        from mixlens.evaluations.case import Case

        for example in self.track(self.examples, "texts"):
            yield Case(self.lens, example, options=self.measure_options)

    def observed(self, questions: Mapping[Key, Callable[[Case], Any]]) -> Observed[Key]:
        """Asks the same questions of every text. A text that one of them cannot be asked of is left
        out of all, so that answers compare; a question that the model refuses is left out for every
        text.
        """
        asked, left_out = dict(questions), {}
        answers: dict[Key, list[Any]] = {key: [] for key in questions}
        skipped = []
        for case in self.cases():
            found = {}
            try:
                for key in list(asked):
                    try:
                        found[key] = self.memory.ask(asked[key], case)
                    except UnsupportedModel as error:
                        left_out[key] = str(error)
                        del asked[key], answers[key]
            except MixlensError as error:
                skipped.append((case.example.name, str(error)))
                continue
            for key, answer in found.items():
                answers[key].append(answer)
        if not any(answers.values()):
            reasons = [reason for _, reason in skipped[:1]] or list(left_out.values())[:1]
            raise InvalidInput("none of the texts could be used: " + "; ".join(reasons))
        return Observed(answers, skipped, left_out)


@dataclass(frozen=True)
class Observed(Generic[Key]):
    """Answers of the texts that could be used, in their order, by question."""

    answers: dict[Key, list[Any]]
    skipped: list[tuple[str, str]]  # texts, and why
    left_out: dict[Key, str]  # questions, and why


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, and whether it holds here; None where these data cannot tell."""

    statement: str
    holds: bool | None
    numbers: str = ""


def told(holds: bool, *numbers: float) -> bool | None:
    """A verdict, or None where one of the numbers that it rests on is not there."""
    return None if any(number != number for number in numbers) else bool(holds)


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    tables: Mapping[str, pd.DataFrame]  # the first is the main one
    figures: Mapping[str, Figure] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)  # the numbers that the paper prints
    findings: Sequence[Finding] = ()
    skipped: Sequence[tuple[str, str]] = ()  # texts that were left out, and why
    notes: str = ""

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidInput("an experiment gives at least one table")
