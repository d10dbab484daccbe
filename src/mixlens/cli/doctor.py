"""`mixlens doctor`: what was found in a model, and whether its parts add up."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.loading import DeviceOption, DtypeOption, JsonOption, RemoteCodeOption, lens_from
from mixlens.errors import MixlensError

if TYPE_CHECKING:
    from mixlens.recording.verification import Report


def doctor(
    model: Annotated[str | None, typer.Argument(help="Hub name or folder. Default: the bundled masked LM.")] = None,
    text: Annotated[str | None, typer.Option(help="The text to record. Default: a stock sentence.")] = None,
    target_text: Annotated[str | None, typer.Option(help="Encoder-decoder models: what the decoder is given.")] = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Show how a model is put together, and prove that its parts add up to what it computes. Exit status 1 if they do not."""
    try:
        lens = lens_from(model, device, dtype, trust_remote_code)
        report = lens.verify(text if text is None or target_text is None else (text, target_text))
    except MixlensError as error:
        if as_json:
            print(json.dumps({"ok": False, "error": type(error).__name__, "reason": str(error)}, indent=2))
        else:
            print(f"FAILED  {type(error).__name__}: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps({"ok": True, **report.to_dict()}, indent=2))
    else:
        _show(report)


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"[bold]{report.model}[/bold]  {report.dtype} on {report.device}, loaded with {report.attention_implementation} attention, "
        f"overheard through the {report.backend} back end, {report.tokens} tokens",
        highlight=False,
    )
    table = Table("stack", "layers", "block", "heads", "KV heads", "d_head", "d_model", "causal", "cross", "largest error")
    for stack in report.stacks:
        table.add_row(
            stack.name, str(stack.layers), stack.style, str(stack.heads), str(stack.kv_heads), str(stack.d_head), str(stack.d_model),
            "yes" if stack.causal else "no", "yes" if stack.cross_attention else "no", f"{max(stack.errors):.1e}",
        )  # fmt: skip
    console.print(table)
    for stack in report.stacks:
        errors = "  ".join(f"{number}: {error:.1e}" for number, error in enumerate(stack.errors))
        console.print(f"reconstruction error by layer, {stack.name}: {errors}", highlight=False)
    console.print(
        f"native output: largest difference of a layer {report.native_error:.1e} (rounding in {report.dtype}: up to {report.tolerance:.0e})",
        highlight=False,
    )
    applies = [name for name, reason in report.measures.items() if reason is None]
    console.print(f"measures that apply (sites: {', '.join(report.sites)}): {', '.join(applies)}", highlight=False)
    for name, reason in report.measures.items():
        if reason is not None:
            console.print(f"  not {name}: {reason}", highlight=False, markup=False)
    console.print("[green]verified[/green]: the parts add up to what the model computes")
