"""Output on any terminal: no character stops a command, and errors have no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixlens.cli import map as map_module
from mixlens.errors import InvalidInput
from tests.cli.running import run

TEXT = "The café dogs [MASK] old."
MAP = ("map", TEXT, "--measure", "attention", "--target", "[MASK]")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_narrow_encodings_get_plain_shades(encoding: str) -> None:
    result = run(*MAP, encoding=encoding)
    assert result.status == 0, result.err
    assert "##" in result.out
    assert "?" not in result.out
    assert "##" not in run(*MAP).out


def test_json_loses_nothing_in_a_narrow_encoding() -> None:
    narrow, wide = (run(*MAP, "--json", encoding=name).out for name in ("ascii", "utf-8"))
    assert json.loads(narrow) == json.loads(wide)
    assert narrow.isascii()


def test_every_command_prints_json_in_one_way() -> None:
    commands = Path(map_module.__file__).parent.glob("*.py")
    writers = {file.name for file in commands if "print(json.dumps(" in file.read_text()}
    assert writers == {"output.py", "run.py"}  # the latter: a log of lines, on standard error


def test_help_and_usage_errors_in_ascii() -> None:
    assert run("--help", encoding="ascii").status == 0
    assert run("mapp", encoding="ascii").status == 2


def test_a_process_in_ascii_with_bytes_that_are_no_text() -> None:
    """The real thing, once: arguments as bytes, and output in ASCII."""
    done = subprocess.run(
        [sys.executable, "-m", "mixlens", "map", b"caf\xe9 dogs", "--measure", "attention"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 2
    assert b"Character 3 of the text is a lone surrogate" in done.stderr
    assert b"Traceback" not in done.stderr


def test_unexpected_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr(map_module, "lens_from", explode)
    result = run(*MAP)
    assert result.status == 1
    assert result.err.startswith("unexpected error: ZeroDivisionError: first line\n")
    assert "Please report it" in result.err
    assert "--debug" in result.err
    assert "Traceback" not in result.err
    for arguments in ((*MAP, "--debug"), ("--debug", *MAP)):
        with pytest.raises(ZeroDivisionError):
            run(*arguments)
    with pytest.raises(InvalidInput):
        run("map", "--debug", "x", "--measure", "nonsense")


def test_errors_of_the_system_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(
        "reproduce", "kobayashi2020/fig3", "--out", str(tmp_path / "file"), "--sample", "2"
    )
    assert result.status == 2
    assert "Traceback" not in result.err
    assert str(tmp_path / "file") in result.err


def test_text_from_a_file_or_standard_input(tmp_path: Path) -> None:
    expected = run(*MAP, "--json").out
    file = tmp_path / "text"
    file.write_bytes(TEXT.encode() + b"\n")
    rest = (*MAP[2:], "--json")
    assert run("map", "-", *rest, stdin=TEXT.encode() + b"\r\n").out == expected
    assert run("map", "--text-file", str(file), *rest).out == expected
    file.write_bytes(b"caf\xe9")
    for arguments, words in (
        (("map", "-"), "standard input is not UTF-8 text (byte 3)"),
        (("map", "--text-file", str(file)), "is not UTF-8 text (byte 3)"),
        (("map", "--text-file", str(tmp_path / "no")), "No such file"),
    ):
        result = run(*arguments, stdin=b"caf\xe9")
        assert (result.status, words in result.err) == (2, True), result.err
    for wrong in (["map"], ["map", TEXT, "--text-file", str(file)]):
        result = run(*wrong)
        assert (result.status, "TEXT" in result.err) == (2, True), result.err


def test_a_log_gets_a_plain_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mixlens.cli import progress

    with progress.progress_bar(None) as update:
        update(1, 4, 0)
    assert capsys.readouterr().err == ""  # it was quick
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.progress_bar(None) as update:
        update(1, 4, 0)
        update(2, 4, 0)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("texts: 1 of 4 after 0 s, about ")
    assert second.startswith("texts: 2 of 4 after ")
