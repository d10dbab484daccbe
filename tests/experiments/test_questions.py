"""Questions travel without their models."""

from __future__ import annotations

import io
from functools import partial

from mixlens import Lens
from mixlens.evaluations.case import Case
from mixlens.experiments.questions import QuestionReader, packed


def asked(case: Case, *, other: Lens, number: int) -> int:
    return number


def test_a_model_is_replaced_by_its_name() -> None:
    lens, other = Lens.bundled(), Lens.bundled("causal")
    questions = {"q": partial(asked, other=other, number=3)}
    content = packed(questions, lens, other)
    assert len(content) < 1000, "no weights are inside"
    there = Lens.bundled("causal")
    loaded = QuestionReader(io.BytesIO(content), {"lens": lens, "other": there}).load()
    assert loaded["q"].keywords["other"] is there
    assert loaded["q"].keywords["number"] == 3
