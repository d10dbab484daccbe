"""Turns text into rows of token ids, in several processes.

Three widths keep padding low: short and middle rows hold one sentence each, long rows hold running
text. A worker makes its generated sentences from a seed and encodes them on the spot, so that no
text travels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from .benchmarks import load_benchmarks
from .corpora import sentences
from .grammar import Grammar
from .vocabulary import END_ID, PAD_ID, START_ID

SHORT, MIDDLE, LONG = 24, 48, 256


@dataclass
class SentenceRows:
    """Rows of one width: token ids, and which of them agreement fixes."""

    ids: np.ndarray
    targets: np.ndarray


@dataclass
class TextJob:
    """What one worker made of a list of texts, or of one seed of the grammar."""

    short: SentenceRows
    middle: SentenceRows
    stream: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))
    kept: int = 0
    dropped: int = 0


def make_pool(processes: int) -> Executor:
    """Worker processes that start clean (the parent may hold a GPU)."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_one_thread)


def _one_thread() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def pad(rows: list[list[int]], targets: list[list[int]], width: int) -> SentenceRows:
    """Rows with start and end tokens, filled up to a width; targets count from the first word's
    token.
    """
    ids = np.full((len(rows), width), PAD_ID, np.int16)
    marks = np.zeros((len(rows), width), bool)
    for i, (row, places) in enumerate(zip(rows, targets, strict=True)):
        ids[i, 0] = START_ID
        ids[i, 1 : len(row) + 1] = row
        ids[i, len(row) + 1] = END_ID
        marks[i, [place + 1 for place in places]] = True
    return SentenceRows(ids, marks)


def _by_width(rows: list[list[int]], targets: list[list[int]]) -> tuple[SentenceRows, SentenceRows]:
    short = [i for i, row in enumerate(rows) if len(row) <= SHORT - 2]
    middle = [i for i, row in enumerate(rows) if SHORT - 2 < len(row) <= MIDDLE - 2]
    return (
        pad([rows[i] for i in short], [targets[i] for i in short], SHORT),
        pad([rows[i] for i in middle], [targets[i] for i in middle], MIDDLE),
    )


def generated_rows(tokenizer_file: str, data: Path | None, seed: int, count: int) -> TextJob:
    """Sentences of the grammar as rows, benchmark sentences dropped."""
    tokenizer, index, grammar = (
        Tokenizer.from_file(tokenizer_file),
        load_benchmarks(data),
        Grammar(seed),
    )
    ids_by_word: dict[str, list[int]] = {}
    rows: list[list[int]] = []
    targets: list[list[int]] = []
    dropped = 0
    for number in range(count):
        sentence = grammar.sentence()
        if index.holds(sentence.text):
            dropped += 1
            continue
        row: list[int] = []
        places: list[int] = []
        for i, word in enumerate(sentence.words):
            ids = ids_by_word.get(word)
            if ids is None:
                ids = ids_by_word[word] = tokenizer.encode(word, add_special_tokens=False).ids
            if i in sentence.targets and (len(ids) == 1 or "'" in word):
                places.append(len(row))
            row += ids
        rows.append(row[:-1] if number % 25 == 0 else row)  # some without the final mark
        targets.append(places)
    short, middle = _by_width(rows, targets)
    return TextJob(short, middle, kept=len(rows), dropped=dropped)


def text_rows(tokenizer_file: str, data: Path | None, texts: list[str]) -> TextJob:
    """Paragraphs or stories as one stream of tokens and as rows of single sentences."""
    tokenizer, index = Tokenizer.from_file(tokenizer_file), load_benchmarks(data)
    new_texts = [text for text in texts if not index.holds(text)]
    stream: list[int] = []
    for encoding in tokenizer.encode_batch(new_texts, add_special_tokens=False):
        stream += [*encoding.ids, END_ID]
    parts = [part for text in new_texts for part in sentences(text) if len(part) > 12]
    rows = [encoding.ids for encoding in tokenizer.encode_batch(parts, add_special_tokens=False)]
    short, middle = _by_width(rows, [[] for _ in rows])
    return TextJob(
        short, middle, np.array(stream, np.int16), len(new_texts), len(texts) - len(new_texts)
    )


def causal_stream(tokenizer_file: str, data: Path | None, texts: list[str], start: int) -> TextJob:
    """Texts one behind the other, each opened by the start token."""
    tokenizer, index = Tokenizer.from_file(tokenizer_file), load_benchmarks(data)
    new_texts = [text for text in texts if not index.holds(text)]
    stream: list[int] = []
    for encoding in tokenizer.encode_batch(new_texts, add_special_tokens=False):
        stream += [start, *encoding.ids]
    empty = pad([], [], SHORT)
    return TextJob(
        empty, empty, np.array(stream, np.int16), len(new_texts), len(texts) - len(new_texts)
    )


def generated_texts(data: Path | None, seed: int, count: int, sentences: int = 6) -> list[str]:
    """Plain generated sentences, several to a text, for tokenizers and for the causal model."""
    grammar, index = Grammar(seed), load_benchmarks(data)
    new_sentences = [
        text for text in (grammar.sentence().text for _ in range(count)) if not index.holds(text)
    ]
    return [
        " ".join(new_sentences[i : i + sentences]) for i in range(0, len(new_sentences), sentences)
    ]


def in_chunks(items: list[str], size: int) -> list[list[str]]:
    """A list cut into lists of at most this size."""
    return [items[i : i + size] for i in range(0, len(items), size)]


def gather(
    pool: Executor, work: Callable[..., TextJob], arguments: Iterable[tuple[Any, ...]]
) -> TextJob:
    """Runs one job per tuple of arguments and joins the results in order."""
    jobs = [future.result() for future in [pool.submit(work, *each) for each in arguments]]

    def join(name: str) -> SentenceRows:
        parts = [getattr(job, name) for job in jobs]
        return SentenceRows(
            np.concatenate([p.ids for p in parts]), np.concatenate([p.targets for p in parts])
        )

    return TextJob(
        join("short"),
        join("middle"),
        np.concatenate([job.stream for job in jobs]),
        sum(job.kept for job in jobs),
        sum(job.dropped for job in jobs),
    )


def windows(stream: np.ndarray, width: int = LONG) -> np.ndarray:
    """A stream cut into rows with start and end tokens."""
    inner = width - 2
    count = max(1, len(stream) // inner)
    body = (
        np.resize(stream, (count, inner))
        if len(stream) < inner
        else stream[: count * inner].reshape(count, inner)
    )
    edge = np.ones((count, 1), np.int16)
    return np.concatenate([edge * START_ID, body, edge * END_ID], axis=1).astype(np.int16)
