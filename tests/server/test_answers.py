"""Prompts with documents, answered and explained by a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

from mixlens import Lens
from mixlens.cli.loading import lens_from
from mixlens.measures import ready_measures
from mixlens.server.answering import first_answer
from mixlens.server.api import Limits
from mixlens.views.viewer.payload import answer_payload
from tests.schemas.validation import assert_valid
from tests.server.conftest import serving
from tests.viewer.browser import launched, needs_browser

DOCUMENTS = {"Tom": "Tom has a red ball.", "Lily": "Lily has a blue car."}
PROMPT = "Lily likes to play with her"
BODY: dict[str, Any] = {
    "model": "causal",
    "messages": [{"role": "user", "content": PROMPT}],
    "documents": [{"name": name, "text": text} for name, text in DOCUMENTS.items()],
    "methods": ["flow_routes", "attention"],
    "max_new_tokens": 6,
}


@pytest.fixture(scope="module")
def causal() -> Lens:
    return Lens.bundled("causal")


@pytest.fixture(scope="module")
def causal_address(causal: Lens) -> Iterator[str]:
    limits = Limits(prompt_tokens=80, new_tokens=20, characters=400, jobs_per_minute=10_000)
    with serving({"causal": causal}, limits) as url:
        yield url


@pytest.fixture(scope="module")
def client(causal_address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=causal_address, timeout=60) as opened:
        yield opened


def _finish(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    created = client.post("/api/answers", json={**BODY, **changes})
    assert created.status_code == 202, created.text
    while True:
        status: dict[str, Any] = client.get(f"/api/jobs/{created.json()['id']}").json()
        if status["state"] not in ("queued", "running"):
            return status
        time.sleep(0.01)


def test_an_answer_is_what_the_library_gives(client: httpx.Client, causal: Lens) -> None:
    job = _finish(client)
    payload = client.get(f"/api/jobs/{job['id']}/payload").json()
    answer = causal.answer(
        "{documents}\n\n" + PROMPT,
        documents=DOCUMENTS,
        methods=["flow_routes", "attention"],
        max_new_tokens=6,
    )
    expected = answer_payload(answer)
    assert payload["start"] == {"target": 0, "view": "answer"}
    assert payload["answer"]["pieces"] == expected["answer"]["pieces"]
    assert payload["answer"]["methods"] == expected["answer"]["methods"]
    assert payload["request"]["documents"] == BODY["documents"]
    assert_valid("payload", payload)


def test_a_given_answer_is_explained(client: httpx.Client) -> None:
    job = _finish(client, answer=" blue car.", methods=["leave_one_out"])
    payload = client.get(f"/api/jobs/{job['id']}/payload").json()
    assert "".join(piece for piece, _, _ in payload["answer"]["pieces"]) == " blue car."


def test_it_offers_only_what_supports_the_model(client: httpx.Client, causal: Lens) -> None:
    (model,) = client.get("/api").json()["models"]
    refused = {name for name, reason in causal.verify().measures.items() if reason is not None}
    assert "globenc" in refused
    assert set(model["measures"]) == set(ready_measures()) - refused
    assert model["methods"][0] == "alti"
    assert model["methods"][-2:] == ["leave_one_out", "context_cite"]
    assert not refused & set(model["methods"])
    for method in model["methods"]:
        assert _finish(client, methods=[method])["state"] == "done", method


def test_wrong_prompts_raise(client: httpx.Client) -> None:
    twice = [BODY["documents"][0], BODY["documents"][0]]
    long = [{"name": "long", "text": "the " * 90}]
    failed: list[tuple[dict[str, Any], str]] = [
        ({"documents": twice}, "Duplicate document name 'Tom'"),
        ({"documents": long}, "Shorten the prompt and its documents to 80"),
        ({"documents": [], "messages": [{"role": "user", "content": " "}]}, "prompt is empty"),
        ({"messages": [{"role": "system", "content": "x"}] * 2}, "no user message"),
    ]
    for change, words in failed:
        job = _finish(client, **change)
        assert job["state"] == "failed", change
        assert words in job["message"], change
    rejected: list[tuple[dict[str, Any], str]] = [
        ({"model": "other"}, "Unknown model"),
        ({"methods": ["globenc"]}, "Method 'globenc' is unknown or does not support"),
        ({"methods": []}, "methods: "),
        ({"max_new_tokens": 21}, "Request at most 20"),
        ({"messages": []}, "messages: "),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "role: "),
        ({"documents": [{"name": "x", "text": "x" * 401}]}, "Shorten the text to 400"),
        ({"answer": ""}, "answer: "),
    ]
    for change, words in rejected:
        answer = client.post("/api/answers", json={**BODY, **change})
        assert answer.status_code == 422, change
        assert words in answer.json()["detail"], change


def test_the_command_line_loads_the_dtype_of_python(tmp_path: Any) -> None:
    model: Any = Lens.bundled("causal", dtype=torch.bfloat16).model
    model.save_pretrained(tmp_path)
    stored = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert stored.dtype == torch.bfloat16
    loaded = lens_from(str(tmp_path), "cpu", "float32")
    assert loaded.model.dtype == Lens.from_pretrained(str(tmp_path)).model.dtype == torch.float32


@needs_browser
def test_a_prompt_is_answered_on_the_page(causal_address: str, client: httpx.Client) -> None:
    from playwright.sync_api import expect

    with launched() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        complaints: list[Any] = []
        page.on("pageerror", lambda error: complaints.append(error))
        page.goto(causal_address)
        assert page.get_by_role("tab", name="Answer").get_attribute("aria-selected") == "true"
        assert page.locator(".document:not(.other)").count() == 2
        expect(page.get_by_text("cut after 12 tokens")).to_be_visible()
        expect(page.locator(".minimap")).to_be_hidden()  # all documents are in sight
        page.get_by_role("textbox", name="Text of Tom").fill("Ben has a green boat.")
        page.get_by_role("textbox", name="Name of the document").first.fill("Ben")
        page.get_by_role("button", name="Add a document").click()
        assert page.get_by_role("textbox", name="Name of the document").last.input_value() == (
            "document 3"
        )
        page.get_by_role("textbox", name="Text of document 3").fill("The sun is hot.")
        page.get_by_role("textbox", name="Prompt").fill("Ben likes his")
        page.get_by_text("Methods, length and given answer").click()
        page.get_by_role("checkbox", name="attention_norm", exact=True).check()
        assert page.get_by_label("globenc").count() == 0
        length = page.get_by_label("Maximum new tokens")
        assert length.input_value() == length.get_attribute("max")  # not that of the first example
        length.fill("5")
        page.get_by_role("button", name="Answer", exact=True).click()
        heads = page.locator(".document:not(.other) h3")
        expect(heads).to_contain_text(["Ben", "Lily", "document 3"], timeout=60_000)
        assert page.locator(".methods tr").count() == 2
        page.get_by_role("textbox", name="Prompt").fill("the " * 90)
        page.get_by_role("button", name="Answer", exact=True).click()
        wrong = page.locator(".live .wrong")
        expect(wrong).to_contain_text("Shorten the prompt and its documents to 80", timeout=60_000)
        page.get_by_role("textbox", name="Prompt").fill(" ")
        page.get_by_role("button", name="Answer", exact=True).click()
        expect(wrong).to_contain_text("The prompt is empty")
        page.get_by_role("button", name="Measure a text").click()
        page.get_by_role("textbox", name="Text", exact=True).fill("The cat sat.")
        page.get_by_role("button", name="Measure", exact=True).click()
        expect(page.get_by_role("tab", name="Flow")).to_be_visible(timeout=60_000)
        assert not complaints
        browser.close()


def test_the_page_of_a_chat_model_begins_with_a_question() -> None:
    def prompt(chats: bool) -> str:
        return str(first_answer("model", "alti", chats=chats)["messages"][0]["content"])

    assert prompt(chats=True).endswith("?")
    assert prompt(chats=False).endswith("I like my")
