"""`--span`: choose the targets that `mixlens map` scores as one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MEASURE
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.recording import Recording
    from mixlens.text.tokens import TokenRow

_DEFINITIONS = ("sum", "joint", "mean", "auto")

SpanOption = Annotated[
    str | None,
    typer.Option(
        metavar="DEFINITION",
        rich_help_panel=MEASURE,
        help="Score several targets as one: sum, joint, mean or auto. The targets are those of"
        " --target, such as 3-7 or a word or sentence of the text, or else the answer that"
        " --generate produces.",
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        rich_help_panel=MEASURE,
        help="Weights of the targets of --span, separated by commas. Default: 1 for each.",
    ),
]


def check_span(span: str | None) -> None:
    """Raise if --span is not a known definition. Call this before a model is loaded."""
    if span is not None and span not in _DEFINITIONS:
        raise InvalidInput(
            f"Unknown --span {span!r}. Choose one of: {', '.join(_DEFINITIONS)}. To choose the "
            "targets, pass --target."
        )


def span_arguments(
    span: str,
    weights: str | None,
    target: str | None,
    lens: Lens,
    inputs: Any,
    recording: Recording | None,
    site: str | None,
) -> dict[str, Any]:
    """Return the `Lens.measure` arguments for scoring several targets as a span."""
    arguments: dict[str, Any] = {"span": True if span == "auto" else span}
    if weights is not None:
        arguments["weights"] = _numbers(weights)
    if target is None:
        if recording is None:
            raise InvalidInput("--span needs targets. Pass --target 3-7, or --generate.")
        return arguments
    answer_places = None if recording is None or recording.targets is None else recording.targets[0]
    named_recording = lens.record(inputs, targets=0, site=site) if recording is None else recording
    target_tokens = named_recording.named_targets(named_recording.site if site is None else site, 0)
    arguments["targets"] = span_positions(target, target_tokens, answer_places)
    return arguments


def answer_arguments(
    span: str, weights: str | None, target: str | None, recording: Recording | None
) -> dict[str, Any]:
    """Return the `Lens.measure` arguments for explaining the tokens of a span as one output."""
    if span not in ("sum", "mean", "auto"):
        raise InvalidInput(
            f"--span {span} is only for layer measures. For measures that explain an output, pass "
            "--span sum or mean."
        )
    if target is None and recording is None:
        raise InvalidInput("--span needs targets. Pass --target 3-7, or --generate.")
    arguments: dict[str, Any] = {"answer": True if target is None else target}
    if target is not None and (numbers := re.fullmatch(r"(\d+)\s*-\s*(\d+)", target)):
        arguments["answer"] = (int(numbers[1]) + 1, int(numbers[2]) + 2)  # which they produce
    if span == "mean":
        arguments["reduce"] = "mean"
    if weights is not None:
        arguments["weights"] = _numbers(weights)
    return arguments


def _numbers(weights: str) -> list[float]:
    try:
        return [float(each) for each in weights.split(",")]
    except ValueError:
        raise InvalidInput(
            f"--weights {weights} are not numbers separated by commas, such as 1,0.5,2."
        ) from None


def span_positions(target: str, row: TokenRow, answer_places: tuple[int, ...] | None) -> list[int]:
    """Return the positions of a range, a list, or a piece of the text.

    `answer_places` restricts the search for a piece of text to these targets, such as the tokens of
    an answer. A number that is too large for a position, such as a year, counts as a piece of text.
    """
    if numbers := re.fullmatch(r"(\d+)\s*-\s*(\d+)", target):
        first, last = int(numbers[1]), int(numbers[2])
        if last < first:
            raise InvalidInput(f"The span {target} ends before it begins. Pass {last}-{first}.")
        return list(range(first, last + 1))
    is_piece = row.text is not None and target.isdecimal() and int(target) >= len(row)
    if not is_piece and re.fullmatch(r"-?\d+(\s*,\s*-?\d+)*", target):
        return [int(each) for each in target.split(",")]
    if row.text is None or row.offsets is None:
        raise InvalidInput(
            f"Cannot search for {target!r}, because the tokens have no text. Pass positions, such "
            "as 3-7."
        )
    places = range(len(row)) if answer_places is None else answer_places
    matches = [
        (match.start(), match.end())
        for match in re.finditer(re.escape(target), row.text)
        if any(_overlap(row.offsets[place], match.span()) for place in places)
    ]
    where = "the text" if answer_places is None else "the answer"
    if not matches:
        raise InvalidInput(
            f"{target!r} is not in {where}. Pass words that are in it, or positions, such as 3-7."
        )
    if len(matches) > 1:
        raise InvalidInput(
            f"{target!r} occurs {len(matches)} times in {where}. Pass a longer piece, or"
            " positions, such as 3-7."
        )
    return [place for place in places if _overlap(row.offsets[place], matches[0])]


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[1] and second[0] < first[1]
