"""Prompts on the command line: generated and given continuations, prompt files, segments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.cli.texts import read_input
from tests.cli.running import run

PROMPT = """=== rules ===
The children sleep in the house.
=== story ===
The keys to the cabinet are on the table near the window.
=== question ===
The keys
"""


@pytest.fixture
def prompt_file(tmp_path: Path) -> str:
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT)
    return str(path)


def test_a_prompt_file_with_generated_words(prompt_file: str, tmp_path: Path) -> None:
    saved = tmp_path / "maps.safetensors"
    ran = run(
        *("map", "--prompt-file", prompt_file, "--generate", "3", "--measure", "alti"),
        *("--json", "--save", str(saved)),
    )
    assert ran.status == 0, ran.err
    made = json.loads(ran.out)
    assert made["sources"] == ["(first token)", "rules", "story", "question", "answer"]
    plain = "".join(line for line in PROMPT.splitlines(True) if not line.startswith("==="))
    rows = Lens.bundled("causal").generate(plain.rstrip("\n"), max_new_tokens=3)
    expected = mixlens.measure("alti", rows)
    assert isinstance(expected, MixingMaps)
    assert [target["token"] for target in made["targets"]] == list(expected.tokens)
    by = {"rules": "The children sleep in the house.\n"}
    np.testing.assert_allclose(
        np.array(made["scores"])[..., 1], expected.segments(by).scores[..., 1], atol=1e-6
    )
    assert mixlens.load(saved).source_tokens == tuple(made["sources"])


def test_tokens_of_a_prompt_file_keep_the_names_of_their_segments(
    prompt_file: str, tmp_path: Path
) -> None:
    saved = tmp_path / "maps.safetensors"
    given = ("map", "--prompt-file", prompt_file, "--answer", " are on", "--measure", "alti")
    ran = run(*given, "--segments", "none", "--json", "--save", str(saved))
    assert ran.status == 0, ran.err
    made, maps = json.loads(ran.out), mixlens.load(saved)
    assert tuple(made["sources"]) == maps.source_tokens
    assert tuple(made["source_segments"]) == maps.source_row.segment_names
    assert maps.inside("rules").source_tokens[:2] == ("The", "Ġchildren")
    sums = json.loads(run(*given, "--json").out)
    assert list(maps.segments().source_tokens) == sums["sources"]
    np.testing.assert_allclose(maps.segments().scores, sums["scores"], atol=1e-6)


def test_measures_are_compared_for_what_follows_a_prompt(prompt_file: str) -> None:
    given = ("compare", "--prompt-file", prompt_file, "--answer", " are on", "--json")
    chosen = ("--measures", "alti,gradient_norm")
    made = json.loads(run(*given, *chosen).out)
    assert made["sources"] == ["(first token)", "rules", "story", "question", "answer"]
    assert (made["target_token"], made["explained"]) == ("Ġon", f"on at {made['target']}")
    assert set(made["scores"]) == {"alti", "gradient_norm"}
    tokens = json.loads(run(*given, *chosen, "--segments", "none", "--target", "are").out)
    assert tokens["target"] == made["target"] - 1
    assert tokens["sources"][1:3] == ["The", "Ġchildren"]
    ran = run("compare", "The keys", "--generate", "2", "--segments", "own", *chosen)
    assert "answer" in ran.out, ran.err


def test_shown_tables(prompt_file: str) -> None:
    given = ("--prompt-file", prompt_file, "--answer", " are on", "--measure", "attention")
    ran = run("map", *given)
    assert "sums of each segment" in ran.out
    assert "(first token)" in ran.out
    assert "rules" in ran.out
    ran = run("map", *given, "--segments", "sentences", "--no-sink")
    assert "sentence 2" in ran.out
    assert "(first token)" not in ran.out
    ran = run("map", *given, "--target", "on", "--segments", "own")
    assert "Sources of ·on" in ran.out
    long = "The keys to the old cabinet near the doors. " * 5
    ran = run("map", long, "--answer", " They are", "--measure", "attention", "--top", "2")
    assert ran.out.count("←") == 2
    ran = run("compare", long, "--segments", "sentences", "--measures", "alti,attention")
    assert "sentence 5" in ran.out


def test_a_page_groups_by_the_requested_segments(prompt_file: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    given = ("--prompt-file", prompt_file, "--answer", " are on", "--measure", "attention")
    for options, name in (((), "story"), (("--segments", "sentences"), "sentence 2")):
        ran = run("map", *given, *options, "--with", "alti", "--html", str(page))
        assert ran.status == 0, ran.err
        written = page.read_text().partition('id="payload">')[2].partition("</script>")[0]
        shown = json.loads(written)
        assert len(shown["maps"]) == 2
        for measure in shown["maps"]:
            segments = shown["texts"][measure["sources"]]["segments"]
            assert name in [part[2] for part in segments if len(part) == 3]


def test_rollout_of_one_target_and_of_generated_words() -> None:
    text = "The keys to the cabinet are on the table."
    model = ("-m", "src/mixlens/bundled/causal", "--measure", "alti", "--rollout", "--json")
    made = json.loads(run("map", text, *model, "--target", "-1").out)
    expected = Lens.bundled("causal").measure("alti", text).rollout().at(targets=[-1])
    np.testing.assert_allclose(made["scores"], expected.scores, atol=2e-6)
    assert made["provenance"]["recorded"] == "rows"
    made = json.loads(run("map", "The keys", *model, "--generate", "2").out)
    assert len(made["targets"]) == 2
    assert made["provenance"]["steps"] == ["rollout(residual=0, normalise=True)"]


def test_a_chat_needs_a_template(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    for command in ("map", "compare"):
        said = run(command, "--prompt-file", str(path), "--generate", "3").err
        assert "no chat template" in said
        assert "Choose a chat model with --model, or pass the prompt in a plain text file" in said
    assert "--generate N" in run("map", "--prompt-file", str(path)).err
    path.write_text("{")
    assert "not valid JSON" in run("map", "--prompt-file", str(path), "--generate", "3").err


def test_a_text_too_long_for_a_file_name_is_a_text() -> None:
    for text in ("Tom keeps the car. " * 300 + "Lily", "a\0.txt"):
        assert read_input(text, None) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--answer", " are"], "TEXT is missing"),
        (["README.md"], "Pass --text-file README.md to read it"),
        (["The keys", "--answer", ""], "--answer is empty"),
        (["The keys", "--answer", " are", "--generate", "3"], "are mutually exclusive"),
        (["The keys", "--generate", "3", "--target-text", "x"], "--answer instead"),
        (["The keys", "--segments", "sentance"], "Did you mean sentences"),
        (["The keys", "--segments", "turns", "--generate", "2"], "messages in a .json"),
        (["The keys", "--segments", "own"], "=== document 1 === to a --prompt-file"),
        (["The keys", "--prompt-file", "x.txt"], "Pass one of them"),
        (["--prompt-file", "nowhere.txt"], "No such file"),
        (["The keys", "--answer", " are" * 300], "up to"),
        (["The keys", "--generate", "2", "-m", "src/mixlens/bundled/masked"], "cannot generate"),
    ],
)
@pytest.mark.parametrize("command", ["map", "compare"])
def test_wrong_use_is_one_line(command: str, arguments: list[str], words: str) -> None:
    ran = run(command, *arguments)
    assert ran.status != 0
    assert words in " ".join(ran.err.split())
    assert "Traceback" not in ran.err


def test_segments_need_a_tokenizer_that_places_its_tokens(prompt_file: str, shared: Path) -> None:
    model = ("-m", str(shared / "models" / "opus-mt-en-fr-pruned-fp16"), "--measure", "attention")
    said = run("map", "The dogs are old. Yes.", *model, "--segments", "sentences").err
    assert "MarianTokenizer has no offset mapping" in said
    given = ("--prompt-file", prompt_file, "--generate", "2")
    assert "--segments none" in run("map", *given, *model).err
    assert run("map", *given, *model, "--segments", "none").status == 0


def test_an_answer_is_explained_by_the_measure_of_the_command_answer() -> None:
    ran = run("map", "The keys to the cabinet", "--generate", "2", "--segments", "own")
    assert "no --measure given: using alti, the default of `mixlens answer`" in ran.err
    assert "alti" in ran.out
    ran = run("map", "The keys", "--generate", "2", "--rollout", "--target", "-1")
    assert "no --measure given: using alti" in ran.err
