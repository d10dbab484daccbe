"""The configuration in `deploy/`: nginx in front of a real server, and the files by themselves."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "mixlens.example.org"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _configuration(folder: Path, port: int, server: int) -> Path:
    """The configuration of the repository, with addresses and files of this machine."""
    own = (DEPLOY / "nginx.conf").read_text()
    for before, after in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "http://mixlens:8000": f"http://127.0.0.1:{server}",
        "/run/secrets/": f"{folder}/",
    }.items():
        assert before in own
        own = own.replace(before, after)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""  # else it could not read these folders
    path.write_text(
        f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/errors;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{own}}}\n"
    )
    return path


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of nginx, with a server behind it."""
    nginx, openssl = shutil.which("nginx"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("NOT RUN: needs nginx and openssl")
    folder = tmp_path_factory.mktemp("deploy")
    pair = ["-keyout", str(folder / "certificate_key"), "-out", str(folder / "certificate")]
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}", *pair]
    subprocess.run([openssl, *made], check=True, capture_output=True)
    (folder / "passwords").write_text("alice:{PLAIN}secret\n")
    port, server = _free_port(), _free_port()
    serve = ["serve", "--port", str(server), "--allow-host", NAME, "--behind-proxy", "127.0.0.1"]
    configuration = str(_configuration(folder, port, server))
    with (
        subprocess.Popen([sys.executable, "-m", "mixlens", *serve]) as behind,
        subprocess.Popen([nginx, "-e", f"{folder}/errors", "-c", configuration]) as proxy,
    ):
        try:
            _wait_for(f"http://127.0.0.1:{server}/api/health", behind)
            assert proxy.poll() is None, (folder / "errors").read_text()
            yield f"https://127.0.0.1:{port}"
        finally:
            proxy.terminate()
            behind.terminate()


def _wait_for(health: str, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        try:
            assert httpx.get(health, timeout=5).json() == {"status": "ok"}
            return
        except httpx.TransportError:
            time.sleep(0.1)


def test_the_proxy_asks_for_a_password_and_limits_requests(address: str) -> None:
    job = {"model": "mixlens/bundled/masked", "text": "The dogs bark.", "measures": ["attention"]}
    origin = {"Origin": f"https://{NAME}"}
    with httpx.Client(verify=False, headers={"Host": NAME}, base_url=address, timeout=60) as client:
        assert client.get("/api/health").status_code == 401
        client.auth = ("alice", "secret")
        assert client.get("/api/health").json() == {"status": "ok"}
        assert client.post("/api/jobs", json=job, headers=origin).status_code == 202
        other = client.post("/api/jobs", json=job, headers={"Origin": "https://elsewhere.org"})
        assert other.status_code == 403
        plain = client.post("/api/jobs", json=job, headers={"Origin": f"http://{NAME}"})
        assert plain.status_code == 403, "the server did not see that the request was encrypted"
        assert client.post("/api/jobs", json={**job, "text": "a" * 200_000}).status_code == 413


def test_the_container_has_few_rights() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]
    server = services["mixlens"]
    assert server["read_only"]
    assert server["cap_drop"] == ["ALL"]
    addresses = [services[name]["networks"]["inside"]["ipv4_address"] for name in services]
    assert len(set(addresses)) == len(services), "Docker gives the first free address to the others"
    assert services["proxy"]["networks"]["inside"]["ipv4_address"] in server["command"]
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert lines.index("USER 10001") < next(
        number for number, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )
    assert any("/api/health" in line for line in lines)
