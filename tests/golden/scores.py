"""Scores of every measure: all targets, few targets, generated text, rollout, comparison, run."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mixlens
from mixlens import Lens, MixlensError, testing
from mixlens.measures import names, spec_of
from tests.conformance.zoo import ZOO, built, inputs

TEXT = "The pictures of some hat [MASK] scaring Marcus."
STORY = "Lily had a red ball. She gave the ball to"
Scores = Iterator[tuple[str, np.ndarray]]


def golden_scores(only: str = "") -> Scores:
    """Yield the name and the scores of every combination whose model name contains `only`."""
    for kind, text in (("masked", TEXT), ("causal", STORY)):
        if only in kind:
            for dtype in (torch.float32, torch.float64):
                lens = Lens.bundled(kind, dtype=dtype)
                prompt: Any = STORY if kind == "causal" else None
                yield from _modes(f"{kind}/{_short(dtype)}", lens, text, prompt)
            yield from _comparison(kind, Lens.bundled(kind), text)
            yield from _corpus_run(kind)
    for name, family in ZOO.items():
        if only in name:
            for dtype in (torch.float32, torch.float64):
                given = inputs(name, dtype)
                prompt = _prompt(given) if family.kind in ("text", "translation") else None
                lens = Lens(built(name, dtype, head=True))
                yield from _modes(f"{name}/{_short(dtype)}", lens, given, prompt)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _prompt(given: dict[str, Any]) -> dict[str, Any]:
    """Return the encoder's tokens of the longest text."""
    kept = {key: value for key, value in given.items() if key in ("input_ids", "attention_mask")}
    rows = kept["attention_mask"].sum(1) if "attention_mask" in kept else torch.zeros(1)
    longest = int(rows.argmax())
    return {key: value[longest : longest + 1] for key, value in kept.items()}


def _modes(prefix: str, lens: Lens, given: Any, prompt: Any) -> Scores:
    recording = lens.record(given)
    for name in names():
        spec = spec_of(name)
        options = {**spec.least, **testing.fixed_output(spec, recording)}
        for site in recording.sites if spec.gives == "maps" else recording.sites[:1]:
            key = f"{prefix}/{name}/{site}"

            def whole(name: str = name, site: str = site, options: Any = options) -> Any:
                return mixlens.measure(name, recording, site=site, **options)

            def few(name: str = name, site: str = site, options: Any = options) -> Any:
                return lens.measure(name, given, site=site, targets=[0, 1], **options)

            yield from _taken(f"{key}/all", whole)
            if spec.gives == "maps":
                yield from _taken(f"{key}/few", few)
    if prompt is None:
        return
    for name in names():
        if not spec_of(name).row_by_row:
            continue

        def generated(name: str = name) -> Any:
            return mixlens.measure(name, lens.generate(prompt, max_new_tokens=3))

        def rolled(name: str = name) -> Any:
            return lens.rollout(name, prompt, [-1])

        yield from _taken(f"{prefix}/{name}/generate", generated)
        yield from _taken(f"{prefix}/{name}/rollout", rolled)


def _taken(key: str, take: Callable[[], Any]) -> Scores:
    """Yield the scores of each text, or the kind of error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            maps = take()
    except (MixlensError, RuntimeError) as error:  # torch lacks some products in float64
        yield key, np.array(type(error).__name__)
        return
    for number, each in enumerate(maps if isinstance(maps, list) else [maps]):
        yield f"{key}/{number}", np.asarray(each.scores)


def _comparison(kind: str, lens: Lens, text: str) -> Scores:
    for name, scores in lens.compare(text).scores.items():
        yield f"{kind}/compare/{name}", np.asarray(scores)


def _corpus_run(kind: str) -> Scores:
    from mixlens.runs.corpus_run import run_corpus
    from mixlens.runs.job import Job, ModelSource

    with tempfile.TemporaryDirectory() as folder:
        corpus, out = Path(folder) / "corpus.txt", Path(folder) / "out"
        corpus.write_text("The dogs bark.\nA cat sat on the old mat.\nKeys are here.\n")
        chosen = ("attention", "attention_norm", "alti", "value_zeroing")
        job = Job(corpus=str(corpus), out=str(out), measures=chosen, keep="scores")
        run_corpus(job, ModelSource(name=f"mixlens/bundled/{kind}", threads=1))
        results = mixlens.load(str(out))
        for name in chosen:
            for text in results.ids:
                yield f"{kind}/run/{name}/{text}", np.asarray(results.maps(text, name).scores)
