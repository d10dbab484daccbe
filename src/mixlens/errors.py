"""Errors that mixlens raises, and parts of their messages: counts with nouns ("1 text", "2 texts"),
and suggestions for unknown names. Each message states the reason and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping


class MixlensError(Exception):
    """Base class of all errors that mixlens raises on purpose.

    Examples
    --------
    >>> import mixlens
    >>> lens = mixlens.Lens.bundled()
    >>> try:
    ...     lens.measure("attention", "")
    ... except mixlens.MixlensError as error:
    ...     print(type(error).__name__)
    EmptyInput
    """

    def __str__(self) -> str:
        """Return the message with a full stop at its end."""
        return end_sentence(super().__str__())


class UnsupportedModel(MixlensError):
    """Raised if mixlens cannot verify a layer, or if a measure is not valid for the model."""


class InvalidInput(MixlensError, ValueError):
    """Raised if a text, a tensor, an argument or a file is not valid."""


class MissingTokenizer(InvalidInput):
    """Raised if you pass a text to a lens without a tokenizer."""


class EmptyInput(InvalidInput):
    """Raised if the input has no tokens."""


class InputTooLong(InvalidInput):
    """Raised if the input has more tokens than the model has positions."""


class WrongKeys(InvalidInput):
    """Raised if the input dict has keys that the model does not accept, or lacks a required key."""


class ModelChanged(InvalidInput):
    """Raised if the model has changed since it was recorded."""


class CannotLoad(InvalidInput, OSError):
    """Raised if a model or a tokenizer cannot be loaded."""


class CannotWrite(InvalidInput, OSError):
    """Raised if a file cannot be written. An existing file is then left unchanged."""


class TargetsUnavailable(UnsupportedModel):
    """Raised if mixlens cannot measure a few targets on their own, but could measure whole maps."""


class ProcessesDiffer(MixlensError, RuntimeError):
    """Raised in every process of a tensor-parallel model if the calls of the processes differ."""


class NonFiniteActivations(MixlensError, ArithmeticError):
    """Raised if weights, activations, logits or scores contain NaN or infinity."""


class OutOfMemory(MixlensError, MemoryError):
    """Raised if there is not enough memory."""


class MissingExtra(MixlensError, ImportError):
    """Raised if an optional dependency is not installed."""

    def __init__(self, package: str, extra: str = "eval") -> None:
        super().__init__(f"This feature needs {package}. Run pip install 'mixlens[{extra}]'.")


def end_sentence(message: str) -> str:
    """Return a message with a full stop, unless it is empty or ends with another mark."""
    return message if message.endswith((".", "?", "!")) or not message else f"{message}."


def list_reasons(reasons: Mapping[str, str]) -> str:
    """Return names with their reasons, one sentence after another."""
    return " ".join(f"{name}: {end_sentence(reason)}" for name, reason in reasons.items())


def about(subject: str, error: MixlensError) -> MixlensError:
    """Return the error with its subject, such as a file, in front of the message."""
    error.args = (f"{subject}: {error}",)
    return error


def without_subject(name: str, message: str) -> str:
    """Remove a name from the beginning of a message that is shown next to that name."""
    return re.sub(rf"^{re.escape(name)}[,:]? ", "", message)


def in_short(error: Exception) -> str:
    """Return the class of an exception and the beginning of its message."""
    return f"{type(error).__name__} ({' '.join(str(error).split())[:200].removesuffix('.')})"


_LISTED_BY = {"measure": "Run `mixlens measures` for the list."}


def no_such(kind: str, name: object, choices: Iterable[str], among: str = "Choose one of") -> str:
    """Return an error message for an unknown name, with similar names as suggestions.

    For example: "Unknown measure 'value_zeroin'. Did you mean value_zeroing?". If no name is
    similar, the message lists all names or says how to list them.
    """
    names = {candidate.casefold().replace("-", "_"): candidate for candidate in choices}
    folded_name = str(name).casefold().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(folded_name, names, 3, 0.65)
    near = near or [key for key in names if key.replace("_", "") == folded_name.replace("_", "")]
    if near:
        advice = f"Did you mean {' or '.join(names[n] for n in near)}?"
    elif not names:
        advice = f"{among} no {kind}s." if among.endswith(" has") else "There are none."
    else:
        advice = _LISTED_BY.get(kind) or f"{among}: {', '.join(names.values())}."
    return f"Unknown {kind} {name!r}. {advice}"


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 texts"."""
    return f"{count} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """Return the plural of the noun, or the noun itself if the count is one."""
    return noun if count == 1 else f"{noun}s"
