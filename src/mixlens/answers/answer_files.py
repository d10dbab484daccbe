"""Save and load answers: arrays as safetensors, everything else as JSON metadata."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.answers.answer_parts import AnswerPart
from mixlens.answers.method_scores import MethodScores
from mixlens.answers.prompt_parts import DOCUMENT, KINDS, PromptPart
from mixlens.errors import InvalidInput
from mixlens.maps import storage
from mixlens.maps.provenance import plain
from mixlens.model.json_values import require_form

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer

KIND = "answer"
_DESCRIPTION = {
    "text": str,
    "prompt": str,
    "parts": [[(str, int)]],
    "passages": [[(str, int)]],
    "sentences": [[(str, int)]],
    "words": [[(str, int)]],
    "methods": [{str: (str, bool)}],
    "uses_template": bool,
    "has_sink": bool,
    "sources": storage.ROW,
    "targets": storage.ROW,
    "provenance": {str: object},
}
_PROMPT_PART = {"name": str, "kind": str, "start": int, "stop": int}
_ANSWER_PART = {"text": str, "first": int, "stop": int, "start": int, "end": int}


def save(answer: Answer, path: str | os.PathLike[str]) -> None:
    """Implement `Answer.save`."""
    storage.write(path, KIND, _arrays(answer), _description(answer))


def same(first: Answer, second: Answer) -> bool:
    """Return whether all arrays are bitwise equal and all other fields are equal."""
    is_same = plain(_description(first)) == plain(_description(second))
    return is_same and storage.same_arrays(_arrays(first), _arrays(second))


def _arrays(answer: Answer) -> dict[str, np.ndarray]:
    """Return the scores of each method, by name."""
    arrays = {f"scores.{name}": scores.values for name, scores in answer.methods.items()}
    return arrays | {f"parts.{name}": scores.parts for name, scores in answer.methods.items()}


def _description(answer: Answer) -> dict[str, Any]:
    """Return all fields of an answer except the arrays."""
    return {
        "text": answer.text,
        "prompt": answer.prompt,
        "parts": answer.parts,
        "passages": answer.passages,
        "sentences": answer.sentences,
        "words": answer.words,
        "methods": [
            {"name": scores.name, "removes": scores.removes, "reading": scores.reading}
            for scores in answer.methods.values()
        ],
        "uses_template": answer.uses_template,
        "has_sink": answer.has_sink,
        "sources": asdict(answer.source_row),
        "targets": asdict(answer.target_row),
        "provenance": answer.provenance,
    }


def load(path: str | os.PathLike[str], make: type[Answer]) -> Answer:
    """Read an answer that `Answer.save` wrote. `make` is the class `Answer`, passed as an argument
    to avoid a circular import.
    """
    arrays, about = storage.read(path, KIND)
    try:
        require_form(about, _DESCRIPTION, "the description")
        sources = storage.read_token_row(about["sources"])
        targets = storage.read_token_row(about["targets"])
        parts = tuple(_part(each, about["prompt"]) for each in about["parts"])
        passages = tuple(_part(each, about["prompt"]) for each in about["passages"])
        sentences, words = (
            tuple(_answer_part(each, len(targets), about["text"]) for each in about[name])
            for name in ("sentences", "words")
        )
        methods = {entry["name"]: _method(entry, arrays) for entry in about["methods"]}
        answer = make(
            text=about["text"],
            prompt=about["prompt"],
            parts=parts,
            passages=passages,
            sentences=sentences,
            words=words,
            methods=methods,
            uses_template=about["uses_template"],
            source_row=sources,
            target_row=targets,
            has_sink=about["has_sink"],
            provenance=about["provenance"],
        )
        _require_shapes(answer)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{os.fspath(path)} cannot be read: its metadata does not match its arrays "
            f"({error!r}). Save it again."
        ) from error
    return answer


def _part(saved: Any, prompt: str) -> PromptPart:
    part = PromptPart(*saved)
    require_form(part._asdict(), _PROMPT_PART, "a part of the prompt")
    if part.kind not in KINDS:
        raise ValueError(f"{part.kind!r} is not a kind of part")
    if not 0 <= part.start <= part.stop <= len(prompt):
        raise ValueError(f"{part.name!r} is outside the prompt")
    return part


def _answer_part(saved: Any, tokens: int, text: str) -> AnswerPart:
    part = AnswerPart(*saved)
    require_form(part._asdict(), _ANSWER_PART, "a part of the answer")
    is_inside = 0 <= part.first < part.stop <= tokens
    if not (is_inside and 0 <= part.start <= part.end <= len(text)):
        raise ValueError(f"{part.text!r} is outside the answer")
    return part


def _method(saved: Any, arrays: Any) -> MethodScores:
    name = saved["name"]
    values, parts = arrays[f"scores.{name}"], arrays[f"parts.{name}"]
    return MethodScores(name, values, parts, saved["removes"], saved["reading"])


def _require_shapes(answer: Answer) -> None:
    if not answer.methods or not answer.passages or not answer.sentences:
        raise ValueError("it lacks methods, passages or sentences")
    for tokens in (answer.source_row, answer.target_row):
        if tokens.text is None or tokens.offsets is None:
            raise ValueError("it lacks the text or the character offsets of the tokens")
    documents = [part for part in answer.parts if part.kind == DOCUMENT]
    inside = [
        [
            scores
            for scores in answer.passages
            if part.start <= scores.start and scores.stop <= part.stop
        ]
        for part in documents
    ]
    if not inside or not all(inside):
        raise ValueError("it lacks documents, or their passages")
    for name, scores in answer.methods.items():
        columns = len(answer.units) if scores.removes else len(answer.source_row)
        if scores.values.shape != (len(answer.target_row), columns):
            raise ValueError(f"{name} has scores of shape {scores.values.shape}")
        if scores.parts.shape != (len(answer.sentences) + 1, columns):
            raise ValueError(f"{name} has scores of sentences of shape {scores.parts.shape}")
