"""Write `llms.txt`, the public API on one page, from the docstrings, for coding agents."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from mixlens.measures import list_measures
from release.environment import ROOT

PAGE = ROOT / "llms.txt"
_HEADER = """# mixlens

> Measure how much each token contributes to every other token inside a Hugging Face transformer,
> and find the passages that an answer rests on. Python 3.11+, PyTorch, transformers 5.

Install: `pip install mixlens`. Documentation: docs/index.md. Rules that prevent wrong code:

- Start with `lens = mixlens.Lens.from_pretrained(name)` or `mixlens.Lens(model, tokenizer)`; the
  model must be in eval mode. `mixlens.Lens.bundled()` (masked) and `mixlens.Lens.bundled("causal")`
  need no download.
- `lens.measure(name, text)` returns `MixingMaps`; a list of texts returns a list. Scores are
  `maps.scores[layer, target, source]`, or `[layer, head, target, source]` with `per_head=True`.
- Pass `targets=[-1]` for a few rows of a long text: nothing of size n x n is formed.
- `maps.row(target).top(3)` lists `Source`s with `.token`, `.position`, `.score`. Without `layer=`
  the layers are read as `maps.reading` says, usually by their mean. `maps.scores` is a NumPy array.
- Measures that explain an output take `word=`, `foil=`, `position=` (a number) or `answer=`. The
  mask of a masked model is found without `position=`. Their target is the output, so read row 0:
  `lens.measure("blank_out", text, word="are", foil="is").row(0).top(1)`.
- `lens.answer("{documents}\\nQuestion", documents={...})` ranks the passages behind an answer. The
  prompt must contain `{documents}` or the text of every document.
- `lens.leave_one_out(prompt, segments)` scores every segment, the question too. Pass
  `segments={name: text}` to score your documents alone.
- Pass `on_error="skip"` to leave out texts that cannot be measured. The list is then shorter. Its
  attribute `errors` lists the name and the reason of each text that was left out.
- Register a measure of your own with `mixlens.measures.register`. Its example below is complete.
- Do not trust a measure that does not beat `random` on your data (`mixlens.benchmark.benchmark`).
- All errors are subclasses of `mixlens.MixlensError`. A refused model raises `UnsupportedModel`
  with the reason.
"""


def main() -> int:
    """Write the page, or compare it with the present docstrings."""
    parser = argparse.ArgumentParser(prog="python -m release.api_summary", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    check = parser.parse_args().check
    text = api_summary()
    if check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            print("llms.txt is out of date. Run `python -m release.api_summary`.", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.name}: {len(text.split())} words")
    return 0


def api_summary() -> str:
    """Return the page."""
    parts = [_HEADER, "\n## Measures\n"]
    for name, spec in list_measures().items():
        options = ", ".join(f"{each.name}={each.default!r}" for each in spec.options)
        what = "explains an output" if spec.explains_output else f"gives {spec.gives}"
        parts.append(f"- `{name}`: {spec.summary} ({what}{'; ' + options if options else ''})")
    parts.append("\n## API\n")
    for path in _documented():
        parts.extend(_described(path))
    return "\n".join(parts) + "\n"


def _documented() -> list[str]:
    """Return the names in the API reference."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^::: (\S+)$", page, re.MULTILINE)


def _described(path: str) -> Iterator[str]:
    module, _, name = path.rpartition(".")
    thing: Any = getattr(importlib.import_module(module), name)
    yield f"### `{path}{_signature(thing)}`\n"
    yield _in_short(thing) + "\n"
    if not inspect.isclass(thing):
        return
    for name, member in vars(thing).items():
        function = getattr(member, "__func__", member)
        is_shown = inspect.isfunction(function) or isinstance(member, property)
        if name.startswith("_") or not is_shown:
            continue
        signature_text = "" if isinstance(member, property) else _signature(function)
        yield f"- `.{name}{signature_text}`: {_first_sentence(member)}"
        yield from (f"    {line}".rstrip() for line in _example(member).splitlines() if line)
    yield ""


def _signature(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    short_signature = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return re.sub(r"<factory>|<[^>]*object[^>]*>", "...", str(short_signature))


def _first_sentence(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def _in_short(thing: Any) -> str:
    """Return the first paragraph and the example of a docstring."""
    return _first_sentence(thing) + _example(thing)


def _example(thing: Any) -> str:
    _, _, example = (inspect.getdoc(thing) or "").partition("Examples\n--------\n")
    lines = [line for line in example.splitlines() if line.startswith((">>> ", "... "))]
    return "\n\n```python\n" + "\n".join(line[4:] for line in lines) + "\n```" if lines else ""


if __name__ == "__main__":
    sys.exit(main())
