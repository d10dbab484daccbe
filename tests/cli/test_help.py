"""Help pages, spellings of options, and the wording of errors of the parser."""

from __future__ import annotations

import re
import shlex
import time
from typing import Any

import pytest
import typer

from mixlens.cli import app, progress
from mixlens.cli.help import GROUPS, LEFT, WIDEST, wrap
from tests.cli.running import run
from tests.test_shell_examples import parsed

GROUP: Any = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)
TEXT = "The keys [MASK] old."


def page(*words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(WIDEST))
        patch.setenv("NO_COLOR", "1")
        ran = run(*words, "--help")
    assert ran.status == 0, ran.err
    return ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_grouped_and_ends_with_examples(name: str) -> None:
    text = page(name)
    assert text.startswith(f"Usage: mixlens {name} ")
    assert max(map(len, text.splitlines())) <= WIDEST + 2
    assert "<" not in text, "flags and options show no types"
    headings = re.findall(r"^[A-Z][a-z]+$", text, re.MULTILINE)
    assert headings == [group for group in GROUPS if group in headings] + ["Examples"]
    examples = text.partition("\nExamples\n")[2].strip().splitlines()
    for example in examples:
        assert example.strip().startswith(f"mixlens {name}")
        parsed(shlex.split(example)[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_a_group_a_placeholder_and_no_orphans(name: str) -> None:
    for param in GROUP.commands[name].params:
        if getattr(param, "hidden", False):
            continue
        assert param.rich_help_panel in GROUPS, param.name
        assert getattr(param, "is_flag", False) or param.metavar, param.name
        lines = wrap(param.help, WIDEST - LEFT - 3)
        assert len(lines) == 1 or " " in lines[-1], param.help
        assert param.help[0] != " "
        assert param.help.endswith("."), param.help


def test_the_first_page_lists_every_command() -> None:
    text = page()
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S.*\.$", text, re.MULTILINE), "one line each"


@pytest.mark.parametrize(
    "words",
    [
        ["map", TEXT, "--measures", "alti", "--layers", "1"],
        ["compare", TEXT, "--measures", "alti,attention", "--layers", "last"],
        ["compare", TEXT, "--measure", "alti", "--measure", "attention", "--layer", "last"],
        ["benchmark", "--measures", "alti", "--evaluations", "aopc"],
        ["run", "corpus.txt", "--measures", "alti,attention", "--out", "results"],
        ["doctor", "gpt2"],
        ["doctor", "--model", "gpt2"],
    ],
)
def test_old_and_new_spellings_are_read(words: list[str]) -> None:
    parsed(words)


def test_both_spellings_of_measures_give_the_same_columns() -> None:
    old = run("compare", TEXT, "--measures", "attention,alti", "--json")
    new = run("compare", TEXT, "--measure", "attention", "--measure", "alti", "--json")
    assert old.status == 0, old.err
    assert old.out == new.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mapp"], "Unknown command 'mapp'. Did you mean map?"),
        (["map", TEXT, "--mesure", "alti"], "Unknown option '--mesure'. Did you mean --measure?"),
        (["map", TEXT, "--top", "0"], "'0' is out of range for --top. Pass a number of at least 1"),
        (["map", TEXT, "--layer", "two"], "'two' is not an integer. Pass one to --layer."),
        (["compare", TEXT, "--budget", "x"], "'x' is not a number. Pass one to --budget."),
        (["routes", TEXT, "--threshold", "2"], "'2' is out of range for --threshold."),
        (["serve", "--port", "70000"], "'70000' is out of range for --port."),
        (["finetune", "foo", "--out", "x"], "Unknown TASK 'foo'. Choose one of: prompt, class"),
        (["finetune", "prompt"], "--out is required."),
        (["map", "two", "words"], "Unexpected argument 'words'. Quote a text"),
        (["map", TEXT, "--measure"], "--measure needs a value."),
        (["map", TEXT, "--measure", "foo"], "Unknown measure 'foo'. Run `mixlens measures` for"),
        (["map", TEXT, "--figure", "x.gif"], "Unsupported format '.gif'. Use .png, .pdf or .svg."),
        (["doctor", "gpt2", "--model", "bert"], "Got two models, 'gpt2' and 'bert'."),
    ],
)
def test_wrong_usage_is_one_line_and_exits_with_2(words: list[str], message: str) -> None:
    ran = run(*words)
    assert ran.status == 2
    assert ran.err.splitlines()[-1].startswith(f"error: {message}")
    assert not ran.out


def test_no_command_shows_help_and_exits_with_2() -> None:
    ran = run()
    assert ran.status == 2
    assert "Usage: mixlens COMMAND" in ran.out


@pytest.mark.parametrize(("words", "name"), [([], "value_zeroing"), (["--rollout"], "alti")])
def test_map_reports_the_measure_that_it_chose(words: list[str], name: str) -> None:
    ran = run("map", TEXT, "--target", "[MASK]", *words)
    assert f"no --measure given: using {name}, the " in ran.err
    assert f"Sources of [MASK]: {name}" in ran.out


def test_long_work_prints_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with progress.heartbeat("measuring alti"):
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("measuring alti: 0 s so far\n")
