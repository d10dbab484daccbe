"""Read tables: CSV, or TSV without quoting.

* With a header, the column names define the type of the records; see `targets` and `classes`.
* CoLA has no header. Its columns are the source, the label, the author's original mark (such as a
  star), and the sentence. The source is the group.
* Other tables without a header have one column of labels (words without spaces, at most 20
  different ones). The other columns are the text and the second text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from mixlens.datasets import evidence
from mixlens.datasets.classes import example, text_columns
from mixlens.datasets.examples import Example
from mixlens.datasets.files import Refused, parse_record, table_of
from mixlens.datasets.objects import parser_of
from mixlens.errors import InvalidInput

MOST_LABELS = 20
MOSTLY = 0.9  # some lines may be broken
Cells = Sequence[str]


def read(path: Path) -> Iterator[Example | Refused]:
    """Return the examples of a table."""
    rows = table_of(path)
    whole = [cells for _, cells in rows if not isinstance(cells, Refused)]
    header = header_of(whole[0]) if whole else []
    parse: Callable[[str, Cells], Example]
    if has_text(header):
        parse_fields = parser_of(dict.fromkeys(header, ""), path.name.split(".")[0])
        parse, rows = (
            (lambda name, cells: parse_fields(name, _fields(header, cells))),
            [row for row in rows if row[1] is not whole[0]],
        )
    elif _is_cola(whole):
        parse = _cola
    else:
        label, width = _label_column(path, whole)
        parse = partial(_columns, label=label, width=width)
    for name, cells in rows:
        yield parse_record(name, cells, parse)


def header_of(cells: Cells) -> list[str]:
    """Return the column names in lower case."""
    return [cell.strip().lower() for cell in cells]


def has_text(header: Cells) -> bool:
    """Return whether this is a header that names a text column."""
    return (
        text_columns(header) is not None
        or {"sentence_good", "sentence_bad"} <= set(header)
        or evidence.recognises(header)
    )


def _fields(header: Cells, cells: Cells) -> dict[str, str]:
    if len(cells) != len(header):
        raise InvalidInput(f"{len(cells)} columns, but the header has {len(header)}")
    return dict(zip(header, cells, strict=True))


def _is_cola(rows: Sequence[Cells]) -> bool:
    fitting = sum(
        len(cells) == 4 and cells[1] in ("0", "1") and _are_marks(cells[2]) for cells in rows
    )
    return fitting >= MOSTLY * len(rows)


def _are_marks(cell: str) -> bool:
    return len(cell) < 5 and not any(character.isalnum() for character in cell)  # *, ?*, ??


def _cola(name: str, cells: Cells) -> Example:
    if len(cells) != 4 or cells[1] not in ("0", "1") or not _are_marks(cells[2]):
        raise InvalidInput(f"not a line of CoLA (source, 0 or 1, star, sentence): {list(cells)}")
    return example(name, cells[3], None, cells[1], group=cells[0])


def _label_column(path: Path, rows: Sequence[Cells]) -> tuple[int, int]:
    """Return the index of the label column, and the number of columns."""
    widths = [len(cells) for cells in rows]
    width = max(sorted(set(widths)), key=widths.count)
    whole = [cells for cells in rows if len(cells) == width]
    fitting = [
        column for column in range(width) if _are_labels([cells[column].strip() for cells in whole])
    ]
    if width == 1:
        raise InvalidInput(
            f"{path} has a single column. Separate columns by commas or tabs, and name them "
            "in the first line, for example text and label."
        )
    if width not in (2, 3) or len(fitting) != 1:
        raise InvalidInput(
            f"{path} has no header with a text column (text, sentence, sentence1 …), and "
            f"{len(fitting) or 'none'} of its {width} columns look like labels. Add a header, "
            "for example text and label."
        )
    return fitting[0], width


def _are_labels(cells: Cells) -> bool:
    single = [cell for cell in cells if cell and " " not in cell]
    return len(single) >= MOSTLY * len(cells) and len(set(single)) <= min(
        MOST_LABELS, max(2, len(cells) // 2)
    )


def _columns(name: str, cells: Cells, label: int, width: int) -> Example:
    if len(cells) != width:
        raise InvalidInput(f"{len(cells)} columns, but other lines have {width}")
    if " " in cells[label].strip():
        raise InvalidInput(f"{cells[label]!r} is not a label")
    texts = [cell for column, cell in enumerate(cells) if column != label]
    return example(name, texts[0], texts[1] if width == 3 else None, cells[label])
