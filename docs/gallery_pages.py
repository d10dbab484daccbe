"""Write the pages that docs/viewer.md shows, and take the pictures of the first one.

MkDocs calls `on_startup`; `python -m docs.gallery_pages` also takes the pictures, with
Debian's Chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from mixlens import Lens

HERE = Path(__file__).parent
PAGES = HERE / "gallery"
TEXT = "The keys to the cabinet [MASK] here."
STORY = "Once upon a time there was a little dog. He liked to run in the park, and one day he"
NAMES = ("value_zeroing", "attention", "attention_norm", "alti", "globenc", "random")


def on_startup(**_: object) -> None:
    """Write three pages: one text by six measures, all measures for one word, and a continued
    story.
    """
    PAGES.mkdir(exist_ok=True)
    lens = Lens.bundled()
    first, *more_maps = (lens.measure(name, TEXT) for name in NAMES)
    heads = lens.measure("attention", TEXT, per_head=True)
    first.to_html(PAGES / "agreement.html", *more_maps, heads)
    lens.compare(TEXT).to_html(PAGES / "comparison.html")
    lens = Lens.bundled("causal")
    first, second = (lens.measure(name, STORY) for name in ("value_zeroing", "attention"))
    heads = lens.measure("attention", STORY, per_head=True)
    first.to_html(PAGES / "story.html", second, heads)


def take_pictures() -> None:
    """Draw docs/viewer_light.png and docs/viewer_dark.png."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox"]
        )
        for scheme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": 1180, "height": 620},
                color_scheme=scheme,  # type: ignore[arg-type]
                device_scale_factor=1.5,
            )
            page.goto(f"file://{PAGES / 'agreement.html'}")
            page.screenshot(path=str(HERE / f"viewer_{scheme}.png"))
        browser.close()


if __name__ == "__main__":
    on_startup()
    take_pictures()
