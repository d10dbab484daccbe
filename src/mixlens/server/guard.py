"""Check the origin and the rate of requests before they are read.

* `Host` must be an allowed name of this server, so that other pages cannot reach it through their
  own host name (DNS rebinding).
* `Origin`, if a browser sends one, must be this server itself.
* The size of the body is limited, and checked while it is read.
* The number of new jobs per minute is limited for each address.

The headers of every response forbid requests to other servers, framing and content sniffing.
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mixlens.server.api import Limits

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = "default-src 'none'; frame-ancestors 'none'"
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_ADDRESSES = 4096  # addresses tracked at a time


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], limits: Limits) -> None:
        self.app = app
        self.hosts: frozenset[str] = frozenset(hosts)
        self.limits = limits
        self._requests: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # address: tokens, time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refusal(scope, Headers(scope=scope))
        guarded = _with_headers(send)
        if refused is not None:
            await _refuse(guarded, *refused)
            return
        await self.app(scope, self._bound(receive), guarded)

    @property
    def _too_large(self) -> str:
        return (
            f"The request is larger than {self.limits.body_bytes // 1024} KB. Send a shorter text."
        )

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if _host_of("//" + headers.get("host", "")) not in self.hosts:
            return 421, "This host name is not allowed. Start the server with --allow-host NAME."
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{headers['host']}":
            return 403, "Requests from pages of other servers are not allowed."
        length = headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,18}", length) or int(length) > self.limits.body_bytes:
            return 413, self._too_large
        if scope["method"] == "POST" and not self._may_ask(scope):
            most = self.limits.jobs_per_minute
            return 429, f"More than {most} jobs in a minute. Wait and try again."
        return None

    def _may_ask(self, scope: Scope) -> bool:
        """Return whether an address may start another job.

        Each address has a token bucket, which is refilled within a minute.
        """
        address, now = str((scope.get("client") or ("",))[0]), time.monotonic()
        most = float(self.limits.jobs_per_minute)
        tokens, before = self._requests.pop(address, (most, now))
        tokens = min(most, tokens + (now - before) * most / 60)
        self._requests[address] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._requests) > _ADDRESSES:
            self._requests.popitem(last=False)
        return tokens >= 1

    def _bound(self, receive: Receive) -> Receive:
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.body_bytes:
                raise HTTPException(413, self._too_large)
            return message

        return bounded


def _host_of(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return "" if "@" in parts.netloc else (parts.hostname or "").lower()


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
