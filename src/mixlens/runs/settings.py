"""Store the settings of a run, and reject runs with different settings in the same folder.

Only one run at a time can use a folder. `settings.json` in the folder holds the settings of the
run. If a run in the same folder has different settings, an error lists the differences.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mixlens.datasets.object_storage import AnyPath
from mixlens.errors import InvalidInput
from mixlens.maps.provenance import model_name, weights_digest
from mixlens.maps.storage import write_whole
from mixlens.model.json_values import parse_json, require_form

if TYPE_CHECKING:
    from mixlens.lens import Lens

SETTINGS = "settings.json"


def describe_model(lens: Lens) -> dict[str, str]:
    """Return values that identify a model: name, hash of the weights, data type and device."""
    first = next(lens.model.parameters())
    return {
        "model": model_name(lens.model),
        "model weights": weights_digest(lens.model),
        "model dtype": str(first.dtype).removeprefix("torch."),
        "model device": first.device.type,
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the settings that differ, sorted by name."""
    after = json.loads(json.dumps(now))
    return [
        _difference(key, before.get(key), after.get(key))
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def guard(folder: AnyPath, settings: Mapping[str, Any], *, begun: bool) -> None:
    """Write the settings of a new run, or compare them with the settings of the existing run."""
    path = folder / SETTINGS
    if not begun:
        write_whole(path, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
        return
    try:
        before = parse_json(path.read_text(encoding="utf-8"))
        require_form(before, {str: object}, SETTINGS)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{folder} contains a run whose settings cannot be read. Choose another --out, or"
            " start over with --fresh."
        ) from error
    changed = differences(before, settings)
    if changed:
        raise InvalidInput(
            f"{folder} contains a run with different settings ({'; '.join(changed)}). Choose"
            " another --out, or start over with --fresh."
        )


@contextlib.contextmanager
def lock_folder(folder: Path, lock: str) -> Iterator[IO[bytes]]:
    """Create the folder if needed, lock it for this process, and yield the open lock file.

    The system releases the lock when a run ends for any reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = open(folder / lock, "ab")  # noqa: SIM115 (it is closed below)
    except OSError as error:
        raise InvalidInput(
            f"--out {folder}: {error.strerror or error}. Choose another folder."
        ) from error
    with opened as file:
        _lock(file, folder)
        yield file


def _lock(file: IO[bytes], folder: Path) -> None:
    if os.name == "nt":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InvalidInput(
            f"{folder} is in use by another run. Wait for it, or choose another --out."
        ) from error


def _difference(key: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        return ", ".join(f"{key}: {difference}" for difference in differences(before, now))
    if isinstance(before, list) and isinstance(now, list) and set(before) != set(now):
        parts = [
            ("no longer", [x for x in before if x not in now]),
            ("now also", [x for x in now if x not in before]),
        ]
        return f"{key}: " + ", ".join(
            f"{word} {' '.join(map(str, names))}" for word, names in parts if names
        )
    return f"{key} was {before}, now {now}"
