"""Functions that need a missing extra raise an error with its name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixlens import MissingExtra, MixingMaps
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


def test_the_server_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = run("serve")
    assert answer.status == 1
    assert "mixlens[web]" in answer.err
