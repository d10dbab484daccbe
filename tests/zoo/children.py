"""Each model of the zoo in a forked process of its own, bounded in time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from mixlens.errors import MixlensError
from mixlens.maps.provenance import versions
from tests.zoo.journal import Finding
from tests.zoo.models import Entry

MEMORY = 8 * 2**30
Examination = Callable[[Entry], dict[str, Any]]


class OutOfTime(BaseException):
    """Nobody on the way may take it for an error of the model."""


def finding_of(entry: Entry, examine: Examination) -> Finding:
    """What one model shows; whatever it raises is a verdict."""
    start = time.process_time()
    line: Finding = {"type": entry.type, "class": entry.key}
    try:
        line.update(examine(entry))
    except MixlensError as error:
        line.update(verdict="refused", reason=str(error), error=type(error).__name__)
    except BaseException as error:
        line.update(verdict="exception", reason=described(error))
    seconds = round(time.process_time() - start, 1)
    return {**line, "seconds": seconds, **versions()}


def described(error: BaseException) -> str:
    """An error, with the line that raised it and the last line of ours on the way there."""
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if "mixlens" in Path(step.filename).parts] or steps
    places = dict.fromkeys(
        f"{Path(step.filename).name}:{step.lineno}" for step in (own[-1], steps[-1])
    )
    return f"{type(error).__name__}: {error}"[:300] + f" ({', '.join(places)})"


def each_in_a_child(
    entries: Iterable[Entry], examine: Examination, limit: int, jobs: int
) -> Iterator[Finding]:
    """`finding_of` of each, `jobs` at a time, in the order in which they are done."""
    fork = multiprocessing.get_context("fork")
    waiting = deque(entries)
    running: dict[Any, tuple[Entry, Any, Any]] = {}  # by the end of the pipe
    while waiting or running:
        while waiting and len(running) < jobs:
            entry = waiting.popleft()
            reader, writer = fork.Pipe(duplex=False)
            child = fork.Process(target=_send_finding, args=(writer, entry, examine, limit))
            child.start()
            writer.close()  # the child has it: its end is the end of the pipe
            running[reader] = entry, child, reader
        for done in wait(list(running)):
            entry, child, answer = running.pop(done)
            try:
                finding = answer.recv()
            except EOFError:
                child.join()
                said = f"killed by signal {-child.exitcode} (14: {10 * limit} s are over)"
                finding = {"verdict": "exception", "reason": said}
            child.join()
            yield {"type": entry.type, "class": entry.key, **finding}


def _send_finding(writer: Connection, entry: Entry, examine: Examination, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, limit)  # of the processor: the machine may be busy
    signal.alarm(10 * limit)  # kills it
    finding = finding_of(entry, examine)
    signal.setitimer(signal.ITIMER_PROF, 0)
    writer.send(finding)


def _out_of_time(*_: object) -> None:
    raise OutOfTime("more processor time than allowed")
