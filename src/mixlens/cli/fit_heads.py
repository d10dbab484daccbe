"""`mixlens fit-heads`: learn a weight for each attention head, for the measure `learned_heads`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mixlens.cli.help import INPUT, OUTPUT, TRAINING
from mixlens.cli.loading import (
    CausalModelOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.output import print_json
from mixlens.cli.progress import PlainLines
from mixlens.errors import InvalidInput, format_count

EXAMPLES = """
mixlens fit-heads prompts.jsonl --out heads.safetensors
mixlens fit-heads prompts.jsonl --features attention_norm --out h.safetensors
"""
_DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        rich_help_panel=INPUT,
        help="File with one JSON object per line (answer, and prompt, messages or documents), or "
        "generated prompts such as generated:fact.",
    ),
]
_OutOption = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="File for the weights (.safetensors). Required.",
    ),
]
_FeaturesOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=TRAINING,
        help="Measure whose per-head scores are weighted: attention, attention_norm,"
        " contribution_weights or flow_routes. Default: attention.",
    ),
]
_MasksOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=TRAINING,
        help="Number of random masks per prompt. Each takes one forward pass. Default: 32.",
        min=3,
    ),
]
_StepsOption = Annotated[
    int,
    typer.Option(
        metavar="N", rich_help_panel=TRAINING, help="Steps of the fit. Default: 1000.", min=1
    ),
]
_SeedOption = Annotated[
    int,
    typer.Option(metavar="N", rich_help_panel=TRAINING, help="Seed of the fit. Default: 0.", min=0),
]


def fit_heads_command(
    data: _DataArgument,
    out: _OutOption,
    features: _FeaturesOption = "attention",
    masks: _MasksOption = 32,
    steps: _StepsOption = 1000,
    seed: _SeedOption = 0,
    model: CausalModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Learn a weight for each attention head from answers."""
    from mixlens.answers.fit_heads import fit_heads

    if out.suffix != ".safetensors":
        raise InvalidInput(f"--out {out} does not end in .safetensors. Choose a name that does.")
    if not out.parent.is_dir():
        raise InvalidInput(f"--out {out}: the folder {out.parent} does not exist. Create it.")
    lens = lens_from(model, device, dtype, trust_remote_code, reads_text=True, bundled="causal")
    lines = PlainLines()
    heads = fit_heads(
        lens,
        data,
        features=features,
        masks=masks,
        steps=steps,
        seed=seed,
        keep=out.with_suffix(".examples"),
        progress=lambda done, total: lines.show("prompts", done, total),
    )
    heads.save(out)
    about = dict(heads.about)
    if as_json:
        print_json({"out": str(out), "features": features, **about})
        return
    prompts, targets = (
        format_count(about["prompts"], "prompt"),
        format_count(about["targets"], "target"),
    )
    print(f"{about['used']} of {prompts}, {targets}")
    print(f"correlation with the log-odds of the masks used in the fit: {about['correlation']:.2f}")
    print(
        f"weights of {heads.weights.shape[0]} layers with {heads.weights.shape[1]} heads in {out}"
    )
