"""Help pages of all commands. Options are grouped and listed without their types; examples come
last.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mixlens.cli.torchrun import require_command, written_paths

INPUT, MEASURE, OUTPUT, MODEL = "Input", "Measure", "Output", "Model"
TRAINING, SERVER, OTHER = "Training", "Server", "Other"
GROUPS = (INPUT, MEASURE, TRAINING, SERVER, OUTPUT, MODEL, OTHER)
WIDEST, LEFT = 80, 24  # width of a page, and of its option names


class HelpCommand(TyperCommand):
    """A command whose help page lists options by group."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. With torchrun, only the first process writes files."""
        require_command(ctx.info_name)
        ctx.params = written_paths(self.params, ctx.params, OUTPUT)
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        params = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        arguments = [param for param in params if param.param_type_name == "argument"]
        usage = " ".join([ctx.command_path, *map(_usage_of, arguments), "[OPTIONS]"])
        parts = [f"{_heading('Usage:')} {usage}", *_paragraphs(self.help or "")]
        for group in GROUPS:
            rows = [_row(param) for param in params if _group_of(param) == group]
            if rows:
                parts.append("\n".join([_heading(group), *_table(rows)]))
        examples = (self.epilog or "").strip().splitlines()
        if examples:
            parts.append("\n".join([_heading("Examples"), *(f"  {line}" for line in examples)]))
        formatter.write("\n\n".join(parts) + "\n")


class HelpGroup(TyperGroup):
    """The main program. Its help page lists commands by group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        parts = [f"{_heading('Usage:')} {ctx.command_path} COMMAND [OPTIONS]"]
        parts += _paragraphs(self.help or "")
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            line = (command.help or "").strip().partition("\n\n")[0]
            groups.setdefault(command.rich_help_panel, []).append((name, " ".join(line.split())))
        for group, rows in groups.items():
            parts.append("\n".join([_heading(group), *_table(rows, 15)]))
        rows = [_row(param) for param in self.get_params(ctx)]
        parts.append("\n".join([_heading("Options"), *_table(rows, 15)]))
        parts += _paragraphs(self.epilog or "")
        formatter.write("\n\n".join(parts) + "\n")


def _group_of(param: Any) -> str:
    return getattr(param, "rich_help_panel", None) or OTHER


def _usage_of(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _row(param: Any) -> tuple[str, str]:
    """Return the names of a parameter, its long option first, and its help text."""
    if param.param_type_name == "argument":
        return param.metavar or param.name.upper(), param.help or ""
    long = next(name for name in param.opts if name.startswith("--"))
    short = next((name for name in param.opts if not name.startswith("--")), None)
    names = long if short is None else f"{short}, {long}"
    is_flag = getattr(param, "is_flag", False) or param.name in ("help", "version", "debug")
    return names if is_flag else f"{names} {param.metavar}", param.help or ""


def _table(rows: Iterable[tuple[str, str]], left: int = LEFT) -> list[str]:
    """Format names and help texts as two columns. A name that is too wide gets a line of its
    own.
    """
    lines = []
    for name, text in rows:
        first, *more = wrap(text, _width() - left - 3) or [""]
        if len(name) > left - 1:
            lines.append(f"  {name}")
            more, name, first = [first, *more], "", ""
        if name:
            lines.append(f"  {name:<{left}} {first}".rstrip())
        lines += [" " * (left + 3) + line for line in more]
    return lines


def _paragraphs(text: str) -> list[str]:
    blocks = textwrap.dedent(text).strip().split("\n\n")
    return ["\n".join(wrap(block, _width())) for block in blocks if block.strip()]


def wrap(text: str, width: int) -> list[str]:
    """Wrap a text. Use narrower lines if the last line would be a single word."""
    text = " ".join(text.split())
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    for narrower in range(width - 1, width // 2, -1):
        if len(lines) < 2 or " " in lines[-1]:
            break
        narrower_lines = textwrap.wrap(
            text, narrower, break_long_words=False, break_on_hyphens=False
        )
        if len(narrower_lines) > len(lines):
            break
        lines = narrower_lines
    return lines


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size().columns)


def _heading(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else typer.style(text, bold=True)
