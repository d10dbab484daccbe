"""Answer a prompt and score the passages that support the answer, as a payload for the viewer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mixlens.answers.prompt_parts import with_place
from mixlens.errors import InputTooLong, InvalidInput
from mixlens.server.api import Limits
from mixlens.server.work import count_tokens, stop_in_modules
from mixlens.views.viewer.payload import answer_payload

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.server.jobs import WebJob

_FIRST_DOCUMENTS = {
    "Tom": "Tom has a red ball. He plays in the park with his dog.",
    "Lily": "Lily has a blue car. She keeps it in a box under her bed.",
}
_FIRST_TEXT = "{documents}\n\nLily says: I like my"
_FIRST_QUESTION = "{documents}\n\nWhere does Lily keep her car?"
_FIRST_TOKENS = 12


def first_answer(name: str, method: str, *, chats: bool) -> dict[str, Any]:
    """Return the request that the page initially shows for a generative model.

    For a chat model, the prompt is a question. For other models, it is a text to continue.
    """
    prompt = _FIRST_QUESTION if chats else _FIRST_TEXT
    return {
        "model": name,
        "messages": [{"role": "user", "content": prompt}],
        "documents": [{"name": key, "text": text} for key, text in _FIRST_DOCUMENTS.items()],
        "answer": None,
        "methods": [method],
        "max_new_tokens": _FIRST_TOKENS,
    }


class Answering:
    """Answer the prompts of jobs, with the models that the server has loaded."""

    def __init__(self, lenses: Mapping[str, Lens], limits: Limits) -> None:
        self._lenses, self._limits = lenses, limits

    def __call__(self, job: WebJob) -> bytes:
        """Run a job and return the payload as JSON.

        The payload contains the request, so that the page can show the prompt.
        """
        request = job.request
        lens = self._lenses[request["model"]]
        job.report(0.0, "reading the prompt")
        documents = _name_documents(request["documents"])
        self._require_length(lens, request, documents)
        length = {} if request["answer"] else {"max_new_tokens": request["max_new_tokens"]}
        with stop_in_modules(job):
            job.report(0.05, "answering and scoring passages")
            answer = lens.answer(
                _prompt(request["messages"], documents),
                documents=documents or None,
                answer=request["answer"],
                methods=request["methods"],
                **length,
            )
        job.report(0.9, "packing the result")
        payload = {**answer_payload(answer), "request": dict(request)}
        return json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()

    def _require_length(
        self, lens: Lens, request: Mapping[str, Any], documents: Mapping[str, str]
    ) -> None:
        texts = [turn["content"] for turn in request["messages"]]
        texts += [*documents.values(), request["answer"] or ""]
        count = sum(count_tokens(lens, text) for text in texts if text)
        most = self._limits.prompt_tokens
        if count > most:
            raise InputTooLong(
                f"{count} tokens are too many for this server. Shorten the prompt and its documents"
                f" to {most} tokens, or start the server with a larger --prompt-tokens."
            )


def _name_documents(documents: list[dict[str, str]]) -> dict[str, str]:
    """Return the texts of documents by name."""
    texts: dict[str, str] = {}
    for document in documents:
        name = document["name"].strip()
        if name in texts:
            raise InvalidInput(
                f"Duplicate document name {name!r}. Give each document its own name."
            )
        texts[name] = document["text"]
    return texts


def _prompt(messages: list[dict[str, str]], documents: Mapping[str, str]) -> Any:
    """Return the prompt for `Lens.answer`.

    A single user message becomes a plain prompt. Otherwise, the messages of the chat are returned.
    """
    is_plain = len(messages) == 1 and messages[0]["role"] == "user"
    prompt: Any = messages[0]["content"] if is_plain else messages
    return with_place(prompt, list(documents.values())) if documents else prompt
