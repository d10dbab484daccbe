"""A faulty tokenizer raises an error of mixlens in every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mixlens import InvalidInput, Lens, MixlensError


class Tokenizer:
    """The tokenizer of a bundled model, one of whose answers is changed."""

    def __init__(self, original: Any, asked: str, answer: Callable[..., Any]) -> None:
        self._original, self._asked, self._answer = original, asked, answer

    def __len__(self) -> int:
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._original, name)
        return self._changed(own) if name == self._asked else own

    def __call__(self, *texts: Any, **options: Any) -> Any:
        own = self._original
        return (self._changed(own) if self._asked == "call" else own)(*texts, **options)

    def _changed(self, own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **options: self._answer(own(*given, **options))


def _fails(made: Any) -> Any:
    raise KeyError("word")


def _first_row(made: Any) -> dict[str, Any]:
    return {name: column[:1] for name, column in made.items()}


def _with(name: str, change: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def changed(made: Any) -> dict[str, Any]:
        column = made[name]
        rows = isinstance(column[0], list)
        return {**made, name: [change(row) for row in column] if rows else change(column)}

    return changed


def _shorter(row: Any) -> Any:
    return row[:-1]


CALLS: dict[str, Callable[[Any], Any]] = {
    "fails": _fails,
    "none": lambda made: None,
    "text": lambda made: "words",
    "number": lambda made: 5,
    "list of ids": lambda made: made["input_ids"],
    "no ids": lambda made: {"tokens": made["input_ids"]},
    "ids are none": lambda made: {**made, "input_ids": None},
    "ids are text": _with("input_ids", lambda row: "12"),
    "ids are words": _with("input_ids", lambda row: ["word" for _ in row]),
    "ids are fractions": _with("input_ids", lambda row: [number + 0.5 for number in row]),
    "too few ids": _with("input_ids", _shorter),
    "one row": _first_row,
    "too few types": _with("token_type_ids", _shorter),
    "too few offsets": _with("offset_mapping", _shorter),
    "offsets are numbers": _with("offset_mapping", lambda row: list(range(len(row)))),
    "huge ids": _with("input_ids", lambda row: [10**6 for _ in row]),
    "negative ids": _with("input_ids", lambda row: [-3 for _ in row]),
}
NAMES: dict[str, Callable[[Any], Any]] = {
    "fails": _fails,
    "none": lambda made: None,
    "one name": lambda made: made[0],
    "too few names": lambda made: made[:-1],
}


def _asked(lens: Lens) -> Iterator[Callable[[], Any]]:
    text = "The dogs are [MASK]."
    yield lambda: lens.measure("attention", text)
    yield lambda: lens.measure("alti", text, targets=[-1])
    yield lambda: lens.measure("attention", [text, "A cat sleeps."])
    yield lambda: lens.measure("attention", ("The dogs", "are old."))
    yield lambda: lens.measure("gradient_norm", text, word="old")
    yield lambda: lens.predictions(text)
    yield lambda: lens.compare(text, only=["attention"])


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_a_masked_model(name: str) -> None:
    bundled = Lens.bundled()
    own = Tokenizer(bundled.tokenizer, "call", CALLS[name])
    refused = 0
    for ask in _asked(Lens(bundled.model, own)):
        try:
            ask()
        except MixlensError as error:
            refused += 1
            assert not isinstance(error, KeyError)
    assert refused >= (1 if "row" in name or "types" in name else 5)


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_a_causal_model(name: str) -> None:
    if "types" in name:
        return  # this model has none
    bundled = Lens.bundled("causal")
    lens = Lens(bundled.model, Tokenizer(bundled.tokenizer, "call", CALLS[name]))
    if name != "one row":
        with pytest.raises(MixlensError):
            lens.generate("Once upon a time", max_new_tokens=2)
        with pytest.raises(MixlensError):
            lens.generate("Once upon a time", answer=" there")
    with pytest.raises(MixlensError):
        lens.record(["Once upon a time", "there was a dog"])


@pytest.mark.parametrize("asked", ["convert_ids_to_tokens", "decode"])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_tokens(name: str, asked: str) -> None:
    bundled = Lens.bundled("causal")
    lens = Lens(bundled.model, Tokenizer(bundled.tokenizer, asked, NAMES[name]))
    if asked == "decode" and name in ("one name", "too few names"):
        return  # a text as well
    with pytest.raises(InvalidInput, match="The tokenizer Tokenizer"):
        lens.generate("Once upon a time", max_new_tokens=2)
    if asked != "decode":
        with pytest.raises(InvalidInput, match="The tokenizer Tokenizer"):
            lens.measure("attention", "Once upon a time")
