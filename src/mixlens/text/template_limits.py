"""Limit the time and the output of chat templates, which may be any program.

Jinja's sandbox keeps a template away from files and the network, but lets it run and write for as
long as it likes. A trace function of the thread that renders it (`sys.settrace`) sees every line of
the template and everything that it writes, so that the template stops where it is, in any thread
and without a second one.
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
CHARACTERS = 1_000_000  # that a template may add to what the messages say


class EndlessTemplate(InvalidInput):
    """A chat template ran too long or wrote too much."""


class _Stop(BaseException):
    """Passes every `except Exception` of the code that is stopped."""


@contextlib.contextmanager
def template_limits(characters: int) -> Iterator[None]:
    """Stop what runs inside after `SECONDS`, or after a template has written so many characters."""
    watch = _Watch(time.monotonic() + SECONDS, characters)
    before = sys.gettrace()
    sys.settrace(watch.called)
    try:
        yield
    except _Stop as stop:
        raise EndlessTemplate(f"the chat template {stop}: give the prompt as one text") from None
    finally:
        sys.settrace(before)


class _Watch:
    def __init__(self, deadline: float, characters: int) -> None:
        self._deadline = deadline
        self._characters = characters
        self._left = characters

    def called(self, frame: FrameType, event: str, value: Any) -> Any:
        """Trace function of all calls; lines are traced in templates and in Jinja's runtime."""
        self._require_time()
        file = frame.f_code.co_filename
        if file.startswith("<"):  # compiled by Jinja, not read from a file
            return self._in_template
        frame.f_trace_lines = False
        return self._in_runtime if "jinja2" in file else None

    def _in_template(self, frame: FrameType, event: str, value: Any) -> Any:
        """Generators of a template yield, and its macros return, what they write."""
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
