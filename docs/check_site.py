"""Open every page of the built site in Chromium. Check that no page loads anything from another
site or has an error, and that notebooks show their views.

`python -m docs.check_site SITE`, the last step of `make docs`. Without Chromium it says so.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from docs.redirects import MOVED


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without logging."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def problems(site: Path, chromium: str) -> list[str]:
    """Return the problems of each page."""
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    paths = sorted(path.relative_to(site).as_posix() for path in site.rglob("index.html"))
    moved = {f"{name}/index.html" for name in MOVED}
    with served(site) as home, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        for path in paths:
            page.goto(home + path)
            if path in moved:  # wait until it has led to the present page
                page.wait_for_url(f"{home}{MOVED[path.removesuffix('/index.html')]}/")
            if path.startswith("notebooks/") and not views(page):
                wrong.append(f"{path} shows no view")
        browser.close()
    allowed = (home, "data:", "blob:", "about:")
    return wrong + [f"asked for {url}" for url in requests if not url.startswith(allowed)]


def views(page: Any) -> int:
    """Return the number of viewers on the page."""
    frames = page.locator("iframe")
    for number in range(frames.count()):
        frames.nth(number).scroll_into_view_if_needed()
        frames.nth(number).content_frame.locator("main").first.wait_for(timeout=20_000)
    return int(frames.count())


if __name__ == "__main__":
    if chromium := shutil.which("chromium"):
        sys.exit("\n".join(problems(Path(sys.argv[1]), chromium)) or None)
    print("NOT CHECKED: there is no Chromium here; `make browser` installs it")
