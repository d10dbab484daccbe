"""Answers to prompts with images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens import InvalidInput
from mixlens.views.viewer.payload import answer_payload
from tests.recording.vision_models import chat, picture, vision_lens


@pytest.fixture(scope="module")
def answer() -> Any:
    messages = chat(picture(0, 64, 32), picture(1), text="w1 w2 . w3 w4 . {documents} what is it ?")
    documents = {"cats": "a cat on mat .", "dogs": "a dog is red ."}
    return vision_lens("idefics3_tiles").answer(messages, documents=documents, answer=" a cat .")


def test_images_are_ranked_next_to_documents(answer: Any) -> None:
    assert list(answer.documents) == ["image 1", "image 2", "cats", "dogs"]
    assert {each.name for each in answer.top(count=9)} == {"image 1", "image 2", "cats", "dogs"}


def test_the_score_of_an_image_is_the_sum_of_its_tokens(answer: Any) -> None:
    (part,) = [each for each in answer.source_row.segments if each.name == "image 2"]
    row = answer.methods[answer.method].parts[-1]
    score = next(each.score for each in answer.top(count=9) if each.name == "image 2")
    assert score == pytest.approx(float(row[part.start : part.stop].sum()), rel=1e-4)
    assert score > 0


def test_pages_and_files_have_the_images(answer: Any, tmp_path: Path) -> None:
    payload = answer_payload(answer)
    assert [each["name"] for each in payload["images"]] == ["image 1", "image 2"]
    assert [block["name"] for block in payload["answer"]["blocks"] if block["document"] >= 0] == [
        *("image 1", "image 2", "cats", "dogs")
    ]
    answer.save(tmp_path / "answer")
    again = mixlens.load(tmp_path / "answer")
    assert again.source_row.pictures == answer.source_row.pictures


def test_turns_are_ranked_next_to_images() -> None:
    parts = [
        {"type": "text", "text": "what is in"},
        {"type": "image", "image": picture()},
        {"type": "text", "text": "and the mat ?"},
    ]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "w1 w2"},
        {"role": "assistant", "content": "w3 w4"},
        {"role": "user", "content": parts},
    ]
    answer = vision_lens("qwen2_vl").answer(messages, answer=" a cat .", methods=["alti"])
    assert list(answer.documents) == [
        *("user 1", "assistant", "user 2, part 1", "image 1", "user 2, part 2")
    ]
    table = answer.to_dataframe()
    assert np.isfinite(table["score"]).all()


@pytest.mark.parametrize("method", ["leave_one_out", "context_cite"])
def test_removal_of_words_next_to_images_is_refused(method: str) -> None:
    lens = vision_lens("llava")
    with pytest.raises(InvalidInput, match="text-only prompts, but this one has images"):
        lens.answer(chat(picture()), answer=" a cat .", methods=method)
    recording = lens.generate(chat(picture()), answer=" a cat .")
    with pytest.raises(InvalidInput, match="text-only prompts, but this one has images"):
        lens.leave_one_out(recording)
