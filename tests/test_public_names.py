"""The public names, pinned: changing one is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mixlens

SOURCE = Path(mixlens.__file__).parent

# Imports run down this list only.
ORDER = [
    "errors", "tokens", "recording", "words", "storage", "maps", "kernels", "measures", "aggregation", "identifiability", "lens", "cli",
]  # fmt: skip


def test_every_public_name_can_be_had() -> None:
    for name in mixlens.__all__:
        assert getattr(mixlens, name) is not None


def test_importing_mixlens_needs_no_torch() -> None:
    program = "import sys, mixlens, mixlens.cli; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
