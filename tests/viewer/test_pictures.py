"""Prompts with images: the heat over each picture, in a real browser."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mixlens
from mixlens import MixingMaps
from mixlens.views.viewer.payload import payload_of
from tests.recording.vision_models import SPECIAL, chat, picture, vision_lens
from tests.schemas.validation import assert_valid
from tests.viewer.browser import launched, needs_browser, opened

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def maps() -> MixingMaps:
    """An answer about two pictures of different shapes, whose grids are not square."""
    lens = vision_lens("qwen2_vl")
    recording = lens.generate(
        chat(picture(0, 96, 48), picture(1, 48, 64)),
        max_new_tokens=4,
        suppress_tokens=list(range(len(SPECIAL))),
    )
    maps = mixlens.measure("attention", recording)
    assert isinstance(maps, MixingMaps)
    return maps


def _number(text: str) -> float:
    return float(text.split("·")[-1].split("\u00a0")[0])


@pytest.mark.parametrize("view", ["answer", "text"])
def test_pictures_show_the_scores_of_their_patches(
    browser: Any, maps: MixingMaps, tmp_path: Path, view: str
) -> None:
    payload = payload_of(maps)
    assert_valid("payload", json.loads(json.dumps(payload)))
    grids = [each["grids"][0] for each in payload["images"]]
    shown = payload["texts"][payload["images"][0]["text"]]["shown"]
    assert shown[grids[0]["first"]] == "image 1 patch (0, 0)", "not the placeholder"
    assert any(grid["rows"] != grid["columns"] for grid in grids)
    maps.to_html(tmp_path / "out.html")
    shares = (maps.scores / maps.scores.sum(-1, keepdims=True)).mean(0)
    last = len(shares) - 1
    fragment = f"part=w{last}" if view == "answer" else f"target={maps.target_positions[last]}"
    with opened(browser, viewport={"width": 1100, "height": 900}) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html#view={view}&unit=tokens&{fragment}")
        heats = page.locator(".heat:visible")
        assert heats.count() == 2
        for number, grid in enumerate(grids):
            tokens = grid["first"] + np.arange(grid["rows"] * grid["columns"])
            total = 100 * shares[last, tokens].sum()
            caption = heats.nth(number).locator("figcaption").inner_text()
            assert caption.startswith(f"image {number + 1} · ")
            assert _number(caption) == pytest.approx(total, abs=0.6)
            canvas = heats.nth(number).locator("canvas")
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            assert box is not None
            row, column = grid["rows"] - 1, 1
            canvas.hover(
                position={
                    "x": box["width"] * (column + 0.5) / grid["columns"],
                    "y": box["height"] * (row + 0.5) / grid["rows"],
                }
            )
            tip = page.locator(".tip").inner_text().splitlines()
            assert tip[0] == f"image {number + 1} patch ({row}, {column})"
            share = 100 * shares[last, grid["first"] + row * grid["stride"] + column]
            assert _number(tip[1]) == pytest.approx(share, abs=0.06)
        assert not wrong


def test_tiles_and_padding_keep_their_places(browser: Any, tmp_path: Path) -> None:
    """A hand-made picture with an overview and a tile: the one hot patch is where its box is."""
    file = io.BytesIO()
    Image.new("RGB", (120, 60), "white").save(file, "PNG")
    src = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    scores = np.zeros((1, 7, 7))
    scores[0, :, 4] = 1  # row 0, column 1 of the tile
    maps = MixingMaps.of(scores, [f"t{i}" for i in range(7)], measure="made")
    payload = payload_of(maps)
    tile = {"first": 3, "rows": 1, "columns": 2, "stride": 3, "box": [0.5, 0.0, 1.0, 0.5]}
    overview = {"first": 1, "rows": 1, "columns": 2, "stride": 2, "box": [0.0, 0.0, 1.0, 1.5]}
    payload["images"] = [{"text": 0, "name": "image 1", "src": src, "grids": [overview, tile]}]
    from mixlens.views.viewer.page import page as page_of

    (tmp_path / "out.html").write_text(page_of(payload), encoding="utf-8")
    look = """e => {
        const pen = e.getContext('2d'), scale = e.width / e.clientWidth;
        const at = (x, y) => [...pen.getImageData(x * e.width, y * e.height, 1, 1).data];
        return {hot: at(0.9, 0.2), cold: [at(0.6, 0.2), at(0.9, 0.8), at(0.2, 0.2)], scale};
    }"""
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path}/out.html#unit=tokens&target=6")
        page.wait_for_function("document.querySelector('.heat canvas').width > 200")
        seen = page.locator(".heat canvas").evaluate(look)
        red, _, blue, _ = seen["hot"]
        assert blue - red > 80, "shaded"
        for red, _, blue, _ in seen["cold"]:
            assert abs(blue - red) < 10
        assert page.locator(".reading .token").all_inner_texts() == ["t0", "t5", "t6"]
        assert not wrong
