"""Read classification examples: a text, an optional second text, and a label. The column names are
those of GLUE and most other data sets.

Test splits have no label, so their examples are plain texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mixlens.datasets.examples import Example, Labelled
from mixlens.errors import InvalidInput

TEXTS = (
    ("#1 string", "#2 string"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text", "pair"),
    ("sentence", None),
    ("text", None),
)
LABELS = ("label", "gold_label", "quality", "is_duplicate", "class")


def text_columns(names: Iterable[str]) -> tuple[str, str | None] | None:
    """Return the names of the columns that hold the text and the second text."""
    present = {None, *names}
    return next((pair for pair in TEXTS if present.issuperset(pair)), None)


def from_fields(name: str, fields: Mapping[str, Any]) -> Example:
    """Return the example of a record with named columns."""
    fields = {key.lower(): value for key, value in fields.items()}
    columns = text_columns(fields)
    if columns is None:
        raise InvalidInput(f"no text column among {', '.join(fields) or '(none)'}")
    label = next((key for key in LABELS if key in fields), None)
    pair = None if columns[1] is None else fields[columns[1]]
    return example(
        name,
        fields[columns[0]],
        pair,
        None if label is None else fields[label],
        labelled=label is not None,
    )


def example(
    name: str, text: Any, pair: Any, label: Any, *, labelled: bool = True, group: str | None = None
) -> Example:
    """Return the example with this text, optional second text and label."""
    for part in (text,) if pair is None else (text, pair):
        if not isinstance(part, str) or not part.strip():
            raise InvalidInput("the text is missing")
    text, pair = text.strip(), None if pair is None else pair.strip()
    if not labelled:
        return Example(name=name, text=text, pair=pair, group=group)
    if label is None or not str(label).strip():
        raise InvalidInput("the label is missing")
    return Labelled(name=name, text=text, pair=pair, group=group, label=str(label).strip())
