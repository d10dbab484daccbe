"""Questions are sent to workers without their models."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

from mixlens import Lens
from mixlens.datasets import Example
from mixlens.evaluating.case import Case
from mixlens.papers.questions import QuestionReader, Sent, pack_questions
from mixlens.runs.engines import Engine
from mixlens.runs.job import ModelSource
from mixlens.runs.observing import Workers


def asked(case: Case, *, other: Lens, number: int) -> int:
    return number


def test_a_model_is_replaced_by_its_name() -> None:
    lens, other = Lens.bundled(), Lens.bundled("causal")
    questions = {"q": partial(asked, other=other, number=3)}
    content = pack_questions(questions, lens, other)
    assert len(content) < 1000, "no weights are inside"
    there = Lens.bundled("causal")
    loaded = QuestionReader(io.BytesIO(content), {"lens": lens, "other": there}).load()
    assert loaded["q"].keywords["other"] is there
    assert loaded["q"].keywords["number"] == 3


def test_a_worker_loads_both_models_and_answers() -> None:
    lens, other = Lens.bundled(), Lens.bundled("causal")
    workers = Workers(
        engine=Engine(kind="local"),
        source=ModelSource(trust_remote_code=True),
        other=ModelSource(name="mixlens/bundled/causal"),
    )
    questions = {"q": partial(asked, other=other, number=3)}
    sent = Sent(workers=workers, packed=pack_questions(questions, lens, other), measure_options={})
    started = sent.start()
    question: Any = started.questions["q"]
    assert type(question.keywords["other"].model) is type(other.model)
    (answer,) = started(Example(name="x", text="The keys are old ."))["observations"]
    assert answer["seen"] == 3
