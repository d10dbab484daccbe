"""A leaderboard entry: the results of one benchmark in a JSON file.

The entry describes the run (the model, a digest of its weights, the data, a digest of the examples,
the number of texts, versions) and contains every score with its interval. It contains no texts and
no local paths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.errors import InvalidInput
from mixlens.evaluations import evaluations

if TYPE_CHECKING:
    from mixlens.benchmark.ranking import Ranking

FORMAT = 1
_KEPT = (  # keys of a cell of the ranking
    *("value", "low", "high", "examples", "is_best", "not_different_from_best"),
    *("not_better_than_random", "judges_itself"),
)
_WORDS = ("model", "weights", "data", "data digest", "kind")
_TABLES = ("versions", "evaluations", "of model")


def submission(ranking: Ranking) -> dict[str, Any]:
    """Return the entry of a ranking as plain values for JSON."""
    contents = ranking.to_dict()
    settings = contents["settings"]
    return {
        "format": FORMAT,
        "model": _without_folder(settings["model"]),
        "weights": settings["model weights"],
        "dtype": settings["model dtype"],
        "other model": _without_folder(settings["other model"]),
        "other weights": settings["other model weights"],
        "data": settings["data"],
        "data digest": settings["data hash"],
        "kind": settings["kind"],
        "texts": contents["texts"],
        "seed": settings["seed"],
        "options": settings["options"],
        "versions": settings["versions"],
        "evaluations": {
            name: {"direction": column["direction"], "measures": _scores(name, column["measures"])}
            for name, column in contents["evaluations"].items()
        },
        "of model": {
            name: {key: result[key] for key in ("value", "interval", "chance", "examples")}
            for name, result in contents["model"].items()
        },
        "left out": {**contents["left_out"], **contents["not_judged"]},
    }


def read_submission(path: Path) -> dict[str, Any]:
    """Read an entry from a file, or raise an error that describes why the file is invalid."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} is not valid JSON ({error}). Create the file with --submit."
        ) from error
    if not isinstance(entry, dict) or entry.get("format") != FORMAT:
        raise InvalidInput(
            f"{path} is not an entry of format {FORMAT}. Create the file with --submit."
        )
    wrong = [key for key in _WORDS if not isinstance(entry.get(key), str)]
    wrong += [key for key in _TABLES if not isinstance(entry.get(key), dict)]
    wrong += [] if isinstance(entry.get("texts"), int) else ["texts"]
    if wrong:
        raise InvalidInput(
            f"{path}: {', '.join(wrong)} missing or of the wrong type. Create the file"
            " with --submit."
        )
    for name, column in entry["evaluations"].items():
        if not _is_column(column):
            raise InvalidInput(
                f"{path}: the scores of {name} are not numbers by measure. Create the"
                " file with --submit."
            )
    return entry


def _without_folder(name: str | None) -> str | None:
    """Return a hub name unchanged, or the last component of a folder path."""
    return name if name is None or not Path(name).exists() else Path(name).resolve().name


def _scores(evaluation: str, cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    spec = evaluations()[evaluation]
    return {
        measure: {key: cell[key] for key in _KEPT}
        | ({"layers": cell["details"]["layers"]} if spec.by_layer else {})
        for measure, cell in cells.items()
    }


def _is_column(column: Any) -> bool:
    measures = column.get("measures") if isinstance(column, dict) else None
    return isinstance(measures, dict) and all(
        isinstance(cell, dict)
        and all(
            isinstance(cell.get(key), (int, float, type(None))) for key in ("value", "low", "high")
        )
        for cell in measures.values()
    )
