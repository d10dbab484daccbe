"""A long corpus needs no more memory than its first shards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.runs.sentences import write_corpus

ROOT = Path(__file__).parents[2]
SENTENCES = int(os.environ.get("MIXLENS_SENTENCES", "768"))  # 20000 before a release

PROGRAM = """
import json, resource, sys
from pathlib import Path
from tests.runs.sentences import run

peaks = []

def note(event):
    if event["event"] == "shard":
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

corpus, out = map(Path, sys.argv[1:])
counts = run(corpus, out, on_event=note, measures=("attention",), shard_rows=128)
print(json.dumps({"peaks": peaks, "texts": counts.texts}))
"""


def test_memory_is_bounded(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", SENTENCES)
    command = [sys.executable, "-c", PROGRAM, str(corpus), str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ran = json.loads(done.stdout.splitlines()[-1])
    peaks = ran["peaks"]
    assert ran["texts"] == SENTENCES
    print(f"{SENTENCES:,} sentences: peak {peaks[-1] / 2**30:.2f} GB, first {peaks[2] / 2**30:.2f}")
    assert peaks[-1] < 1.15 * peaks[2] + 100 * 2**20
