"""Generated prompts: the marked documents contain the evidence, and no other document answers the
question.
"""

from __future__ import annotations

import pytest

from mixlens.datasets.generated_prompts import LANGUAGES, TASKS, generate_prompts
from mixlens.datasets.reading import read
from mixlens.errors import InvalidInput


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", TASKS)
def test_evidence_is_in_its_documents(task: str, language: str) -> None:
    for documents in (2, 5, 11):
        for prompt in generate_prompts(task, 5, documents=documents, language=language):
            assert len(prompt.documents) == documents
            assert (
                len(prompt.needles)
                == len(prompt.evidence)
                == 1 + (task in ("two_hop", "variables"))
            )
            for number, (start, stop) in zip(prompt.evidence, prompt.needles, strict=True):
                first, last = prompt.documents[number]
                assert first <= start < stop <= last
            where = [
                number
                for number, (a, b) in enumerate(prompt.documents)
                if _is_word(prompt.answer.strip(), prompt.text[a:b])
            ]
            assert where  # the answer can be read off the evidence, and off nothing else
            assert set(where) <= set(prompt.evidence)


def _is_word(word: str, text: str) -> bool:
    return word in text.replace(".", " ").split()


def test_a_seed_gives_the_same_prompts() -> None:
    first, again = (generate_prompts("fact", 3, seed=5) for _ in range(2))
    assert first == again
    assert generate_prompts("fact", 3, seed=6) != first


def test_prompts_grow_to_a_number_of_tokens() -> None:
    short, long = (
        generate_prompts(
            "fact", 1, tokens=tokens, count_tokens=lambda text: len(text.split()), seed=1
        )[0]
        for tokens in (10, 400)
    )
    assert len(short.text.split()) < 60
    assert 400 <= len(long.text.split()) < 420
    assert long.text[slice(*long.needles[0])] == short.text[slice(*short.needles[0])]


def test_an_address_names_prompts() -> None:
    data = read("generated:key_value?documents=6&count=7&seed=2&language=de")
    assert (data.kind, len(data.examples)) == ("evidence", 7)
    assert list(data.examples) == generate_prompts(
        "key_value", 7, documents=6, seed=2, language="de"
    )


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("generated:nothing", "Unknown task 'nothing'"),
        ("generated:fact?language=fr", "Unknown language 'fr'"),
        ("generated:fact?documents=1", "out of range"),
        ("generated:fact?documents=32&language=de", r"\(2–31\) for fact, language=de"),
        ("generated:key_value?documents=24", r"\(2–23\) for key_value, language=en"),
        ("generated:fact?documents=two", "not an option"),
        ("generated:fact?size=3", "not an option"),
    ],
)
def test_bad_addresses_are_refused(address: str, part: str) -> None:
    with pytest.raises(InvalidInput, match=part):
        read(address)


@pytest.mark.parametrize(
    ("task", "language", "documents"),
    [("fact", "de", 31), ("fact", "en", 32), ("key_value", "de", 11), ("two_hop", "de", 32)],
)
def test_the_largest_prompts(task: str, language: str, documents: int) -> None:
    for prompt in generate_prompts(task, 20, documents=documents, language=language):
        texts = {prompt.text[slice(*span)] for span in prompt.documents}
        assert len(prompt.documents) == documents
        assert task != "fact" or len(texts) == documents


def test_plain_facts_share_no_word_with_the_question() -> None:
    for prompt in generate_prompts("plain_fact", 20, documents=6):
        asked = set(prompt.text.rsplit("Question:", 1)[1].split("?")[0].split())
        for number, span in enumerate(prompt.documents):
            words = set(prompt.text[slice(*span)].strip(".").split()) - {"the", "in"}
            shared = words & asked
            assert len(shared) == (2 if number in prompt.evidence else 0)
