"""A small server on loopback that speaks the hub's HTTP protocol, for the real client.

Small files are redirected within the server and large ones to a content server, as the hub does.
Both have etags. Ranges are served, and a content server may drop a connection in the middle. A
repository has revisions by name and by hash, may have been renamed, and may be gated.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 100_000  # bytes from which a file is on the content server
TOKEN = "hf_" + "x" * 34  # whom a gated repository lets in


@dataclass(kw_only=True)
class Repository:
    """A model or a data set: its files in each revision."""

    revisions: dict[str, dict[str, bytes]]
    gated: bool = False

    def commit(self, revision: str) -> str:
        """The hash of a revision, by its name."""
        return hashlib.sha1(revision.encode()).hexdigest()

    def named(self, revision: str) -> str | None:
        """The name of a revision, by its name or its hash."""
        wanted = unquote(revision)
        return next((each for each in self.revisions if wanted in (each, self.commit(each))), None)


@dataclass(kw_only=True)
class Hub:
    """What is on the server, and what was asked of it."""

    repositories: dict[str, Repository]  # by "models/owner/name" or "datasets/owner/name"
    renamed: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None  # bytes after which the next large download breaks off, once
    asked: list[tuple[str, str, int]] = field(default_factory=list)  # method, path, status
    ranges: list[str] = field(default_factory=list)
    address: str = ""
    content_address: str = ""  # of the content server

    def count(self, method: str, ending: str) -> int:
        """How many requests of a kind there were."""
        return sum(each[0] == method and each[1].endswith(ending) for each in self.asked)


class _Answer(Exception):
    """Any answer but a file."""

    def __init__(self, status: int, headers: dict[str, str] | None = None, body: Any = None):
        self.status, self.headers = status, headers or {}
        self.body = b"" if body is None else json.dumps(body).encode()


def _not_found(code: str) -> _Answer:
    return _Answer(404, {"X-Error-Code": code, "X-Error-Message": code})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return cast("_Server", self.server).hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length).decode()
        place = urlsplit(self.path)
        try:
            parts = place.path.strip("/").split("/")
            if parts == [""]:
                raise _Answer(200)  # the front page
            if parts[0] == "content":
                self._send_file(_content(self.hub, parts[1]), parts[1], {}, large=True)
            elif parts[0] == "api":
                self._api(parts[1:], parse_qs(sent))
            else:
                self._resolve(parts)
        except _Answer as answer:
            self._send(answer.status, answer.headers, answer.body)

    def _resolve(self, parts: list[str]) -> None:
        """`[datasets/]owner/name/resolve/revision/file`."""
        kind = "datasets" if parts[0] == "datasets" else "models"
        owner, name, verb, revision, *path = parts[1:] if kind == "datasets" else parts
        key = f"{kind}/{owner}/{name}"
        repository, known = self._known(key, revision)
        content = repository.revisions[known].get("/".join(path))
        facts = {"X-Repo-Commit": repository.commit(known)}
        if content is None:
            raise _Answer(404, {**facts, "X-Error-Code": "EntryNotFound"})
        if len(content) >= LARGE:
            etag = hashlib.sha256(content).hexdigest()
            linked = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
            where = {"Location": f"{self.hub.content_address}/content/{etag}"}
            raise _Answer(302, {**facts, **linked, **where})
        if verb == "resolve":
            raise _Answer(307, {**facts, "Location": self.path.replace("/resolve/", "/cached/", 1)})
        self._send_file(content, hashlib.sha1(content).hexdigest(), facts)

    def _known(self, key: str, revision: str) -> tuple[Repository, str]:
        """The repository and its revision, for those who may read it."""
        if key in self.hub.renamed:
            old, new = (each.removeprefix("models/") for each in (key, self.hub.renamed[key]))
            raise _Answer(307, {"Location": self.path.replace(old, new, 1)})
        repository = self.hub.repositories.get(key)
        if repository is None:
            raise _Answer(401, {"X-Error-Code": "RepoNotFound"})
        if repository.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Answer(401, {"X-Error-Code": "GatedRepo"})
        known = repository.named(revision)
        if known is None:
            raise _not_found("RevisionNotFound")
        return repository, known

    def _api(self, parts: list[str], sent: dict[str, list[str]]) -> None:
        """`models|datasets/owner/name[/revision|tree|paths-info/revision/path]`."""
        if len(parts) < 3 or parts[0] not in ("models", "datasets"):
            raise _not_found("EntryNotFound")
        key, rest = "/".join(parts[:3]), parts[3:]
        verb, revision = (rest[0], rest[1]) if len(rest) > 1 else ("revision", "main")
        repository, known = self._known(key, revision)
        files = repository.revisions[known]
        listed = [_entry(path, content) for path, content in files.items()]
        if verb == "tree":
            below = [each for each in listed if each["path"].startswith("/".join(rest[2:]))]
            raise _Answer(200, {}, below) if below else _not_found("EntryNotFound")
        if verb == "paths-info":
            raise _Answer(200, {}, [each for each in listed if each["path"] in sent["paths"]])
        if verb != "revision":
            raise _not_found("EntryNotFound")
        siblings = [{"rfilename": path} for path in files]
        about = {"id": "/".join(parts[1:3]), "sha": repository.commit(known), "siblings": siblings}
        raise _Answer(200, {}, {**about, "private": False, "tags": [], "downloads": 0})

    def _send_file(
        self, content: bytes, etag: str, facts: dict[str, str], large: bool = False
    ) -> None:
        headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", **facts}
        asked, status = self.headers.get("Range"), 200
        if asked is not None:
            self.hub.ranges.append(asked)
            first, _, last = asked.removeprefix("bytes=").partition("-")
            end = int(last) + 1 if last else len(content)
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
            content, status = content[int(first) : end], 206
        cut = self.hub.cut_after if large and self.command == "GET" else None
        if cut is not None:
            self.hub.cut_after = None
            self.close_connection = True
        self._send(status, headers, content, cut)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None
    ) -> None:
        self.hub.asked.append((self.command, urlsplit(self.path).path, status))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
    entry["oid"] = hashlib.sha1(content).hexdigest()
    if len(content) >= LARGE:
        oid = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 134}
    return entry


def _content(hub: Hub, digest: str) -> bytes:
    for repository in hub.repositories.values():
        for files in repository.revisions.values():
            for content in files.values():
                if hashlib.sha256(content).hexdigest() == digest:
                    return content
    raise _not_found("EntryNotFound")


class _Server(ThreadingHTTPServer):
    hub: Hub


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub and its content server at free ports of loopback, until the block is left."""
    with _listening(hub) as hub.address, _listening(hub) as hub.content_address:
        yield hub


@contextmanager
def _listening(hub: Hub) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = hub
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
