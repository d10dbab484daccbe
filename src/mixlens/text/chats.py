"""Render the messages of a chat as one string, and locate each message in it.

A message may contain images and audio. The chat template of the processor then writes a placeholder
for each of them.

The tokenizer's own chat template formats the messages. To locate the messages, the same chat is
formatted again with markers in place of the messages. The text around the markers comes from the
template. In the real prompt, the same text must surround the messages, and each message must be
unchanged, except that leading and trailing spaces may be stripped. Otherwise, the template changes
the messages, and the turns are unknown.

A template may contain arbitrary code, so its running time and the length of its output are limited.
Jinja's sandbox prevents access to files and the network, but not infinite loops or unlimited
output. A trace function of the rendering thread (`sys.settrace`) sees every line of the template
and all its output, so the template can be stopped in any thread, without starting another thread.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from mixlens.errors import EmptyInput, InvalidInput
from mixlens.text.segments import CHAT, PROMPT, RESERVED, Spans

_REPEATED = (
    8  # most characters that a template may write for one character of a message, such as \\u00e9
)

MEDIA = ("image", "audio", "video")  # types of parts that are not texts

Message = Mapping[str, Any]
"""{"role": "user", "content": "…"}; the content may be a list of {"type": "text", "text": "…"} and
other parts, such as {"type": "image", "image": picture}
"""


def format_chat(tokenizer: Any, messages: Iterable[Message]) -> tuple[str, Spans | None]:
    """Format messages with the chat template, and return the text and the span of each message.

    The spans are None if the template changes a message.
    """
    messages = list(messages)
    for number, message in enumerate(messages, 1):
        _check(number, message)
    if not messages:
        raise EmptyInput("The chat has no message. Pass at least one.")
    if getattr(tokenizer, "chat_template", None) is None:
        raise InvalidInput(
            "The tokenizer has no chat template for these messages. Pass the prompt as one text."
        )
    if not _takes_parts(tokenizer, messages):
        _require_texts_only(messages)
        messages = [
            {**message, "content": "\n".join(_texts(message))} if _in_parts(message) else message
            for message in messages
        ]
    text = _render(tokenizer, messages)
    _require_silence(tokenizer, text, messages)
    return text, _turns(tokenizer, text, messages)


def _check(number: int, message: Any) -> None:
    if not isinstance(message, Mapping):
        ids = " Pass token ids as {'input_ids': ids}." if hasattr(message, "__int__") else ""
        raise InvalidInput(
            f"A list of {type(message).__name__} is not a prompt. Pass one text, or a list of "
            f"messages such as {{'role': 'user', 'content': '…'}}. If you have several prompts, "
            f"generate one at a time.{ids}"
        )
    if not isinstance(message.get("role"), str):
        raise InvalidInput(f"Message {number} of the chat has no role. Add one, such as 'user'.")
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return
    if content is None:
        raise InvalidInput(f"Message {number} of the chat has no content. Add a string.")
    if not isinstance(content, list):
        raise InvalidInput(
            f"Message {number} of the chat has content of type {type(content).__name__}. Pass "
            f"a text, or a list of parts such as {{'type': 'text', 'text': '…'}}."
        )
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        has_text = kind == "text" and isinstance(part.get("text"), str)
        if kind not in MEDIA and not has_text:
            raise InvalidInput(
                f"Message {number} of the chat has a part of type {kind!r}. Pass texts as "
                f"{{'type': 'text', 'text': '…'}}, images as {{'type': 'image', 'image': …}} and "
                f"audio as {{'type': 'audio', 'audio': …}}."
            )


def _require_texts_only(messages: Sequence[Message]) -> None:
    media = next(media_parts(messages), None)
    if media is not None:
        raise InvalidInput(
            f"A message has a part of type {media['type']!r}, but the chat template only supports "
            "text. Use a model whose processor supports such parts."
        )


def media_parts(messages: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the image, audio and video parts of messages, in order."""
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") in MEDIA:
                yield part


def _render(tokenizer: Any, messages: Sequence[Message]) -> str:
    length = sum(len(text) for message in messages for text in _texts(message))
    limit = CHARACTERS + _REPEATED * length
    try:
        with template_limits(limit):
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
    except EndlessTemplate:
        raise
    except Exception as error:  # errors of jinja2, and any error of a template
        raise InvalidInput(
            f"The chat template rejects these messages ({error}). Change the messages, or "
            "pass the prompt as one text."
        ) from error
    if not isinstance(text, str):
        raise InvalidInput(
            f"The chat template returned {type(text).__name__} instead of a string. Pass the "
            "prompt as one text."
        )
    if len(text) > limit:
        raise EndlessTemplate(
            f"The chat template wrote {len(text):,} characters. Pass the prompt as one text."
        )
    return text


def _render_if_possible(tokenizer: Any, messages: Sequence[Message]) -> str | None:
    try:
        return _render(tokenizer, messages)
    except EndlessTemplate:
        raise
    except InvalidInput:
        return None


# -------------------------------------------------------------------------------- what messages say


def _in_parts(message: Message) -> bool:
    return isinstance(message.get("content"), list)


def _texts(message: Message) -> list[str]:
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]


def _with_texts(message: Message, texts: Sequence[str]) -> Message:
    """Return the message with its texts replaced."""
    content = message.get("content")
    if content is None:
        return message
    if isinstance(content, str):
        return {**message, "content": texts[0]}
    remaining = iter(texts)
    parts = [
        {**part, "text": next(remaining)} if part["type"] == "text" else part for part in content
    ]
    return {**message, "content": parts}


def _marks(messages: Sequence[Message]) -> list[list[str]]:
    """Return a marker for each text that is not blank. Blank texts are kept, because a template may
    omit them.
    """
    return [
        [f"Text-{i}-{j}-" if text.strip() else text for j, text in enumerate(_texts(message))]
        for i, message in enumerate(messages)
    ]


def _mark_texts(tokenizer: Any, messages: Sequence[Message]) -> str | None:
    """Format the chat with markers in place of the texts, or return None if the template rejects
    the result.
    """
    pairs = zip(messages, _marks(messages), strict=True)
    return _render_if_possible(tokenizer, [_with_texts(*pair) for pair in pairs])


def _takes_parts(tokenizer: Any, messages: Sequence[Message]) -> bool:
    """Return whether the template supports messages with a list of parts.

    A template that only supports strings raises an error, omits the parts, or writes the list as
    Python or JSON.
    """
    if not any(_in_parts(message) for message in messages):
        return True
    frame = _mark_texts(tokenizer, messages)
    if frame is None:
        return False
    marks = [mark for marks in _marks(messages) for mark in marks if mark.strip()]
    is_written_as_list = re.search(r"""['"]type['"]: ?['"]""", frame)
    return not is_written_as_list and all(mark in frame for mark in marks)


def _require_silence(tokenizer: Any, text: str, messages: Sequence[Message]) -> None:
    """Raise an error if the template writes "None" for a message without content, such as a tool
    call.
    """

    def instead(content: str) -> str | None:
        with_content = [
            {**message, "content": content} if message.get("content") is None else message
            for message in messages
        ]
        return _render_if_possible(tokenizer, with_content)

    if any(message.get("content") is None for message in messages):
        if text == instead("None") != instead(""):
            raise InvalidInput(
                "The chat template writes 'None' for a message without content. Add "
                "'content', which may be an empty string."
            )


# ------------------------------------------------------------------------------ where the turns are


def _turns(tokenizer: Any, text: str, messages: Sequence[Message]) -> Spans | None:
    """Return the span of every message, or None if the template changes any message."""
    frame = _mark_texts(tokenizer, messages)
    texts = {
        mark: (number, message_text.strip())
        for number, (message, marks) in enumerate(zip(messages, _marks(messages), strict=True))
        for mark, message_text in zip(marks, _texts(message), strict=True)
        if message_text.strip()
    }
    if frame is None or any(frame.count(mark) != 1 for mark in texts):
        return None
    places: dict[int, list[int]] = {}
    end, after = 0, 0  # positions in the text and in the frame
    for mark in sorted(texts, key=frame.index):  # a template may move the system message
        number, message_text = texts[mark]
        start = _end_of(text, frame[after : frame.index(mark)], end)
        stop = None if start is None else _end_of(text, message_text, start)
        if stop is None:
            return None
        places.setdefault(number, []).extend((stop - len(message_text), stop))
        end, after = stop, frame.index(mark) + len(mark)
    last = _end_of(text, frame[after:], end)
    if last is None or text[last:].strip():
        return None
    names = turn_names(messages)
    return [(names[number], min(positions), max(positions)) for number, positions in places.items()]


def _end_of(text: str, piece: str, start: int) -> int | None:
    """Return the end of `piece` if it follows the position `start` of the text, or None otherwise.

    Only spaces may come between `start` and `piece`.
    """
    at = text.find(piece, start)
    return None if at < 0 or text[start:at].strip() else at + len(piece)


def turn_names(messages: Sequence[Message]) -> list[str]:
    """Return the name of each turn.

    The name is the role if the role occurs once and is not reserved. Otherwise, the role is
    followed by a number.
    """
    roles = [str(message["role"]) for message in messages]
    reserved = {*RESERVED, PROMPT, CHAT}
    numbered = {role for role in roles if roles.count(role) > 1 or role in reserved}
    return [
        f"{role} {roles[: i + 1].count(role)}" if role in numbered else role
        for i, role in enumerate(roles)
    ]


SECONDS = 5.0
CHARACTERS = 1_000_000  # characters that a template may add to the messages


class EndlessTemplate(InvalidInput):
    """Raised if a chat template runs for too long or writes too much text."""


class _Stop(BaseException):
    """Raised to stop a template. It is not an Exception, so the template's code cannot catch it."""


@contextlib.contextmanager
def template_limits(characters: int) -> Iterator[None]:
    """Interrupt the `with` block after `SECONDS`, or once a template has written more than
    `characters` characters.
    """
    watch = _Watch(time.monotonic() + SECONDS, characters)
    before = sys.gettrace()
    sys.settrace(watch.trace)
    try:
        yield
    except _Stop as stop:
        raise EndlessTemplate(f"The chat template {stop}. Pass the prompt as one text.") from None
    finally:
        sys.settrace(before)


class _Watch:
    def __init__(self, deadline: float, characters: int) -> None:
        self._deadline = deadline
        self._characters = characters
        self._remaining = characters

    def trace(self, frame: FrameType, event: str, value: Any) -> Any:
        """Trace all calls, and the lines of templates and of Jinja's runtime."""
        self._require_time()
        file = frame.f_code.co_filename
        if file.startswith("<"):  # compiled by Jinja, not read from a file
            return self._in_template
        frame.f_trace_lines = False
        return self._in_runtime if "jinja2" in file else None

    def _in_template(self, frame: FrameType, event: str, value: Any) -> Any:
        """Count the characters that a template writes: generators yield them, and macros return
        them.
        """
        self._require_time()
        if event == "return" and isinstance(value, str):
            self._remaining -= len(value)
            self._require_short(self._remaining)
        return self._in_template

    def _in_runtime(self, frame: FrameType, event: str, value: Any) -> Any:
        if event == "return" and isinstance(value, str):
            self._require_short(self._characters - len(value))
        return self._in_runtime

    def _require_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _Stop(f"did not end within {SECONDS:g} seconds")

    def _require_short(self, characters_left: int) -> None:
        if characters_left < 0:
            raise _Stop(f"writes more than {self._characters:,} characters")
