"""Molecules as SMILES, with a place to ask for and the symbol that decides it.

Two rules of SMILES leave one right symbol. A ring number that was opened must be closed by the
same number: the cue is where it was opened, and the foil is a different number. A bracket that was
opened must be closed: in the place of ")" the foil is "(", and the cue is the bracket that it
closes. Molecules are amides and esters, put together from an acid and an amine or an alcohol.
Symbols have spaces between them, so that each is a word; the models' tokenizers leave spaces out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from pathlib import Path

# Schwaller et al. (2019), Molecular Transformer: the rule that both models of chemistry read by.
SYMBOLS = (
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$"
    r"|%[0-9]{2}|[0-9]"
)
ACIDS = (
    *("c1ccc(cc1)", "Cc1ccc(cc1)", "COc1ccc(cc1)", "Clc1ccc(cc1)", "Brc1ccc(cc1)"),
    *("c1ccc2cc(ccc2c1)", "c1ccc(nc1)", "c1cc(sc1)", "c1cc(oc1)", "CC(C)(C)OC(=O)NCC"),
    *("C1CCC(CC1)", "FC(F)(F)c1ccc(cc1)", "N#Cc1ccc(cc1)", "CN(C)c1ccc(cc1)", "c1ccc(cc1)CC"),
)
PARTNERS = (
    *("NCc1ccccc1", "NCCc1ccccc1", "NC1CCCCC1", "Nc1ccc(OC)cc1", "Nc1ccc2ncccc2c1"),
    *("N1CCOCC1", "N1CCN(C)CC1", "N1CCC(O)CC1", "NCC(C)C", "Nc1cccc(Cl)c1"),
    *("OCc1ccccc1", "OC1CCCCC1", "Oc1ccc(F)cc1", "OCC(C)C", "Oc1ccc2ccccc2c1"),
)


def molecules() -> Iterator[str]:
    """Every acid with every partner."""
    for acid, partner in product(ACIDS, PARTNERS):
        yield f"{acid}C(=O){partner}"


def closing_places(symbols: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """(rule, place, place of what it closes) of every ring number and bracket that closes one."""
    rings: dict[str, int] = {}
    brackets: list[int] = []
    for place, symbol in enumerate(symbols):
        if symbol.isdigit():
            if symbol in rings:
                yield "ring", place, rings.pop(symbol)
            else:
                rings[symbol] = place
        elif symbol == "(":
            brackets.append(place)
        elif symbol == ")":
            yield "bracket", place, brackets.pop()


def questions() -> Iterator[dict[str, object]]:
    """One for each molecule and rule: the place that is farthest from what decides it."""
    for molecule in molecules():
        symbols = re.findall(SYMBOLS, molecule)
        farthest: dict[str, tuple[int, int]] = {}
        for rule, place, opened in closing_places(symbols):
            known = farthest.get(rule, (0, 0))
            if place - opened > known[0] - known[1]:
                farthest[rule] = (place, opened)
        starts = [0, *accumulate(len(symbol) + 1 for symbol in symbols)]
        for rule, (place, opened) in farthest.items():
            target = symbols[place]
            yield {
                "text": " ".join(symbols),
                "target": target,
                "foil": {"1": "2", "2": "1", ")": "("}[target],
                "position": starts[place],
                "cue": [[starts[opened], starts[opened] + 1]],
                "group": rule,
                "label": target,
            }


def write(path: Path) -> None:
    """One JSON object a line, as docs/data.md describes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in questions()), encoding="utf-8")
