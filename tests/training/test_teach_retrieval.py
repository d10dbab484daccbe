"""The exercises that teach retrieval: every answer can be read in the text before it."""

import itertools
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import mixlens
from mixlens.datasets.generated_prompts import TASKS
from training import teach_retrieval
from training.teach_retrieval import Exercise, Exercises

CAUSAL = Path(mixlens.__file__).parent / "bundled" / "causal"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(CAUSAL / "tokenizer.json"))


@pytest.fixture
def exercises(tokenizer: Tokenizer) -> Exercises:
    start = tokenizer.token_to_id("<s>")
    assert start is not None
    return Exercises(tokenizer, start, seed=0)


def _answers(exercise: Exercise) -> list[list[int]]:
    """Runs of tokens whose loss has full weight."""
    runs = itertools.groupby(exercise, key=lambda token: token[1] == 1)
    return [[token for token, _ in run] for is_answer, run in runs if is_answer]


@pytest.mark.parametrize("progress", [0.0, 0.2, 0.9])
def test_every_answer_stands_in_the_text_before_it(exercises: Exercises, progress: float) -> None:
    for exercise in (made for _ in range(10) for made in exercises.batch(progress, 4)):
        ids = [token for token, _ in exercise]
        first = next(place for place, (_, weight) in enumerate(exercise) if weight == 1)
        assert exercise[0] == (exercises.start, 0.0)
        assert len(ids) <= 256
        for answer in _answers(exercise):
            places = range(first - len(answer) + 1)
            assert any(ids[place : place + len(answer)] == answer for place in places)


def test_prompts_are_tokenised_as_a_user_would(exercises: Exercises, tokenizer: Tokenizer) -> None:
    for _ in range(30):
        ids = [token for token, _ in exercises.ask_once(4)]
        text = tokenizer.decode(ids)
        assert tokenizer.encode(text).ids == ids


def test_documents_that_share_words_have_one_answer_each(exercises: Exercises) -> None:
    for _ in range(100):
        questions = [question for _, _, question in exercises._documents(5)]
        assert len(set(questions)) == len(questions)


def test_tasks_exist() -> None:
    assert set(teach_retrieval.TASKS) <= set(TASKS)
