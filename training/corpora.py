"""Read WikiText-2 and convert its tokenised spelling to plain English.

Paragraphs are the unit: headings and scraps go, sentences are split only if a caller asks for
them.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]?[A-Z])")
_JOIN = (
    (re.compile(r" @(.)@ "), r"\1"),  # “role @-@ playing”, “1 @,@ 000”
    (re.compile(r" (n't|'s|'re|'ve|'ll|'d|'m)\b"), r"\1"),
    (re.compile(r" ([,.;:!?%)\]])"), r"\1"),
    (re.compile(r"([(\[$£]) "), r"\1"),
    (re.compile(r'" ([^"]*?) "'), r'"\1"'),
)


def detokenise(text: str) -> str:
    """Plain spelling of a tokenised line: no spaces before punctuation, contractions joined."""
    text = text.replace("``", '"').replace("''", '"')
    for pattern, replacement in _JOIN:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def read_text(path: Path) -> str:
    """The text of a plain or gzipped file."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as handle:
            return handle.read()
    return path.read_text(encoding="utf-8")


def wikitext_paragraphs(folder: Path, split: str, shortest: int = 40) -> list[str]:
    """Paragraphs of one split (“train”, “valid”, “test”) in plain spelling, headings left out."""
    files = sorted(Path(folder).glob(f"{split}.*"))
    if not files:
        raise FileNotFoundError(f"no WikiText file {split}.* in {folder}")
    lines = (line.strip() for line in read_text(files[0]).splitlines())
    return [detokenise(line) for line in lines if len(line) > shortest and not line.startswith("=")]


def sentences(paragraph: str) -> list[str]:
    """A paragraph cut after final punctuation that a capital follows."""
    return [part.strip() for part in _SENTENCE_END.split(paragraph) if part.strip()]
