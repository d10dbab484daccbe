"""The page end to end: a real browser, the server on loopback, the bundled model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    """A page of the server; what it asks for and what it complains about is kept."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium: `make browser` installs it")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = browser.new_page(viewport={"width": 1200, "height": 900})
        opened.asked, opened.complaints = [], []
        opened.on("request", lambda request: opened.asked.append(request.url))
        opened.on("console", lambda said: said.type == "error" and opened.complaints.append(said))
        opened.on("pageerror", lambda error: opened.complaints.append(error))
        opened.goto(address)
        yield opened
        browser.close()


def test_a_text_is_measured_and_shown(page: Any, address: str) -> None:
    box = page.get_by_role("textbox", name="Text", exact=True)
    playwright.expect(page.get_by_text("cabinet").first).to_be_visible()
    assert "[MASK]" in box.input_value()
    box.fill("The zebra near the houses [MASK] striped.")
    page.get_by_role("button", name="Measure", exact=True).click()
    playwright.expect(page.get_by_text("striped").first).to_be_visible(timeout=60_000)
    playwright.expect(page.locator("main")).not_to_contain_text("cabinet")
    assert not page.complaints
    assert all(url.startswith((address, "blob:", "data:")) for url in page.asked)


def test_a_refusal_is_read_on_the_page(page: Any) -> None:
    page.get_by_role("textbox", name="Text", exact=True).fill("dog " * 100)
    page.get_by_role("button", name="Measure", exact=True).click()
    playwright.expect(page.get_by_role("status").first).to_contain_text(
        "Shorten the text to 64", timeout=60_000
    )


def test_the_page_cannot_reach_other_servers(page: Any) -> None:
    reached = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'reached', (e) => e.message)")
    assert "reached" not in reached
    said = " ".join(message.text for message in page.complaints)
    assert "Content Security Policy" in said
