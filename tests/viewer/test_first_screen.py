"""The first screen of a page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixlens import Lens, MixingMaps
from tests.viewer.browser import launched, needs_browser, opened

pytestmark = needs_browser

TEXT = "The keys to the old cabinet [MASK] here."
TABS = ".tabs button:visible"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def maps() -> MixingMaps:
    maps = Lens.bundled().measure("value_zeroing", TEXT)
    assert isinstance(maps, MixingMaps)
    return maps


def test_a_page_has_only_tabs_with_numbers(browser: Any, maps: MixingMaps, tmp_path: Path) -> None:
    lens = Lens.bundled()
    pages = {
        "one": (maps, []),
        "two": (maps, [lens.measure("attention", TEXT, per_head=True)]),
        "output": (lens.measure("gradient_norm", TEXT, word="are"), []),
        "target": (maps.at(targets=["[MASK]"]), []),
    }
    shown = {}
    with opened(browser) as (page, wrong):
        for name, (first, others) in pages.items():
            first.to_html(tmp_path / f"{name}.html", *others)
            page.goto(f"file://{tmp_path}/{name}.html#view=heads")
            shown[name] = page.locator(TABS).all_inner_texts()
            if name == "output":
                headline = page.locator(".answer").inner_text()
                assert headline.startswith("are at 7 depends most on ")
                assert "ayer" not in headline + page.locator(".bar-top").inner_text()
        assert not wrong
    assert shown == {
        "one": ["Text", "Map", "Flow"],
        "two": ["Text", "Map", "Heads", "Flow", "Compare"],
        "output": [],
        "target": [],
    }


def test_special_tokens_can_be_left_out(browser: Any, maps: MixingMaps, tmp_path: Path) -> None:
    maps.to_html(tmp_path / "out.html")
    target = maps.tokens.index("[MASK]")
    shares = maps.scores[:, target] / maps.scores[:, target].sum(1, keepdims=True)
    special = [i for i, token in enumerate(maps.tokens) if token in ("[CLS]", "[SEP]")]
    gone = shares[:, special].sum(1).mean()
    kept = np.delete(maps.scores[:, target], special, axis=1)
    kept = (kept / kept.sum(1, keepdims=True)).mean(0)
    tokens = [token for token in maps.tokens if token not in ("[CLS]", "[SEP]")]
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html")
        page.get_by_label("Hide").select_option("special tokens")
        assert "hide=special" in page.url
        rows = page.locator(".side table").first.locator("tbody tr")
        listed = {
            row.locator("th").inner_text(): float(
                row.locator("td").last.inner_text().removesuffix("\u00a0%")
            )
            for row in rows.all()
        }
        assert "[CLS]" not in listed
        for token, share in zip(tokens, kept, strict=True):
            if token in listed and tokens.count(token) == 1:
                assert listed[token] == pytest.approx(100 * share, abs=0.6)
        assert page.locator(".token.left-out").all_inner_texts() == ["[CLS]", "[SEP]"]
        headline = page.locator(".answer").inner_text()
        left_out = float(headline.split(" · ")[-1].split("\u00a0")[0])
        assert left_out == pytest.approx(100 * gone, abs=0.6)
        assert not wrong


def test_targets_that_are_all_alike_have_a_notice(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tokens = list("abcdef")
    row = np.array([0.7, 0.1, 0.08, 0.06, 0.04, 0.02])
    alike = row + rng.random((3, 6, 6)) * 0.01
    apart = rng.dirichlet(np.full(6, 0.3), (3, 6))
    with opened(browser) as (page, wrong):
        for name, scores, is_shown in (("alike", alike, True), ("apart", apart, False)):
            MixingMaps.of(scores, tokens, measure=name).to_html(tmp_path / f"{name}.html")
            page.goto(f"file://{tmp_path}/{name}.html")
            assert page.locator(".notice").is_visible() is is_shown
            if is_shown:
                assert "nearly the same sources" in page.locator(".notice").inner_text()
                page.get_by_role("button", name="Hide the first token").click()
                assert "hide=first" in page.url
        assert not wrong


def test_the_map_has_a_legend(browser: Any, maps: MixingMaps, tmp_path: Path) -> None:
    maps.to_html(tmp_path / "out.html")
    shares = (maps.scores / maps.scores.sum(-1, keepdims=True)).mean(0)
    np.fill_diagonal(shares, 0)
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html#view=map&unit=tokens")
        low, high, _ = page.locator(".map-view .legend > span:not(.ramp)").all_inner_texts()
        assert low == "0\u00a0%"
        assert float(high.removesuffix("\u00a0%")) == pytest.approx(100 * shares.max(), abs=0.6)
        assert "gradient" in page.locator(".map-view .ramp").evaluate(
            "e => e.style.backgroundImage"
        )
        assert not wrong


@pytest.mark.parametrize("width", [1200, 420])
def test_a_comparison_is_sorted_grouped_and_not_cropped(
    browser: Any, tmp_path: Path, width: int
) -> None:
    only = ["random", "alti", "flow_routes", "attention", "gradient_norm", "deep_lift"]
    only += ["attention_norm", "attention_norm_res", "attention_norm_res_ln", "globenc"]
    comparison = Lens.bundled().compare(TEXT, "[MASK]", cue="keys", only=only)
    comparison.to_html(tmp_path / "out.html")
    ranks = comparison.rank_of("keys")
    with opened(browser, viewport={"width": width, "height": 700}) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html#unit=tokens")
        names = page.locator(".matrix th[scope=row]").evaluate_all("all => all.map(e => e.title)")
        groups = [name.split(", ") for name in names]
        assert sorted(name for group in groups for name in group) == sorted(comparison.scores)
        assert len(groups) < len(comparison.scores)
        assert groups[-1] == ["random"]
        order = [[ranks[name] for name in group] for group in groups[:-1]]
        assert all(len(set(group)) == 1 for group in order)
        assert [group[0] for group in order] == sorted(group[0] for group in order)
        room = "e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]"
        assert max(page.locator(".matrix").evaluate(room)) <= 0
        hint = page.locator(".hint").first.inner_text()
        assert "by the rank that they give \u2068keys\u2069" in hint
        assert not wrong
