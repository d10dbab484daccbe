"""A client of the hub in its own process. It reads questions and writes answers, one per line.

The address of the hub, the cache and whether the hub may be asked are read by the client library
when it is imported, so they are the environment of a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mixlens import Lens, MixlensError
from mixlens import datasets as corpus
from mixlens.datasets.hub import open_stream


def _model(name: str, options: dict[str, Any]) -> Any:
    return Lens.from_pretrained(name, **options).predictions("The dogs are [MASK].", top=2)


def _data(name: str, options: dict[str, Any]) -> Any:
    return [[each.name, each.text, getattr(each, "label", None)] for each in corpus.read(name)]


def _stream(name: str, options: dict[str, Any]) -> Any:
    return [row["text"] for row in open_stream(name, **options)]


_ACTIONS = {"model": _model, "data": _data, "stream": _stream}


def main() -> None:
    """Answers until there are no more questions."""
    answers, sys.stdout = sys.stdout, sys.stderr
    time.sleep = lambda _: None  # the client library waits half a minute for a hub that is away
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"result": _ACTIONS[question["what"]](question["name"], question["options"])}
        except MixlensError as error:
            answer = {"refused": str(error)}
        except Exception as error:
            answer = {"broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
