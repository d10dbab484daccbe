"""The one-file page in a real browser, from the disk and with the network off."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixlens import Lens, MixingMaps
from mixlens.aggregation.target_row import target_row
from mixlens.contracts import Facts
from mixlens.measures import list_measures
from mixlens.tokens import TokenRow
from tests.viewer.browser import AXE, launched, needs_axe, needs_browser, opened

pytestmark = needs_browser

TEXT = "The keys to the old cabinet near the unbelievable doorway [MASK] here."
VIEWS = ("text", "map", "heads", "flow", "compare")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests: each opens a page of its own."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def maps() -> dict[str, MixingMaps]:
    lens = Lens.bundled()
    by_name = {name: lens.measure(name, TEXT) for name in ("value_zeroing", "attention", "globenc")}
    return {**by_name, "heads": lens.measure("attention", TEXT, per_head=True)}


@pytest.fixture(scope="module")
def file(maps: dict[str, MixingMaps], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "out.html"
    first, *others = maps.values()
    first.to_html(path, *others)
    return path


def _ranked(page) -> dict[str, str]:  # type: ignore[no-untyped-def]
    rows = page.locator(".side table").first.locator("tbody tr")
    return {
        row.locator("th").inner_text(): row.locator("td").last.inner_text() for row in rows.all()
    }


def test_the_first_screen_has_the_numbers_of_the_maps(
    browser: Any, file: Path, maps: dict[str, MixingMaps]
) -> None:
    words = maps["value_zeroing"].rollout().words()
    target = words.tokens.index("[MASK]")
    row = words.last().row(target).scores[0]
    shares = dict(zip(words.source_tokens, row / row.sum(), strict=True))
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        assert page.locator(".answer").inner_text().startswith("[MASK] took most from unbelievable")
        for label in ("unbelievable", "doorway", "cabinet"):
            shown = float(_ranked(page)[label].removesuffix("\u00a0%"))
            assert shown == pytest.approx(100 * shares[label], abs=0.6)
        layers, measures = page.locator(".facts p").all_inner_texts()
        assert layers.startswith("Layer by layer, most came from ")
        assert " in layer " in layers
        assert measures.startswith("Of 2 other measures attention agrees least (rank correlation")
        page.select_option("select >> nth=1", label="Layers up to 2 (rollout)")
        row = words.row(target).scores[2]
        assert next(iter(_ranked(page))) == words.source_tokens[int(np.argmax(_but(row, target)))]
        page.select_option("select >> nth=1", label="Layer 2")
        spec = list_measures()["value_zeroing"]
        layer = target_row(maps["value_zeroing"].words(), spec, target, 2)
        best = words.source_tokens[int(np.argmax(np.delete(layer, target)))]
        assert next(iter(_ranked(page))) == best
        assert not wrong


def _but(row: np.ndarray, target: int) -> np.ndarray:
    return np.where(np.arange(len(row)) == target, -1, row)


def test_a_link_opens_what_was_left(browser: Any, file: Path) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        page.get_by_role("option", name="keys").click()
        page.get_by_role("tab", name="Flow").click()
        link = page.url
        assert "view=flow" in link
        page.goto("about:blank")
        page.goto(link)
        assert page.get_by_role("tab", name="Flow").get_attribute("aria-selected") == "true"
        page.get_by_role("tab", name="Text").click()
        assert page.locator(".answer").inner_text().startswith("keys")
        page.goto("about:blank")
        page.goto(f"file://{file}#measure=99&layer=77&target=-3&unit=nothing&with=x")
        assert page.locator(".answer").inner_text().startswith("[MASK]")
        assert not wrong


def test_everything_can_be_saved(browser: Any, file: Path, tmp_path: Path) -> None:
    with opened(browser) as (page, wrong):
        for view in VIEWS:
            page.goto("about:blank")
            page.goto(f"file://{file}#view={view}&measure=1")
            for kind in ("PNG", "SVG", "CSV", "JSON"):
                page.locator(".menu summary").click()
                with page.expect_download() as got:
                    page.get_by_role("button", name=kind).click()
                got.value.save_as(tmp_path / f"{view}.{kind.lower()}")
        assert not wrong
    for view in VIEWS:
        assert (tmp_path / f"{view}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{view}.svg").read_text().count("<") > 50
        columns = json.loads((tmp_path / f"{view}.json").read_text())["columns"]
        assert next(csv.reader((tmp_path / f"{view}.csv").open())) == columns


def test_a_walk_with_the_keyboard_alone(browser: Any, file: Path) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        for _ in range(20):  # to the target in the text
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('role')") == "option":
                break
        assert page.evaluate("document.activeElement.textContent") == "[MASK]"
        page.keyboard.press("ArrowLeft")
        assert "of [MASK]" in str(page.evaluate("document.activeElement.ariaLabel"))
        page.keyboard.press("Enter")
        assert page.locator(".answer").inner_text().startswith("doorway")
        page.keyboard.press("Tab")  # the rows: layers joined, then each by itself again
        page.keyboard.press("Enter")
        assert "rows=upto" in page.url
        assert "has taken up to each layer" in page.locator(".layers h2").inner_text()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")  # the layers
        page.keyboard.press("ArrowUp")
        assert "layer=5" in page.url
        page.get_by_role("tab", name="Text").focus()
        page.keyboard.press("ArrowRight")
        assert "view=map" in page.url
        page.locator(".map-view canvas").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert "→" in page.locator("[aria-live].unseen").inner_text()
        page.keyboard.press("Enter")
        assert "target=" in page.url
        assert not wrong


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, file: Path, scheme: str) -> None:
    with opened(browser, color_scheme=scheme) as (page, wrong):
        for view in VIEWS:
            page.goto("about:blank")
            page.goto(f"file://{file}#view={view}&measure=1")
            for box in page.locator("details.behind > summary:visible").all():
                box.click()
            page.evaluate(AXE.read_text(encoding="utf-8"))
            violations = page.evaluate("axe.run().then((all) => all.violations)")
            serious = [
                (each["id"], node["html"][:200], node["failureSummary"][:300])
                for each in violations
                if each["impact"] in ("serious", "critical")
                for node in each["nodes"][:3]
            ]
            assert not serious, (view, serious)
        assert not wrong


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    tokens = ("<img src=x onerror=alert(1)>", "a\u202eb", "\u200b", "👩‍👧", "ה", "\n", "=1+1")
    scores = np.random.default_rng(0).normal(size=(2, 7, 7))
    maps = MixingMaps.of(scores, tokens, measure="gradient_x_input", facts=Facts(signed=True))
    path = tmp_path / "strange.html"
    maps.to_html(path)
    return path


def test_tokens_show_as_what_they_are(browser: Any, strange: Path) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{strange}")
        shown = page.locator(".token").all_inner_texts()
        assert shown == [
            "<img src=x onerror=alert(1)>",
            "a⟨RLO⟩b",
            "⟨ZWSP⟩",
            "👩‍👧",
            "ה",
            "↵",
            "=1+1",
        ]
        assert page.locator("img").count() == 0
        assert not wrong


def test_a_thousand_tokens_answer_a_hover_in_time(browser: Any, tmp_path: Path) -> None:
    count, layers = 1000, 24
    scores = np.random.default_rng(0).random((layers, count, count), np.float32) ** 8
    maps = MixingMaps.of(scores, [f"w{i}" for i in range(count)], measure="value_zeroing")
    path = tmp_path / "large.html"
    maps.to_html(path)
    assert path.stat().st_size < 10_000_000
    with opened(browser) as (page, wrong):
        page.goto(f"file://{path}")
        times = page.evaluate(HOVERS)
        assert float(np.quantile(times, 0.25)) < 50, times  # a busy machine lets some wait
        assert "left out" in page.locator("footer").inner_text()
        assert not wrong


HOVERS = """async () => {
  const tokens = [...document.querySelectorAll(".token")];
  const times = [];
  for (let i = 0; i < 12; i++) {
    const start = performance.now();
    tokens[i * 80].dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX: 200 }));
    await new Promise((done) => requestAnimationFrame(() => done()));
    document.querySelector(".token").offsetHeight;
    times.push(performance.now() - start);
  }
  return times;
}"""


def test_sixteen_thousand_tokens_open(browser: Any, tmp_path: Path) -> None:
    count = 16_000
    row = TokenRow(tuple(f"w{i}" + "." * (i % 40 == 39) for i in range(count)))
    scores = np.random.default_rng(0).random((8, 1, count))
    scores[:, 0, 5000] = 4000
    maps = MixingMaps(
        scores=scores,
        layers=tuple(range(8)),
        target_row=row,
        source_row=row,
        target_positions=(count - 1,),
        facts=Facts(),
        provenance={"measure": "attention", "steps": []},
    )
    path = tmp_path / "long.html"
    maps.to_html(path)
    with opened(browser) as (page, wrong):
        page.goto(f"file://{path}")
        assert "took most from w5000" in page.locator(".answer").inner_text()
        assert page.locator(".segment").count() > 100
        before = page.locator(".token").count()
        page.locator(".segment").first.click()
        assert page.locator(".token").count() > before
        assert not wrong
