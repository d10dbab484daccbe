"""`mixlens serve`: open the viewer in a browser, with live models."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Annotated

import typer

from mixlens.cli.help import MODEL, SERVER
from mixlens.cli.loading import DeviceOption, DtypeOption, RemoteCodeOption, lens_from
from mixlens.errors import InvalidInput, MissingExtra

EXAMPLES = """
mixlens serve
mixlens serve --model gpt2 --model bert-base-uncased --port 8080
"""
_ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        rich_help_panel=MODEL,
        help="Hub name or folder. Can be repeated. Default: the bundled masked language model.",
    ),
]
_HostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=SERVER,
        help="Address to listen on. Default: 127.0.0.1, this machine only.",
    ),
]
_PortOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=SERVER,
        help="Port to listen on; 0 picks a free one. Default: 8000.",
        min=0,
        max=65535,
    ),
]
_AllowHostOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=SERVER,
        help="Also accept requests for this host name. Can be repeated.",
    ),
]
_ProxyOption = Annotated[
    str | None,
    typer.Option(
        "--behind-proxy",
        metavar="ADDRESS",
        rich_help_panel=SERVER,
        help="Trust X-Forwarded-For and X-Forwarded-Proto of the reverse proxy at this address.",
    ),
]
_TokensOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=SERVER,
        help="Maximum length of a text, in tokens. Default: 1024.",
        min=2,
    ),
]
_PromptTokensOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=SERVER,
        help="Maximum length of a prompt with its documents, in tokens. Default: 4096.",
        min=2,
    ),
]
_NewTokensOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=SERVER,
        help="Maximum length of a generated answer, in tokens. Default: 256.",
        min=1,
    ),
]
_SecondsOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=SERVER,
        help="Timeout of a request, in seconds. Default: 600.",
        min=1,
    ),
]
_WaitingOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=SERVER,
        help="Maximum number of waiting requests. Default: 16.",
        min=1,
    ),
]


def serve(
    model: _ModelOption = None,
    host: _HostOption = "127.0.0.1",
    port: _PortOption = 8000,
    allow_host: _AllowHostOption = None,
    behind_proxy: _ProxyOption = None,
    tokens: _TokensOption = 1024,
    prompt_tokens: _PromptTokensOption = 4096,
    new_tokens: _NewTokensOption = 256,
    seconds: _SecondsOption = 600,
    waiting: _WaitingOption = 16,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Open the viewer in a browser, with live models."""
    try:
        import uvicorn

        from mixlens.maps.provenance import model_name
        from mixlens.server.api import Limits
        from mixlens.server.guard import LOOPBACK
        from mixlens.server.server import create_app
    except ModuleNotFoundError as error:
        if error.name in ("fastapi", "pydantic", "starlette", "uvicorn"):
            raise MissingExtra(str(error.name), "web") from error
        raise
    limits = Limits(
        tokens=tokens,
        waiting=waiting,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        seconds=seconds,
    )
    names: list[str | None] = list(model) if model else [None]
    loaded = [lens_from(name, device, dtype, trust_remote_code) for name in names]
    lenses = {model_name(lens.model): lens for lens in loaded}
    if host not in LOOPBACK:
        print(f"Anyone who can reach {host} can run these models.", file=sys.stderr)
    app = create_app(lenses, limits, (*LOOPBACK, host, *(allow_host or ())))
    listener = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    print(f"open http://{address}:{listener.getsockname()[1]}/", file=sys.stderr)
    config = uvicorn.Config(
        app,
        log_level="warning",
        limit_concurrency=limits.connections,
        server_header=False,
        proxy_headers=behind_proxy is not None,
        forwarded_allow_ips=behind_proxy,
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=16 * 1024,
    )
    with listener, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (while attempting")[0]
        raise InvalidInput(
            f"{host}:{port} is not available ({reason}). Pass another --host or --port."
        ) from error
