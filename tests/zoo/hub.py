"""Count how many models on the Hub have a class that mixlens measures.

    python -m tests.zoo.hub    # writes the section of docs/coverage.md again

`hub_models.json` has the number of models for each class. The verdicts are those of the coverage
page. Classes whose model type is in the conformance suite are verified, too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import transformers

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
_COUNTS = Path(__file__).parent / "hub_models.json"
_KINDS = {
    "verified": "verified",
    "part": "partially supported",
    "refused": "not supported",
    "untried": "in transformers, not tried",
    "outside": "not in transformers (own code), not tried",
}
_TEXT = """## Models on the Hub

How many models on the Hub use these classes? The model registry of transformer-lens 4.3.0 lists
{models:,} text-generation models of the Hub with at least 500 downloads (July 2026), and their
classes. It has no download numbers for most models, so each model counts once. A class that is
not in the table below counts as verified if its model type is in the conformance suite.

| class | models | share |
|---|---|---|
{rows}
Of the {inside:,} models whose class is part of transformers, {share:.0%} are verified and
{part:.0%} are partially supported. The table covers text generation only, not encoders.

"""


def with_section(page: str, verified_types: Iterable[str]) -> str:
    """Return the page with the section, in the place of an earlier one."""
    page = re.sub(r"## Models on the Hub\n.*?(?=^## )", "", page, flags=re.M | re.S)
    before, heading, after = page.partition("## Reasons\n")
    return before + _section(_verdicts(after), set(verified_types)) + heading + after


def _verdicts(table: str) -> dict[str, str]:
    """Return the verdict on each class of the table."""
    verdicts = {}
    for name, attentions, reasons in re.findall(
        r"^\| \S+ \| (\w+) \| ([^|]+) \| (.*) \|$", table, flags=re.M
    ):
        left_out = [not is_open for is_open in re.findall(r"` [\d, ]+(, open)?: ", reasons)]
        whole = "part" if any(left_out) else "verified"  # open layers are measured
        verdicts[name] = "refused" if attentions == "none" else whole
    return verdicts


def _section(verdicts: dict[str, str], verified_types: set[str]) -> str:
    models: Counter[str] = Counter()
    for name, count in json.loads(_COUNTS.read_text(encoding="utf-8"))["models"].items():
        models[verdicts.get(name) or _untested(name, verified_types)] += count
    total = models.total()
    inside = total - models["outside"]
    rows = "".join(
        f"| {words} | {models[kind]:,} | {models[kind] / total:.1%} |\n"
        for kind, words in _KINDS.items()
    )
    return _TEXT.format(
        models=total,
        rows=rows,
        inside=inside,
        share=models["verified"] / inside,
        part=models["part"] / inside,
    )


def _untested(name: str, verified_types: set[str]) -> str:
    """Return the kind of a class that is not in the coverage table."""
    model = getattr(transformers, name, None)
    if model is None:
        return "outside"
    kind = getattr(getattr(model, "config_class", None), "model_type", None)
    return "verified" if kind in verified_types else "untried"


def conformance_types() -> set[str]:
    """Return the model types of the conformance suite."""
    from tests.conformance.zoo import ZOO

    return {animal.build().config.model_type for animal in ZOO.values()}


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text(), conformance_types()))
