"""Limit the time and the output of chat templates, which may be any program.

Jinja's sandbox keeps a template away from files and the network, but not from running and writing
without end. A trace function of the rendering thread (`sys.settrace`) sees every line of the
template and all its output, so that the template can be stopped in any thread without a second one.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from mixlens.errors import InvalidInput

SECONDS = 5.0
CHARACTERS = 1_000_000  # characters that a template may add to the messages


class EndlessTemplate(InvalidInput):
    """A chat template ran too long or wrote too much."""


class _Stop(BaseException):
    """Passes every `except Exception` of the stopped code."""


@contextlib.contextmanager
def template_limits(characters: int) -> Iterator[None]:
    """Stop the code inside after `SECONDS`, or after a template has written this many
    characters.
    """
    watch = _Watch(time.monotonic() + SECONDS, characters)
    before = sys.gettrace()
    sys.settrace(watch.called)
    try:
        yield
    except _Stop as stop:
        raise EndlessTemplate(f"The chat template {stop}. Pass the prompt as one text.") from None
    finally:
        sys.settrace(before)


class _Watch:
    def __init__(self, deadline: float, characters: int) -> None:
        self._deadline = deadline
        self._characters = characters
        self._left = characters

    def called(self, frame: FrameType, event: str, value: Any) -> Any:
        """Trace all calls, and lines in templates and in Jinja's runtime."""
        self._require_time()
        file = frame.f_code.co_filename
        if file.startswith("<"):  # compiled by Jinja, not read from a file
            return self._in_template
        frame.f_trace_lines = False
        return self._in_runtime if "jinja2" in file else None

    def _in_template(self, frame: FrameType, event: str, value: Any) -> Any:
        """Count the output of a template, which its generators yield and its macros return."""
        self._require_time()
        if event == "return" and isinstance(value, str):
            self._left -= len(value)
            self._require_short(self._left)
        return self._in_template

    def _in_runtime(self, frame: FrameType, event: str, value: Any) -> Any:
        if event == "return" and isinstance(value, str):
            self._require_short(self._characters - len(value))
        return self._in_runtime

    def _require_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _Stop(f"did not end within {SECONDS:g} seconds")

    def _require_short(self, left: int) -> None:
        if left < 0:
            raise _Stop(f"writes more than {self._characters:,} characters")
