"""Functions that need a missing extra raise an error with its name."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixlens import Lens, MissingExtra, MixingMaps
from mixlens.datasets.shards import open_parquet
from mixlens.kernels.simplex import scipy_optimize
from mixlens.runs.engines import Engine
from mixlens.runs.engines.on_ray import do_on_ray
from mixlens.runs.store import require_parquet
from mixlens.views.matrix import heat_map
from tests.cli.running import run

MAPS = MixingMaps.of(np.full((2, 3, 3), 1 / 3))


def _widget() -> Any:
    sys.modules.pop("mixlens.views.viewer.widget", None)
    return importlib.import_module("mixlens.views.viewer.widget")


def _on_ray() -> Any:
    return next(iter(do_on_ray(Engine(kind="ray"), lambda: lambda task: task, [1])))


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("igraph", "eval", MAPS.flow),
        ("scipy.optimize", "eval", scipy_optimize),
        ("pyarrow", "corpus", require_parquet),
        ("pyarrow", "corpus", lambda: open_parquet("none.parquet")),
        ("matplotlib", "plot", lambda: heat_map(np.ones((1, 1)), ["a"], ["b"])),
        ("anywidget", "widget", _widget),
        ("ray", "ray", _on_ray),
    ],
)
def test_the_extra_is_named(
    package: str, extra: str, use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'mixlens\[{extra}\]'"):
        use()


IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import mixlens
for info in pkgutil.walk_packages(mixlens.__path__, "mixlens."):
    try:
        importlib.import_module(info.name)
    except ImportError as error:
        print(info.name, type(error).__name__)
try:
    mixlens.Lens.bundled().measure("attention", "The dogs bark.").plot()
except mixlens.MissingExtra:
    print("no plot")
"""


def test_the_package_can_be_imported_without_extras() -> None:
    extras = ("anywidget", "fastapi", "igraph", "matplotlib", "pyarrow", "ray", "scipy", "sklearn")
    command = [sys.executable, "-c", IMPORT_ALL, *extras, "uvicorn"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "mixlens.server.guard ModuleNotFoundError",  # imported by `mixlens serve` alone
        "mixlens.server.server ModuleNotFoundError",
        "mixlens.views.embedding_figure ModuleNotFoundError",  # imported by a new figure alone
        "mixlens.views.viewer.widget MissingExtra",
        "no plot",
    ]


def test_citing_names_its_extra_before_the_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    lens, context = Lens.bundled("causal"), "The dogs bark. The cat sleeps."

    def run_model(*_: Any) -> None:
        raise AssertionError("the model runs")

    lens.model.register_forward_pre_hook(run_model)
    for use in (
        lambda: lens.context_cite(context, "Who barks?", " The dogs"),
        lambda: lens.answer(context, answer=" The dogs", methods=["context_cite"]),
    ):
        with pytest.raises(MissingExtra, match=r"mixlens\[eval\]"):
            use()


def test_the_server_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = run("serve")
    assert answer.status == 1
    assert "mixlens[web]" in answer.err
