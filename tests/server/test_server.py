"""The server from the view of a client: responses, rejections and caching."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mixlens import Lens
from mixlens.errors import MissingTokenizer
from mixlens.measures import ready_measures
from mixlens.server.api import Limits
from mixlens.server.guard import Guard
from mixlens.server.server import create_app
from mixlens.views.viewer.payload import payload_of
from tests.cli.running import run
from tests.server.conftest import TEXT, serving

Finished = Callable[..., dict[str, Any]]
BODY = {"model": "bundled", "text": TEXT, "measures": ["attention"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "{taken}"], "error: 127.0.0.1:{taken} is not available"),
        (["--host", "192.0.2.1", "--port", "0"], "Anyone who can reach 192.0.2.1 can run"),
        (["--host", "no.invalid", "--port", "0"], "error: no.invalid:0 is not available"),
        (["--host", "300.1.1.1", "--port", "0"], "known). Pass another --host or --port."),
    ],
)
def test_an_unavailable_address_is_wrong_usage(options: list[str], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ran = run("serve", *(part.format(taken=port) for part in options))
    assert ran.status == 2
    assert words.format(taken=port) in ran.err


def test_the_api_lists_models_measures_and_limits(client: httpx.Client) -> None:
    choices = client.get("/api").json()
    (model,) = choices["models"]
    assert (model["name"], model["pairs"], model["methods"]) == ("bundled", False, [])
    unsupported = {"alti_logit", "logit_update"}  # the model is post-norm
    assert set(ready_measures()) - set(model["measures"]) == unsupported
    assert [measure["name"] for measure in choices["measures"]] == model["measures"]
    assert choices["limits"]["tokens"] == 64


def test_a_job_gives_what_the_library_gives(
    client: httpx.Client, finished: Finished, lens: Lens
) -> None:
    job = finished(measures=["attention_norm", "attention", "attention"], heads=True)
    assert (job["state"], job["progress"]) == ("done", 1)
    payload = client.get(f"/api/jobs/{job['id']}/payload").json()
    names = ["attention_norm", "attention"]
    maps = [lens.measure(name, TEXT, per_head=h) for name in names for h in (False, True)]
    expected = payload_of(maps)
    assert [entry["measure"] for entry in payload["maps"]] == names
    assert payload["maps"][0]["scores"] == expected["maps"][0]["scores"]
    assert payload["maps"][1]["heads"] == expected["maps"][1]["heads"]


def test_a_result_is_kept_by_content(client: httpx.Client, finished: Finished) -> None:
    first, second = finished("A cat sat."), finished("A cat sat.")
    assert second["message"] == "cached result"
    assert first["id"] != second["id"]
    assert finished("A cat sat!")["message"] == "done"
    payloads = [client.get(f"/api/jobs/{job['id']}/payload").content for job in (first, second)]
    assert payloads[0] == payloads[1]


def test_errors_are_words(client: httpx.Client, finished: Finished) -> None:
    long = finished("the " * 100)
    assert long["state"] == "failed"
    assert "Shorten the text to 64" in str(long["message"])
    answer = client.get(f"/api/jobs/{long['id']}/payload")
    assert (answer.status_code, answer.json()["detail"][:17]) == (409, "The job is failed")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model": "../../etc/passwd"}, "Unknown model. Choose one of: bundled"),
        ({"measures": ["__init__"]}, "Measure '__init__' is unknown"),
        ({"measures": ["alti_logit"]}, "does not support this model"),
        ({"measures": []}, "measures: "),
        ({"text": ""}, "text: "),
        ({"text": "x" * 2001}, "2001 characters"),
        ({"target_text": "non"}, "needs one text"),
        ({"heads": "yes"}, "heads: "),
        ({"path": "/etc/passwd"}, "path: "),
    ]
    for change, words in cases:
        answer = client.post("/api/jobs", json={**BODY, **change})
        assert answer.status_code == 422
        assert words in answer.json()["detail"], change
    for path in ("/api/jobs/" + "a" * 22, "/api/nothing", "/etc/passwd"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert isinstance(answer.json()["detail"], str)


def test_nothing_of_a_request_reaches_the_file_system(
    client: httpx.Client, finished: Finished
) -> None:
    """Whatever is opened while a text runs that looks like a place is heard by an audit hook."""
    places = ["/etc/hostname", "../../../etc/hostname", "file:///etc/hostname", "hostname.png"]
    opened: list[str] = []
    listening = True

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if listening and event in ("open", "os.listdir", "os.scandir", "socket.getaddrinfo"):
            opened.append(str(args[0]))

    sys.addaudithook(hear)
    try:
        for place in places:
            assert finished(place)["state"] == "done"
            client.post("/api/jobs", json={**BODY, "model": place})
            client.post("/api/jobs", json={**BODY, "measures": [place]})
            client.get(f"/api/jobs/{place}")
        open("/etc/hostname").close()
    finally:
        listening = False
    assert [each for each in opened if "hostname" in each] == ["/etc/hostname"]  # the test's own


def test_a_model_without_a_tokenizer_is_refused(lens: Lens) -> None:
    with pytest.raises(MissingTokenizer, match="bare has no tokenizer"):
        create_app({"bare": Lens(lens.model)})


def test_half_characters_do_not_break_it(client: httpx.Client) -> None:
    body = '{"model": "bundled", "text": "\\ud83d x", "measures": ["attention"]}'
    answer = client.post("/api/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (202, 422)
    assert client.get("/api").status_code == 200


def test_unknown_origins_are_rejected(client: httpx.Client, address: str) -> None:
    port = address.rsplit(":", 1)[1]
    for headers, status in (
        ({"host": f"evil.example:{port}"}, 421),
        ({"host": ""}, 421),
        ({"host": f"evil.example@127.0.0.1:{port}"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}, 202),
    ):
        answer = client.post("/api/jobs", json=BODY, headers=headers)
        assert answer.status_code == status, headers
        assert "content-security-policy" in answer.headers


def test_large_bodies_are_refused_whether_announced_or_not(client: httpx.Client) -> None:
    def parts() -> Any:
        for _ in range(40):
            yield b"x" * 1024

    for content in (b"x" * 20_000, parts()):
        answer = client.post(
            "/api/jobs", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413
        assert "larger than 16 KB" in answer.json()["detail"]


@pytest.mark.parametrize("length", [b"\xb2", b"-1", b"1e3", b"9" * 5000])
def test_lengths_that_are_no_numbers_are_refused(length: bytes) -> None:
    """Whatever a server lets through."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def unreached(*_: Any) -> Any:
        raise AssertionError

    headers = [(b"host", b"localhost"), (b"content-length", length)]
    scope = {"type": "http", "method": "POST", "scheme": "http", "headers": headers}
    asyncio.run(Guard(unreached, hosts=["localhost"], limits=Limits())(scope, unreached, send))
    assert sent[0]["status"] == 413


def test_every_answer_forbids_outside_requests(client: httpx.Client) -> None:
    for path in ("/api", "/nothing", "/api/openapi.json"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in client.get(path).headers


class Slow(Lens):
    """The bundled model behind a gate."""

    gate = threading.Event()

    def record(self, *args: Any, **kwargs: Any) -> Any:
        assert self.gate.wait(30)
        return super().record(*args, **kwargs)


@pytest.fixture(scope="module")
def slow() -> Slow:
    """A model of its own: the other server may still be busy with the first."""
    Slow.gate.set()
    return Slow.bundled("causal")  # type: ignore[return-value]


def _posted(client: httpx.Client, text: str) -> Any:
    return client.post("/api/jobs", json={**BODY, "text": text})


def _state(client: httpx.Client, name: str, wanted: str) -> dict[str, Any]:
    for _ in range(3000):
        status: dict[str, Any] = client.get(f"/api/jobs/{name}").json()
        if status["state"] == wanted:
            return status
        time.sleep(0.01)
    raise AssertionError(status)


def test_the_queue_is_bounded_and_jobs_are_cancelled(slow: Slow) -> None:
    with serving({"bundled": slow}, Limits(waiting=2)) as address:
        Slow.gate.clear()
        with httpx.Client(base_url=address, timeout=30) as client:
            running = _posted(client, "One.").json()["id"]
            _state(client, running, "running")
            waiting = [_posted(client, text).json()["id"] for text in ("Two.", "Three.")]
            full = _posted(client, "Four.")
            assert (full.status_code, full.headers["retry-after"]) == (503, "5")
            assert "2 jobs are waiting already" in full.json()["detail"]
            for name in (running, waiting[0]):
                assert client.delete(f"/api/jobs/{name}").status_code == 204
                assert client.get(f"/api/jobs/{name}").json()["state"] == "cancelled"
            Slow.gate.set()
            assert _state(client, waiting[1], "done")["progress"] == 1
            assert client.get(f"/api/jobs/{running}").json()["state"] == "cancelled"
            assert client.delete(f"/api/jobs/{waiting[1]}").status_code == 204
            assert client.get(f"/api/jobs/{waiting[1]}").json()["state"] == "done"


def test_jobs_of_one_address_are_limited_and_old_ones_forgotten(slow: Slow) -> None:
    limits = Limits(jobs_per_minute=4, kept=2, kept_bytes=1)
    with (
        serving({"bundled": slow}, limits) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        names = []
        for text in ("One.", "Two.", "Three.", "Four."):
            names.append(_posted(client, text).json()["id"])
            _state(client, names[-1], "done")
        assert client.get(f"/api/jobs/{names[0]}").status_code == 404
        assert client.get(f"/api/jobs/{names[-1]}/payload").status_code == 404
        refused = _posted(client, "Five.")
        assert refused.status_code == 429
        assert "More than 4 jobs in a minute" in refused.json()["detail"]


def test_two_hundred_clients_at_once(
    client: httpx.Client, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice: none is left without an answer, half of them ask the same and get the same numbers,
    half have texts of their own, for which the queue has room or not.
    """
    expected = client.get(f"/api/jobs/{finished()['id']}/payload").content
    figures = []
    for turn in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        asked = [
            _Asked(client, expected, f"Text {turn} {n} [MASK]." if n % 2 else None)
            for n in range(200)
        ]
        for one in asked:
            one.start()
        for one in asked:
            one.join()
        assert not [one.wrong for one in asked if one.wrong is not None]
        assert {one.status for one in asked[::2]} == {202}
        own = [one.status for one in asked[1::2]]
        assert set(own) <= {202, 503}
        assert own.count(202) >= 16
        for one in asked[1::2]:
            if one.status == 202:
                _state(client, one.job, "done")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        figures.append(f"{100 + own.count(202)} served, {own.count(503)} asked to wait, {grown} MB")
        assert grown < 200 >> turn
    with capsys.disabled():
        print(f"\n200 clients at once: {figures[0]} more memory; again: {figures[1]} more")


class _Asked(threading.Thread):
    """A client with a connection of its own."""

    def __init__(self, client: httpx.Client, expected: bytes, text: str | None) -> None:
        super().__init__()
        self._host, self._expected, self._text = client.base_url.netloc, expected, text
        self.status, self.job = 0, ""
        self.wrong: object = None

    def run(self) -> None:
        body = json.dumps(BODY if self._text is None else {**BODY, "text": self._text})
        try:
            own = http.client.HTTPConnection(self._host.decode(), timeout=60)
            own.request("POST", "/api/jobs", body, {"content-type": "application/json"})
            answer = own.getresponse()
            self.status, created = answer.status, json.loads(answer.read())
            if self.status == 202:
                self.job = created["id"]
            if self._text is None:
                own.request("GET", f"/api/jobs/{self.job}/payload")
                self.wrong = None if own.getresponse().read() == self._expected else "other numbers"
            own.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.wrong = error
