"""`mixlens doctor`: what was found in a model, and whether its parts add up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.loading import DeviceOption, DtypeOption, JsonOption, RemoteCodeOption, lens_from
from mixlens.cli.output import print_json
from mixlens.cli.texts import TargetTextOption
from mixlens.errors import InvalidInput, MixlensError, UnsupportedModel

if TYPE_CHECKING:
    from mixlens.recording.verification import Report


_COVERAGE = "docs/coverage.md says what is measured on each architecture of transformers."


def doctor(
    model: Annotated[
        str | None, typer.Argument(help="Hub name or folder. Default: the bundled masked LM.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The text to record. Default: a stock sentence.")
    ] = None,
    target_text: TargetTextOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show how a model is put together, and prove that its parts add up to what it computes.

    Exit status 1 if they do not.
    """
    if target_text is not None and text is None:
        raise InvalidInput("--target-text needs --text, the text that it belongs to")
    try:
        lens = lens_from(model, device, dtype, trust_remote_code)
        report = lens.verify(text if text is None or target_text is None else (text, target_text))
    except MixlensError as error:
        if as_json:
            print_json({"ok": False, "error": type(error).__name__, "reason": str(error)})
        else:
            print(f"FAILED  {type(error).__name__}: {error}", file=sys.stderr)
            if isinstance(error, UnsupportedModel):
                print(_COVERAGE, file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        print_json({"ok": True, **report.to_dict()})
    else:
        _show(report)


def _show(report: Report) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{report.model}[/bold]  {report.dtype} on {report.device}, {report.tokens} tokens"
    )
    console.print(
        f"attention    loaded as {report.attention_implementation}, overheard through the"
        f" {report.backend} back end"
    )
    for stack in report.stacks:
        groups = "" if stack.kv_heads == stack.heads else f" on {stack.kv_heads} KV heads"
        traits = [
            (
                f"{stack.style}-norm blocks"
                if stack.style in ("pre", "post")
                else f"{stack.style} blocks"
            )
        ]
        traits += ["causal"] * stack.causal + ["cross-attention"] * stack.cross_attention
        console.print(
            f"{stack.name:12} {stack.layers} layers, d_model {stack.d_model}, {stack.heads} heads"
            f" of {stack.d_head}{groups}; " + ", ".join(traits)
        )
    for stack in report.stacks:
        console.print(f"{stack.name}: reconstruction error of each layer (relative)", style="dim")
        for start in range(0, len(stack.errors), 8):
            numbered = enumerate(stack.errors[start : start + 8], start)
            console.print(
                "  " + "  ".join(f"{number:2d} {error:.0e}" for number, error in numbered)
            )
    console.print(
        f"native output differs by {report.native_error:.0e} at most (rounding in {report.dtype}:"
        f" up to {report.tolerance:.0e})"
    )
    applies = [name for name, reason in report.measures.items() if reason is None]
    console.print(f"sites        {', '.join(report.sites)}")
    console.print(f"measures     {', '.join(applies)}")
    for name, reason in report.measures.items():
        if reason is not None:
            console.print(f"  not {name}: {reason}", markup=False)
    for where, reason in report.left_out.items():
        console.print(f"left out     {where}: {reason}", markup=False)
    for where, reason in report.slow_paths.items():
        console.print(f"slower       {where}: {reason}", markup=False)
    what = "the parts of what is measured" if report.left_out else "the parts"
    console.print(f"[green]verified[/green]     {what} add up to what the model computes")
