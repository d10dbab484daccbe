"""Registered measures and evaluations of other packages work like built-in ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens import InvalidInput, Lens, evaluations
from mixlens.benchmark.plan import make_plan
from mixlens.cli import app
from mixlens.contracts import (
    AttentionKind,
    Facts,
    LayerScores,
    Measure,
    Request,
    Scores,
    Spec,
    Targets,
)
from mixlens.evaluating.contracts import EvaluationSpec
from mixlens.measures import MEASURES, alti, list_measures, register
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.registry import Registry
from mixlens.testing import MODELS, check_measure
from tests import test_pages

SPEC = Spec(
    summary="attention to a power",
    citation="nobody 2020",
    use_when="never",
    cost="1 forward pass",
    facts=Facts(),
    sites=(AttentionKind.SELF,),
)


@pytest.fixture
def toy() -> Iterator[str]:
    @register("toy", SPEC)
    def score_layer(
        layer: Layer, attention: Attention, targets: Targets, *, power: int = 1
    ) -> LayerScores:
        return LayerScores(targets.take(attention.weights.mean(1) ** power, 1))

    yield "toy"
    MEASURES.unregister("toy")


FILE = """
from mixlens.contracts import AttentionKind, Facts, LayerScores, Spec

SPEC = Spec(
    summary="attention to a power",
    citation="nobody 2020",
    use_when="never",
    cost="1 forward pass",
    facts=Facts(),
    sites=(AttentionKind.SELF,),
)


def score_layer(layer, attention, targets, *, power: int = 1, exactly=True):
    return LayerScores(targets.take(attention.weights.mean(1) ** power, 1))
"""


@pytest.fixture
def toy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file among those of the package, and nothing else. Its annotations are not strings."""
    (tmp_path / "toy_file.py").write_text(FILE)
    monkeypatch.setattr(mixlens.measures, "__path__", [*mixlens.measures.__path__, str(tmp_path)])
    monkeypatch.setattr("mixlens.measures.MEASURES", Registry("measure", "mixlens.measures"))
    yield "toy_file"
    sys.modules.pop("mixlens.measures.toy_file", None)


@pytest.mark.parametrize("how", ["toy", "toy_file"])
def test_a_registered_measure_is_listed_everywhere(
    how: str, request: pytest.FixtureRequest
) -> None:
    """Registered, or found as a file: there is no second list."""
    toy: str = request.getfixturevalue(how)
    kinds = {option.name: option.kind for option in list_measures()[toy].options}
    assert kinds == {"power": "int"} | ({"exactly": "bool"} if how == "toy_file" else {})
    lens = Lens.bundled()
    assert lens.measure(toy, "The dogs bark.", power=2).provenance["options"]["power"] == 2
    assert lens.verify("The dogs bark.").measures[toy] is None
    assert toy in lens.compare("The dogs bark.", only=[toy, "attention"]).scores
    assert toy in make_plan("agreement", evaluations=["cue_alignment"]).measures
    check_measure(toy, {"BERT": MODELS["post-norm (BERT)"]})
    run = CliRunner().invoke
    assert toy in json.loads(run(app, ["measures", "--json"]).stdout)
    shown = run(app, ["map", "The dogs bark.", "--measure", toy, "-o", "power=3", "--json"])
    assert json.loads(shown.stdout)["provenance"]["options"]["power"] == 3


def test_a_file_without_documentation_is_detected(toy_file: str) -> None:
    with pytest.raises(AssertionError, match=f"there is no docs/measures/{toy_file}.md"):
        test_pages.test_every_measure_has_a_page_that_is_true(toy_file)


def test_names_of_ours_are_not_taken(toy: str) -> None:
    with pytest.raises(InvalidInput, match="already"):
        register("alti", SPEC)(alti.score_layer)
    with pytest.raises(InvalidInput, match="has no SPEC"):
        evaluations.register("nameless", object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown direction 'up'"):
        EvaluationSpec(summary="one", citation="-", direction="up", kinds=("agreement",))
    for field in ("gives", "reads", "splits", "one_row"):
        wrong: dict[str, Any] = {field: "x"}
        with pytest.raises(InvalidInput, match=r"Unknown .*'x'"):
            replace(SPEC, **wrong)
    MEASURES.unregister(toy)
    with pytest.raises(InvalidInput, match="Unknown measure 'toy'"):
        mixlens.measure(toy, Lens.bundled().record("The dogs bark."))


def test_a_registered_evaluation_is_planned() -> None:
    class Constant:
        SPEC = EvaluationSpec(summary="one", citation="-", direction="higher", kinds=("agreement",))

        @staticmethod
        def observe(case: Any, measure: str) -> float:
            return 1.0

    evaluations.register("constant", Constant())
    try:
        assert "constant" in make_plan("agreement", ["attention"], ["constant"]).of_measures
        assert evaluations.conclude("constant", [1.0, 1.0]).value == 1.0
    finally:
        evaluations.EVALUATIONS.unregister("constant")


PLUG_IN = """
from mixlens.contracts import Facts, LayerScores, Spec

SPEC = Spec(summary="ones", citation="-", use_when="never", cost="none", facts=Facts())


def score_layer(layer, attention, targets):
    return LayerScores(attention.weights.mean(1) * 0 + 1)
"""


def test_a_plug_in_of_the_old_form_gets_the_new_signature() -> None:
    class Old:
        SPEC = SPEC

        @staticmethod
        def scores(recording: Recording, request: Request) -> Scores:
            raise NotImplementedError

    MEASURES.register("old", Old())
    try:
        with pytest.raises(InvalidInput, match=r"score_layer\(layer, attention, targets"):
            Lens.bundled().measure("old", "The dogs bark.")
    finally:
        MEASURES.unregister("old")

    @register("old", SPEC)
    def old(recording: Recording, request: Request) -> Scores:
        return Scores(request.take(torch.ones(1), 0))

    try:
        with pytest.raises(InvalidInput, match=r"score_layer\(layer, attention, targets"):
            Lens.bundled().measure("old", "The dogs bark.")
        with pytest.raises(InvalidInput, match="row_by_row"):
            register("older", replace(SPEC, row_by_row=True))(old)
    finally:
        MEASURES.unregister("old")
        MEASURES.unregister("older")


def test_an_installed_package_brings_its_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip leaves it: a module, and a folder that says what it offers."""
    (tmp_path / "plug_in_of_ones.py").write_text(PLUG_IN)
    about = tmp_path / "plug_in_of_ones-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in-of-ones\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[mixlens.measures]\nones = plug_in_of_ones\n"
        "broken = no_such_module\nalti = plug_in_of_ones\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[Measure] = Registry("measure", "mixlens.measures")
    with pytest.warns(UserWarning, match="which is a built-in name"):
        assert {"ones", "broken", "alti"} <= set(registry.names())
    assert "plug_in_of_ones" not in sys.modules  # listing imports nothing
    assert registry.entry("ones").SPEC.summary == "ones"
    assert registry.entry("alti") is alti
    with pytest.warns(UserWarning, match="no_such_module"):
        assert "broken" not in registry.entries()
    monkeypatch.setattr("mixlens.measures.MEASURES", registry)
    maps = Lens.bundled().measure("ones", "The dogs bark.")
    assert (maps.scores == 1).all()


def _without_request(recording: Recording) -> Scores:
    raise NotImplementedError


def _without_scores(recording: Recording, request: Request) -> float:
    raise NotImplementedError


def test_types_see_a_wrong_signature() -> None:
    """mypy says so: an ignore that is not needed any more is an error of its own."""
    ours: Measure = alti
    assert ours.SPEC is alti.SPEC
    register("a", SPEC)(_without_request)  # type: ignore[type-var]
    register("b", SPEC)(_without_scores)  # type: ignore[type-var]
    for name in ("a", "b"):
        MEASURES.unregister(name)
