"""Turn errors into one-line messages and exit codes.

The exit codes are 0 (success), 1 (an error at run time), 2 (a usage error) and 130 (interrupted).
"""

from __future__ import annotations

import difflib
import errno
import re
from importlib import metadata
from typing import Any

from mixlens.errors import InvalidInput, MixlensError

FAILURE, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_DISK = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT)
_WRONG_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


def exit_code(error: BaseException) -> int:
    """Return exit code 2 if the error can be fixed by changing the command line, else 1."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OSError) and cause.errno in _DISK:
        return FAILURE
    wrong = is_usage_error(error) or isinstance(error, (InvalidInput, *_WRONG_PATH))
    return WRONG_USAGE if wrong else FAILURE


def is_usage_error(error: BaseException) -> bool:
    """Return whether an error means that the arguments could not be parsed."""
    return hasattr(error, "format_message")


def explain_error(error: BaseException) -> str:
    """Return the message of an expected error, or ask the user to report an unexpected one."""
    if is_usage_error(error):
        return f"error: {_usage_message(error)}{_hint(error)}"
    if isinstance(error, MixlensError):
        return f"error: {error}"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"error: {place}{error.strerror}"
    if isinstance(error, MemoryError):
        return "error: Not enough memory. Try a shorter text or a smaller model."
    lines = str(error).strip().splitlines()
    return (
        f"unexpected error: {type(error).__name__}: {lines[0] if lines else ''}\n"
        f"This is a bug in mixlens. Please report it{_tracker()} with the output of the same"
        " command and --debug."
    )


def _usage_message(error: Any) -> str:
    """Rewrite the message of a parsing error, with the offending value first."""
    message = str(error.format_message()).strip().rstrip(".")
    kind, param = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        near = difflib.get_close_matches(error.option_name, error.possibilities or (), 1, 0.0)
        advice = f" Did you mean {near[0]}?" if near else ""
        return f"Unknown option '{error.option_name}'.{advice}"
    if message.startswith("No such command"):
        return _unknown_command(message.split("'")[1], error.ctx)
    if match := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        has_text = any(param.name == "text" for param in error.ctx.command.params)
        advice = " Quote a text that contains spaces." if has_text else ""
        return f"Unexpected argument '{match[1]}'.{advice}"
    if match := re.match(r"Option '(.*)' requires", message):
        return f"{match[1]} needs a value."
    if param is None:
        return f"{message}."
    name = _spelling(param)
    if kind == "MissingParameter":
        return f"{name} is required."
    return _value_message(name, error)


def _value_message(name: str, error: Any) -> str:
    """Return the message for a value that an option or argument does not accept.

    Depending on its version, typer writes these messages itself or takes them from pydantic.
    """
    message = str(error.message)
    cause: list[Any] = getattr(error.__cause__, "errors", list)()
    value = repr(cause[0]["input"]) if cause else message.partition(" is not ")[0]
    value = value if "'" in value else f"'{value}'"
    if match := re.search(r"('.*') is not one of (.+?)\.?$", message):
        choices = match[2].replace("'", "")
        return f"Unknown {name} {match[1]}. Choose one of: {choices}."
    if "valid int" in message:
        return f"{value} is not an integer. Pass one to {name}."
    if "valid" in message:
        return f"{value} is not a number. Pass one to {name}."
    if limits := _limits(message):
        return f"{value} is out of range for {name}. Pass a number {limits}."
    return f"{value} does not fit {name}."


def _limits(message: str) -> str:
    """Describe a range of numbers, such as "of at least 1" for "x>=1" or "greater than or equal to
    1".
    """
    numbers = re.findall(r"-?\d+(?:\.\d+)?", message.partition("range")[2] or message)
    if len(numbers) > 1:
        return f"from {numbers[0]} to {numbers[1]}"
    side = "least" if re.search(r">|greater", message) else "most"
    return f"of at {side} {numbers[0]}" if numbers else ""


def _unknown_command(name: str, context: Any) -> str:
    near = difflib.get_close_matches(name, context.command.list_commands(context), 1)
    return f"Unknown command '{name}'." + (f" Did you mean {near[0]}?" if near else "")


def _spelling(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return next((str(name) for name in param.opts if name.startswith("--")), str(param.opts[0]))


def _hint(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f" Run `{context.command_path} --help` for help."


def _tracker() -> str:
    """Return the address for bug reports."""
    try:
        urls = metadata.metadata("mixlens").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    parts = (url.partition(", ") for url in urls)
    return next((f" at {url}" for name, _, url in parts if name == "Issues"), "")
