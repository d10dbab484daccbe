"""Run jobs one at a time from a bounded queue, with cancellation and cached results.

Equal requests (the same text, model and measures) give the same result, so results are cached by
the hash of the request.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mixlens.errors import MixlensError
from mixlens.server.api import Limits, State

log = logging.getLogger("mixlens.server")


class QueueFull(Exception):
    """Raised if the queue of the server is full."""


class Cancelled(BaseException):
    """Raised to stop the work of a cancelled job.

    It is not an `Exception`, so that code that catches exceptions to test a module does not catch
    it.
    """


class OutOfTime(BaseException):
    """Raised to stop a job that runs too long. Like `Cancelled`, it is not an `Exception`."""


@dataclass(eq=False)
class WebJob:
    """A request that is waiting, running or finished."""

    id: str
    key: str
    request: Mapping[str, Any]
    state: State = State.queued
    progress: float = 0.0
    message: str = "waiting"
    deadline: float | None = None  # by `time.monotonic`

    def check(self) -> None:
        """Raise an error if the job was cancelled or has run too long.

        The code that runs the job calls this method regularly.
        """
        if self.state is State.cancelled:
            raise Cancelled
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime

    def report(self, progress: float, message: str) -> None:
        """Store the progress of the job. Raise an error if the job should stop."""
        self.check()
        self.progress, self.message = progress, message


Work = Callable[[WebJob], bytes]
"""Computes the result of a job and calls `job.report` regularly."""


class Jobs:
    """A queue with a single worker, because the hooks can record only one text at a time."""

    def __init__(self, work: Work, limits: Limits) -> None:
        self._work, self._limits = work, limits
        self._jobs: OrderedDict[str, WebJob] = OrderedDict()
        self._waiting: deque[WebJob] = deque()
        self._results: OrderedDict[str, bytes] = OrderedDict()
        self._changed = threading.Condition()
        self._stopped = False
        self._worker = threading.Thread(target=self._run, name="mixlens-jobs", daemon=True)

    def start(self) -> None:
        """Start the worker."""
        self._worker.start()

    def stop(self) -> None:
        """Cancel all jobs and wait for the worker."""
        with self._changed:
            self._stopped = True
            for job in self._jobs.values():
                _cancel(job)
            self._waiting.clear()
            self._changed.notify_all()
        self._worker.join()

    def submit(self, request: Mapping[str, Any]) -> WebJob:
        """Create a job for a request, and queue it. If its result is cached, the job is already
        done.
        """
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        with self._changed:
            job = WebJob(secrets.token_urlsafe(16), key, request)
            if key in self._results:
                self._results.move_to_end(key)
                job.state, job.progress, job.message = State.done, 1.0, "cached result"
            elif len(self._waiting) >= self._limits.waiting:
                raise QueueFull
            else:
                self._waiting.append(job)
                self._changed.notify_all()
            self._jobs[job.id] = job
            self._forget()
            return job

    def get(self, name: str) -> WebJob | None:
        """Return the job with this identifier, or None if it does not exist."""
        with self._changed:
            return self._jobs.get(name)

    def result(self, job: WebJob) -> bytes | None:
        """Return the result of a finished job, or None if it is no longer cached."""
        with self._changed:
            return self._results.get(job.key) if job.state is State.done else None

    def cancel(self, job: WebJob) -> None:
        """Cancel a job. It is removed from the queue, or it stops at its next progress report."""
        with self._changed:
            _cancel(job)
            if job in self._waiting:
                self._waiting.remove(job)

    def _forget(self) -> None:
        """Delete the oldest finished jobs and cached results that exceed the limits."""
        finished = [name for name, job in self._jobs.items() if job.state.is_final]
        for name in finished[: max(0, len(self._jobs) - self._limits.kept)]:
            del self._jobs[name]
        while sum(map(len, self._results.values())) > self._limits.kept_bytes:
            self._results.popitem(last=False)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                job = self._waiting.popleft()
                job.state = State.running
                job.deadline = time.monotonic() + self._limits.seconds
            self._finish(job)

    def _finish(self, job: WebJob) -> None:
        try:
            result = self._work(job)
        except Cancelled:
            return
        except OutOfTime:
            state, result = State.failed, b""
            message = (
                f"The job took longer than {self._limits.seconds:g} seconds. Shorten the text,"
                " choose a cheaper measure, or start the server with more --seconds."
            )
        except MixlensError as error:
            state, message, result = State.failed, str(error), b""
        except Exception:
            log.exception("job failed")
            state, message = State.failed, "The server failed. See its log for the reason."
            result = b""
        else:
            state, message = State.done, "done"
        with self._changed:
            if job.state is not State.cancelled:
                if state is State.done:
                    self._results[job.key] = result
                job.state, job.progress, job.message = state, 1.0, message
                self._forget()


def _cancel(job: WebJob) -> None:
    if not job.state.is_final:
        job.state, job.message = State.cancelled, "cancelled"
