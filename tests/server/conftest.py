"""A real server on loopback, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import httpx
import uvicorn

from mixlens import Lens
from mixlens.server.api import Limits
from mixlens.server.server import create_app

TEXT = "The keys to the old cabinet [MASK] on the table."


@contextmanager
def serving(lenses: dict[str, Lens], limits: Limits) -> Iterator[str]:
    """The address of a server that runs as long as the block does."""
    config = uvicorn.Config(
        create_app(lenses, limits), port=0, log_level="error", limit_concurrency=limits.connections
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="session")
def address(lens: Lens) -> Iterator[str]:
    limits = Limits(tokens=64, characters=2000, jobs_per_minute=10_000, body_bytes=16 * 1024)
    with serving({"bundled": lens}, limits) as url:
        yield url


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as opened:
        yield opened


@pytest.fixture
def finished(client: httpx.Client) -> Callable[..., dict[str, object]]:
    """Asks for a text and waits until the job is over."""

    def ask(text: str = TEXT, **changes: object) -> dict[str, object]:
        body = {"model": "bundled", "text": text, "measures": ["attention"], **changes}
        answer = client.post("/api/jobs", json=body)
        assert answer.status_code == 202, answer.text
        while True:
            status: dict[str, object] = client.get(f"/api/jobs/{answer.json()['id']}").json()
            if status["state"] not in ("queued", "running"):
                return status
            time.sleep(0.01)

    return ask
