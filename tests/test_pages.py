"""The documentation is complete and agrees with the code: measures, evaluations, errors, public
names, commands, options and links.
"""

from __future__ import annotations

import inspect
import re
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mixlens
import mixlens.errors
from docs.measure_pages import caption, example_maps, picture, seen, table, with_facts
from docs.navigation import filled
from docs.notebook_pages import notebooks
from mixlens import evaluations
from mixlens.cli import app
from tests.pages import (
    MEASURES,
    PAGES,
    ROOT,
    blocks,
    ids,
    needs_bundled,
    sections,
    sessions,
    without_blocks,
)
from tests.zoo.hub import PAGE, conformance_types, with_section

OF_THE_OUTPUT = ("label", "word", "foil", "position", "of", "to", "pooling")
OF_AN_ANSWER = ("answer", "reduce", "weights")


@pytest.mark.smoke
@pytest.mark.parametrize("name", mixlens.list_measures())
def test_every_measure_has_a_page_that_is_true(name: str) -> None:
    path = MEASURES / f"{name}.md"
    assert path.exists(), f"there is no {path.relative_to(ROOT)}"
    page, spec = path.read_text(), mixlens.list_measures()[name]
    choice = (ROOT / "docs" / "choose.md").read_text()
    assert f"`{name}`" in choice, f"docs/choose.md does not say what {name} costs"
    assert "## In short" in with_facts(page, name)
    for part in ("**Meaning**", "**Formula**", "**Cost**", "**Limitations**", "**Reference**"):
        assert part in page, f"the page on {name} lacks {part}"
    for option in spec.options:
        where = (
            (ROOT / "docs" / "explained.md").read_text()
            if option.name in (*OF_THE_OUTPUT, *OF_AN_ANSWER)
            else page
        )
        assert re.search(f"`{option.name}[`=]", where), (
            f"the option {option.name} of {name} is not explained"
        )
    authors = spec.citation.split()[0]
    assert authors in page or authors == "none:", f"the page on {name} does not cite {authors}"


def test_the_pages_of_measures_agree_with_the_code() -> None:
    assert [name for name in mixlens.list_measures() if f"[`{name}`]" not in table()] == []
    page = with_facts((MEASURES / "alti.md").read_text(), "alti")
    assert '<span class="stage seen">values</span>' in page
    assert '<span class="stage">MLP</span>' in page
    assert mixlens.list_measures()["alti"].use_when in page
    with pytest.raises(ValueError, match="unknown: wieghts"):
        seen("wieghts, values")


@needs_bundled
def test_a_measure_of_any_kind_has_a_picture() -> None:
    masked, causal = mixlens.Lens.bundled(), mixlens.Lens.bundled("causal")
    for name in ("alti", "blank_out", "alti_logit"):  # maps, a row, and causal models alone
        maps = example_maps(name, masked, causal)
        drawn = picture(maps).decode()
        assert "<svg" in drawn
        assert f"<!-- {name}" in drawn, "the caption names the measure"
        assert re.search(r"Largest score( of another token)?: \*\w+\*\.$", caption(maps))


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
        assert "**Cause**" in by_title[name]
        assert "**Remedy**" in by_title[name]
        for base in {*error.__bases__} - {Exception, mixlens.MixlensError}:
            assert f"`{base.__name__}`" in by_title[name], f"{name} is also a {base.__name__}"


@pytest.mark.smoke
def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    named = {*re.findall(r"^::: mixlens\.(\w+)$", page, flags=re.M), *vars(mixlens.errors)}
    assert set(mixlens.__all__) <= named


def test_the_front_page_has_the_numbers_of_the_coverage_table() -> None:
    coverage = (ROOT / "docs" / "coverage.md").read_text()
    tried = re.search(r"(\d+) model classes", coverage)
    measured = re.findall(
        r"^\* \*\*(?:Verified|Partially supported)\*\*: (\d+) classes", coverage, flags=re.M
    )
    assert tried
    counts = f"{sum(map(int, measured))} of the {tried[1]} model classes"
    assert counts in (ROOT / "README.md").read_text()


def test_the_limitations_have_the_numbers_of_the_coverage_page() -> None:
    coverage = (ROOT / "docs" / "coverage.md").read_text()
    text = " ".join((ROOT / "docs" / "limitations.md").read_text().split())
    classes, largest = re.search(r"\| padding \| (\d+) \| (\S+) \|", coverage).groups()
    assert f"Over {classes} model classes in float32" in text
    assert f"differed by at most {largest} of the largest score" in text
    verified, partial, missing = re.findall(r"^\* \*\*.+\*\*: (\d+) classes", coverage, re.M)
    assert f"{verified} fully and {partial} partially" in text
    assert f"for the other {missing}" in text


def test_the_coverage_page_counts_models_on_the_hub() -> None:
    page = PAGE.read_text()
    assert with_section(page, conformance_types()) == page


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
        else f"*Evaluates {judged}. {spec.direction.capitalize()} is better. "
    )
    scope += (
        f"Data: {', '.join(spec.kinds) or 'its own examples'}."
        + ("" if spec.chance is None else f" Chance: {spec.chance:g}.")
        + "*"
    )
    assert scope in section, f"the section on {name} should say: {scope}"
    parts = (
        "**Question**",
        "**Definition**",
        "**Options**",
        "**Details**",
        "**Cost**",
        "**Limitations**",
        "**Reference**",
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


def test_rows_of_a_table_have_the_cells_of_its_head() -> None:
    """Two rows on one line would be one row, its rest cut off."""
    wrong = []
    for page in LINKED:
        cells = 0
        for line in without_blocks(page.read_text()).splitlines():
            count = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            if cells and count and count != cells:
                wrong.append(f"{page.name}: {line:.60}")
            cells = count and (cells or count)
    assert not wrong


def test_citation_and_changelog_name_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mixlens.__version__
    assert citation["license"] == "Apache-2.0"
    known = " ".join((ROOT / "docs" / "measures.md").read_text().split())
    for reference in citation["references"]:
        assert reference["title"] in known, "docs/measures.md has the papers, too"
    assert f"## [{mixlens.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_how_it_works_names_functions_that_exist() -> None:
    """Its walk through one call: each row has a file and a function of it."""
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    rows = re.findall(r"^\| *\d? *\| `([\w/]+\.py)` \| `([\w.]+)` \|", text, flags=re.M)
    assert len(rows) > 10
    for file, name in rows:
        code = (ROOT / "src" / "mixlens" / file).read_text()
        for part in name.split("."):
            assert re.search(rf"^ *(?:def|class) {part}\b", code, flags=re.M), (file, name)
