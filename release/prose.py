"""`python -m release.prose`: count patterns of unnatural English, and sample passages to read.

`python -m release.prose --sample 60 --seed 1` prints passages of every kind. Read them aloud: would
a maintainer of PyTorch write this? Without `--sample` it prints how often each pattern occurs per
1,000 words. The first audit counted whole pages, tables included: compare it with that line alone.
"""

from __future__ import annotations

import argparse
import random
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from release.environment import ROOT
from release.passages import Passage, all_passages, whole_pages

FIRST_AUDIT = {"what-clauses": 4.3, "you": 1.4, "colons": 7.8}
PATTERNS = {
    "what-clauses": re.compile(r"\bwhat\b(?![^.!?]*\?)", re.IGNORECASE),
    "you": re.compile(r"\byou(rs?|rself)?\b", re.IGNORECASE),
    "colons": re.compile(r"\w: \w"),
    "guillemets": re.compile(r"[«»]"),
}
USER = ("readme", "docs", "help")


def rates(passages: Sequence[Passage]) -> dict[str, float]:
    """Return the number of matches of each pattern per 1,000 words."""
    texts = [each.text for each in passages]
    words = sum(len(text.split()) for text in texts)
    return {
        name: 1000 * sum(len(pattern.findall(text)) for text in texts) / max(words, 1)
        for name, pattern in PATTERNS.items()
    }


def table(passages: Sequence[Passage], pages: Sequence[Passage]) -> str:
    """Return the rates of each kind of passage, of user documentation, of all, and of pages."""
    kinds = sorted({each.kind for each in passages})
    groups = {kind: [each for each in passages if each.kind == kind] for kind in kinds}
    groups["user docs"] = [each for each in passages if each.kind in USER]
    groups["all"] = list(passages)
    groups["whole pages"] = list(pages)
    lines = [f"{'per 1,000 words':16}{'words':>8}" + "".join(f"{name:>14}" for name in PATTERNS)]
    for name, group in groups.items():
        words = sum(len(each.text.split()) for each in group)
        lines.append(f"{name:16}{words:8}" + "".join(f"{n:14.1f}" for n in rates(group).values()))
    audit = "".join(f"{FIRST_AUDIT.get(name, '–'):>14}" for name in PATTERNS)
    return "\n".join([*lines, f"{'first audit':16}{'':8}{audit}"])


def sample(passages: Sequence[Passage], count: int, seed: int) -> list[Passage]:
    """Return passages drawn at random, as many of each kind as possible."""
    draw = random.Random(seed)
    kinds = sorted({each.kind for each in passages})
    shuffled = [[each for each in passages if each.kind == kind] for kind in kinds]
    for group in shuffled:
        draw.shuffle(group)
    longest = max(map(len, shuffled), default=0)
    turns = [group[i] for i in range(longest) for group in shuffled if i < len(group)]
    return sorted(turns[:count], key=lambda each: (each.kind, each.place, each.text))


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    """Print the table, or a sample."""
    parser = argparse.ArgumentParser(prog="python -m release.prose", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="print N passages to read")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    options = parser.parse_args(arguments)
    passages = all_passages(root)
    if options.sample is None:
        print(table(passages, whole_pages(root)))
        return
    for number, each in enumerate(sample(passages, options.sample, options.seed), 1):
        text = textwrap.shorten(each.text, 600, placeholder=" …")
        print(f"{number}. [{each.kind}] {each.place}\n{textwrap.fill(text, 100)}\n")


if __name__ == "__main__":
    main()
