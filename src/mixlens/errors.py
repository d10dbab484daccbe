"""Errors that mixlens raises. Each message states the reason and what to do."""

from __future__ import annotations

import re


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


def about(subject: str, error: MixlensError) -> MixlensError:
    """Return the error with its subject, such as a file, in front of the message."""
    error.args = (f"{subject}: {error}",)
    return error


def without_subject(name: str, message: str) -> str:
    """Remove a name from the beginning of a message that is shown next to that name."""
    return re.sub(rf"^{re.escape(name)}[,:]? ", "", message)


def in_short(error: Exception) -> str:
    """Return the class of an exception and the beginning of its message."""
    return f"{type(error).__name__} ({' '.join(str(error).split())[:200]})"
