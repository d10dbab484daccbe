"""Store maps in one file, with arrays as safetensors and everything else as JSON in the header.

Loading a file runs no code.

A file is written under a temporary name and then renamed, so that a reader never sees an incomplete
file. Symbolic links are followed, and only regular files are replaced. A path to a folder, a device
or a pipe raises an error. Safetensors detects truncated files, and a checksum detects changed
arrays.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as packed

from mixlens.contracts import AttentionKind, Facts
from mixlens.contracts.scores import Extra
from mixlens.datasets.object_storage import AnyPath, ObjectPath
from mixlens.errors import CannotWrite, InvalidInput
from mixlens.maps.provenance import plain
from mixlens.model.json_values import parse_json, require_form
from mixlens.text.tokens import PatchGrid, Picture, Segment, TokenRow

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps

Maps = TypeVar("Maps")

FORMAT = 2
_KIND = "mixing maps"
_LAST_LAYER = 10**6
_LONGEST_NAME = 200  # length of a temporary name, without its ending
_VERSION, _CONTENT = "mixlens_format", "mixlens_content"
ROW = {
    "labels": [str],
    "text": (str, None),
    "offsets": ([[int]], None),
    "special": ([bool], None),
}
_DESCRIPTION = {
    "layers": [int],
    "targets": ROW,
    "sources": ROW,
    "target_positions": [int],
    "facts": {str: (bool, str, None)},
    "provenance": {str: object},
    "rollout": [(float, bool, None)],
    "extras": {str: [str]},
}


def save(maps: MixingMaps, path: str | os.PathLike[str]) -> None:
    """Compute `MixingMaps.save`."""
    write(path, _KIND, _arrays(maps), _description(maps))


def load(path: str | os.PathLike[str], make: Callable[..., Maps]) -> Maps:
    """Implement `mixlens.load` for maps. `make` creates the maps from the saved fields."""
    arrays, about = read(path, _KIND)
    try:
        require_form(about, _DESCRIPTION, "the description")
        require_form(about["provenance"].get("steps", []), [str], "steps")
        residual, normalised, *adds_identity = about["rollout"]
        require_form([normalised, *adds_identity], [bool], "rollout")
        if residual is not None and not 0 <= residual <= 1:
            raise ValueError(f"rollout_residual is {residual}, not in [0, 1]")
        extras = {
            name: Extra(tuple(dims), arrays[f"extra.{name}"])
            for name, dims in about["extras"].items()
        }
        targets, sources = read_token_row(about["targets"]), read_token_row(about["sources"])
        layers, positions = tuple(about["layers"]), tuple(about["target_positions"])
        if not all(0 <= place < len(targets) for place in positions):
            raise ValueError("target_positions are outside the targets")
        if not all(0 <= layer <= _LAST_LAYER for layer in layers):
            raise ValueError(f"the layers {list(layers)} are out of range")
        properties = _facts(about)
        kinds = {**dict.fromkeys(properties, bool), "joined_by": (str, None)}
        require_form(properties, kinds, "facts")
        facts = Facts(**properties)
        _require_axes(extras, arrays["scores"])
        return make(
            scores=arrays["scores"],
            layers=layers,
            target_row=targets,
            source_row=sources,
            target_positions=positions,
            facts=facts,
            provenance=about["provenance"],
            rollout_residual=residual,
            rollout_normalised=normalised,
            rollout_adds_identity=any(adds_identity),
            measured=extras,
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{os.fspath(path)} cannot be read: its metadata does not match its arrays "
            f"({error!r}). Save it again."
        ) from error


def _require_axes(extras: Mapping[str, Extra], scores: np.ndarray) -> None:
    """Raise `ValueError` if the axes of an extra do not match the axes of the scores."""
    heads = {"head": scores.shape[1]} if scores.ndim == 4 else {}
    lengths = {**heads, **dict(zip(("layer", "target", "source"), _outer(scores), strict=True))}
    for name, extra in extras.items():
        shape = extra.values.shape
        if len(extra.dims) != len(shape) or len({*extra.dims}) != len(shape):
            raise ValueError(f"{name} has the axes {extra.dims} and the shape {shape}")
        for dim, length in zip(extra.dims, shape, strict=True):
            if lengths.get(dim, length) != length:
                raise ValueError(
                    f"{name} has length {length} along {dim}, but the scores have {lengths[dim]}"
                )


def _outer(scores: np.ndarray) -> tuple[int, int, int]:
    if scores.ndim not in (3, 4):
        raise ValueError(f"the scores have the shape {scores.shape}")
    return scores.shape[0], scores.shape[-2], scores.shape[-1]


def same(first: MixingMaps, second: MixingMaps) -> bool:
    """Return whether all arrays are bitwise equal and all other fields are equal."""
    is_same = _description(first) == _description(second)
    return is_same and same_arrays(_arrays(first), _arrays(second))


def same_arrays(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    """Return whether all arrays have the same name, type, shape and bits."""
    return first.keys() == second.keys() and all(
        array.dtype == other.dtype
        and array.shape == other.shape
        and array.tobytes() == other.tobytes()
        for array, other in ((first[name], second[name]) for name in first)
    )


def _arrays(maps: MixingMaps) -> dict[str, np.ndarray]:
    """Return the arrays of maps, by name."""
    return {
        "scores": maps.scores,
        **{f"extra.{name}": maps.measured[name].values for name in sorted(maps.measured)},
    }


def _description(maps: MixingMaps) -> dict[str, Any]:
    """Return all fields of maps except the arrays, as JSON values."""
    fields: dict[str, Any] = plain(
        {
            "layers": maps.layers,
            "targets": asdict(maps.target_row),
            "sources": asdict(maps.source_row),
            "target_positions": maps.target_positions,
            "facts": asdict(maps.facts),
            "provenance": maps.provenance,
            "rollout": [
                maps.rollout_residual,
                maps.rollout_normalised,
                maps.rollout_adds_identity,
            ],
            "extras": {name: extra.dims for name, extra in maps.measured.items()},
        }
    )
    return fields


def _facts(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of saved scores.

    In files of format 1, some of the properties are stored in the provenance and its steps.
    """
    saved, origin = dict(about["facts"]), about["provenance"]
    aggregations = [s for s in origin.get("steps", []) if s.startswith(("rollout", "flow", "mean"))]
    saved.setdefault("same_tokens", origin.get("kind", AttentionKind.SELF) == AttentionKind.SELF)
    saved.setdefault("reaches_input", origin.get("reaches_input", False))
    saved.setdefault("joined_by", aggregations[0] if aggregations else None)
    return saved


def read_token_row(saved: Mapping[str, Any]) -> TokenRow:
    """Create a `TokenRow` from its saved fields."""
    offsets = (
        None if saved["offsets"] is None else tuple((int(a), int(b)) for a, b in saved["offsets"])
    )
    special = None if saved["special"] is None else tuple(bool(mark) for mark in saved["special"])
    for each in (offsets, special):
        if each is not None and len(each) != len(saved["labels"]):
            raise ValueError("the numbers of labels, offsets and special tokens differ")
    if saved["text"] is not None and offsets is not None:
        if not all(0 <= a <= b <= len(saved["text"]) for a, b in offsets):
            raise ValueError("a token is outside the text")
    # Files of version 0.1 have none of these.
    saved_segments = saved.get("segments")
    segments = (
        None
        if saved_segments is None
        else tuple(Segment(str(n), int(a), int(b)) for n, a, b in saved_segments)
    )
    if segments is not None:
        ends = [0, *(part.stop for part in segments)]
        starts = [*(part.start for part in segments), len(saved["labels"])]
        if ends != starts or ends != sorted(ends):
            raise ValueError("the segments do not cover the tokens in order")
    seconds = saved.get("seconds")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"seconds is {seconds}. One token of audio takes longer than zero seconds")
    return TokenRow(
        tuple(saved["labels"]),
        saved["text"],
        offsets,
        special,
        segments,
        pictures=_pictures(saved),
        seconds=seconds,
    )


def _pictures(saved: Mapping[str, Any]) -> tuple[Picture, ...]:
    """Return the images of a saved `TokenRow`.

    Files of version 0.1 have at most one image, with a single grid of patches.
    """
    old = saved.get("picture")
    if old is not None:
        rows, columns, first = (int(old[name]) for name in ("rows", "columns", "first"))
        return (Picture(src=old["src"], grids=(PatchGrid(first, rows, columns, columns),)),)
    return tuple(
        Picture(
            src=each["src"],
            name=each["name"],
            grids=tuple(_grid(*grid) for grid in each["grids"]),
        )
        for each in saved.get("pictures", ())
    )


def _grid(first: int, rows: int, columns: int, stride: int, box: Sequence[float]) -> PatchGrid:
    left, top, right, bottom = map(float, box)
    return PatchGrid(first, rows, columns, stride, (left, top, right, bottom))


# ----------------------------------------------------------------------------------------- the file


def write(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, np.ndarray],
    content: Mapping[str, Any],
) -> None:
    """Write arrays and a description that can be stored as JSON. An existing file is replaced."""
    place = writable(path)
    contiguous = {
        name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()
    }
    text = json.dumps({"kind": kind, "checksum": _checksum(contiguous), **content})
    data = packed(contiguous, metadata={_VERSION: str(FORMAT), _CONTENT: text})
    write_whole(place, data)


def writable(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a file, with symbolic links resolved.

    Raise `CannotWrite` if no regular file can be written to this path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise CannotWrite(f"{type(path).__name__} is not a file name. Pass a path.")
    try:
        place = Path(os.path.realpath(path))
        place.stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise CannotWrite(
            f"{os.fspath(path)!r} cannot be written ({reason}). Pass a different path."
        ) from error
    if place.is_dir():
        raise CannotWrite(f"{path} is a folder. Pass a file name.")
    if place.exists() and not place.is_file():
        raise CannotWrite(f"{path} is a device or a pipe. Pass a file name.")
    if not place.parent.is_dir():
        raise CannotWrite(f"Folder {Path(path).parent} of {path} does not exist. Create it first.")
    return place


def write_whole(path: AnyPath, content: str | bytes | memoryview) -> None:
    """Write a file, or an object in an object store, atomically."""
    data = content.encode() if isinstance(content, str) else content
    if isinstance(path, ObjectPath):
        path.write_bytes(data)
        return
    place = writable(path)
    draft = place.with_name(f".{place.name[:_LONGEST_NAME]}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, draft)
        os.replace(draft, place)
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written ({error.strerror or error}). Free space, or pass a "
            "different path."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(*paths: AnyPath) -> None:
    """Remove temporary files that killed processes left behind for these paths.

    Call it only if no other process is writing to these paths.
    """
    local = [path for path in paths if isinstance(path, Path)]  # objects have no drafts
    names = {path.with_name(path.name[:_LONGEST_NAME]) for path in local}
    for folder in {path.parent for path in local}:
        for draft in folder.glob(".*.part"):
            if draft.with_name(draft.name[1:].rsplit(".", 2)[0]) in names:
                draft.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and description from a file that `write` wrote.

    Raise `InvalidInput` if the file cannot be read or holds a different kind of contents.
    """
    place = Path(path)
    if not os.path.isfile(place):  # False for a name that the system does not accept
        raise InvalidInput(f"{place} does not exist. Pass a file that mixlens wrote.")
    try:
        with safe_open(place, framework="np") as file:
            header: dict[str, str] = file.metadata() or {}
            content = _content(place, header, kind)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (the handle is not a dict)
    except (SafetensorError, OSError) as error:
        raise InvalidInput(
            f"{place} cannot be read: it is truncated, or mixlens did not write it ({error}). "
            "Save it again."
        ) from error
    if content.pop("checksum", None) != _checksum(arrays):
        raise InvalidInput(
            f"{place} cannot be read: its arrays were changed after it was written (the "
            "checksum differs). Save it again."
        )
    return arrays, content


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of contents of a file, as it was passed to `write`.

    Return None if mixlens did not write the file.
    """
    try:
        with safe_open(path, framework="np") as file:
            content = parse_json((file.metadata() or {})[_CONTENT])
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):
        return None
    kind = content.get("kind") if isinstance(content, dict) else None
    return kind if isinstance(kind, str) else None


def _content(place: Path, header: Mapping[str, str], kind: str) -> dict[str, Any]:
    version = header.get(_VERSION)
    if version is None or _CONTENT not in header:
        raise InvalidInput(
            f"{place} is a safetensors file that mixlens did not write. Pass a file that mixlens "
            "wrote."
        )
    if not version.isdecimal() or int(version) > FORMAT:
        raise InvalidInput(
            f"{place} has format {version}, but this version of mixlens reads formats up to "
            f"{FORMAT}. Install a newer version."
        )
    try:
        content = parse_json(header[_CONTENT])
    except ValueError as error:
        raise InvalidInput(
            f"{place} cannot be read: its description is damaged ({error}). Save it again."
        ) from error
    if not isinstance(content, dict) or content.pop("kind", None) != kind:
        raise InvalidInput(f"{place} does not hold {kind}. Pass a different file.")
    return content


def _checksum(arrays: Mapping[str, np.ndarray]) -> int:
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(arrays[name].tobytes(), zlib.crc32(name.encode(), checksum))
    return checksum
