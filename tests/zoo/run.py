"""`make zoo`: takes every model of the zoo apart, each in a process of its own.

python -m tests.zoo.run                    every class that the journal does not hold
python -m tests.zoo.run --quick            `verify` alone: no measures, no independent checks
python -m tests.zoo.run --again refused    only those whose latest verdict is one of these
python -m tests.zoo.run Bert Llama         only classes whose name contains one of these
python -m tests.zoo.run --summary          nothing is run; what the journal says
python -m tests.zoo.run --table            writes docs/coverage.md from the journal
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import mixlens
from mixlens.errors import MixlensError
from mixlens.measures import names, spec_of
from tests.zoo import journal
from tests.zoo.checks import examined, verified
from tests.zoo.models import Entry, entries

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 8 * 2**30
Examination = Callable[[Entry], dict[str, Any]]


def finding_of(entry: Entry, examine: Examination) -> journal.Finding:
    """What one model shows; whatever it raises is a verdict."""
    start = time.time()
    line: journal.Finding = {"type": entry.type, "class": entry.key}
    try:
        line.update(examine(entry))
    except MixlensError as error:
        line.update(verdict="refused", reason=str(error), error=type(error).__name__)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line.update(
            verdict="exception",
            reason=f"{type(error).__name__}: {error}"[:300],
            where=f"{Path(where.filename).name}:{where.lineno}",
        )
    return {**line, "seconds": round(time.time() - start, 1), "mixlens": mixlens.__version__}


def in_child(entry: Entry, examine: Examination, limit: int) -> journal.Finding:
    """`finding_of` in a forked process, bounded in time and memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.alarm(limit)
        torch.set_num_threads(1)
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps(finding_of(entry, examine)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if said:
        found: journal.Finding = json.loads(said)
        return found
    reason = f"ran longer than {limit} s, or out of {MEMORY >> 30} GiB"
    return {"type": entry.type, "class": entry.key, "verdict": "exception", "reason": reason}


def preload() -> None:
    """Imports once what every child needs, running no model: threads do not survive a fork."""
    mixlens.Lens  # noqa: B018
    for name in names():
        spec_of(name)
    for name in ("BertModel", "LlamaForCausalLM", "CLIPModel", "T5Model", "Wav2Vec2Model"):
        getattr(transformers, name)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--journal", type=Path, default=ROOT / "build" / "zoo.jsonl")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", nargs="+", default=[], metavar="VERDICT")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one model")
    parser.add_argument("--here", action="store_true", help="no child process: for a debugger")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    known = journal.findings(chosen.journal)
    if not (chosen.summary or chosen.table):
        transformers.utils.logging.set_verbosity_error()
        preload()
        for entry in entries():
            wanted = any(name in entry.key for name in chosen.names) or not chosen.names
            before = known.get(entry.key)
            stale = before is None or before["verdict"] in chosen.again or bool(chosen.names)
            if not wanted or not stale:
                continue
            examine = verified if chosen.quick else examined
            if chosen.here:
                found = finding_of(entry, examine)
            else:
                found = in_child(entry, examine, chosen.limit)
            journal.append(chosen.journal, found)
            print(found["verdict"], entry.key, found.get("reason", "")[:160], flush=True)
    known = journal.findings(chosen.journal)
    if chosen.table:
        from tests.zoo.table import written

        written(known.values(), ROOT / "docs" / "coverage.md")
        return
    print(journal.by_reason(known.values()), file=sys.stderr)
    print(journal.summary(known.values()))


if __name__ == "__main__":
    main()
