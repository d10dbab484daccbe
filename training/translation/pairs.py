"""Sentence pairs for training and testing: Multi30k, or made-up ones whose alignment is known."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from pathlib import Path

from mixlens.datasets.examples import Aligned

Pair = tuple[str, str]
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


@dataclass(frozen=True)
class Corpus:
    """German and English sentences, and pairs with gold alignments."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    aligned: list[Aligned]
    source: str


def real_corpus(data: Path) -> Corpus:
    """Multi30k, and the German-English gold alignments of Vilar et al.

    (2006) with their capital letters.
    """
    from mixlens.datasets.alignments import read_alignments

    parts = {name: _pairs(data / "multi30k", file) for name, file in SPLITS.items()}
    aligned = read_alignments(data / "alignment_de_en", source="test.uc.de", target="test.uc.en")
    return Corpus(**parts, aligned=aligned, source="Multi30k")


def _pairs(folder: Path, name: str) -> list[Pair]:
    german, english = (_lines(folder / f"{name}.{language}") for language in ("de", "en"))
    if len(german) != len(english):
        raise ValueError(f"{folder / name}: {len(german)} German and {len(english)} English lines")
    return [(a, b) for a, b in zip(german, english, strict=True) if a and b]


def _lines(file: Path) -> list[str]:
    packed = file.with_name(file.name + ".gz")
    text = (
        gzip.decompress(packed.read_bytes()).decode("utf-8")
        if packed.exists()
        else file.read_text(encoding="utf-8")
    )
    return [" ".join(line.split()) for line in text.removesuffix("\n").split("\n")]


_WORDS = {
    "der": "the",
    "ein": "a",
    "hund": "dog",
    "mann": "man",
    "junge": "boy",
    "baum": "tree",
    "ball": "ball",
    "sieht": "sees",
    "wirft": "throws",
    "findet": "finds",
    "roten": "red",
    "alten": "old",
    "und": "and",
    "heute": "today",
    "dort": "there",
}


def toy_corpus(seed: int, count: int = 80) -> Corpus:
    """Random German words next to the same words in English, in reverse order: nothing to learn
    from, but all that a run needs.
    """
    generator = random.Random(seed)

    def aligned(number: int) -> Aligned:
        german = tuple(generator.choice(list(_WORDS)) for _ in range(generator.randint(2, 7)))
        english = tuple(_WORDS[word] for word in reversed(german))
        links = frozenset((i, len(german) - 1 - i) for i in range(len(german)))
        texts = {"text": " ".join(german), "pair": " ".join(english)}
        return Aligned(
            name=f"toy:{number}", **texts, source=german, target=english, sure=links, possible=links
        )

    examples = [aligned(number) for number in range(count)]
    pairs = [(pair.text, pair.pair or "") for pair in examples]
    return Corpus(pairs[20:], pairs[10:20], pairs[:10], examples[:6], "made-up sentences")
