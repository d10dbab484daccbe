"""`make zoo`: record every model of the zoo, each in its own process.

python -m tests.zoo.run                    every class that the journal does not hold
python -m tests.zoo.run --jobs 16          so many at a time
python -m tests.zoo.run --quick            `verify` alone: no measures, no independent checks
python -m tests.zoo.run --rules            the general rules alone (`rules.py`)
python -m tests.zoo.run --again refused    those whose latest verdict is one of these, once more
python -m tests.zoo.run Bert Llama         only classes whose name contains one of these
python -m tests.zoo.run --summary          nothing is run; what the journal says
python -m tests.zoo.run --table            writes docs/coverage.md from the journal

The journal gets a line as soon as a class is done, so a run that was stopped resumes there.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch
import transformers

import mixlens
from mixlens.measures import names, spec_of
from tests.zoo import journal
from tests.zoo.checks import verified
from tests.zoo.children import each_in_a_child, finding_of
from tests.zoo.models import Entry, entries
from tests.zoo.rules import checked_rules, examined_with_rules

ROOT = Path(__file__).resolve().parents[2]


def preload() -> None:
    """Imports once what every child needs, running no model: threads do not survive a fork."""
    mixlens.Lens  # noqa: B018
    for name in names():
        spec_of(name)
    for name in ("BertModel", "LlamaForCausalLM", "CLIPModel", "T5Model", "Wav2Vec2Model"):
        getattr(transformers, name)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--journal", type=Path, default=ROOT / "build" / "zoo.jsonl")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--again", nargs="+", default=[], metavar="VERDICT")
    parser.add_argument("--limit", type=int, default=300, help="processor seconds for one model")
    parser.add_argument("--here", action="store_true", help="no child process: for a debugger")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    return parser.parse_args()


_Plain = argparse.RawDescriptionHelpFormatter


def wanted_entries(chosen: argparse.Namespace) -> list[Entry]:
    """What is to be run: named, not in the journal, or to be run again."""
    known = journal.findings(chosen.journal)
    return [
        entry
        for entry in entries()
        if any(name in entry.key for name in chosen.names)
        or (
            not chosen.names
            and (entry.key not in known or known[entry.key]["verdict"] in chosen.again)
        )
    ]


def run(chosen: argparse.Namespace) -> None:
    """Runs what is wanted and writes it down."""
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    preload()
    examine = verified if chosen.quick else examined_with_rules
    examine, wanted = checked_rules if chosen.rules else examine, wanted_entries(chosen)
    line = (
        (finding_of(entry, examine) for entry in wanted)
        if chosen.here
        else each_in_a_child(wanted, examine, chosen.limit, chosen.jobs)
    )
    for number, finding in enumerate(line, 1):
        journal.append(chosen.journal, finding)
        said = finding.get("reason", "")[:160]
        print(f"{number}/{len(wanted)}", finding["verdict"], finding["class"], said, flush=True)


def main() -> None:
    chosen = options()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if not (chosen.summary or chosen.table):
        run(chosen)
    known = journal.findings(chosen.journal)
    if chosen.table:
        from tests.zoo.table import written

        written(known.values(), ROOT / "docs" / "coverage.md")
        return
    print(journal.by_reason(known.values()), file=sys.stderr)
    print(journal.summary(known.values()))


if __name__ == "__main__":
    main()
