"""`mixlens compare`: compare all measures for one target. With `--cue SOURCE`, measures are sorted
by the rank that they give to this source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixlens.cli.help import MEASURE, OUTPUT
from mixlens.cli.loading import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    PromptedModelOption,
    RemoteCodeOption,
    lens_from,
)
from mixlens.cli.map_measuring import explaining_ranges
from mixlens.cli.options import number_or_name, require_spec, split_names
from mixlens.cli.output import by_reason, check_writable, print_json
from mixlens.cli.pictures import FigureOption, HtmlOption, check_figure, write_figure
from mixlens.cli.prompting import (
    AnswerOption,
    ExplainEndOption,
    GenerateOption,
    NoSinkOption,
    NoTemplateOption,
    PromptFileOption,
    SegmentsOption,
    read_prompting,
)
from mixlens.cli.span_targets import SpanOption, check_span, span_arguments
from mixlens.cli.texts import (
    SiteOption,
    TargetTextOption,
    TextArgument,
    TextFileOption,
    WordsOption,
)
from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mixlens.maps.comparison import Comparison
    from mixlens.measuring.comparing import Progress


RANDOM = "random"
DUPLICATE = 0.95  # smallest rank correlation of measures that share a column
EXAMPLES = """
mixlens compare "The keys to the cabinet [MASK] old." --cue keys
mixlens compare "The keys [MASK] old." --word are --foil is --html page.html
mixlens compare "It was a delight." --model my-classifier --label positive
"""
_TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        rich_help_panel=MEASURE,
        help="Target token (dogs#2 is the second dogs) or its position. Default: the last token of"
        " an answer, else [MASK], the first token of a classifier, or the last token.",
    ),
]
_CueOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        rich_help_panel=MEASURE,
        help="Word that should matter most; measures are sorted by the rank that they give it.",
    ),
]
_WordOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        rich_help_panel=MEASURE,
        help="Output word for measures that explain an output. Default: the most likely one.",
    ),
]
_LabelOption = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        rich_help_panel=MEASURE,
        help="Output class, for a classifier. Default: the predicted class.",
    ),
]
_FoilOption = Annotated[
    str | None,
    typer.Option(metavar="WORD", rich_help_panel=MEASURE, help="Contrast word or class."),
]
_MeasuresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "--measures",
        metavar="NAMES",
        rich_help_panel=MEASURE,
        help="Compare only these measures, separated by commas.",
    ),
]
_BudgetOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=MEASURE,
        help="Skip measures that would take longer. Default: 30.",
        min=0,
    ),
]
_LayersOption = Annotated[
    str | None,
    typer.Option(
        "--layer",
        "--layers",
        metavar="LAYER",
        rich_help_panel=MEASURE,
        help="How to aggregate layers: mean, rollout, last, or the number of one layer, counted "
        "from 0. Default: mean.",
    ),
]
_KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND", rich_help_panel=OUTPUT, help="Kind of figure: sources or agreement."
    ),
]


def compare(
    text: TextArgument = None,
    text_file: TextFileOption = None,
    prompt_file: PromptFileOption = None,
    generate: GenerateOption = None,
    answer: AnswerOption = None,
    no_chat_template: NoTemplateOption = False,
    explain_end: ExplainEndOption = False,
    target: _TargetOption = None,
    span: SpanOption = None,
    cue: _CueOption = None,
    word: _WordOption = None,
    label: _LabelOption = None,
    foil: _FoilOption = None,
    measures: _MeasuresOption = None,
    budget: _BudgetOption = 30,
    layers: _LayersOption = None,
    words: WordsOption = False,
    segments: SegmentsOption = None,
    no_sink: NoSinkOption = False,
    site: SiteOption = None,
    target_text: TargetTextOption = None,
    figure: FigureOption = None,
    kind: _KindOption = None,
    html: HtmlOption = None,
    model: PromptedModelOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
    trust_remote_code: RemoteCodeOption = False,
) -> None:
    """Compare all measures for one target."""
    prompt = read_prompting(
        text,
        text_file,
        prompt_file,
        target_text,
        generate=generate,
        answer=answer,
        segments=segments,
        sink=not no_sink,
        chat_template=not no_chat_template,
        explain_end=explain_end,
    )
    if no_sink and not prompt.divides:
        raise InvalidInput("--no-sink needs --segments in this command. Pass both.")
    check_span(span)
    check_figure(figure, kind, _kinds)
    check_writable(html)
    only, aggregate = _check_names(measures), _check_aggregate(layers)
    explain = {"word": word, "label": label, "foil": foil}
    lens = lens_from(
        model, device, dtype, trust_remote_code, reads_text=True, bundled=prompt.bundled
    )
    prompt = prompt.written_by(lens.tokenizer)
    recording = prompt.record(lens, site) if prompt.continues else None
    target_options: dict[str, Any] = {"target": None if target is None else number_or_name(target)}
    if span is not None:
        span_options = span_arguments(span, None, target, lens, prompt.inputs, recording, site)
        target_options = {"target": span_options.get("targets"), "span": span_options["span"]}
    with _progress() as progress, explaining_ranges(None if span else target):
        comparison = lens.compare(
            prompt.inputs if recording is None else recording,
            **target_options,
            site=site,
            aggregate=aggregate,
            only=only,
            words=words,
            explain={name: value for name, value in explain.items() if value is not None},
            cue=None if cue is None else number_or_name(cue),
            budget=budget,
            progress=progress,
        )
    if prompt.divides:
        comparison = comparison.segments(prompt.by, sink=prompt.sink)
    if figure is not None:
        write_figure(figure, lambda: comparison.plot(kind))
    if html is not None:
        comparison.to_html(html)
        typer.echo(f"page: {html}", err=True)
    answer_text = None if recording is None else recording.answer
    if as_json:
        print_json({**comparison.to_dict(), "answer": answer_text})
    else:
        prompt.print_answer(answer_text)
        show(comparison)


def _kinds() -> Collection[str]:
    from mixlens.views.compared import KINDS

    return KINDS


def _check_names(measures: list[str] | None) -> list[str] | None:
    """Return the names of the measures, or None for all. Raise if one of them is unknown."""
    names = split_names(measures)
    for name in names or ():
        require_spec(name)
    return names


def _check_aggregate(layers: str | None) -> int | str:
    """Return how to aggregate layers: the name of an aggregation, or a layer number."""
    from mixlens.maps.one_row import AGGREGATES, DEFAULT_READING

    if layers is None:
        return DEFAULT_READING
    aggregate = number_or_name(layers)
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"Unknown --layer {layers!r}. Choose one of {', '.join(AGGREGATES)}, or pass a number."
        )
    return aggregate


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """Show a progress bar on stderr, or an occasional line if stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from mixlens.cli.progress import PlainLines

    console, plain = Console(stderr=True), PlainLines()
    parts = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("recording", total=None)

        def update(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)
            if not console.is_terminal:
                plain.show(name, done, total)

        yield update


def show(comparison: Comparison, console: Console | None = None) -> None:
    """Print a table with one column per group of measures, then the measures of each group."""
    from rich.console import Console

    from mixlens.views import terminal
    from mixlens.views.labels import printable

    console = console or Console(highlight=False)
    groups = grouped_measures(comparison)
    console.print(
        f"Sources of {printable(comparison.target_token)} (token {comparison.target}): "
        f"{comparison.reading}, each column shaded by its largest score",
        markup=False,
    )
    if comparison.explained is not None:
        console.print(f"output measures explain: {comparison.explained}", markup=False, style="dim")
    terminal.show(console, _tables(comparison, groups, console.width))
    _show_groups(console, comparison, groups)
    for line in by_reason(comparison.left_out):
        console.print(f"skipped {line}", markup=False, style="dim")


def grouped_measures(comparison: Comparison) -> list[list[str]]:
    """Return groups of near-duplicate measures, sorted by the rank of the cue.

    All measures of a group give the cue the same rank, and their Spearman correlation with the
    first measure of the group is at least `DUPLICATE`. `random` always forms a group of its own,
    which comes last.
    """
    agreement = comparison.agreement()
    ranks = comparison.rank_of(comparison.cue) if comparison.cue is not None else {}
    groups: list[list[str]] = []
    for name in sorted(comparison.scores, key=lambda name: (name == RANDOM, ranks.get(name, 0))):
        for group in groups:
            same_rank = ranks.get(name) == ranks.get(group[0])
            if name != RANDOM and same_rank and agreement.at[group[0], name] >= DUPLICATE:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _tables(comparison: Comparison, groups: list[list[str]], width: int) -> list[Table]:
    """Return tables with one row per source and one lettered column per group. Wide results are
    split into several tables.
    """
    from rich.cells import cell_len
    from rich.table import Table

    from mixlens.views import terminal
    from mixlens.views.labels import printable

    names, other_sources = [group[0] for group in groups], comparison.others
    labels = [printable(source) for source in comparison.sources]
    largest = {
        name: max(abs(comparison.scores[name][other_sources]), default=0.0) for name in names
    }
    label_width = max(map(cell_len, [*labels, "source"])) + len(str(len(labels))) + 3
    tables = []
    for block in terminal.blocks(len(names), (width - label_width) // 3):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("", justify="right", style="dim")
        table.add_column("source", style="bold", no_wrap=True)
        for number in block:
            table.add_column(_letter(number), no_wrap=True)
        for position, label in enumerate(labels):
            is_own = position == comparison.own_source
            mark = "→" if position == comparison.cue else "·" if is_own else ""
            cells = [
                "" if is_own else terminal.shade(float(values[position]), largest[name])
                for name, values in ((names[i], comparison.scores[names[i]]) for i in block)
            ]
            table.add_row(f"{mark}{position}", terminal.escape_markup(label), *cells)
        tables.append(table)
    return tables


def _letter(number: int) -> str:
    """Return the letter for a column: a to z, then aa, ab …"""
    more, last = divmod(number, 26)
    return (chr(ord("a") + more - 1) if more else "") + chr(ord("a") + last)


def _show_groups(console: Console, comparison: Comparison, groups: list[list[str]]) -> None:
    """Print the measures of each group. If there is a cue, its rank comes first."""
    from rich.table import Table

    ranks = comparison.rank_of(comparison.cue) if comparison.cue is not None else {}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ["", *["rank of the cue"] * bool(ranks), "measures"]:
        table.add_column(column, no_wrap=column != "measures")
    for number, group in enumerate(groups):
        place = [f"{ranks[group[0]]} of {len(comparison.others)}"] if ranks else []
        table.add_row(_letter(number), *place, ", ".join(group))
    console.print()
    console.print(table)
    console.print(
        "The measures of a group give nearly the same ranking (Spearman correlation"
        f" {DUPLICATE} or more with the first), so one column shows the first.",
        style="dim",
    )
