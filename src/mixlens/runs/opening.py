"""`mixlens.load`: open a file of maps or an answer, or the folder of a run."""

from __future__ import annotations

import os
from typing import Any

from mixlens.answers import answer_files
from mixlens.answers.answer import Answer
from mixlens.errors import InvalidInput
from mixlens.maps import mixing_maps as maps
from mixlens.maps.storage import kind_of


def load(path: str | os.PathLike[str]) -> Any:
    """Load saved maps or a saved answer, or open the folder of a run.

    Parameters
    ----------
    path
        A file that `MixingMaps.save` or `Answer.save` wrote, or a folder that `mixlens run` wrote.

    Returns
    -------
    MixingMaps, Answer or RunResults
        The maps or the answer, equal bit by bit, or the results of the run, which are read when you
        use them.

    Raises
    ------
    InvalidInput
        If the path does not exist, or if mixlens did not write it.

    Examples
    --------
    >>> import mixlens
    >>> maps = mixlens.Lens.bundled().measure("attention", "The dogs bark.")
    >>> maps.save("maps.safetensors")
    >>> mixlens.load("maps.safetensors") == maps
    True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{type(path).__name__} is not a path. Pass a file or a folder.")
    if os.path.isdir(path):  # False for a name that the system does not accept
        from mixlens.runs.results import RunResults

        return RunResults(path)
    if kind_of(path) == answer_files.KIND:
        return answer_files.load(path, Answer)
    return maps.load(path)
