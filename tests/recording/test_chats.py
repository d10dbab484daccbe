"""Messages of a chat are found in the formatted prompt, whatever their text is."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from mixlens import InvalidInput, Lens
from mixlens.text import chats
from mixlens.text.chats import format_chat

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful assistant."
    "<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set said = '<<SYS>>\n'"
    " + messages[0].content + '\n<</SYS>>\n\n' %}{% else %}{% set rest = messages %}"
    "{% set said = '' %}{% endif %}{% for m in rest %}"
    "[INST] {{ ((said if loop.first else '') + m.content) | trim }} [/INST]{% endfor %}"
)
SYSTEM_LAST = (
    "{% for m in messages[1:] %}[{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}"
    "{{ m.content | trim }}]{% endfor %}"
)
PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text | trim }}{% endif %}"
    "{% endfor %}{% endif %}</{{ m.role }}>{% endfor %}"
)
TOOLS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}{{ m.tool_calls[0].name }}()"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
)


@pytest.fixture
def tokenizer() -> Any:
    return Lens.bundled("causal").tokenizer


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def turns(tokenizer: Any, template: str, messages: list[dict[str, Any]]) -> Any:
    """Name, text and what is in front of it; None if the turns are not known."""
    tokenizer.chat_template = template
    text, spans = format_chat(tokenizer, messages)
    if spans is None:
        return None
    return [(name, text[start:stop], text[:start][-3:]) for name, start, stop in spans]


@pytest.mark.parametrize(
    "content", ["help", "a", "user", "system", "\n", "<|im_end|>", "Text-0-0-"]
)
def test_a_short_message_is_not_taken_for_a_piece_of_the_template(
    tokenizer: Any, content: str
) -> None:
    known = turns(tokenizer, CHATML, [said("user", content)])
    assert known == ([("user", content, "er\n")] if content.strip() else [])


def test_messages_that_hold_each_other_are_kept_apart(tokenizer: Any) -> None:
    chat = [said("user", " No. "), said("assistant", "No"), said("user", "o"), said("user", "No.")]
    assert turns(tokenizer, CHATML, chat) == [
        ("user 1", "No.", "r\n "),
        ("assistant", "No", "nt\n"),
        ("user 2", "o", "er\n"),
        ("user 3", "No.", "er\n"),
    ]


def test_templates_may_strip_and_move_messages(tokenizer: Any) -> None:
    chat = [said("system", "Be brief."), said("user", "S "), said("user", "b")]
    assert turns(tokenizer, LLAMA_2, chat) == [
        ("system", "Be brief.", ">>\n"),
        ("user 1", "S", ">\n\n"),
        ("user 2", "b", "T] "),
    ]
    assert turns(tokenizer, SYSTEM_LAST, chat) == [
        ("user 1", "S", "["),
        ("system", "Be brief.", "S]["),
        ("user 2", "b", ".\n\n"),
    ]


@pytest.mark.parametrize(
    "template",
    [
        CHATML.replace("m.content", "m.content | upper"),
        CHATML.replace("{{ m.content }}", "{{ m.content }} {{ m.content }}"),
        CHATML.replace("{{ m.content }}", "{{ m.content[:3] }}"),
        CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.content | length }}"),
        "{% if messages[1].content | length > 1 %}{{ raise_exception('long') }}{% endif %}S b",
    ],
)
def test_templates_that_change_messages_have_no_turns(tokenizer: Any, template: str) -> None:
    assert turns(tokenizer, template, [said("system", "Be brief."), said("user", "S")]) is None


def test_roles_do_not_take_the_names_of_other_segments(tokenizer: Any) -> None:
    roles = ["answer", "(other)", "(first token)", "prompt", "chat", "tool"]
    known = turns(tokenizer, CHATML, [said(role, "Yes") for role in roles])
    assert [name for name, _, _ in known] == [*(f"{role} 1" for role in roles[:-1]), "tool"]


@pytest.mark.parametrize(
    ("template", "joined"), [(PARTS, "One.two"), (CHATML, "One. \ntwo"), ("{{ 1 }}", None)]
)
def test_texts_in_parts(tokenizer: Any, template: str, joined: str | None) -> None:
    parts = [{"type": "text", "text": "One. "}, {"type": "text", "text": "two"}]
    known = turns(tokenizer, template, [said("system", "Hi"), said("user", parts)])
    if joined is None:
        assert known is None
    else:
        assert [(name, text) for name, text, _ in known] == [("system", "Hi"), ("user", joined)]


def test_a_call_of_a_tool_has_no_text(tokenizer: Any) -> None:
    call = said("assistant", None, tool_calls=[{"name": "weather"}])
    chat = [said("user", "Rain?"), call, said("tool", "Yes")]
    known = turns(tokenizer, TOOLS, chat)
    assert known == [("user", "Rain?", "er>"), ("tool", "Yes", "ol>")]
    with pytest.raises(InvalidInput, match="writes 'None' for a message without content"):
        turns(tokenizer, CHATML, chat)
    with pytest.raises(InvalidInput, match="rejects these messages"):
        turns(tokenizer, CHATML.replace("{{ m.content }}", "{{ '' + m.content }}"), chat)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("text", "A list of str is not a prompt"),
        (5, "Pass token ids as"),
        ({"content": "Hi"}, "Message 1 of the chat has no role"),
        ({"role": "user"}, "Message 1 of the chat has no content. Add a string"),
        (said("user", b"Hi"), "Message 1 of the chat has content of type bytes"),
        (said("user", [{"type": "image", "url": "x"}]), "a part of type 'image'"),
        (said("user", ["Hi"]), "a part of type 'str'"),
    ],
)
def test_invalid_messages_raise(tokenizer: Any, message: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        turns(tokenizer, CHATML, [message])


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n < 40 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}"
        "{{ f(0) }}",
        "{% for i in range(99999) %}{{ range(99999)|sum }}{% endfor %}",
        "{% for i in range(99999) %}" + "words " * 20 + "{% endfor %}",
        "{{ 'x' * 10000000 }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}{{ ns.x }}",
    ],
)
def test_a_template_that_does_not_end_is_stopped(
    tokenizer: Any, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "SECONDS", 0.5)
    tokenizer.chat_template = template
    caught: list[BaseException] = []

    def ask() -> None:
        parts = [{"type": "text", "text": "Hi"}]  # which are asked for with marks first
        with pytest.raises(InvalidInput, match=r"did not end within|writes .* characters") as error:
            format_chat(tokenizer, [said("user", parts)])
        caught.append(error.value)

    def own(frame: Any, event: str, value: Any) -> None:
        """Somebody's debugger."""

    before, start = sys.gettrace(), time.monotonic()
    sys.settrace(own)
    try:
        ask()
        assert sys.gettrace() is own
    finally:
        sys.settrace(before)
    threads = threading.active_count()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(caught) == 2
    assert threading.active_count() == threads
    assert time.monotonic() - start < 8


def test_a_long_chat_is_within_the_limits(tokenizer: Any) -> None:
    messages = [said("user", f"{number} é" + "words " * 2000) for number in range(300)]
    text, spans = _written(tokenizer, CHATML, messages)
    assert len(text) > 3_000_000
    assert len(spans) == 300


def _written(tokenizer: Any, template: str, messages: list[dict[str, Any]]) -> Any:
    tokenizer.chat_template = template
    return format_chat(tokenizer, messages)
