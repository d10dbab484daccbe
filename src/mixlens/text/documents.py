"""Find documents that are marked in the messages of a chat, and locate them in the formatted
prompt.

A line such as === document 1 === starts a document, which ends at the next such line or at the end
of the message. The text of a message before its first document keeps the name of the turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.text.chats import Message, format_chat, turn_names
from mixlens.text.segments import Spans, read_marks

Documents = Mapping[int, Spans]
"""Maps the index of a message to its documents, as character spans of its content."""


def read_documents(messages: Sequence[Any]) -> tuple[list[Any], Documents]:
    """Return the messages without the lines that mark documents, and the documents of each
    message.
    """
    plain, documents = [], {}
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str):
            text, spans = read_marks(content)
            if spans:
                message, documents[number] = {**message, "content": text}, spans
        elif isinstance(content, list) and any(map(_names_documents, content)):
            raise InvalidInput(
                f"Message {number + 1} of the chat marks documents inside a list of parts. "
                "Pass its content as one text."
            )
        plain.append(message)
    return plain, documents


def _names_documents(part: Any) -> bool:
    text = part.get("text") if isinstance(part, Mapping) else None
    return isinstance(text, str) and bool(read_marks(text)[1])


def place_documents(tokenizer: Any, messages: Sequence[Message], documents: Documents) -> Spans:
    """Return the character spans of all documents in the formatted prompt, and of the remaining
    text of each turn.
    """
    text, turns = format_chat(tokenizer, messages)
    if turns is None:
        raise InvalidInput(
            "The chat template changes the messages, so the documents in them cannot be found in"
            " the prompt. Mark the documents in a plain text prompt and pass --no-chat-template, or"
            " remove the lines that mark them."
        )
    places = {name: (start, stop) for name, start, stop in turns}
    spans: Spans = []
    for number, name in enumerate(turn_names(messages)):
        if name not in places:  # a blank message
            continue
        start, stop = places[name]
        document_spans = []
        if number in documents:
            content = messages[number]["content"]
            shift = start - (len(content) - len(content.lstrip()))
            document_spans = [
                (document, max(first + shift, start), min(last + shift, stop))
                for document, first, last in documents[number]
            ]
        text_end = document_spans[0][1] if document_spans else stop
        if text[start:text_end].strip():
            spans.append((name, start, text_end))
        spans += document_spans
    return spans
