"""Texts and chats for a model whose tokenizer has a chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens import Lens
from tests.cli.running import run

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRIMMED = TEMPLATE.replace("{{ m.content }}", "{{ m.content | trim }}")
UPPER = TEMPLATE.replace("{{ m.content }}", "{{ m.content | upper }}")
STORY = "The keys to the cabinet are on the table."
PROMPT = f"Read this.\n=== rules ===\nThe children sleep.\n=== story ===\n{STORY}\n"
PLAIN = f"Read this.\nThe children sleep.\n{STORY}"


def chat_model(folder: Path, template: str, ends: Any = None) -> str:
    """The bundled causal model with a chat template, in a folder."""
    lens = Lens.from_pretrained("src/mixlens/bundled/causal")
    lens.tokenizer.chat_template = template
    if ends is not None:
        lens.model.generation_config.eos_token_id = ends
    lens.model.save_pretrained(folder)  # type: ignore[operator]
    lens.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return chat_model(tmp_path_factory.mktemp("chat"), TEMPLATE)


@pytest.fixture
def prompt_file(tmp_path: Path) -> str:
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT)
    return str(path)


@pytest.mark.parametrize("command", ["map", "compare"])
def test_a_text_is_the_message_of_a_user(model: str, command: str) -> None:
    chosen = ("--measures", "alti") if command == "compare" else ("--measure", "alti")
    given = (command, STORY, "-m", model, "--generate", "3", *chosen)
    ran = run(*given, "--json")
    assert "chat template" in ran.err
    assert "--no-chat-template" in ran.err
    lens = Lens.from_pretrained(model)
    message = [{"role": "user", "content": STORY}]
    assert json.loads(ran.out)["answer"] == lens.generate(message, max_new_tokens=3).answer
    shown = run(*given).out
    assert f"answer: {json.loads(ran.out)['answer'].strip()}" in shown
    raw = run(*given, "--no-chat-template", "--json")
    assert "chat template" not in raw.err
    assert json.loads(raw.out)["answer"] == lens.generate(STORY, max_new_tokens=3).answer


@pytest.mark.parametrize("template", [TEMPLATE, TRIMMED])
def test_documents_of_a_prompt_file_are_found_inside_the_template(
    tmp_path: Path, prompt_file: str, template: str
) -> None:
    model = chat_model(tmp_path / "model", template)
    given = ("map", "--prompt-file", prompt_file, "-m", model, "--answer", "Yes")
    made = json.loads(run(*given, "--measure", "attention", "--json").out)
    assert made["sources"][:5] == ["(first token)", "(other)", "user", "rules", "story"]
    lens = Lens.from_pretrained(model)
    maps = mixlens.measure(
        "attention", lens.generate([{"role": "user", "content": PLAIN}], answer="Yes")
    )
    expected = maps.segments({"rules": "The children sleep.", "story": STORY})
    places = [list(expected.source_tokens).index(name) for name in ("rules", "story")]
    ours = [made["sources"].index(name) for name in ("rules", "story")]
    difference = np.array(made["scores"])[..., ours] - expected.scores[..., places]
    assert (difference >= -1e-6).all()  # with the line break behind each
    tokens = json.loads(run(*given, "--measure", "attention", "--json", "--segments", "none").out)
    assert "story" in tokens["source_segments"]


def test_messages_may_name_documents(tmp_path: Path, model: str) -> None:
    path = tmp_path / "chat.json"
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PROMPT + "=== question ===\nWhere are the keys?"},
    ]
    path.write_text(json.dumps(chat))
    given = ("map", "--prompt-file", str(path), "-m", model, "--generate", "2")
    made = json.loads(run(*given, "--measure", "attention", "--json").out)
    names = ["system", "user", "rules", "story", "question"]
    assert [name for name in made["sources"] if name in names] == names
    scores = np.array(made["scores"])
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    turns = json.loads(run(*given, "--measure", "attention", "--json", "--segments", "turns").out)
    user = np.array(turns["scores"])[..., turns["sources"].index("user")]
    parts = [made["sources"].index(name) for name in names[1:]]
    np.testing.assert_allclose(scores[..., parts].sum(-1), user, atol=1e-5)
    saved = run(
        "map", "--prompt-file", str(path), "-m", model, "--answer", "x", "--no-chat-template"
    )
    assert "--no-chat-template does not work for the chat in" in " ".join(saved.err.split())


def test_documents_that_cannot_be_placed_are_refused(tmp_path: Path, prompt_file: str) -> None:
    model = chat_model(tmp_path / "upper", UPPER)
    ran = run("map", "--prompt-file", prompt_file, "-m", model, "--generate", "2")
    assert ran.status != 0
    assert "The chat template changes the messages" in ran.err
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]))
    ran = run("map", "--prompt-file", str(path), "-m", model, "--generate", "2")
    assert "Message 1 of the chat marks documents inside a list of parts" in " ".join(
        ran.err.split()
    )


def test_the_end_of_an_answer_is_measured_on_request_only(tmp_path: Path, model: str) -> None:
    rows = Lens.from_pretrained(model).generate([{"role": "user", "content": STORY}])
    assert rows.produced is not None
    ids = [rows.produced[0].ids[place] for place in rows.targets[0]]  # type: ignore[index]
    last = next(i for i, token in enumerate(ids) if i > 1 and token not in ids[:i])
    ending = chat_model(tmp_path / "ending", TEMPLATE, ends=ids[last])
    given = ("map", STORY, "-m", ending, "--generate", "20", "--measure", "alti", "--json")
    plain, whole = (json.loads(run(*given, *more).out) for more in ((), ("--explain-end",)))
    assert len(plain["targets"]) == last
    assert len(whole["targets"]) == last + 1
    assert whole["targets"][:-1] == plain["targets"]
    np.testing.assert_allclose(
        np.array(whole["scores"])[:, :-1, : len(plain["sources"])], plain["scores"], atol=1e-6
    )
    assert "needs --generate" in run("map", STORY, "--answer", " x", "--explain-end").err
