"""Compute the features and outputs from which head weights are learned.

Each line of a prompt file is a JSON object with a `prompt` (a text) or `messages` (a chat), the
`answer`, and optionally `documents` (a list or an object of texts), which mixlens inserts before
the prompt. The sources are the documents or, without documents, the sentences of the prompt. Each
sentence of the answer is a target. Instead of a file, you can pass the address of generated
prompts, such as `generated:fact` (see `datasets.generated_prompts`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.answers.answered_prompt import (
    AnsweredPrompt,
    Passage,
    find_passages,
    read_answered_prompt,
)
from mixlens.answers.attention_edges import BlockedAnswers, Edges
from mixlens.answers.head_fitting import HeadExample, draw_masks, mask_features
from mixlens.datasets import generated_prompts
from mixlens.datasets.examples import EvidencePrompt
from mixlens.errors import InvalidInput
from mixlens.measuring.answer_odds import log_odds, token_log_probabilities
from mixlens.measuring.measure import measure
from mixlens.model.json_values import parse_json
from mixlens.model.session import open_session
from mixlens.text.prompts import Given
from mixlens.text.segments import By, spans_of

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


@dataclass(frozen=True)
class FitPrompt:
    """A prompt with its answer and its sources."""

    name: str
    prompt: Given
    answer: str | Sequence[int] | None
    segments: By = "sentences"


def read_fit_prompts(path: str | os.PathLike[str]) -> list[FitPrompt]:
    """Return the prompts in a file with one JSON object per line, or at an address such as
    `generated:fact?count=100`.
    """
    if os.fspath(path).startswith("generated:"):
        return [_convert_example(each) for each in generated_prompts.read(os.fspath(path))]
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InvalidInput(
            f"{os.fspath(path)} does not exist. Pass a JSONL file, or an address such as "
            "generated:fact."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{os.fspath(path)} cannot be read ({error}).") from None
    prompts = [
        _fit_prompt(f"{Path(path).name}:{number}", line)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not prompts:
        raise InvalidInput(f"{os.fspath(path)} is empty. Write one prompt in each line.")
    return prompts


def _convert_example(example: EvidencePrompt) -> FitPrompt:
    spans = [(f"document {i}", *span) for i, span in enumerate(example.documents, 1)]
    return FitPrompt(example.name, example.text, example.answer, spans)


def _fit_prompt(name: str, line: str) -> FitPrompt:
    try:
        fields = parse_json(line)
    except ValueError as error:
        raise InvalidInput(
            f"{name} is not valid JSON ({error}). Write one object per line."
        ) from None
    accepted_fields = {"prompt", "messages", "documents", "answer"}
    if (
        not isinstance(fields, Mapping)
        or not set(fields) <= accepted_fields
        or "answer" not in fields
    ):
        raise InvalidInput(
            f"{name} is not an object with an answer and one of prompt, messages and documents."
        )
    if not isinstance(fields["answer"], str) or not fields["answer"].strip():
        raise InvalidInput(f"{name} has an empty answer. Pass the text that follows the prompt.")
    if ("messages" in fields) == ("prompt" in fields or "documents" in fields):
        raise InvalidInput(f"{name} needs either messages, or a prompt with or without documents.")
    if "messages" in fields:
        return FitPrompt(name, fields["messages"], fields["answer"])
    text, spans = _with_documents(name, fields.get("prompt", ""), fields.get("documents") or {})
    return FitPrompt(name, text, fields["answer"], spans or "sentences")


def _with_documents(name: str, prompt: Any, documents: Any) -> tuple[str, Any]:
    if isinstance(documents, list):
        documents = {f"document {number}": text for number, text in enumerate(documents, 1)}
    texts = [prompt, *documents.values()] if isinstance(documents, Mapping) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"{name}: the prompt or one of its documents is not a text.")
    text_before, spans = "", []
    for title, text in documents.items():
        spans.append((title, len(text_before), len(text_before) + len(text)))
        text_before += text + "\n\n"
    return text_before + prompt, spans


# ---------------------------------------------------------------------------------------- examples


def collect_examples(
    lens: Any, fit_prompt: FitPrompt, features: str, masks: int, batch_size: int | None = None
) -> list[HeadExample]:
    """Return the features and outputs of each target of one prompt.

    Targets whose outputs or features are the same for every mask are skipped, because nothing can
    be learned from them.
    """
    model, tokenizer = lens.model, lens.tokenizer
    recording = lens.generate(fit_prompt.prompt, answer=fit_prompt.answer)
    prompt = read_answered_prompt(model, tokenizer, recording, None, {})
    sources = find_passages(prompt.row, fit_prompt.segments)
    if len(sources) < 2:
        raise InvalidInput(f"{fit_prompt.name} has one segment, but a fit needs at least two.")
    kept_masks = draw_masks(masks, len(sources))
    by_token = head_scores(recording, features)
    logs = hidden_log_probabilities(model, prompt, sources, kept_masks, batch_size)
    examples = []
    for target in answer_targets(prompt):
        phi = source_features(by_token, sources, target)
        example = HeadExample(mask_features(kept_masks, phi), log_odds(logs[:, target].sum(1)))
        if not np.isfinite(example.outputs).all() or not np.isfinite(example.features).all():
            raise InvalidInput(f"{fit_prompt.name}: scores or log-odds are not finite.")
        if np.ptp(example.outputs) > 0 and np.ptp(example.features, axis=0).max() > 0:
            examples.append(example)
    return examples


def head_scores(recording: Recording, features: str) -> np.ndarray:
    """Return the scores of every head: [layer, head, target, source]."""
    maps: Any = measure(features, recording, per_head=True)
    scores: np.ndarray = maps.scores
    return scores


def source_features(
    by_token: np.ndarray, sources: Sequence[Passage], target: Sequence[int]
) -> np.ndarray:
    """Return the features of one target, [source, layer * head].

    A feature is the score of one head, averaged over the target's tokens and summed over the
    source's tokens.
    """
    mean = by_token[:, :, list(target)].astype(np.float64).mean(2)
    columns = [mean[:, :, list(source.tokens)].sum(-1).reshape(-1) for source in sources]
    return np.stack(columns)


def hidden_log_probabilities(
    model: Any,
    prompt: AnsweredPrompt,
    sources: Sequence[Passage],
    masks: np.ndarray,
    batch_size: int | None = None,
) -> np.ndarray:
    """Return the log-probability of each answer token under each mask, [mask, token of the answer].

    A mask drops some of the sources. In every layer, the keys of dropped sources are hidden from
    all other tokens.
    """
    with open_session(model, restores=False):
        answers = BlockedAnswers(model, prompt, reuse=False, batch_size=batch_size)
        layers = frozenset(range(answers.layers))
        edges = [
            Edges(
                f"mask {number}",
                tuple(
                    place
                    for source, keep in zip(sources, mask, strict=True)
                    if not keep
                    for place in source.tokens
                ),
                layers,
                everywhere=True,
            )
            for number, mask in enumerate(masks)
        ]
        ids = prompt.answer_ids
        return np.stack([token_log_probabilities(logits, ids) for logits in answers.run(edges)])


def answer_targets(prompt: AnsweredPrompt) -> list[list[int]]:
    """Return the indices of the tokens in each sentence of the answer."""
    places = list(range(len(prompt.answer_ids)))
    ends = [stop for _, _, stop in spans_of(prompt.answer, "sentences")] if prompt.answer else []
    if prompt.answer_offsets is None or len(ends) < 2:
        return [places]
    targets: list[list[int]] = [[] for _ in ends]
    for place, (start, _) in zip(places, prompt.answer_offsets, strict=True):
        number = sum(end <= start for end in ends)
        targets[min(number, len(ends) - 1)].append(place)
    return [target for target in targets if target]


def example_key(prompt: FitPrompt, features: str, masks: int, model: str) -> str:
    """Return a hash of a prompt and the settings, which names the file of stored examples."""
    parts = (
        repr(prompt.prompt),
        repr(prompt.answer),
        repr(prompt.segments),
        features,
        masks,
        model,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def keep_examples(path: Path, examples: Sequence[HeadExample]) -> None:
    """Write the examples of one prompt."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(
            file,
            features=np.array([each.features for each in examples]),
            outputs=np.array([each.outputs for each in examples]),
        )
    part.replace(path)


def load_examples(path: Path) -> list[HeadExample]:
    """Read the examples of one prompt."""
    with np.load(path, allow_pickle=False) as file:
        features, outputs = file["features"], file["outputs"]
    return [HeadExample(*pair) for pair in zip(features, outputs, strict=True)]
