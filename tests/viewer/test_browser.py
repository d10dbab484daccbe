"""The one-file page in a real browser, from the disk and with the network off."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from mixlens import Lens, MixingMaps
from mixlens.contracts import Facts
from mixlens.maps.one_row import target_row
from mixlens.measures import list_measures
from mixlens.text.segments import split_segments
from mixlens.text.tokens import TokenRow
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
    words = maps["value_zeroing"].words()
    target = words.tokens.index("[MASK]")
    shares = {source.token: source.score for source in words.row(target).top(50)}
    best = next(iter(token for token in shares if token != "[MASK]"))
    rolled = maps["value_zeroing"].rollout().words()
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        answer = page.locator(".answer").inner_text()
        assert answer.startswith(f"[MASK] receives most from {best}")
        assert answer.endswith("mean of 6 layers")
        for label in ("unbelievable", "doorway", "cabinet"):
            shown = float(_ranked(page)[label].removesuffix("\u00a0%"))
            assert shown == pytest.approx(100 * shares[label], abs=0.6)
        layers, measures = page.locator(".facts p").all_inner_texts()
        assert layers.startswith("Largest contributions: ")
        assert " in layer " in layers
        assert measures.startswith("Of 2 other measures, attention agrees least (rank correlation")
        page.select_option("select >> nth=1", label="Layers up to 2 (rollout)")
        row = rolled.row(target).scores[2]
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
        assert "up to each layer" in page.locator(".layers h2").inner_text()
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
        assert "is missing" in page.locator("footer").inner_text()
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
        assert "receives most from w5000" in page.locator(".answer").inner_text()
        assert page.locator(".segment").count() > 100
        before = page.locator(".token").count()
        page.locator(".segment").first.click()
        assert page.locator(".token").count() > before
        assert not wrong


@pytest.fixture(scope="module")
def causal_maps() -> dict[str, MixingMaps]:
    lens = Lens.bundled("causal")
    text = "The sun is hot. The keys to the unbelievable old cabinet are"
    return {name: lens.measure(name, text) for name in ("value_zeroing", "alti", "logit_update")}


def test_a_collapsed_rollout_has_a_notice_and_is_not_the_first_screen(
    browser: Any, tmp_path: Path
) -> None:
    maps = Lens.bundled("causal").measure("value_zeroing", "The keys to the cabinet are")
    maps.to_html(tmp_path / "out.html")
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html")
        assert page.locator(".notice").is_hidden()
        assert page.locator(".answer").inner_text().endswith("mean of 6 layers")
        for view in VIEWS:
            page.goto("about:blank")
            page.goto(f"file://{tmp_path}/out.html#view={view}&layer=all")
            assert "collapsed onto the token '<s>'" in page.locator(".notice").inner_text()
        page.get_by_role("button", name="Show the mean of layers").click()
        assert page.locator(".notice").is_hidden()
        assert not wrong


def test_only_a_diagonal_with_the_residual_stream_is_the_own_share(
    browser: Any, causal_maps: dict[str, MixingMaps], tmp_path: Path
) -> None:
    for name, says in (("alti", True), ("value_zeroing", False)):
        causal_maps[name].to_html(tmp_path / f"{name}.html")
        with opened(browser) as (page, wrong):
            page.goto(f"file://{tmp_path}/{name}.html")
            assert ("from itself" in page.locator(".answer").inner_text()) is says
            page.locator(".token.target").hover()
            assert ("from itself" in page.locator(".tip").inner_text()) is says
            assert not wrong


@pytest.mark.parametrize("unit", ["tokens", "words", "segments"])
@pytest.mark.parametrize("page_of", ["segments", "tokens with segments", "tokens"])
def test_headline_and_panel_speak_of_one_target(
    browser: Any, causal_maps: dict[str, MixingMaps], tmp_path: Path, page_of: str, unit: str
) -> None:
    maps = causal_maps["value_zeroing"]
    by = {"first": "The sun is hot.", "second": "The keys to the unbel"}  # ends inside a word
    if page_of == "segments":
        maps = maps.segments(by)
    elif page_of == "tokens with segments":
        row = replace(maps.source_row, segments=split_segments(maps.source_row, by))
        maps = replace(maps, source_row=row, target_row=row)
    maps.to_html(tmp_path / "out.html")
    with opened(browser) as (page, wrong):
        for target in range(len(maps.target_row)):
            page.goto("about:blank")
            page.goto(f"file://{tmp_path}/out.html#unit={unit}&target={target}")
            named = page.locator(".answer .outlined").inner_text()
            assert page.locator(".side h2 b").first.inner_text() == named
            assert page.locator(".layers h2 b").inner_text() == named
            if page_of == "segments":  # the same numbers too
                best = page.locator(".side table").first.locator("tbody tr").first
                value = best.locator("td").last.inner_text()
                assert f"{best.locator('th').inner_text()} {value}" in (
                    page.locator(".answer").inner_text()
                )
        assert not wrong


def test_the_largest_dispute_is_not_called_an_agreement(browser: Any, tmp_path: Path) -> None:
    first = np.array([[[0.5, 0.3, 0.15, 0.05]] * 4])
    second = np.array([[[0.6, 0.25, 0.1, 0.05]] * 4])
    maps, other = (
        MixingMaps.of(scores, ["a", "b", "c", "d"], measure=name)
        for name, scores in (("one", first), ("two", second))
    )
    maps.to_html(tmp_path / "out.html", other)
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html#view=compare")
        headline = page.locator(".answer:visible").inner_text()
        assert "one and two agree (rank correlation 1.00); they differ most on a:" in headline
        page.goto("about:blank")
        page.goto(f"file://{tmp_path}/out.html")
        assert "two agrees (rank correlation 1.00); it differs most on a:" in (
            page.locator(".facts").inner_text()
        )
        assert not wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_printed_page_has_black_text_on_its_shades(
    browser: Any, file: Path, scheme: Literal["light", "dark"]
) -> None:
    with opened(browser, color_scheme=scheme) as (page, wrong):
        page.goto(f"file://{file}")
        look = """() => {
            const tokens = [...document.querySelectorAll('.token')].map((e) => getComputedStyle(e));
            return {ink: tokens.map((s) => s.color), shades: tokens.map((s) => s.backgroundColor),
                    adjust: tokens.map((s) => s.printColorAdjust),
                    paper: getComputedStyle(document.querySelector('.mixlens')).backgroundColor};
        }"""
        screen = page.evaluate(look)
        page.emulate_media(media="print", color_scheme=scheme)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        printed = page.evaluate(look)
        assert set(printed["adjust"]) == {"exact"}
        assert printed["paper"] == "rgb(255, 255, 255)"
        for colour in printed["ink"]:
            assert max(map(int, re.findall(r"\d+", colour)[:3])) < 110, "dark"
        for colour in printed["shades"]:
            red, green, blue, *alpha = map(int, re.findall(r"\d+", colour))
            assert alpha == [0] or red + green + blue > 350, "light enough for black text"
        assert len(set(printed["shades"])) > 3, "shades are kept"
        assert page.locator(".tabs").is_hidden()
        page.emulate_media(media="screen", color_scheme=scheme)
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(look) == screen
        assert not wrong


def test_the_summed_layers_of_an_output_are_the_first_screen(
    browser: Any, causal_maps: dict[str, MixingMaps], tmp_path: Path
) -> None:
    maps = causal_maps["logit_update"]
    maps.to_html(tmp_path / "out.html")
    row = maps.words().row(0)
    values = row.reading.of(row.scores)
    best = int(np.abs(values).argmax())
    share = 100 * values[best] / np.abs(values).sum()
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html")
        assert page.locator(".answer").inner_text().endswith("all layers (sum)")
        label, value = next(iter(_ranked(page).items()))
        assert label == maps.words().source_tokens[best].lstrip("Ġ")
        shown = float(value.removesuffix("\u00a0%").replace("−", "-"))
        assert shown == pytest.approx(share, abs=0.6)
        assert not wrong
