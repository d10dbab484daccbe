"""What can go wrong, each with the reason and what to do about it."""

from __future__ import annotations

import re


class MixlensError(Exception):
    """Base of every error that mixlens raises on purpose."""


class UnsupportedModel(MixlensError):
    """The model's numbers could not be taken apart and proved right, so none are given."""


class InvalidInput(MixlensError, ValueError):
    """The text or tensors cannot be recorded as they are."""


class MissingTokenizer(InvalidInput):
    """A text was given to a lens that has no tokenizer."""


class EmptyInput(InvalidInput):
    """There is no token to record."""


class InputTooLong(InvalidInput):
    """The input has more tokens than the model has positions."""


class WrongKeys(InvalidInput):
    """The input dict has keys that the model does not take, or lacks one that it needs."""


class ModelChanged(InvalidInput):
    """The model is not in the state in which it was recorded."""


class CannotLoad(InvalidInput, OSError):
    """A model or a tokenizer could not be loaded."""


class CannotWrite(InvalidInput, OSError):
    """A file could not be written; what was there before is as it was."""


class RowsUnavailable(UnsupportedModel):
    """A few targets cannot be measured by themselves here; the whole map can."""


class NonFiniteActivations(MixlensError, ArithmeticError):
    """A layer returned NaN or infinity."""


class OutOfMemory(MixlensError, MemoryError):
    """There is not enough memory for what was asked for."""


class MissingExtra(MixlensError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str = "eval") -> None:
        super().__init__(f"this needs {package}: pip install 'mixlens[{extra}]'")


def about(subject: str, error: MixlensError) -> MixlensError:
    """The same error, with what it is about in front."""
    error.args = (f"{subject}: {error}",)
    return error


def without_subject(name: str, message: str) -> str:
    """A message without the name that it begins with, to be shown next to that name."""
    return re.sub(rf"^{re.escape(name)}[,:]? ", "", message)


def in_short(error: Exception) -> str:
    """The kind of an exception and the beginning of what it says."""
    return f"{type(error).__name__} ({' '.join(str(error).split())[:200]})"
