"""`mixlens.load`: what was saved, a file of maps or the folder of a run."""

from __future__ import annotations

import os
from typing import Any

from mixlens.errors import InvalidInput
from mixlens.maps import mixing_maps as maps


def load(path: str | os.PathLike[str]) -> Any:
    """`MixingMaps` as they were saved, bit by bit; of the folder of `mixlens run` its
    `RunResults`, which are read as they are asked for.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{type(path).__name__} is not a path. Pass a file or a folder.")
    if os.path.isdir(path):  # False for a name that no system takes
        from mixlens.runs.results import RunResults

        return RunResults(path)
    return maps.load(path)
