"""`mixlens answer`: prompts from files, folders and chats, what is printed, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mixlens
from tests.cli.running import run
from tests.cli.test_chat_prompts import TEMPLATE, chat_model

PROMPT = (
    "=== document 1 ===\nTom likes to play with his red ball.\n"
    "=== document 2 ===\nLily likes to play with her blue car.\n"
    "=== question ===\nLily likes to play with her"
)


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT)
    return path


def test_it_prints_citations_and_writes_files(prompt: Path, tmp_path: Path) -> None:
    html, saved = tmp_path / "answer.html", tmp_path / "answer.mixlens"
    ran = run(
        "answer", str(prompt), "--answer", " blue car.", "--html", str(html), "--save", str(saved)
    )
    assert ran.status == 0, ran.err
    assert ran.out.startswith("blue car. [1]")
    assert "cut after" not in ran.out
    assert "[1] document 2 (" in ran.out
    assert "Method: alti (mean of 6 layers)." in ran.out
    assert "using the bundled causal language model" in ran.err
    assert '"view":"answer"' in html.read_text()
    assert mixlens.load(saved).top()[0].document == "document 2"


def test_a_generated_answer_as_json(prompt: Path) -> None:
    ran = run("answer", str(prompt), "--generate", "4", "--json", "--method", "alti,leave_one_out")
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    assert made["answer"].strip()
    assert made["provenance"]["cut_at"] == 4
    assert list(made["methods"]) == ["alti", "leave_one_out"]
    assert made["methods"]["leave_one_out"]["shares"] is None
    assert {each["document"] for each in made["documents"]["alti"]} == {"document 1", "document 2"}
    assert made["sentences"][0]["citations"][0]["document"].startswith("document")


def test_an_answer_that_was_cut_off_is_reported(prompt: Path) -> None:
    ran = run("answer", str(prompt), "--generate", "2")
    assert "The answer was cut after 2 tokens. Allow more with max_new_tokens" in ran.out


def test_documents_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tom.txt").write_text("Tom keeps the car in the garden.\n")
    (folder / "lily.md").write_text("Lily keeps the car in the kitchen.\n")
    begun = "Question: Where does Lily keep the car?\nAnswer: Lily keeps the car in the"
    question = ("answer", begun, "--generate", "2", "--json")
    ran = run(*question, "--documents", str(folder))
    assert "The documents are put in front of the prompt." in ran.err
    made = json.loads(ran.out)
    assert made["prompt"].startswith("lily.md:\nLily keeps the car in the kitchen.\n\ntom.txt:")
    assert made["answer"] == " kitchen."
    assert made["documents"]["alti"][0]["document"] == "lily.md"
    inside = tmp_path / "prompt.txt"
    inside.write_text(
        "Tom keeps the car in the garden. Lily keeps the car in the kitchen. Who has a car?"
    )
    ran = run("answer", str(inside), "--answer", " Lily", "--documents", str(folder))
    assert ran.status == 0
    assert "in front" not in ran.err


def test_chats_and_documents_go_together(tmp_path: Path) -> None:
    model = chat_model(tmp_path / "model", TEMPLATE)
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": PROMPT}]))
    ran = run("answer", str(chat), "--answer", "blue car", "--model", model, "--json")
    assert ran.status == 0, ran.err
    assert len(json.loads(ran.out)["documents"]["alti"]) == 2
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tom.txt").write_text("Tom has a red ball.")
    chat.write_text(json.dumps([{"role": "user", "content": "Who?"}]))
    arguments = ("answer", str(chat), "--answer", "Tom", "--model", model, "--json")
    made = json.loads(run(*arguments, "--documents", str(folder)).out)
    assert "<user>tom.txt:\nTom has a red ball.\n\nWho?</user>" in made["prompt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.txt",), "missing.txt does not exist"),
        (("",), "PROMPT is empty"),
        (("  ",), "PROMPT is empty"),
        (("Who is it?", "--answer", ""), "The answer is empty"),
        (("Who is it?", "--answer", "a", "--generate", "3"), "are mutually exclusive"),
        (("Who is it?", "--documents", "nowhere"), "nowhere is not a folder"),
        (("Who is it?", "--method", "atention"), "method 'atention'"),
        (("Who is it?", "--method", "alti,atention"), "method 'atention'"),
        (("Who is it?", "--method", "all"), "method 'all'"),
        ((), "PROMPT is required"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], message: str) -> None:
    ran = run("answer", *arguments)
    assert ran.status == 2
    assert message in ran.err
