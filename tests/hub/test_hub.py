"""Loading by name, against a real server on loopback and with the hub's own client."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mixlens
from tests.hub.server import LARGE, TOKEN, Hub, Repository, serving

BUNDLED = Path(mixlens.__file__).parent / "bundled"
CARD = b"""---
configs:
- config_name: sst2
  data_files:
  - {split: validation, path: sst2/dev.jsonl}
  - {split: test, path: sst2/test.jsonl}
dataset_info:
- config_name: sst2
  features:
  - {name: sentence, dtype: string}
  - name: label
    dtype: {class_label: {names: {'0': negative, '1': positive}}}
---
"""
Asked = Callable[..., Any]


def _files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (BUNDLED / folder).iterdir()}


def _lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _hub() -> Hub:
    masked = _files("masked")
    other = {**masked, "config.json": masked["config.json"].replace(b'"gelu"', b'"relu"')}
    assert other["config.json"] != masked["config.json"]
    glue = {
        "README.md": CARD,
        "sst2/dev.jsonl": _lines({"sentence": "good", "label": 1}, {"sentence": "bad", "label": 0}),
        "sst2/test.jsonl": _lines({"sentence": "secret", "label": -1}),
    }
    plain = {"train.jsonl": _lines({"text": "new one"}, {"text": "new two"})}
    long = {"train.jsonl": _lines(*({"text": f"row {n} " + "x" * 90} for n in range(2000)))}
    assert len(long["train.jsonl"]) > LARGE
    return Hub(
        repositories={
            "models/owner/small": Repository(revisions={"main": masked, "v1": other}),
            "models/owner/gated": Repository(revisions={"main": masked}, gated=True),
            "models/owner/empty": Repository(revisions={"main": {"README.md": b"# nothing"}}),
            "datasets/nyu-mll/glue": Repository(revisions={"main": glue}),
            "datasets/owner/rows": Repository(
                revisions={"main": plain, "v1": {"train.jsonl": _lines({"text": "old one"})}}
            ),
            "datasets/owner/long": Repository(revisions={"main": long}),
            "datasets/owner/gated": Repository(revisions={"main": plain}, gated=True),
        },
        renamed={"models/owner/old": "models/owner/small"},
    )


@contextmanager
def _client(address: str, home: Path, *, offline: bool, **others: str) -> Iterator[Asked]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": str(int(offline)),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        **others,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hub.client"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(what: str, name: str, **options: Any) -> Any:
            question = {"what": what, "name": name, "options": options}
            print(json.dumps(question), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with serving(_hub()) as hub:
        yield hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def ask(hub: Hub, home: Path) -> Iterator[Asked]:
    with _client(hub.address, home, offline=False) as ask:
        yield ask


@pytest.fixture(scope="module")
def small(hub: Hub, ask: Asked) -> Any:
    """What the model gives if its download breaks off in the middle and is resumed."""
    hub.cut_after = 12 * 2**20
    return ask("model", "owner/small")["result"]


def test_a_download_that_breaks_off_is_resumed(hub: Hub, small: Any) -> None:
    expected = mixlens.Lens.bundled().predictions("The dogs are [MASK].", top=2)
    assert [word for word, _ in small] == [word for word, _ in expected]
    shares = [share for _, share in expected]  # the client has threads of its own
    assert [share for _, share in small] == pytest.approx(shares, rel=1e-4)
    assert hub.cut_after is None, "it was cut"
    assert "bytes=10485760-" in hub.ranges, "the rest was asked for, not the whole again"


def test_cached_files_are_not_downloaded_again(hub: Hub, ask: Asked, small: Any) -> None:
    asked = len(hub.asked)
    assert ask("model", "owner/small")["result"] == small
    assert hub.asked[asked:], "whether it is still the same was asked"
    paths = [path for method, path, status in hub.asked[asked:] if (method, status) == ("GET", 200)]
    assert all(path.startswith("/api/") for path in paths), paths


def test_redirects(hub: Hub, ask: Asked, small: Any) -> None:
    assert ask("model", "owner/old")["result"] == small
    statuses = {status for _, _, status in hub.asked}
    assert statuses >= {302, 307}, "large files are elsewhere, and so is what was renamed"


def test_a_revision(hub: Hub, ask: Asked, small: Any) -> None:
    other = ask("model", "owner/small", revision="v1")["result"]
    assert other != small
    commit = hub.repositories["models/owner/small"].commit("v1")
    assert ask("model", "owner/small", revision=commit)["result"] == other
    assert hub.count("GET", f"/small/resolve/{commit}/model.safetensors") == 0, "the etag is known"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("owner/gated", {}, "it is gated. Request access on its page of the hub, then log in"),
        ("owner/gated", {"token": "hf_wrong"}, "it is gated"),
        ("owner/none", {}, "the hub has no such name, or you may not read it. Check"),
        ("owner/small", {"revision": "v9"}, "it has no such revision"),
        ("owner/empty", {}, "config.json"),
        ("owner/gated", {"local_files_only": True}, "it is not in the cache, and the hub is not"),
    ],
)
def test_models_that_are_refused(
    ask: Asked, name: str, options: dict[str, Any], words: str
) -> None:
    answer = ask("model", name, **options)
    assert words in answer.get("refused", ""), answer
    assert "hf_wrong" not in answer["refused"]


def test_a_gated_model_for_those_who_may(ask: Asked, small: Any) -> None:
    assert ask("model", "owner/gated", token=TOKEN)["result"] == small


def test_data_sets(ask: Asked) -> None:
    assert ask("data", "hf:glue/sst2")["result"] == [
        ["sst2/validation:1", "good", "positive"],
        ["sst2/validation:2", "bad", "negative"],
    ]
    assert ask("data", "hf:glue/sst2:test")["result"] == [["sst2/test:1", "secret", None]]
    assert [row[1] for row in ask("data", "hf:owner/rows")["result"]] == ["new one", "new two"]
    assert [row[1] for row in ask("data", "hf:owner/rows@v1")["result"]] == ["old one"]
    assert ask("stream", "hf:owner/rows:train", skip=1)["result"] == ["new two"]


def test_a_stream_that_breaks_off_is_resumed(hub: Hub, ask: Asked) -> None:
    hub.cut_after = 50_000
    rows = ask("stream", "hf:owner/long:train")
    assert hub.cut_after is None
    assert [row.split()[1] for row in rows["result"]] == [str(n) for n in range(2000)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:owner/gated", "it is gated"),
        ("hf:owner/none", "doesn't exist on the Hub or cannot be accessed"),
        ("hf:owner/rows:dev", "dev"),
        ("hf:owner/rows@v9", "v9"),
        ("hf:glue/nothing", "nothing"),
    ],
)
def test_data_sets_that_are_refused(ask: Asked, name: str, words: str) -> None:
    answer = ask("data", name)
    assert words in answer.get("refused", ""), answer
    assert answer["refused"].startswith(f"{name} could not be loaded from the hub: ")


def test_the_cache_alone(hub: Hub, home: Path, ask: Asked, small: Any) -> None:
    rows = ask("data", "hf:glue/sst2:validation")
    asked = len(hub.asked)
    with _client(hub.address, home, offline=True) as offline:
        assert offline("model", "owner/small")["result"] == small
        assert offline("data", "hf:glue/sst2:validation") == rows
        for what, name in (("model", "owner/never"), ("data", "hf:owner/never:train")):
            assert "it is not in the cache" in offline(what, name)["refused"]
    assert len(hub.asked) == asked, "the hub was not asked"


def test_without_a_network(home: Path, ask: Asked, small: Any) -> None:
    rows = ask("data", "hf:glue/sst2:validation")
    with serving(Hub(repositories={})) as gone:
        address = gone.address
    with _client(address, home, offline=False) as alone:
        assert alone("model", "owner/small")["result"] == small
        assert alone("data", "hf:glue/sst2:validation") == rows
        for what, name in (("model", "owner/never"), ("data", "hf:owner/never:train")):
            assert "the hub cannot be reached" in alone(what, name).get("refused", "")


def test_a_hub_that_never_answers_gets_one_request(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with _client(address, tmp_path, offline=False, HF_HUB_ETAG_TIMEOUT="1") as alone:
            for what, name in (("model", "owner/small"), ("data", "hf:owner/rows:train")):
                assert "the hub cannot be reached" in alone(what, name).get("refused", "")
                assert _connections(silent) == 1


def _connections(server: socket.socket) -> int:
    """How many came since the last time."""
    server.settimeout(0.1)
    for count in itertools.count():
        try:
            server.accept()[0].close()
        except TimeoutError:
            return count
    raise AssertionError
