"""`mixlens doctor`: print the structure of a model and verify its decomposition."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.exit_codes import WRONG_USAGE, exit_code, explain_error
from mixlens.cli.help import INPUT, MODEL
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.output import by_reason, print_json
from mixlens.cli.progress import heartbeat
from mixlens.cli.texts import TargetTextOption
from mixlens.errors import InvalidInput, MixlensError, UnsupportedModel

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.verification import Report


_COVERAGE = "docs/coverage.md lists which measures work on each architecture of transformers."
EXAMPLES = """
mixlens doctor
mixlens doctor gpt2 --tokens 4096
"""
_ModelArgument = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", rich_help_panel=MODEL, help="The same as --model."),
]
_TextOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", rich_help_panel=INPUT, help="Text to record. Default: a fixed sentence."
    ),
]
_TokensOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        rich_help_panel=INPUT,
        help="Estimate memory and time of each measure for a text of N tokens.",
        min=1,
    ),
]


def doctor(
    model: _ModelArgument = None,
    text: _TextOption = None,
    target_text: TargetTextOption = None,
    tokens: _TokensOption = None,
    named_model: ModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Check that mixlens can measure a model correctly.

    The exit code is 1 if the decomposition does not reproduce the model's activations.
    """
    if model is not None and named_model is not None:
        raise InvalidInput(f"Got two models, '{model}' and '{named_model}'. Pass one with --model.")
    model = named_model if model is None else model
    if target_text is not None and text is None:
        raise InvalidInput("--target-text needs --text. Pass both.")
    try:
        lens = lens_from(model, device, dtype, trust_remote_code, reads_text=text is not None)
        with heartbeat("verifying"):
            report = lens.verify(
                text if text is None or target_text is None else (text, target_text)
            )
    except MixlensError as error:
        if as_json:
            print_json({"ok": False, "error": type(error).__name__, "reason": str(error)})
        else:
            wrong = exit_code(error) == WRONG_USAGE
            line = explain_error(error) if wrong else f"FAILED  {type(error).__name__}: {error}"
            print(line, file=sys.stderr)
            if isinstance(error, UnsupportedModel):
                print(_COVERAGE, file=sys.stderr)
        raise typer.Exit(exit_code(error)) from None
    needs = {} if tokens is None else _needs(lens, report, tokens)
    positions = _positions(lens)
    if as_json:
        extra = {"positions": positions, "needs": needs} if needs else {}
        print_json({"ok": True, **report.to_dict(), **extra})
        return
    _show(report)
    if tokens is not None:
        _show_needs(needs, tokens, positions)


def _positions(lens: Lens) -> int | None:
    """Return the maximum number of tokens that the model accepts, or None if there is no limit."""
    from mixlens.text.input_checks import position_limit

    return position_limit(lens.model)


def _needs(lens: Lens, report: Report, tokens: int) -> dict[str, dict[str, Any]]:
    """Return the memory and time of every applicable measure, estimated from shapes."""
    from mixlens.measuring.estimates import estimate_of, products_per_second
    from mixlens.model.placement import available_to, entry_device

    device, needs = entry_device(lens.model), {}
    available = available_to(lens.model)
    speed = products_per_second(device, next(lens.model.parameters()).dtype)
    for name in (name for name, reason in report.measures.items() if reason is None):
        estimate = estimate_of(lens.model, name, tokens)
        one = estimate_of(lens.model, name, tokens, targets=1)
        needs[name] = {
            "bytes": estimate.needed,
            "bytes of one target": one.needed if one.by_rows else None,
            "fits": estimate.needed <= available,
            "cost": estimate.spec.cost,
            "seconds of a forward pass": estimate.products / speed,
        }
    return needs


def _show_needs(needs: Mapping[str, Mapping[str, Any]], tokens: int, positions: int | None) -> None:
    from mixlens.measuring.estimates import format_bytes

    seconds = next(iter(needs.values()))["seconds of a forward pass"]
    if positions is not None and tokens > positions:
        print(f"\n{tokens:,} tokens are more than the {positions:,} positions of the model")
    print(f"\n{tokens:,} tokens, a forward pass of about {seconds:.2g} s. Memory beyond weights:")
    for name, need in needs.items():
        fits = "" if need["fits"] else "  does not fit"
        bytes_of_one = need["bytes of one target"]
        one = "" if bytes_of_one is None else f"; {format_bytes(bytes_of_one)} for one target"
        print(f"  {name:26} {format_bytes(need['bytes'])}{fits}{one}. {need['cost']}")


def _show(report: Report) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{report.model}[/bold]  {report.dtype} on {report.device}, {report.tokens} tokens"
    )
    console.print(
        f"attention    loaded as {report.attention_implementation}, captured through the "
        f"{report.backend} backend"
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
    refused = {name: reason for name, reason in report.measures.items() if reason is not None}
    for line in by_reason(refused):
        console.print(f"  not {line}", markup=False)
    for where, reason in report.left_out.items():
        console.print(f"unsupported  {where}: {reason}", markup=False)
    for where, reason in report.open.items():
        console.print(f"open         {where}: {reason}", markup=False)
    if report.left_out or report.open:
        console.print(_COVERAGE, style="dim")
    single_target = [site for site, reason in report.from_maps.items() if reason is None]
    if single_target:
        console.print(f"fast path    single targets of {', '.join(single_target)} need no full map")
    for site, why in report.from_maps.items():
        if why is not None:
            console.print(
                f"slow path    named targets of {site} need a full map: {why}", markup=False
            )
    for where, reason in report.slow_paths.items():
        console.print(f"slower       {where}: {reason}", markup=False)
    what = "the measured parts" if report.left_out or report.open else "the parts"
    console.print(f"[green]verified[/green]     {what} add up to the output of the model")
