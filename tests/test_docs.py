"""The documentation holds: its code runs, its commands print what it shows, its lists are
complete, its links lead somewhere.

* A `python` block runs. The blocks of a page share one namespace, in order. A first line `# not
  run: <why>` leaves a block out, and `# needs <package>` runs it if the package is installed.
* A `text` block right after code is what it prints. A `console` block holds commands (`$
  mixlens …`) and what they print. Numbers and shades may differ between machines, words may not. A
  line `…` means any lines.
* Other blocks (`sh`, `yaml` …) are only shown.

`python -m tests.test_docs` writes what code and commands print now into the pages.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import re
import shlex
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import mixlens
import mixlens.errors
from docs.measure_pages import picture, seen, table, with_facts
from docs.navigation import filled
from docs.notebook_pages import notebooks
from mixlens import evaluations
from mixlens.cli import app, main
from tests.cli.running import bundled_once

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MEASURES = ROOT / "docs" / "measures"
BUNDLED = Path(mixlens.__file__).parent / "bundled"
NOT_RUN = "# not run: "
NEEDS = "# needs "
ELLIPSIS = "…"
WIDTH = "100"
SLOW = (
    "mixlens demo",
)  # its output is written into the page, and the command has tests of its own

needs_bundled = pytest.mark.skipif(
    not (BUNDLED / "masked" / "config.json").exists(),
    reason=f"NOT RUN: the pages use the bundled model, and there is none in {BUNDLED / 'masked'}",
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is the number of its first line of content, from 1."""

    kind: str
    line: int
    content: str


def blocks(text: str) -> list[Block]:
    blocks_of_page: list[Block] = []
    lines = text.splitlines()
    start, kind = -1, ""
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start < 0:
            start, kind = number + 1, line[3:].strip()
        else:
            blocks_of_page.append(
                Block(kind, start, "".join(f"{each}\n" for each in lines[start - 1 : number - 1]))
            )
            start = -1
    assert start < 0, f"the block that starts in line {start} has no end"
    return blocks_of_page


def ids(pages: list[Path]) -> list[str]:
    return [page.relative_to(ROOT).as_posix() for page in pages]


# -------------------------------------------------------------------------------- code and commands


def printed_by_command(line: str) -> str:
    """What a person sees who types the command: both streams, as they come."""
    words = shlex.split(line)
    assert words[0] == "mixlens", f"only mixlens commands are run, not {line!r}"
    printed = io.StringIO()
    plain = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(SystemExit))
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        stack.enter_context(mock.patch.object(sys, "argv", words))
        stack.enter_context(mock.patch.dict(os.environ, plain))
        main()
    return tidy(printed.getvalue())


def tidy(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


def sessions(content: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the lines after it."""
    for part in re.split(r"^\$ ", content, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1]}{more}"
        yield command, output


def is_run(program: str) -> bool:
    first = program.partition("\n")[0]
    if first.startswith(NEEDS):
        return importlib.util.find_spec(first.removeprefix(NEEDS)) is not None
    return not first.startswith(NOT_RUN)


def run_page(text: str, name: str, *, slow: bool = False) -> Iterator[tuple[Block, str, str]]:
    """Runs a page from top to bottom; yields what is shown and what was printed, for every block
    that shows output.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    page_blocks = blocks(text)
    lines = text.splitlines()
    for number, block in enumerate(page_blocks):
        if block.kind == "console":
            for command, shown in sessions(block.content):
                if slow or command not in SLOW:
                    yield block, shown, printed_by_command(command)
        if block.kind != "python" or not is_run(block.content):
            continue
        printed = io.StringIO()
        program = compile("\n" * (block.line - 1) + block.content, name, "exec")
        with contextlib.redirect_stdout(printed):
            exec(program, namespace)
        end = block.line + block.content.count("\n")  # the closing fence
        after = page_blocks[number + 1] if number + 1 < len(page_blocks) else None
        if after is not None and after.kind == "text" and not any(lines[end : after.line - 2]):
            yield after, after.content, tidy(printed.getvalue())


def words_of(text: str) -> list[str]:
    """Lines without what may differ: numbers, shades, bars, and the letters of measures that agree
    with each other.
    """
    text = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?%?", "#", text)
    text = re.sub(r"[░▒▓█]+|(?<=\s)-(?=\s|$)", " ", text)
    text = re.sub(r"\b[a-z] #", "#", text)
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def matches(shown: str, printed: str) -> bool:
    expected, actual = words_of(shown), words_of(printed)
    if ELLIPSIS not in expected:
        return expected == actual
    gap = expected.index(ELLIPSIS)
    head, tail = expected[:gap], expected[gap + 1 :]
    return (
        len(actual) >= len(head) + len(tail)
        and actual[:gap] == head
        and actual[len(actual) - len(tail) :] == tail
    )


def uses_bundled(page: Path) -> bool:
    return any(
        block.kind == "console" or "bundled" in block.content for block in blocks(page.read_text())
    )


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=needs_bundled if uses_bundled(page) else ()) for page in PAGES],
    ids=ids(PAGES),
)
def test_programs_run_and_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mixlens.Lens, "bundled", bundled_once)
    for block, shown, printed in run_page(page.read_text(), str(page)):
        assert matches(shown, printed), (
            f"{page.name}, line {block.line}: shown\n{shown}\nprinted\n{printed}"
        )


def test_a_difference_in_words_is_seen() -> None:
    assert matches("1. hat 5 0.25 ██\n", "1. hat 5 0.31 ███\n")
    assert not matches("1. hat 5 0.25 ██\n", "1. dog 5 0.25 ██\n")
    assert not matches("one\ntwo\n", "one\n")
    assert matches("one\n…\nthree\n", "one\ntwo\ntwo\nthree\n")
    assert not matches("one\n…\nthree\n", "one\ntwo\n")
    page = "```python\nprint('a')\n```\n\n```text\nb\n```\n"
    ((_, shown, printed),) = run_page(page, "page")
    assert not matches(shown, printed)
    with pytest.raises(ZeroDivisionError):
        list(run_page("```python\n1 / 0\n```\n", "page"))
    assert list(run_page("```python\n# not run: it cannot\n1 / 0\n```\n", "page")) == []
    assert list(run_page("```python\n# needs no_such_package\n1 / 0\n```\n", "page")) == []
    with pytest.raises(ZeroDivisionError):
        list(run_page("```python\n# needs torch\n1 / 0\n```\n", "page"))


# ------------------------------------------------------------------------------------- completeness


def sections(page: Path) -> dict[str, str]:
    """Heading -> the text under it, up to the next heading of the same or a higher level."""
    text = without_blocks(page.read_text())
    heads = list(re.finditer(r"^(#+) (.+)$", text, flags=re.M))
    by_title = {}
    for number, head in enumerate(heads):
        later = (other.start() for other in heads[number + 1 :] if len(other[1]) <= len(head[1]))
        by_title[head[2].replace("`", "").strip()] = text[head.end() : next(later, len(text))]
    return by_title


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


OF_THE_OUTPUT = ("label", "word", "foil", "position", "of", "to", "pooling")


@pytest.mark.smoke
@pytest.mark.parametrize("name", mixlens.list_measures())
def test_every_measure_has_a_page_that_is_true(name: str) -> None:
    path = MEASURES / f"{name}.md"
    assert path.exists(), f"there is no {path.relative_to(ROOT)}"
    page, spec = path.read_text(), mixlens.list_measures()[name]
    choice = (ROOT / "docs" / "choose.md").read_text()
    assert f"`{name}`" in choice, f"docs/choose.md does not say what {name} costs"
    assert "## In short" in with_facts(page, name)  # it says in known words what it sees
    for part in ("**Means**", "**Formula**", "**Costs**", "**Misses**", "**Cite**"):
        assert part in page, f"the page on {name} lacks {part}"
    for option in spec.options:
        where = (
            (ROOT / "docs" / "explained.md").read_text() if option.name in OF_THE_OUTPUT else page
        )
        assert re.search(f"`{option.name}[`=]", where), (
            f"the option {option.name} of {name} is not explained"
        )
    authors = spec.citation.split()[0]
    assert authors in page or authors == "none:", f"the page on {name} does not cite {authors}"


def test_the_pages_of_measures_say_what_the_code_says() -> None:
    assert [name for name in mixlens.list_measures() if f"[`{name}`]" not in table()] == []
    page = with_facts((MEASURES / "alti.md").read_text(), "alti")
    assert '<span class="stage seen">values</span>' in page
    assert '<span class="stage">feed-forward</span>' in page
    assert mixlens.list_measures()["alti"].use_when in page
    assert "Ferrando, Gallego" in page  # of the module's docstring
    with pytest.raises(ValueError, match="unknown: wieghts"):
        seen("wieghts, values")


@needs_bundled
def test_a_measure_of_any_kind_has_a_picture() -> None:
    masked, causal = mixlens.Lens.bundled(), mixlens.Lens.bundled("causal")
    for name in ("alti", "blank_out", "alti_logit"):  # maps, a row, and causal models alone
        drawn = picture(name, masked, causal).decode()
        assert "<svg" in drawn
        assert f"<!-- {name}" in drawn, "the caption names the measure"


@pytest.mark.smoke
def test_every_error_is_explained() -> None:
    by_title = sections(ROOT / "docs" / "errors.md")
    classes = {
        name: error
        for name, error in vars(mixlens.errors).items()
        if isinstance(error, type) and issubclass(error, mixlens.MixlensError)
    }
    assert set(classes) == set(by_title) - {"Errors"}
    for name, error in classes.items():
        assert "**When**" in by_title[name]
        assert "**Do**" in by_title[name]
        for base in {*error.__bases__} - {Exception, mixlens.MixlensError}:
            assert f"`{base.__name__}`" in by_title[name], f"{name} is also a {base.__name__}"


@pytest.mark.smoke
def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    named = {*re.findall(r"^::: mixlens\.(\w+)$", page, flags=re.M), *vars(mixlens.errors)}
    assert set(mixlens.__all__) <= named


def test_the_front_page_has_the_numbers_of_the_coverage_table() -> None:
    coverage = (ROOT / "docs" / "coverage.md").read_text()
    tried = re.search(r"^(\d+) model classes", coverage, flags=re.M)
    measured = re.findall(r"^\* \*\*(?:Verified|In part)\*\*: (\d+) classes", coverage, flags=re.M)
    assert tried
    assert (
        f"{sum(map(int, measured))} of {tried[1]} model classes" in (ROOT / "README.md").read_text()
    )


def keywords(name: str) -> set[str]:
    """All options of an evaluation."""
    module = evaluations.module(name)
    functions = [
        getattr(module, part)
        for part in ("observe", "conclude", "evaluate")
        if hasattr(module, part)
    ]
    given = [
        parameter
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
    ]
    return {parameter.name for parameter in given if parameter.kind is parameter.KEYWORD_ONLY}


@pytest.mark.smoke
@pytest.mark.parametrize("name", evaluations.names())
def test_every_evaluation_has_a_section_that_is_true(name: str) -> None:
    by_title, spec = sections(ROOT / "docs" / "evaluations.md"), evaluations.evaluations()[name]
    assert name in by_title, f"docs/evaluations.md has no section on {name}"
    section = by_title[name]
    judged = "measures" if spec.of == "measure" else "the model"
    describes = spec.direction == "neither"
    scope = (
        f"*Describes {judged}. "
        if describes
        else f"*Judges {judged}. {spec.direction.capitalize()} is better. "
    )
    scope += (
        f"Data: {', '.join(spec.kinds) or 'its own'}."
        + ("" if spec.chance is None else f" Chance: {spec.chance:g}.")
        + "*"
    )
    assert scope in section, f"the section on {name} should say: {scope}"
    parts = (
        "**Asks**",
        "**Definition**",
        "**Options**",
        "**Details**",
        "**Costs**",
        "**Blind to**",
        "**Cite**",
    )
    assert [part for part in parts if part not in section] == [], (
        f"the section on {name} lacks parts"
    )
    options = section[section.index("**Options**") : section.index("**Details**")]
    for option in keywords(name):
        assert re.search(f"`{option}[`=]", options), (
            f"the option {option} of {name} is not explained"
        )
    authors = spec.citation.split()[0]
    assert authors in section or authors == "none:", (
        f"the section on {name} does not cite {authors}"
    )


@pytest.mark.smoke
def test_every_command_and_option_is_on_the_page() -> None:
    import typer

    by_title = sections(ROOT / "docs" / "cli.md")
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f"mixlens {name}" in by_title, f"docs/cli.md has no section on mixlens {name}"
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    place = by_title[f"mixlens {name}"] + by_title["Options that commands share"]
                    assert f"`{option}" in place, (
                        f"docs/cli.md does not explain {option} of mixlens {name}"
                    )
    shown = [
        command
        for block in blocks((ROOT / "docs" / "cli.md").read_text())
        for command, _ in sessions(block.content)
    ]
    for name in commands:
        assert any(shlex.split(line)[1] == name for line in shown), (
            f"docs/cli.md has no example of mixlens {name}"
        )


def leaves(nav: Any) -> Iterator[str]:
    """The pages of a navigation whose entries may hold further ones."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from leaves(entry)


def test_every_page_is_in_the_navigation() -> None:
    yaml = pytest.importorskip("yaml")
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = set(leaves(filled(nav, ROOT / "docs")))
    pages = [*PAGES[1:], *(path.with_suffix(".md") for path in notebooks())]
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in pages}


# -------------------------------------------------------------------------------------------- links

GENERATED = ROOT / "docs" / "performance"  # filled by the benchmarks
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked, as Python-Markdown and GitHub make them."""
    heads = re.findall(r"^#+ (.+)$", without_blocks(page.read_text()), flags=re.M)
    plain = [unicodedata.normalize("NFKD", head.replace("`", "")).lower() for head in heads]
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip()) for head in plain}


@pytest.mark.smoke
@pytest.mark.parametrize("page", LINKED, ids=ids(LINKED))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        place = page.parent / path if path else page
        made = GENERATED in place.parents or place.with_suffix(".ipynb") in notebooks()
        assert place.exists() or made, f"{page.name} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(place), (
                f"{page.name} links to {link}: {place.name} has no such heading"
            )


# ----------------------------------------------------------------------------- version and citation


def test_lines_of_prose_have_at_most_100_characters() -> None:
    long = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *MEASURES.glob("*.md")]:
        inside = False  # a block of code, which shows what is printed
        for number, line in enumerate(page.read_text().splitlines(), 1):
            inside ^= line.strip().startswith("```")
            free = not inside and line[:1] != "#" and "|" not in line and "http" not in line
            long += [f"{page.name}:{number}"] * (free and len(line) > 100)
    assert not long


def test_citation_and_changelog_name_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mixlens.__version__
    assert citation["license"] == "Apache-2.0"
    known = " ".join((ROOT / "docs" / "measures.md").read_text().split())
    for reference in citation["references"]:
        assert reference["title"] in known, "docs/measures.md has the papers, too"
    assert f"## [{mixlens.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


# ------------------------------------------------------------------------------------------ renewal


def renewed(text: str, name: str) -> str:
    """A page with what its code and commands print now.

    A line `…` stays where it was, counted from the first line.
    """
    made: dict[int, list[str]] = {}
    for block, shown, printed in run_page(text, name, slow=True):
        lines = shown.splitlines()
        if ELLIPSIS in lines:
            gap, now = lines.index(ELLIPSIS), printed.splitlines()
            rest = len(lines) - gap - 1
            printed = "".join(
                f"{line}\n" for line in [*now[:gap], ELLIPSIS, *now[len(now) - rest :]]
            )
        made.setdefault(block.line, []).append(printed)
    lines = text.splitlines(keepends=True)
    for block in reversed(blocks(text)):
        if block.line not in made:
            continue
        content = made[block.line][0]
        if block.kind == "console":
            parts = re.split(r"(?m)^(?=\$ )", block.content)[1:]
            gaps = ["\n" * part.endswith("\n\n") for part in parts]
            heads = [
                part[: len(part) - len(shown)]
                for part, (_, shown) in zip(parts, sessions(block.content), strict=True)
            ]
            content = "".join(
                head + output + gap
                for head, output, gap in zip(heads, made[block.line], gaps, strict=True)
            )
        lines[block.line - 1 : block.line - 1 + block.content.count("\n")] = [content]
    return "".join(lines)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for each in chosen:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # the code may write files
            each.write_text(renewed(each.read_text(), str(each)))
            os.chdir(ROOT)
        print(each)
