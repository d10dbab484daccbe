"""The page of an answer in a real browser, and its payload."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from mixlens import Answer, Lens, measure
from mixlens.answers.answer_of_maps import answer_of_maps
from mixlens.maps.segment_sums import with_segments
from mixlens.views.viewer.payload import answer_payload, payload_of
from tests.viewer.browser import AXE, launched, needs_axe, needs_browser, opened
from tests.viewer.made_answer import make_answer

DOCUMENTS = {
    "Tom": "Tom likes to play with his red ball. He is big.",
    "Lily": "Lily likes to play with her blue car.",
    "Ben <b>": "Ben likes to play with his small dog.",
}
PROMPT = "\n".join([*DOCUMENTS.values(), "Lily likes to play with her"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def answer() -> Answer:
    return Lens.bundled("causal").answer(
        PROMPT,
        documents=DOCUMENTS,
        answer=" blue car. She is happy.",
        methods=["flow_routes", "attention", "leave_one_out"],
    )


@pytest.fixture(scope="module")
def file(answer: Answer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answer") / "answer.html"
    answer.to_html(path)
    return path


def _read(table: dict[str, Any], rows: int) -> np.ndarray:
    """The numbers of a packed table, as the viewer reads them."""
    import base64

    def numbers(written: dict[str, Any]) -> np.ndarray:
        return np.frombuffer(base64.b64decode(written["data"]), written["dtype"]).astype(float)

    shares, totals = table["shares"], numbers(table["totals"])
    assert shares["kind"] == "dense"
    return numbers(shares["shares"]).reshape(rows, -1) * totals[:, None]


def test_the_payload_holds_the_scores(answer: Answer) -> None:
    payload = answer_payload(answer)
    assert payload["start"]["view"] == "answer"
    about, tokens = payload["answer"], len(answer.target_row)
    rows = tokens + len(answer.sentences) + 1  # tokens, sentences, the whole answer
    method = about["methods"][0]
    documents, passages, words = (
        _read(method[name], rows) for name in ("documents", "passages", "words")
    )
    for place, name in enumerate(answer.documents):
        score = next(each.score for each in answer.top(word=0) if each.document == name)
        assert documents[0, place] == pytest.approx(score, rel=2e-3)
        for line, sentence in ((tokens, 0), (rows - 1, None)):
            ranked = answer.top(sentence=sentence)
            score = next(each.score for each in ranked if each.document == name)
            assert documents[line, place] == pytest.approx(score, rel=2e-3)
    assert passages.sum(1) == pytest.approx(documents.sum(1), rel=5e-3)
    assert words.sum(1) == pytest.approx(documents.sum(1), rel=5e-3)
    spelled = " ".join(
        text for block in about["blocks"] for text, own in block["pieces"] if own >= 0
    )
    assert words.shape[1] == len(spelled.split())
    assert "".join(piece for piece, _, _ in about["pieces"]) == answer.text


def test_a_page_with_many_documents_is_small() -> None:
    answer = make_answer(20, 400, 200, ["flow_routes", "alti", "leave_one_out"])
    payload = answer_payload(answer)
    assert len(json.dumps(payload)) < 6_000_000
    assert payload["answer"]["methods"][0]["words"]["shares"]["kind"] == "largest"


@needs_browser
def test_pointing_and_keeping(browser: Any, file: Path, answer: Answer) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        assert page.get_by_role("tab", name="Answer").get_attribute("aria-selected") == "true"
        head = page.locator("h1")
        best = answer.top()[0]
        assert head.inner_text().startswith(f"This answer rests most on {best.document}")
        page.get_by_role("option", name="blue").hover()
        first = answer.top(word="blue")[0]
        page.wait_for_function("document.querySelector('h1').textContent.startsWith('blue')")
        assert f"blue rests most on {first.document}" in head.inner_text()
        shown = page.locator(".badge").all_inner_texts()[list(DOCUMENTS).index(first.document)]
        assert float(shown.split()[0]) == pytest.approx(100 * first.share, abs=0.6)
        lit = page.locator(".passage").nth(2)  # Lily's
        assert lit.evaluate("e => e.style.background") != ""
        page.get_by_role("option", name="blue").click()
        page.mouse.move(5, 5)
        page.wait_for_timeout(50)
        assert head.inner_text().startswith("blue rests")
        assert "part=w0" in page.url
        page.select_option("select >> nth=0", label="leave_one_out")
        removed = answer.top(word="blue", method="leave_one_out")[0]
        assert f"rests most on {removed.document}" in head.inner_text()
        page.locator(".cites").nth(1).click()
        assert "part=s1" in page.url
        assert head.inner_text().startswith("This sentence")
        assert not wrong


@needs_browser
def test_the_keyboard_and_the_other_views(browser: Any, file: Path, tmp_path: Path) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}")
        page.get_by_role("option", name="blue").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert "part=w1" in page.url
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.textContent") == "She"
        page.keyboard.press("Escape")
        assert "part" not in page.url
        page.get_by_label("show question and template").check()
        assert page.locator(".document.other").first.is_visible()
        for kind in ("PNG", "SVG", "CSV", "JSON"):
            page.locator(".menu summary").click()
            with page.expect_download() as got:
                page.get_by_role("button", name=kind).click()
            got.value.save_as(tmp_path / f"answer.{kind.lower()}")
        for name in ("Text", "Map", "Compare", "Answer"):
            page.get_by_role("tab", name=name).click()
        assert not wrong
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG")
    columns = ["method", "part", "document", "passage", "score"]
    assert next(csv.reader((tmp_path / "answer.csv").open())) == columns
    assert json.loads((tmp_path / "answer.json").read_text())["columns"] == columns


@needs_browser
def test_a_click_scrolls_to_the_best_passage(browser: Any, tmp_path: Path) -> None:
    answer = make_answer(12, 200, 30, ["flow_routes"])
    answer.to_html(tmp_path / "long.html")
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path / 'long.html'}#part=w5")
        best = answer.top(word=5, by="sentences")[0]
        page.wait_for_timeout(100)
        assert page.locator(".passage", has_text=best.text).first.evaluate(
            "e => { const box = e.closest('.documents').getBoundingClientRect();"
            " const own = e.getBoundingClientRect();"
            " return own.top >= box.top && own.bottom <= box.bottom; }"
        )
        before = page.locator(".documents").evaluate("e => e.scrollTop")
        page.locator(".minimap").click(position={"x": 5, "y": 3})
        page.wait_for_timeout(50)
        assert page.locator(".documents").evaluate("e => e.scrollTop") < max(before, 50)
        assert not wrong


@needs_browser
def test_an_answer_by_removal_alone(browser: Any, tmp_path: Path) -> None:
    make_answer(3, 30, 12, ["leave_one_out"]).to_html(tmp_path / "removed.html")
    with opened(browser) as (page, wrong):
        page.goto(f"file://{tmp_path / 'removed.html'}")
        assert "rests most on document" in page.locator("h1").inner_text()
        assert not page.get_by_role("tab").count()
        assert not wrong


@needs_browser
def test_sources_are_named_by_their_documents(browser: Any, file: Path, answer: Answer) -> None:
    with opened(browser) as (page, wrong):
        page.goto(f"file://{file}#view=text&unit=tokens&hide=others")
        names = page.locator(".side table").first.locator("tbody th").all_inner_texts()
        assert names
        for name in names:
            assert name.split(" (")[-1].removesuffix(")") in answer.documents, name
        assert page.get_by_label("Hide").input_value() == "others"
        outside = page.locator(".token.left-out").count()
        assert outside == sum(kind != "document" for kind in answer.kinds)
        assert not wrong


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(browser: Any, file: Path, scheme: Literal["light", "dark"]) -> None:
    for width in (1280, 420):
        size = {"width": width, "height": 800}
        with opened(browser, color_scheme=scheme, viewport=size) as (page, wrong):
            page.goto(f"file://{file}#part=w0")
            page.evaluate(AXE.read_text())
            report = page.evaluate("axe.run(document)")
            assert [each["id"] for each in report["violations"]] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert not wrong


def test_maps_of_generated_text_have_an_answer() -> None:
    lens = Lens.bundled("causal")
    recording = lens.generate(PROMPT, answer=" blue car. She is happy.")
    places = {
        name: (PROMPT.index(text), PROMPT.index(text) + len(text))
        for name, text in DOCUMENTS.items()
    }
    maps: Any = measure("flow_routes", recording)
    other: Any = measure("attention", recording)
    named = with_segments(maps, places)
    payload = payload_of([named, with_segments(other, places)])
    assert payload["start"]["view"] == "answer"
    made = answer_of_maps([named])
    assert made is not None
    answer = " blue car. She is happy."
    ours = lens.answer(PROMPT, documents=DOCUMENTS, answer=answer, methods="flow_routes")
    for word in range(len(ours.words)):
        scores = {each.document: each.score for each in ours.top(word=word)}
        again = {each.document: each.score for each in made.top(word=word)}
        assert again == pytest.approx(scores, abs=1e-6)
    assert made.shares() == pytest.approx(ours.shares(), abs=1e-5)
    whole = answer_of_maps([maps])
    assert whole is not None
    assert list(whole.documents) == ["prompt"]
    assert "answer" not in payload_of(maps.words())
    assert "answer" not in payload_of(lens.measure("attention", PROMPT))
    assert "view" not in payload_of(maps, target=maps.target_positions[0])["start"]
