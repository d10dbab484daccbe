"""Docstrings of public names have Parameters, Returns and an example, and the examples run.

The examples of a class share one namespace: methods go on from the example of their class.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mixlens
from tests.cli.running import bundled_once, run

RESULTS = (
    "mixlens.benchmark.benchmark",
    "mixlens.measures.register",
    "mixlens.maps.target_row.Row",
    "mixlens.maps.route_graph.Routes",
    "mixlens.runs.results.RunResults",
    "mixlens.measuring.context_citing.ContextCitation",
    "mixlens.answers.knockout.Knockout",
    "mixlens.answers.passage_scores.PassageScores",
    "mixlens.answers.hops.Hops",
    "mixlens.maps.ranked_scores.RankedScores",
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public() -> dict[str, Any]:
    """Classes and functions whose docstrings the API reference shows."""
    entries = {name: getattr(mixlens, name) for name in mixlens.__all__}
    entries |= {path.rpartition(".")[2]: named(path) for path in RESULTS}
    return entries


def methods(entry: Any) -> Iterator[tuple[str, Any]]:
    """Public methods of a class, in the order of its source, and without properties."""
    for name, member in vars(entry).items():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def complaints(name: str, function: Any) -> list[str]:
    text = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    takes = list(signature.parameters)["." in name :]  # of a method without its object
    sections = re.findall(r"^(\w+)\n-+$", text, flags=re.M)
    wrong = [] if ">>>" in text else [f"{name}: no example"]
    wrong += [f"{name}: no Parameters"] * bool(takes and "Parameters" not in sections)
    returns = signature.return_annotation not in (None, "None")
    wrong += [f"{name}: no Returns"] * (returns and "Returns" not in sections)
    listed = text.partition("Parameters\n")[2].partition("\n\n")[0]
    wrong += [
        f"{name}: {each} is not described"
        for each in takes
        if takes and not re.search(rf"^(.*, )?\**{each}\b", listed, flags=re.M)
    ]
    first = text.split("\n")[0]
    if not re.match(r"[A-Z][a-z]+ .*[.:]$", first) or re.match(r"(The|A|An|One|Whether) ", first):
        wrong.append(f"{name}: the first line is not a sentence with a verb: {first!r}")
    return wrong


def test_docstrings_are_complete() -> None:
    wrong = []
    for name, entry in public().items():
        if not inspect.isclass(entry):
            wrong += complaints(name, entry)
        elif not issubclass(entry, Exception):
            assert ">>>" in str(entry.__doc__), name
            for method, function in methods(entry):
                wrong += complaints(f"{name}.{method}", function)
    assert not wrong


def examples(name: str, entry: Any) -> Iterator[tuple[str, str]]:
    yield name, inspect.getdoc(entry) or ""
    if inspect.isclass(entry) and not issubclass(entry, Exception):
        for method, function in methods(entry):
            yield f"{name}.{method}", inspect.getdoc(function) or ""


WITH_EXAMPLES = sorted(name for name, entry in public().items() if ">>>" in str(entry.__doc__))


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("pyarrow", "scipy", "matplotlib"):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)  # examples write files
    names: dict[str, Any] = {}
    reports: list[str] = []
    for place, text in list(examples(name, public()[name])):
        for command in re.findall(r"^`mixlens (.+)`\.$", text, flags=re.M):
            Path("texts.txt").write_text("The dogs bark.\nThe cat sleeps.\n")
            assert run(*command.split()).status == 0
        monkeypatch.setattr(mixlens.Lens, "bundled", bundled_once)
        test = doctest.DocTestParser().get_doctest(text, names, place, place, 0)
        runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
        runner.run(test, out=reports.append, clear_globs=False)
        names.update(test.globs)
    assert not reports, "".join(reports)
