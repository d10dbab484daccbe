"""`mixlens finetune`: train a model and save it for the other commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import INPUT, OUTPUT, TRAINING
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    dataset_from,
    lens_from,
)
from mixlens.cli.output import print_json
from mixlens.cli.progress import heartbeat
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.datasets import Dataset
    from mixlens.finetuning import Settings


class Kind(StrEnum):
    """Task that a model can be fine-tuned for."""

    prompt = "prompt"
    classification = "classification"


EXAMPLES = """
mixlens finetune prompt --out tuned
mixlens finetune classification --data train.tsv --held-out dev.tsv --out tuned
"""
_TaskArgument = Annotated[
    Kind,
    typer.Argument(
        metavar="TASK",
        rich_help_panel=INPUT,
        help="prompt or classification.",
    ),
]
_OutOption = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="New folder for the model. Required. The same command resumes an interrupted run.",
    ),
]
_DataOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        rich_help_panel=INPUT,
        help="File, folder or hf:NAME. Default: the bundled agreement sentences.",
    ),
]
_HeldOutOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        rich_help_panel=INPUT,
        help="Evaluation data for classification. Default: a tenth of --data.",
    ),
]
_EpochsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Epochs. Default: 5, or 3 for classification.",
    ),
]
_LrOption = Annotated[
    float | None,
    typer.Option(
        metavar="RATE",
        rich_help_panel=TRAINING,
        help="Learning rate. Default: 3e-5, or 2e-5 for classification.",
    ),
]
_BatchOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Batch size. Default: 64, or 32 for classification.",
    ),
]
_PatienceOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Stop after N epochs without a lower held-out loss.",
    ),
]
_SeedOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Seed of the split, the new head, the order and dropout. Default: 0.",
        min=0,
    ),
]
_SampleOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=INPUT, help="Number of examples to draw. Default: all."
    ),
]


def finetune(
    task: _TaskArgument,
    out: _OutOption,
    data: _DataOption = None,
    held_out: _HeldOutOption = None,
    epochs: _EpochsOption = None,
    lr: _LrOption = None,
    batch: _BatchOption = None,
    patience: _PatienceOption = None,
    seed: _SeedOption = 0,
    sample: _SampleOption = None,
    model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Fine-tune a model for the other commands.

    Train it on agreement sentences (prompt) or as a text classifier (classification).
    """
    lens = lens_from(
        model, device, "float64" if dtype == "float64" else "float32", trust_remote_code
    )
    from mixlens.finetuning import classifier_finetuned, prompt_finetuned
    from mixlens.finetuning.classification import SETTINGS as CLASSIFICATION
    from mixlens.finetuning.prompt import SETTINGS as PROMPT

    values = {
        "epochs": epochs,
        "rate": lr,
        "batch": batch,
        "patience": patience,
        "seed": seed,
        "dtype": dtype,
    }
    examples = _read_data(task, data, sample, seed)
    if task is Kind.prompt:
        if held_out is not None:
            raise InvalidInput(
                "--held-out is only for classification. Drop it: the task prompt evaluates on "
                "half of --data."
            )
        with heartbeat("fine-tuning"):
            trained = prompt_finetuned(
                lens, examples, settings=_with(PROMPT, values), out=out, source=examples.origin
            )
    else:
        held_out_examples = None if held_out is None else _read_data(task, held_out, None, seed)
        with heartbeat("fine-tuning"):
            trained = classifier_finetuned(
                lens,
                examples,
                held_out_examples,
                settings=_with(CLASSIFICATION, values),
                out=out,
                source=examples.origin,
                held_out_source=None if held_out_examples is None else held_out_examples.origin,
            )
    if as_json:
        print_json(trained.report)
    else:
        _show(trained.report, out)


def _read_data(task: Kind, data: str | None, sample: int | None, seed: int) -> Dataset:
    if data is None and task is not Kind.prompt:
        raise InvalidInput("classification needs --data. Pass a file with texts and labels.")
    return dataset_from(
        data, "agreement" if task is Kind.prompt else "classification", sample=sample, seed=seed
    )


def _with(settings: Settings, values: dict[str, Any]) -> Settings:
    from dataclasses import replace

    return replace(settings, **{name: value for name, value in values.items() if value is not None})


def _show(report: dict[str, Any], out: Path) -> None:
    scores, count = report["scores"], report["data"]["held_out"]
    print(f"on {count} held-out examples  before   after")
    for name, after in scores["after"].items():
        if isinstance(after, float):
            print(f"{name:<{len(str(count)) + 20}}{scores['before'][name]:9.4f}{after:8.4f}")
    print(f"Saved in {out}. Use it with --model {out}.")
