"""`lens.answer` where the evidence is known: the bundled model answers from documents."""

from __future__ import annotations

import re

import pytest

from mixlens import Answer, Lens
from mixlens.datasets.generated_prompts import generate_prompts

DOCUMENTS = {
    "Amy": "Amy keeps the key in the garden.",
    "Ben": "Ben keeps the key in the kitchen.",
    "book": "Amy keeps the book in the tower.",
}
QUESTION = "{documents}\n\nQuestion: Where does Amy keep the key?\nAnswer:"
METHODS = ["leave_one_out", "flow_routes", "alti", "alti_logit", "attention_norm", "attention"]
PROMPTS = 20


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal")


@pytest.fixture(scope="module")
def answer(lens: Lens) -> Answer:
    return lens.answer(QUESTION, documents=DOCUMENTS, methods=METHODS, max_new_tokens=9)


@pytest.mark.parametrize("task", ["key_value", "fact"])
def test_methods_find_the_document_that_holds_the_answer(lens: Lens, task: str) -> None:
    """The model writes the right answer to each of the prompts, and each method ranks the document
    with the evidence first of four.
    """
    hits = dict.fromkeys(METHODS, 0)
    for prompt in generate_prompts(task, PROMPTS, documents=4, seed=11):
        documents = {str(i): prompt.text[a:b] for i, (a, b) in enumerate(prompt.documents)}
        length = len(lens.tokenizer(prompt.answer, add_special_tokens=False)["input_ids"])
        made = lens.answer(prompt.text, documents=documents, methods=METHODS, max_new_tokens=length)
        assert made.text == prompt.answer
        for method in METHODS:
            (evidence,) = prompt.evidence
            hits[method] += made.top(word=0, method=method)[0].document == str(evidence)
    assert hits == dict.fromkeys(METHODS, PROMPTS)


def test_an_answer_changes_with_its_document(lens: Lens, answer: Answer) -> None:
    assert answer.text == " Amy keeps the key in the garden."
    moved = {**DOCUMENTS, "Amy": "Amy keeps the key in the office."}
    again = lens.answer(QUESTION, documents=moved, methods="alti", max_new_tokens=9)
    assert again.text == " Amy keeps the key in the office."


def test_a_printed_answer_cites_passages(answer: Answer) -> None:
    printed = str(answer)
    assert printed.startswith("Amy keeps the key in the garden. [1]")
    assert "[1] Amy" in printed
    assert "Amy keeps the key in the garden." in printed
    assert "Shares of all sources by flow_routes: documents" in printed
    assert "6 methods agree on the best passage for" in printed
    assert answer.agreement()[0].best["leave_one_out"] == "Amy"
    start = "<Answer ' Amy keeps the key in the garden.': 3 documents, leave_one_out, flow_routes"
    assert repr(answer).startswith(start)


def test_words_of_a_passage_are_listed_by_score(answer: Answer) -> None:
    """By share, a word that loses next to nothing comes first if it loses it to one document."""
    line = re.findall("Most for: .*", str(answer))[0]
    best = [answer.top(word=word)[0] for word in re.findall(r"(\w+) \(", line)]
    scores, shares = [each.score for each in best], [each.share for each in best]
    assert len(best) > 1
    assert scores == sorted(scores, reverse=True)
    assert shares != sorted(shares, reverse=True)
