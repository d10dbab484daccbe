"""The exercises that teach retrieval: every answer can be read in the text before it."""

import itertools
import json
import math
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import mixlens
from mixlens.datasets.generated_prompts import TASKS as EVERY_TASK
from training import teach_retrieval
from training.exercises import TASKS, WIDTH, Exercise, Exercises, make_chunk

CAUSAL = Path(mixlens.__file__).parent / "bundled" / "causal"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(CAUSAL / "tokenizer.json"))


@pytest.fixture
def exercises(tokenizer: Tokenizer) -> Exercises:
    return Exercises(tokenizer, seed=0, tasks=TASKS)


def _answers(exercise: Exercise) -> list[list[int]]:
    """Runs of tokens whose loss has full weight."""
    runs = itertools.groupby(exercise, key=lambda token: token[1] == 1)
    return [[token for token, _ in run] for is_answer, run in runs if is_answer]


@pytest.mark.parametrize("progress", [0.0, 0.2, 0.9])
def test_every_answer_stands_in_the_text_before_it(exercises: Exercises, progress: float) -> None:
    for exercise in (exercises.make(progress) for _ in range(60)):
        ids = [token for token, _ in exercise]
        first = next(place for place, (_, weight) in enumerate(exercise) if weight == 1)
        assert exercise[0] == (exercises.start, 0.0)
        assert len(ids) <= WIDTH
        for answer in _answers(exercise):
            places = range(first - len(answer) + 1)
            assert any(ids[place : place + len(answer)] == answer for place in places)


def test_prompts_are_tokenised_as_a_user_would(exercises: Exercises, tokenizer: Tokenizer) -> None:
    for _ in range(30):
        ids = [token for token, _ in exercises.ask_once()]
        text = tokenizer.decode(ids)
        assert tokenizer.encode(text).ids == ids


@pytest.mark.parametrize("task", TASKS)
def test_several_questions_are_those_of_the_generated_prompts(
    tokenizer: Tokenizer, task: str
) -> None:
    exercises = Exercises(tokenizer, seed=1, tasks=[task])
    for _ in range(60):
        documents, questions = exercises._documents()
        sentences = {f"{begin}{value}." for begin, value in documents}
        assert len(sentences) == len(documents)
        assert len({question for question, _ in questions}) == len(questions)
        words = exercises.words
        for question, answer in questions:
            if task == "two_hop":
                thing = question.split(" who has the ")[1].split(" now?")[0]
                (owner,) = (s.split()[0] for s in sentences if s.endswith(f" has the {thing} now."))
                assert words.lives.format(name=owner, place=answer.strip()) in sentences
            else:
                assert question.split("Answer: ")[1] + answer + "." in sentences


def test_chunks_hold_the_exercises_padded_at_the_end(tokenizer: Tokenizer) -> None:
    file = str(CAUSAL / "tokenizer.json")
    tokens, weights = make_chunk(file, 3, 0.9, 5, TASKS)
    again = Exercises(tokenizer, 3, TASKS)
    for ids, values in zip(tokens, weights, strict=True):
        exercise = again.make(0.9)
        length = len(exercise)
        assert ids[:length].tolist() == [token for token, _ in exercise]
        assert values[:length].tolist() == pytest.approx([w for _, w in exercise], abs=1e-3)
        assert not ids[length:].any()
        assert not values[length:].any()


def test_tasks_exist() -> None:
    assert set(TASKS) <= set(EVERY_TASK)


def test_training_writes_a_model_and_its_figures(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "taught"
    (data / "wikitext2").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        text = "The old house stood near the river , and nobody had lived there for years .\n"
        (data / "wikitext2" / f"{split}.txt").write_text(text * 30)
    (data / "blimp").mkdir()
    pair = {"sentence_good": "The dogs bark.", "sentence_bad": "The dogs barks."}
    (data / "blimp" / "agreement.jsonl").write_text(json.dumps(pair) + "\n")
    options = (
        "--processes 1 --batch 2 --mix 2 2 1 --samples 2 --generated 200 --prompts 2 --minutes 0.03"
    )
    teach_retrieval.main(
        [f"--model={CAUSAL}", f"--data={data}", f"--out={out}", "--check=1", *options.split()]
    )
    figures = json.loads((out / "retrieval.json").read_text())
    assert figures["steps"] > 0
    assert set(figures["answered"]) == {f"{task}-{n}" for task in TASKS for n in (2, 4, 8)}
    assert math.isfinite(figures["held_out"]["test"]["perplexity"])
    taught, former = (AutoModelForCausalLM.from_pretrained(each) for each in (out, CAUSAL))
    key = "model.layers.0.self_attn.q_proj.weight"
    assert not taught.state_dict()[key].equal(former.state_dict()[key])
