"""A real browser for the tests: Debian's Chromium, which `make browser` installs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="NOT RUN: there is no Chromium here; `make browser` installs it"
)
needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="NOT RUN: there is no axe-core here; `make browser` fetches it"
)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser | None = None, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page with the network off, and a list that must stay empty: what went wrong in it.

    In a browser of its own if none is given.
    """
    with launched() if browser is None else nullcontext(browser) as at_hand:
        context = at_hand.new_context(offline=True, **options)
        page = context.new_page()
        page.set_default_timeout(20_000)
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: wrong.append(asked.url) if "http" in asked.url else None)
        yield page, wrong
        context.close()
