"""Check array shapes in signatures while the tests run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import shape_checks

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
_PARTS = ["kernels", "capture", "structure", "recording", "replay", "measures", "maps"]
shape_checks.install(
    [f"mixlens.{part}" for part in _PARTS],
    # Triton compiles from the source as it is.
    but=[f"mixlens.kernels.fused.{name}" for name in ("contributions", "norms", "zeroing")],
)

import torch  # noqa: E402

torch.set_num_threads(1)

if TYPE_CHECKING:
    from tests.conformance.families import Family

SHARED = Path(os.environ.get("MIXLENS_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def bare(request: pytest.FixtureRequest) -> Family:
    """A family of the conformance tests, without a head. For the session, so that pytest puts all
    tests of one family next to each other.
    """
    from tests.conformance.families import Family

    return Family(request.param)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real text and weights that do not belong to the repository."""
    if not SHARED.exists():
        pytest.skip(
            f"NOT RUN: needs the folder {SHARED} (or MIXLENS_SHARED) with real models and data"
        )
    return SHARED
