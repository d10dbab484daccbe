"""Save the training state after each epoch in one file. Weights and optimizer state are stored as
safetensors, the rest as JSON in the header. Loading a checkpoint never executes code.

The file is replaced atomically, so that an interrupted save leaves the previous checkpoint intact.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mixlens.errors import InvalidInput
from mixlens.finetuning.loop import Training
from mixlens.finetuning.scoring import Item, Settings
from mixlens.maps import storage

NAME = "checkpoint.safetensors"
_KIND = "a fine-tuning checkpoint"


def save(training: Training, folder: Path, run: str) -> None:
    """Save the training state. `run` is the hash that `fingerprint` returns for this run."""
    tensors = {f"model/{name}": value for name, value in training.model.state_dict().items()}
    for name, parameter in training.model.named_parameters():
        for key, value in training.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{name}/{key}"] = value
    if training.best is not None:
        tensors.update({f"best/{name}": value for name, value in training.best.items()})
    arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
    storage.write(folder / NAME, _KIND, arrays, {"run": run, "history": training.history})


def resume(training: Training, folder: Path, run: str) -> bool:
    """Restore the training state from the checkpoint in `folder`, and return True.

    Return False if the folder has no checkpoint.
    """
    if not (folder / NAME).exists():
        return False
    arrays, content = storage.read(folder / NAME, _KIND)
    if content["run"] != run:
        raise InvalidInput(
            f"{folder} holds the checkpoint of a different run (other data, model or "
            f"settings). Pass a different folder, or remove {NAME}."
        )
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "best": {}}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = torch.from_numpy(array)
    training.model.load_state_dict(parts["model"])
    for name, parameter in training.model.named_parameters():
        saved = {
            key.removeprefix(f"{name}/"): value
            for key, value in parts["optimizer"].items()
            if key.startswith(f"{name}/")
        }
        if saved:  # the step count stays on the CPU, the moments move to the device of the weights
            training.optimizer.state[parameter] = {
                k: v if v.dim() == 0 else v.to(parameter.device) for k, v in saved.items()
            }
    training.best = parts["best"] or None
    training.history = content["history"]
    return True


def fingerprint(
    model: Any, items: Sequence[Item], held_out: Sequence[Item], settings: Settings
) -> str:
    """Return a hash of the model, the examples and the settings, which identifies a run."""
    weights = 0
    for name, value in sorted(model.state_dict().items()):
        weights = zlib.crc32(
            value.detach().cpu().numpy().tobytes(), zlib.crc32(name.encode(), weights)
        )
    about = [
        asdict(settings),
        weights,
        [[asdict(item) for item in part] for part in (items, held_out)],
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()
