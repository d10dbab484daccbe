"""The result of fine-tuning: the model, a report, and the folder in which both are saved."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mixlens.errors import InvalidInput
from mixlens.finetuning import checkpoint
from mixlens.finetuning.loop import Training, log
from mixlens.finetuning.scoring import ClassChoices, Item, Objective, Settings, score_choices
from mixlens.lens import Lens
from mixlens.maps.provenance import model_name, versions
from mixlens.maps.storage import remove_drafts, write_whole
from mixlens.model.loading import quiet_loading

DESCRIPTION = "mixlens_finetuning.json"
Measured = Callable[[Sequence[Item], ClassChoices], dict[str, Any]]


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model with its tokenizer and a report.

    The report lists data, settings, scores before and after training, and versions.
    """

    lens: Lens
    report: dict[str, Any]


def working_copy(model: Any, settings: Settings, in_place: bool) -> Any:
    """Return the model to train, in float32 (or float64 if the settings request it).

    It is a copy unless `in_place` is True.
    """
    dtype = torch.float64 if settings.dtype == "float64" else torch.float32
    return (model if in_place else copy.deepcopy(model)).to(dtype)


def finetune_and_evaluate(
    kind: str,
    model: Any,
    tokenizer: Any,
    items: tuple[Sequence[Item], Sequence[Item]],
    task: Objective,
    settings: Settings,
    evaluate: Measured,
    about: Mapping[str, Any],
    out: str | os.PathLike[str] | None,
) -> Finetuned:
    """Train on the first list of items, and evaluate on the second before and after training.

    An interrupted run with the same `out` is resumed.
    """
    train, held_out = items
    folder = None if out is None else _prepare_folder(Path(out))
    run = checkpoint.fingerprint(model, train, held_out, settings)
    log(f"{len(train)} training examples, {len(held_out)} held out")
    before = evaluate(held_out, score_choices(model, held_out, task, settings))
    log("before: " + format_scores(before))
    training = Training(model, train, held_out, task, settings)
    if folder is not None and checkpoint.resume(training, folder, run):
        log(f"resuming after epoch {len(training.history)}")
    training.run(None if folder is None else lambda now: checkpoint.save(now, folder, run))
    after = evaluate(held_out, score_choices(model, held_out, task, settings))
    log("after: " + format_scores(after))
    report = {
        "kind": kind,
        "model": {"class": type(model).__name__, "from": model_name(model)},
        "settings": asdict(settings),
        "data": {"trained_on": len(train), "held_out": len(held_out), **about},
        "scores": {"before": before, "after": after},
        "chosen_epoch": (
            training.best_epoch if settings.patience is not None else len(training.history)
        ),
        "history": training.history,
        "versions": versions(),
    }
    if folder is not None:
        _save(model, tokenizer, report, folder)
    return Finetuned(Lens(model, tokenizer), report)


def format_scores(scores: Mapping[str, Any]) -> str:
    """Format the scalar scores as one line of text."""
    return ", ".join(
        f"{name} {value:.4f}" for name, value in scores.items() if isinstance(value, float)
    )


def _prepare_folder(folder: Path) -> Path:
    """Create the output folder if needed, and return it.

    Raise an error unless the folder is empty or contains an unfinished run.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file. Pass a folder.")
    remove_drafts(folder / checkpoint.NAME, folder / DESCRIPTION)
    if not (folder / checkpoint.NAME).exists() and folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty. Pass a new folder for the fine-tuned model.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"Folder {folder} cannot be created ({error.strerror}). Pass a different one."
        ) from error
    return folder


def _save(model: Any, tokenizer: Any, report: Mapping[str, Any], folder: Path) -> None:
    """Save the model so that `Lens.from_pretrained` can load it.

    The checkpoint is removed last, so that an interrupted save can be repeated.
    """
    with quiet_loading():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_whole(folder / DESCRIPTION, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    (folder / checkpoint.NAME).unlink(missing_ok=True)
    model.config._name_or_path = os.fspath(folder)
