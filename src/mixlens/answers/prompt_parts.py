"""Split a prompt into documents, question, system prompt, earlier turns and template text.

The template is the text of the chat template, and the line with the name of each passed document
that mixlens writes in front of this document.

Documents are marked by lines such as === document 1 === in the prompt, or passed separately. A line
=== question === ends the last document, so the text after this line belongs to no document. A
passed document must occur in the prompt exactly once, unless the prompt contains {documents}, which
mixlens replaces by all documents. Without documents, the whole prompt counts as one document; in a
chat, every turn except the system prompt does. Every image also counts as a document, whose text is
the placeholder that the processor replaces by the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.chats import turn_names
from mixlens.text.documents import place_documents, read_documents
from mixlens.text.media_prompts import MediaPrompt, has_media, media_prompt
from mixlens.text.prompts import Prompt, prompt_of
from mixlens.text.segments import RESERVED, Spans, read_marks, require_apart, spans_of

Documents = Mapping[str, str] | Sequence[str] | None
"""Texts by name, or a list of texts, which are called document 1, document 2 …"""

DOCUMENT, QUESTION, SYSTEM = "document", "question", "system prompt"
EARLIER, TEMPLATE = "earlier turns", "template"
SENTENCE, PARAGRAPH = "sentence", "paragraph"  # of a document
KINDS = (DOCUMENT, QUESTION, SYSTEM, EARLIER, TEMPLATE, SENTENCE)
WHOLE = "prompt"  # the name of a prompt without documents, which is then one document
PLACE = "{documents}"
QUESTIONS = ("question", "query", "task", "instruction", "instructions")  # named, not documents


class PromptPart(NamedTuple):
    """A named range of characters of the prompt."""

    name: str
    kind: str
    start: int
    stop: int


class PromptParts(NamedTuple):
    """A prompt for `Lens.generate`, with the text that the model reads and its parts."""

    inputs: Any
    text: str
    parts: tuple[PromptPart, ...]
    uses_template: bool  # whether mixlens applied the chat template to a plain text
    adds_special: bool  # whether the tokenizer adds special tokens, or the text contains them

    @property
    def documents(self) -> list[PromptPart]:
        """The documents, in the order of the prompt."""
        return [part for part in self.parts if part.kind == DOCUMENT]


def read_prompt(
    tokenizer: Any,
    inputs: Any,
    documents: Documents,
    *,
    chat_template: bool,
    model: Any = None,
    processor: Any = None,
) -> PromptParts:
    """Return the prompt with its parts. Prompts with images also need `model` and `processor`."""
    if tokenizer is None:
        raise MissingTokenizer(
            "The lens has no tokenizer, so passages of the prompt cannot be found. Pass one:"
            " Lens(model, tokenizer)."
        )
    is_dict = isinstance(inputs, Mapping)
    if (is_dict and "text" not in inputs) or not hasattr(inputs, "__iter__"):
        raise InvalidInput(
            f"A prompt of type {type(inputs).__name__} has no passages. Pass a text or the messages"
            " of a chat."
        )
    if isinstance(inputs, str) and not inputs.strip():
        raise EmptyInput("The prompt is empty. Pass a text or the messages of a chat.")
    texts = _name_texts(documents)
    template = processor if getattr(processor, "chat_template", None) else tokenizer
    has_template = getattr(tokenizer, "chat_template", None) is not None
    uses_template = isinstance(inputs, str) and chat_template and has_template
    messages = [{"role": "user", "content": inputs}] if uses_template else inputs
    marks: Spans = []
    if texts:
        messages = _write_documents(messages, texts)
    elif is_dict:
        pass
    elif isinstance(messages, str):
        messages, marks = read_marks(messages)
    else:
        if getattr(messages, "ndim", 1) == 0 or not hasattr(messages, "__iter__"):
            raise InvalidInput(
                f"{messages!r} is not a prompt. Pass a text or the messages of a chat."
            )
        messages, spans_by_message = read_documents(list(messages))
        if spans_by_message:
            _require_own_names(
                [name for spans in spans_by_message.values() for name, _, _ in spans], messages
            )
            names = {name for spans in spans_by_message.values() for name, _, _ in spans}
            document_spans = place_documents(template, messages, spans_by_message)
            marks = [span for span in document_spans if span[0] in names]
    images: Spans = []
    if has_media(messages) and model is not None:
        prompt: Prompt = media_prompt(model, tokenizer, processor, messages)
        images = prompt.placeholders if isinstance(prompt, MediaPrompt) else []
    else:
        prompt = prompt_of(tokenizer, messages)
    text = prompt.row.text
    if text is None or prompt.row.offsets is None:
        raise InvalidInput(
            f"{type(tokenizer).__name__} has no offset mapping, so passages of the prompt cannot be"
            " found. Use a fast tokenizer (tokenizer.json)."
        )
    marks = [span for span in marks if span[0].lower() not in QUESTIONS]
    spans = [(name, *_place(name, body, text)) for name, body in texts.items()] or marks
    if not spans and PLACE in text:
        raise InvalidInput(
            f"The prompt contains {PLACE}, but there are no documents to put there. Pass"
            " `documents`, or --documents on the command line."
        )
    if texts and PLACE in text and not any(PLACE in body for body in texts.values()):
        raise InvalidInput(
            f"The prompt contains {PLACE} several times. Write it once, where mixlens should put"
            " all documents."
        )
    spans = sorted(spans, key=lambda span: span[1:])
    require_apart(spans, len(text))
    headings = [
        (TEMPLATE, start - len(name) - 2, start)
        for name, start, _ in spans
        if texts and text[:start].endswith(f"{name}:\n")
    ]
    parts = _split(text, messages, spans, prompt.turns, images, headings)
    return PromptParts(messages, text, parts, uses_template, prompt.begins_specially)


# ---------------------------------------------------------------------------------------- documents


def with_place(prompt: Any, texts: Sequence[str]) -> Any:
    """Return a prompt or chat with {documents} in front of the prompt or of the last user message.

    A prompt that already contains {documents} or one of the documents is returned unchanged.
    """
    contents = [prompt] if isinstance(prompt, str) else [_content(message) for message in prompt]
    for content in contents:
        if PLACE in content or any(text.strip() in content for text in texts):
            return prompt
    if isinstance(prompt, str):
        return f"{PLACE}\n\n{prompt}"
    users = [i for i, each in enumerate(prompt) if _content(each) and each.get("role") == "user"]
    if not users:
        raise InvalidInput(
            f"The chat has no user message to put documents into. Write {PLACE} into a message."
        )
    last = prompt[users[-1]]
    changed = {**last, "content": f"{PLACE}\n\n{last['content']}"}
    return [*prompt[: users[-1]], changed, *prompt[users[-1] + 1 :]]


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, str) else ""


def _name_texts(documents: Any) -> dict[str, str]:
    if documents is None:
        return {}
    if isinstance(documents, (str, bytes)) or not isinstance(documents, (Mapping, Sequence)):
        raise InvalidInput(
            f"documents of type {type(documents).__name__} are not supported. Pass a dict of names"
            " and texts, or a list of texts."
        )
    text_by_name = (
        dict(documents)
        if isinstance(documents, Mapping)
        else {f"document {number}": text for number, text in enumerate(documents, 1)}
    )
    if not text_by_name:
        raise EmptyInput("documents is empty. Pass at least one document, or leave it out.")
    for name, text in text_by_name.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidInput(
                f"Document {name!r} is {type(text).__name__}. Pass a dict of names and texts, or a"
                " list of texts."
            )
        if not text.strip():
            raise EmptyInput(f"Document {name!r} is empty. Pass its text, or leave it out.")
        if name in RESERVED or not name.strip():
            raise InvalidInput(f"Reserved document name {name!r}. Choose another one.")
    return text_by_name


def _write_documents(messages: Any, texts: Mapping[str, str]) -> Any:
    """Return the prompt with {documents} replaced by the documents, if it contains {documents}."""
    listed = "\n\n".join(f"{name}:\n{text.strip()}" for name, text in texts.items())
    if isinstance(messages, str):
        return messages.replace(PLACE, listed, 1)
    if isinstance(messages, Mapping):
        return {**messages, "text": messages["text"].replace(PLACE, listed, 1)}
    changed, is_written = [], False
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and PLACE in content and not is_written:
            message, is_written = {**message, "content": content.replace(PLACE, listed, 1)}, True
        parts = content if isinstance(content, list) else []
        for number, part in enumerate(parts):
            if not is_written and PLACE in _text_of(part):
                new_part = {**part, "text": part["text"].replace(PLACE, listed, 1)}
                content = [*parts[:number], new_part, *parts[number + 1 :]]
                message, is_written = {**message, "content": content}, True
        changed.append(message)
    return changed


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _place(name: str, body: str, text: str) -> tuple[int, int]:
    """Return the character range of a document, which must occur in the prompt exactly once."""
    document_text = body if body in text else body.strip()
    count = text.count(document_text)
    if count == 1:
        return text.index(document_text), text.index(document_text) + len(document_text)
    if count:
        raise InvalidInput(
            f"Document {name!r} is {count} times in the prompt. Leave out the copies, or make each"
            " text unique."
        )
    raise InvalidInput(
        f"Document {name!r} is not in the prompt. Put its text into the prompt, or write"
        f" {PLACE} where mixlens should put all documents."
    )


def _require_own_names(names: Sequence[str], messages: Sequence[Any]) -> None:
    """Raise `InvalidInput` if two documents of a chat, or a document and a turn, share a name."""
    turns = turn_names([message for message in messages if isinstance(message, Mapping)])
    for number, name in enumerate(names):
        if name in names[:number] or name in turns:
            raise InvalidInput(
                f"Duplicate document name {name!r}. Give each document its own name."
            )


# -------------------------------------------------------------------------------- the other parts


def _split(
    text: str,
    messages: Any,
    documents: Spans,
    turns: Spans | None,
    images: Spans,
    headings: Spans,
) -> tuple[PromptPart, ...]:
    """Return all parts of a prompt in order. White space between parts belongs to no part.

    `headings` are the lines with the names of passed documents, which belong to the template.
    """
    kinds = _kinds_of_turns(messages) if turns is not None else {}
    around = [(name, kinds[name], start, stop) for name, start, stop in turns or []]
    if turns is None:  # a plain text, or a template that changes the messages
        around = [(QUESTION, QUESTION, 0, len(text))]
    if not documents:
        # the subject cannot be separated from the question, and may be in any turn
        asked_turns = [turn for turn in around if turn[1] in (QUESTION, EARLIER)] or around
        is_only_part = len(asked_turns) == 1 and not images
        documents = [
            (WHOLE if is_only_part else name, start, stop) for name, _, start, stop in asked_turns
        ]
    documents = sorted([*_without_images(text, documents, images), *images], key=_start)
    parts = [PromptPart(name, DOCUMENT, start, stop) for name, start, stop in documents]
    spans = sorted([*documents, *headings], key=_start)
    for name, kind, start, stop in around:
        parts += _outside(text, PromptPart(name, kind, start, stop), spans)
    parts.sort(key=lambda part: part.start)
    end, between = 0, []
    for part in [*parts, PromptPart("", "", len(text), len(text))]:
        if text[end : part.start].strip():
            between.append(PromptPart(TEMPLATE, TEMPLATE, end, part.start))
        end = max(end, part.stop)
    return tuple(sorted([*parts, *between], key=lambda part: part.start))


def _without_images(text: str, documents: Spans, images: Spans) -> Spans:
    """Split documents with images into the text between the images, as numbered pieces."""
    document_spans: Spans = []
    for name, start, stop in documents:
        outside = _outside(text, PromptPart(name, DOCUMENT, start, stop), images)
        for number, piece in enumerate(outside, 1):
            piece_name = name if len(outside) == 1 else f"{name}, part {number}"
            document_spans.append((piece_name, piece.start, piece.stop))
    return document_spans


def _start(span: tuple[str, int, int]) -> int:
    return span[1]


def _kinds_of_turns(messages: Any) -> dict[str, str]:
    names = turn_names(messages)
    users = [i for i, message in enumerate(messages) if message["role"] == "user"]
    last = users[-1] if users else len(names) - 1
    return {
        name: SYSTEM if message["role"] == "system" else QUESTION if number == last else EARLIER
        for number, (name, message) in enumerate(zip(names, messages, strict=True))
    }


def _outside(text: str, turn: PromptPart, documents: Spans) -> list[PromptPart]:
    """Return the pieces of a turn that are outside all documents."""
    outside, end = [], turn.start
    for _, start, stop in [*documents, ("", turn.stop, turn.stop)]:
        start = min(max(start, turn.start), turn.stop)
        if text[end:start].strip():
            outside.append(turn._replace(start=end, stop=start))
        end = max(end, min(stop, turn.stop))
    return outside


def split_documents(
    text: str, parts: Sequence[PromptPart], kind: str = SENTENCE
) -> list[PromptPart]:
    """Return the sentences or paragraphs of all documents, in order."""
    return [
        PromptPart(f"{part.name}, {kind} {i}", kind, part.start + a, part.start + b)
        for part in parts
        if part.kind == DOCUMENT
        for i, (_, a, b) in enumerate(spans_of(text[part.start : part.stop], f"{kind}s"), 1)
    ]
