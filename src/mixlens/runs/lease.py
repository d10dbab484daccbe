"""Ensure that only one run writes to a folder on object storage, which has no locks.

Each run writes its own object, the lease, and then lists all leases of the folder. If two runs
start at the same time, at least one of them finds the lease of the other, because a listing
includes all objects that were written before. That run deletes its lease and tries again.

While a run is active, it rewrites its lease every `BEAT` seconds. A killed run no longer renews its
lease. If its process was on this machine, the lease expires immediately. Otherwise, it expires when
it has not changed for `EXPIRY` seconds, as measured by the waiting process, so the clocks of the
machines need not agree. A run that was suspended for longer than that no longer owns the folder and
ends with an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mixlens.datasets.object_storage import ObjectPath
from mixlens.errors import CannotWrite, InvalidInput, MixlensError

BEAT, EXPIRY = 10.0, 60.0  # seconds
_TRIES = 20  # if several runs begin at once


@dataclass(frozen=True)
class _Content:
    """The content of a lease."""

    machine: str
    process: int
    began: str
    beat: int = 0


class Lease:
    """The exclusive right of one run to write to a folder."""

    def __init__(self, path: ObjectPath) -> None:
        self.path = path
        self._content = _Content(
            _machine(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        )
        self._stop = threading.Event()
        self._last = time.monotonic()
        self._lost = False

    def write(self) -> None:
        """Write the lease with its counter increased by one."""
        start = time.monotonic()
        self._content = replace(self._content, beat=self._content.beat + 1)
        self.path.write_bytes(json.dumps(asdict(self._content)).encode())
        self._last = start

    def require_held(self) -> None:
        """Raise an error if another run may have taken over the folder."""
        if self._lost or time.monotonic() - self._last > EXPIRY:
            raise CannotWrite(
                f"This run no longer owns its folder ({self.path} was not renewed for {EXPIRY:g} s,"
                " or was deleted), so another run may have continued it. Run the same command to"
                " resume."
            )

    @contextlib.contextmanager
    def renew(self) -> Iterator[Lease]:
        """Renew the lease in the background, and delete it at the end."""
        thread = threading.Thread(target=self._renew, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()
            with contextlib.suppress(MixlensError):  # it expires
                self.path.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._stop.wait(BEAT):
            with contextlib.suppress(MixlensError):  # the next one may work
                if not self.path.exists():
                    self._lost = True
                    return
                self.write()


@contextlib.contextmanager
def acquire_lease(folder: ObjectPath, name: str) -> Iterator[Lease]:
    """Acquire the lease of a folder, and yield it.

    If another run is active, raise `InvalidInput`. If a killed run left a lease, wait until it
    expires.
    """
    lease = Lease(folder / f"{name}.{uuid.uuid4().hex}.json")
    for _ in range(_TRIES):
        _wait_for_others(folder, name)
        lease.write()
        if _list_others(folder, name) == [lease.path]:
            break
        lease.path.unlink(missing_ok=True)
        time.sleep(random.uniform(0.1, 1))
    else:
        raise InvalidInput(f"Several runs are starting in {folder}. Start only one of them.")
    with lease.renew():
        yield lease


def _list_others(folder: ObjectPath, name: str) -> list[ObjectPath]:
    return list(folder.glob(f"{name}.*.json"))


def _wait_for_others(folder: ObjectPath, name: str) -> None:
    """Wait until there are no other leases, and delete the leases of killed runs.

    Raise an error if another lease is renewed.
    """
    first = {path: _read_content(path) for path in _list_others(folder, name)}
    watched = time.monotonic()
    while first:
        for path, before in list(first.items()):
            now = _read_content(path)
            if now is None:  # it ended
                del first[path]
            elif _has_ended(now) or time.monotonic() - watched > EXPIRY:
                path.unlink(missing_ok=True)
                del first[path]
            elif before is not None and now.beat != before.beat:
                raise InvalidInput(
                    f"{folder} is in use by another run (process {now.process} on "
                    f"{now.machine.split()[0]}, since {now.began}). Wait for it, or choose another"
                    " --out."
                )
        if first:
            time.sleep(min(1.0, BEAT / 4))


def _read_content(path: ObjectPath) -> _Content | None:
    """Return the content of a lease, or None if it was deleted."""
    try:
        return _Content(**json.loads(path.read_bytes()))
    except InvalidInput:
        if path.exists():
            raise
        return None
    except (ValueError, TypeError):
        return _Content("unknown", 0, "an unknown time")


def _has_ended(content: _Content) -> bool:
    """Return whether the process of a lease ran on this machine and has ended."""
    if os.name != "posix" or content.machine != _machine():
        return False
    try:
        os.kill(content.process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine() -> str:
    """Return a name for the machine on which process ids are unique.

    It includes the boot id and the PID namespace, so that it changes after a restart and differs
    between containers.
    """
    parts = [platform.node() or "unknown"]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return " ".join(parts)
