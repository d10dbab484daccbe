"""Classification data: tables with a header, as GLUE and most others have them, and the two kinds of GLUE files without one.

* With a header: a text (`text`, `sentence`, `sentence1`, `premise`, `#1 String` …), where there is one its pair, and a label (`label`,
  `gold_label`, `Quality` …). Test splits have no label: their examples are plain texts.
* CoLA without a header: source, label, the author's star, sentence. The source is the group.
* Other tables without a header: one column of labels (words without spaces, at most 20 different ones), the others are the text and its pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mixlens.corpus.examples import Example, Labelled
from mixlens.corpus.files import Refused, attempted, table_of
from mixlens.errors import InvalidInput

TEXTS = (
    ("#1 string", "#2 string"), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"),
    ("question", "sentence"), ("text", "pair"), ("sentence", None), ("text", None),
)  # fmt: skip
LABELS = ("label", "gold_label", "quality", "is_duplicate", "class")
MOST_LABELS = 20


def text_columns(names: Sequence[str]) -> tuple[str, str | None] | None:
    """The columns that hold the text and its pair."""
    return next((pair for pair in TEXTS if all(name is None or name in names for name in pair)), None)


def label_column(names: Sequence[str]) -> str | None:
    return next((name for name in LABELS if name in names), None)


def from_fields(name: str, fields: Mapping[str, Any]) -> Example:
    """One row of a table with a header, or one JSON object; the names of the fields are in lower case."""
    columns = text_columns(list(fields))
    if columns is None:
        raise InvalidInput(f"no text among the fields {', '.join(fields) or '(none)'}")
    label = label_column(list(fields))
    pair = None if columns[1] is None else fields[columns[1]]
    return example(name, fields[columns[0]], pair, None if label is None else fields[label], labelled=label is not None)


def example(name: str, text: Any, pair: Any, label: Any, *, labelled: bool, group: str | None = None) -> Example:
    for part in (text,) if pair is None else (text, pair):
        if not isinstance(part, str) or not part.strip():
            raise InvalidInput("the text is missing")
    text, pair = text.strip(), None if pair is None else pair.strip()
    if not labelled:
        return Example(name=name, text=text, pair=pair, group=group)
    if label is None or not str(label).strip():
        raise InvalidInput("the label is missing")
    return Labelled(name=name, text=text, pair=pair, group=group, label=str(label).strip())


def read(path: Path) -> Iterator[Example | Refused]:
    """The examples of a table."""
    rows = table_of(path)
    header = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    if text_columns(header) is not None:
        yield from (
            attempted(name, cells, lambda name, cells: from_fields(name, fields_of(header, cells))) for name, cells in rows[1:]
        )
    elif _is_cola([cells for _, cells in rows]):
        yield from (attempted(name, cells, _cola) for name, cells in rows)
    else:
        label, width = _headless(path, [cells for _, cells in rows])
        yield from (attempted(name, cells, lambda name, cells: _columns(name, cells, label, width)) for name, cells in rows)


def fields_of(header: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    if len(cells) != len(header):
        raise InvalidInput(f"{len(cells)} columns, where the header has {len(header)}")
    return dict(zip(header, cells, strict=True))


def _is_cola(rows: Sequence[Sequence[str]]) -> bool:
    fitting = sum(len(cells) == 4 and cells[1] in ("0", "1") and cells[2] in ("", "*") for cells in rows)
    return fitting > 0.9 * len(rows) > 0


def _cola(name: str, cells: Sequence[str]) -> Example:
    if len(cells) != 4 or cells[1] not in ("0", "1"):
        raise InvalidInput(f"not a row of CoLA (source, 0 or 1, star, sentence): {cells}")
    return example(name, cells[3], None, cells[1], labelled=True, group=cells[0])


def _headless(path: Path, rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Which column holds the labels, and how many columns there are."""
    widths = [len(cells) for cells in rows]
    width = max(set(widths), key=widths.count, default=0)
    whole = [cells for cells in rows if len(cells) == width]
    found = [column for column in range(width) if _are_labels([cells[column].strip() for cells in whole])]
    if width not in (2, 3) or len(found) != 1:
        raise InvalidInput(
            f"{path}: the first row is no header that names a text (text, sentence, sentence1 …), and of its {width} columns "
            f"{len(found)} look like labels: add a header, for example text and label"
        )
    return found[0], width


def _are_labels(cells: Sequence[str]) -> bool:
    single = [cell for cell in cells if cell and " " not in cell]
    return len(single) >= 0.9 * len(cells) and len(set(single)) <= min(MOST_LABELS, max(2, len(cells) // 2))


def _columns(name: str, cells: Sequence[str], label: int, width: int) -> Example:
    if len(cells) != width:
        raise InvalidInput(f"{len(cells)} columns, where other rows have {width}")
    if " " in cells[label].strip():
        raise InvalidInput(f"{cells[label]!r} is no label")
    texts = [cell for column, cell in enumerate(cells) if column != label]
    return example(name, texts[0], texts[1] if width == 3 else None, cells[label], labelled=True)
