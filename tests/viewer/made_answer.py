"""Answers made by hand, of any size: words are tokens, and scores are random or chosen."""

from __future__ import annotations

import numpy as np

from mixlens import Answer
from mixlens.answers.answer_parts import split_sentences, split_words
from mixlens.answers.method_scores import MethodScores
from mixlens.answers.prompt_parts import PromptPart
from mixlens.text.segments import spans_of
from mixlens.text.tokens import TokenRow

VOCABULARY = ["harbour", "lamp", "of", "the", "keeper", "sea", "in", "1874", "boats", "wrote"]


def make_answer(documents: int, words: int, answer_words: int, methods: list[str]) -> Answer:
    """Return an answer about documents of this many words; the last method removes documents if it
    is called leave_one_out.
    """
    rng = np.random.default_rng(0)
    prompt, parts = "", []
    for number in range(documents):
        body = _sentences(rng, words)
        parts.append(
            PromptPart(f"document {number + 1}", "document", len(prompt), len(prompt) + len(body))
        )
        prompt += body + "\n\n"
    question = "Who wrote it?"
    parts.append(PromptPart("question", "question", len(prompt), len(prompt) + len(question)))
    prompt += question
    text = " " + _sentences(rng, answer_words)
    source_row, target_row = _tokens(prompt), _tokens(text)
    passages = [
        PromptPart(f"{part.name}, sentence {i}", "sentence", part.start + a, part.start + b)
        for part in parts[:-1]
        for i, (_, a, b) in enumerate(spans_of(prompt[part.start : part.stop], "sentences"), 1)
    ]
    assert target_row.offsets is not None
    sentences = split_sentences(text, target_row.offsets)
    scores = {}
    for name in methods:
        removes = name == "leave_one_out"
        columns = documents if removes else len(source_row)
        values = rng.gamma(0.3, size=(len(target_row), columns))
        if not removes:
            values /= values.sum(1, keepdims=True)
        scores[name] = MethodScores.of_tokens(
            name, values, sentences, removes=removes, reading="made by hand"
        )
    return Answer(
        text=text,
        prompt=prompt,
        parts=tuple(parts),
        passages=tuple(passages),
        sentences=sentences,
        words=split_words(target_row, range(len(target_row)), text, 0),
        methods=scores,
        uses_template=False,
        source_row=source_row,
        target_row=target_row,
        has_sink=False,
        provenance={"name": "made by hand"},
    )


def _sentences(rng: np.random.Generator, words: int) -> str:
    chosen = [VOCABULARY[i] for i in rng.integers(0, len(VOCABULARY), words)]
    return " ".join(word + "." * (i % 12 == 11 or i == words - 1) for i, word in enumerate(chosen))


def _tokens(text: str) -> TokenRow:
    offsets, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return TokenRow(tuple(text.split()), text, tuple(offsets), (False,) * len(offsets))
