"""Define the options of commands that load a model, and load the named models and data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MODEL, OUTPUT
from mixlens.cli.torchrun import loading_options
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.datasets import Dataset
    from mixlens.lens import Lens
    from mixlens.runs.observing import Workers

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        rich_help_panel=MODEL,
        help="Hub name or folder. Default: the bundled masked language model.",
    ),
]
PromptedModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        rich_help_panel=MODEL,
        help="Hub name or folder. Default: the bundled masked language model, or the causal one"
        " with --generate or --answer.",
    ),
]
CausalModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        rich_help_panel=MODEL,
        help="Hub name or folder. Default: the bundled causal language model.",
    ),
]
OtherModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=MODEL,
        help="A second model, for protocols that compare two.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        rich_help_panel=MODEL,
        help="cpu (default), cuda, cuda:1, mps or another device.",
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option(
        metavar="DTYPE",
        rich_help_panel=MODEL,
        help="float32 (default), float64, bfloat16 or float16.",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON instead of text."),
]
RemoteCodeOption = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        rich_help_panel=MODEL,
        help="Run Python code that comes with the checkpoint.",
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=MODEL,
        help="Run workers as local processes (local) or on Ray (ray). Default: local.",
    ),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        help="Number of worker processes; each loads the model. Default: 1.",
        min=1,
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=MODEL,
        help="Threads per worker. Default: PyTorch's default.",
        min=1,
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        rich_help_panel=OUTPUT,
        help="Discard earlier results in the output folder and start over.",
    ),
]

DTYPES = ("float32", "float64", "bfloat16", "float16")


def lens_from(
    model: str | None,
    device: str,
    dtype: str,
    trust_remote_code: bool = False,
    *,
    reads_text: bool = False,
    bundled: str = "masked",
) -> Lens:
    """Load the named model, or a bundled one with a note on stderr.

    If `reads_text` is set, the model must have a tokenizer.
    """
    import logging

    if dtype not in DTYPES:
        raise InvalidInput(f"Unknown --dtype {dtype!r}. Choose one of {', '.join(DTYPES)}.")
    import torch
    import transformers

    from mixlens.lens import Lens
    from mixlens.model.distributed import processes_of

    quiet: Any = transformers.utils.logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    options: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if trust_remote_code:
        options["trust_remote_code"] = True
    if model is None:
        print(f"no --model given: using the bundled {bundled} language model", file=sys.stderr)
        lens = Lens.bundled(bundled, **options)
    else:
        lens = Lens.from_pretrained(model, **options, **loading_options())
    if reads_text and lens.tokenizer is None:
        raise InvalidInput(
            f"--model {model} has no tokenizer files. Add them to its folder, for example"
            " tokenizer.json."
        )
    if processes_of(lens.model) is not None:  # which transformers has put on its devices
        return lens
    try:
        lens.model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(
            f"--device {device} is unknown or not available. Pass cpu, cuda or mps."
        ) from error
    return lens


def second_lens_from(
    model: str | None, device: str, dtype: str, trust_remote_code: bool
) -> Lens | None:
    """Return the second model for commands that compare two, or None if --other-model is not
    set.
    """
    return None if model is None else lens_from(model, device, dtype, trust_remote_code)


def workers_from(
    engine: str,
    workers: int,
    threads: int | None,
    model: str | None,
    other_model: str | None,
    device: str,
    dtype: str,
    trust_remote_code: bool,
) -> Workers:
    """Return the engine of a run and the models that its workers load. Also set the number of
    threads of this process.
    """
    import torch

    from mixlens.runs.engines import Engine
    from mixlens.runs.job import ModelSource
    from mixlens.runs.observing import Workers

    how: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "trust_remote_code": trust_remote_code,
        "threads": threads,
    }
    if threads is not None:
        torch.set_num_threads(threads)
    return Workers(
        engine=Engine(kind=engine, workers=workers, threads=threads, device=device),
        source=ModelSource(name=model, **how),
        other=None if other_model is None else ModelSource(name=other_model, **how),
    )


def dataset_from(
    data: str | None, kind: str | None = None, *, sample: int | None = None, seed: int = 0
) -> Dataset:
    """Return the named data set, or the bundled sentences with a note on stderr.

    Skipped records are reported on stderr too.
    """
    from mixlens import datasets as corpus

    if data is None:
        print("no --data given: using the bundled agreement sentences", file=sys.stderr)
        return corpus.bundled() if sample is None else corpus.bundled().sample(sample, seed)
    dataset = corpus.read(data, kind, sample=sample, seed=seed)
    if dataset.errors:
        name, reason = dataset.errors[0]
        records = f"{len(dataset.errors)} row" + "s" * (len(dataset.errors) > 1)
        print(f"Skipped {records} of {data}. First error: {name}: {reason}", file=sys.stderr)
    return dataset
