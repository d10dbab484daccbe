"""Former module names work for one release, with a warning that gives the new name."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mixlens
from mixlens.moved_modules import MOVED

DOCUMENTED = [  # by the pages of the versions before the move
    ("mixlens.corpus", "mixlens.datasets", "read"),
    ("mixlens.corpus", "mixlens.datasets", "Labelled"),
    ("mixlens.corpus.cues", "mixlens.datasets.cues", "counts"),
    ("mixlens.corpus.alignments", "mixlens.datasets.alignments", "read_alignments"),
    ("mixlens.experiments", "mixlens.papers", "reproduce"),
    ("mixlens.experiments.brunner2020.paper", "mixlens.papers.brunner2020.paper", "DATA"),
    ("mixlens.trust", "mixlens.benchmark", "benchmark"),
    ("mixlens.trust.plan", "mixlens.benchmark.plan", "BASELINE"),
    ("mixlens.render.canvas", "mixlens.views.canvas", "save_figure"),
    ("mixlens.alignments", "mixlens.maps.alignments", "align_words"),
    ("mixlens.encoder_decoder", "mixlens.maps.encoder_decoder", "alti_through"),
    ("mixlens.tokens", "mixlens.text.tokens", "TokenRow"),
    ("mixlens.viewer.payload", "mixlens.views.viewer.payload", "payload_of"),
]


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nobody has used a former name."""
    for name in list(sys.modules):
        if name.partition("mixlens.")[2].partition(".")[0] in MOVED:
            monkeypatch.delitem(sys.modules, name)
    for name in MOVED:
        monkeypatch.delitem(vars(mixlens), name, raising=False)


@pytest.mark.parametrize(("former", "name", "member"), DOCUMENTED)
def test_a_former_name_is_the_same_module(former: str, name: str, member: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^{former} has moved to {name}\.") as warned:
        module = importlib.import_module(former)
    assert module is importlib.import_module(name)
    assert module.__name__ == name
    assert module.__spec__ is not None
    assert module.__spec__.name == name
    assert hasattr(module, member)
    assert len(warned) == len(former.split(".")) - 1  # one for each package on the way


def test_the_warning_points_at_the_import() -> None:
    with pytest.warns(DeprecationWarning, match="has moved") as warned:
        exec("from mixlens.corpus import read", {"__name__": "theirs"})
    assert warned[0].filename == "<string>"


def test_attributes_of_the_package() -> None:
    with pytest.warns(DeprecationWarning, match=r"mixlens\.datasets"):
        assert mixlens.corpus.__name__ == "mixlens.datasets"
    with pytest.raises(AttributeError, match="corpora"):
        _ = mixlens.corpora


def test_a_missing_module_is_missing() -> None:
    with (
        pytest.warns(DeprecationWarning, match="has moved"),
        pytest.raises(ModuleNotFoundError, match=r"mixlens\.datasets\.nothing"),
    ):
        importlib.import_module("mixlens.corpus.nothing")


def test_nothing_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, warnings; warnings.simplefilter('error'); import mixlens;"
        "assert not [name for name in sys.modules if name.startswith('mixlens.datasets')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_page_for_upgrades_lists_all_moved_modules() -> None:
    page = (Path(__file__).parents[1] / "docs" / "upgrade.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `mixlens\.(\S+)` \| `mixlens\.(\S+)` \|$", page, re.M)
    assert dict(rows) == MOVED
