"""The checks of each model of the zoo: `verify`, every measure, and independent computations.

A check that cannot be made on a model (it returns no attentions, no module holds its values as they
are) is left out and not counted. A check that fails is a violation.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mixlens
from mixlens.errors import InvalidInput, MixlensError, UnsupportedModel
from mixlens.measures import ready_measures
from mixlens.recording.recording import Recording
from tests.zoo import native
from tests.zoo.children import described
from tests.zoo.models import Entry
from tests.zoo.untouched import changes, state_of

Result = dict[str, Any]
SOURCES = 5  # values are zeroed at so many places of a row
LONG = 40  # tokens of the lengthened input


def verified(entry: Entry) -> Result:
    """The verdict of `Lens.verify`."""
    report = mixlens.Lens(entry.build()).verify(entry.given())
    left_out = {} if not hasattr(report, "left_out") else dict(report.left_out)
    return {
        "verdict": "part" if left_out else "verified",
        "left_out": left_out,
        "open": dict(report.open),
        "sites": list(report.sites),
        "refused_measures": {name: why for name, why in report.measures.items() if why},
        "styles": sorted({style for stack in report.stacks for style in stack.styles}),
        "backend": report.backend,
    }


def examined(entry: Entry) -> Result:
    """`verify`, then the measures and every independent check."""
    model, given = entry.build(), entry.given()
    before, again = state_of(model, given), state_of(model, given)
    drawn = set(changes(before, again))
    result = verified(entry)
    examination = Examination(model, given)
    examination.run()
    after = state_of(model, given)
    moved = [name for name in changes(before, after) if name not in drawn]
    examination.note("model untouched", moved)
    return {
        **result,
        "checks": examination.done,
        "violations": examination.violations,
        "foreign": examination.foreign,
        "spent": examination.spent,
    }


class Examination:
    """The checks of one model on one input."""

    def __init__(self, model: nn.Module, given: Mapping[str, Any]) -> None:
        self.model, self.given = model, given
        self.lens = mixlens.Lens(model)
        self.recording = self.lens.record(given)
        self.done: dict[str, float] = {}  # check -> the largest difference
        self.violations: list[str] = []
        self.foreign: list[str] = []  # errors that are not ours
        self.spent: dict[str, float] = {}  # check or measure -> processor seconds, if above one

    def note(self, check: str, wrong: list[str], size: float = 0.0) -> None:
        self.done[check] = max(size, self.done.get(check, 0.0))
        if wrong:
            self.violations.append(f"{check}: {'; '.join(wrong[:3])}"[:300])

    def compare(self, check: str, actual: np.ndarray, expected: np.ndarray, bar: float) -> None:
        """Row by row: a difference above `bar` of the row's largest number is a violation."""
        size = np.abs(expected).max(-1, keepdims=True, initial=0.0)
        error = float((np.abs(actual - expected) / np.maximum(size, 1e-9)).max(initial=0.0))
        self.note(check, [] if error <= bar else [f"off by {error:.1e}"], error)

    @contextlib.contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """An error of ours is a refusal. Any other is written down, and the next check is made."""
        start = time.process_time()
        try:
            yield
        except MixlensError:
            pass
        except Exception as error:
            self.foreign.append(f"{what}: {described(error)}")
        seconds = time.process_time() - start
        if seconds > 1:
            self.spent[what] = round(seconds, 1)

    def run(self) -> None:
        self.measures()
        with self.trying("attention weights"):
            self.attention()
        with self.trying("value zeroing"):
            self.value_zeroing("value zeroing", self.recording, self.given)
        with self.trying("targets"):
            self.targets()
        with self.trying("one row against two"):
            self.one_row()
        longer = lengthened(self.model, self.given)
        if longer is None:
            return
        with self.trying("padding"):
            self.padding()
        with self.trying("value zeroing at 40 tokens"):
            recording = self.lens.record(longer)
            self.value_zeroing("value zeroing at 40 tokens", recording, longer)

    def measures(self) -> None:
        """Every measure at every site: finite, with the declared facts, or refused by us."""
        for site in self.recording.sites:
            for name, spec in ready_measures().items():
                with self.trying(f"{name}, {site}"):
                    maps = mixlens.measure(name, self.recording, site=site, **spec.least)
                    self.note("measures", wrong_facts(f"{name}, {site}", first_row(maps)))

    def attention(self) -> None:
        """Some models return the weights of some layers only, and some layers are left out here:
        of each shape, each of the fewer must be one of the more.
        """
        own = native.own_attentions(copy.deepcopy(self.model), self.given)
        ours = [
            part.weights
            for site in self.recording.sites
            for _, part in site_layers(self.recording, site)
        ]
        for shape in {tensor.shape for tensor in ours}:
            groups = [[t for t in tensors if t.shape == shape] for tensors in (own, ours)]
            fewer, more = sorted(groups, key=len)
            for number, weights in enumerate(fewer):
                errors = [float((weights - other).abs().max()) for other in more]
                error = min(errors)
                more.pop(errors.index(error))  # no two are the same one
                where = f"{number} of shape {tuple(shape)}: off by {error:.1e}"
                self.note("attention weights", [] if error <= 1e-4 else [where], error)

    def value_zeroing(self, check: str, recording: Recording, given: Mapping[str, Any]) -> None:
        for site in recording.sites:
            maps = attempt(mixlens.measure, "value_zeroing", recording, site=site)
            if maps is None:
                continue
            scores = first_row(maps).scores
            layers = list(site_layers(recording, site))
            for number in {0, len(layers) - 1}:
                layer, part = layers[number]
                self._zeroed(check, f"{site} layer {number}", given, layer, part, scores[number])

    def _zeroed(
        self, check: str, where: str, given: Any, layer: Any, part: Any, scores: np.ndarray
    ) -> None:
        module = self.model.get_submodule(layer.structure.path)
        channels = native.value_channels(self.model, given, part.values[0], module)
        if channels is None or channels.call:
            return
        layout = layer.structure.layout
        last = module if layout is None else layout.last(module)
        targets, sources = layer.width, scores.shape[1]
        places = sorted({int(p) for p in np.linspace(0, sources - 1, SOURCES)})
        whole, *edited = (
            native.output_without(self.model, given, channels, place, last, layer.width)
            for place in (None, *places)
        )
        size = layer.input.shape[-1]
        rows = native.first_tokens(whole, targets, size)
        expected = torch.stack(
            [
                native.cosine_distance(native.first_tokens(output, targets, size), rows)
                for output in edited
            ],
            -1,
        ).numpy()
        expected = expected[: len(scores)]  # without padding
        own = scores[:, places]
        size = np.maximum(np.abs(expected).max(), 1e-9)
        error = float(np.abs(own - expected).max() / size)
        if error > 1e-4 and native.steers_attention(self.model, given, channels, part.weights):
            return
        self.note(check, [] if error <= 2e-3 else [f"{where}: off by {error:.1e}"], error)

    def targets(self) -> None:
        """Scores of two targets are rows of the full map."""
        site = self.recording.sites[0]
        for name in ("value_zeroing", "alti"):
            full = attempt(mixlens.measure, name, self.recording, site=site)
            if full is None:
                continue
            first = first_row(full)
            chosen = sorted({0, first.scores.shape[-2] - 1})
            rows = mixlens.measure(name, self.recording, site=site, targets=chosen)
            part = first_row(rows)
            self.compare("targets", part.scores, first.scores[..., chosen, :], 1e-3)

    def one_row(self) -> None:
        """Row 0 alone has the scores that it has among others."""
        if self.recording.batch < 2:
            return
        alone = {
            name: value[:1]
            if isinstance(value, Tensor) and value.dim() and len(value) == self.recording.batch
            else value
            for name, value in self.given.items()
        }
        try:
            with torch.no_grad():
                self.model(**alone)
        except Exception:  # packed inputs cannot be cut by rows
            return
        self._same_scores("one row against two", alone, self.given)

    def padding(self) -> None:
        """A row alone has the scores that it has padded, next to a longer one, whether or not the
        model itself says the same of both.
        """
        long = self.given["input_ids"][:1]
        count = long.shape[1] - 2
        if count < 2 or "attention_mask" not in signature(self.model.forward).parameters:
            return
        alone = {"input_ids": long[:, :count]}
        alone["attention_mask"] = torch.ones_like(alone["input_ids"])
        both = {
            name: torch.cat([torch.nn.functional.pad(row, (0, 2), value=filler), full])
            for (name, row), filler, full in zip(
                alone.items(), (1, 0), (long, torch.ones_like(long)), strict=True
            )
        }
        self._same_scores("padding", alone, both)

    def _same_scores(self, check: str, one: Any, other: Any) -> None:
        """Of the first row."""
        for name in ("attention_norm_res", "value_zeroing"):
            a = first_row(attempt(self.lens.measure, name, one))
            b = first_row(attempt(self.lens.measure, name, other))
            if a is not None and b is not None and a.scores.shape == b.scores.shape:
                self.compare(check, a.scores, b.scores, 1e-2 if name == "value_zeroing" else 1e-3)


def wrong_facts(what: str, maps: Any) -> list[str]:
    """What is not as it is declared."""
    if not np.isfinite(maps.scores).all():
        return [f"{what}: not finite"]
    sums = maps.scores.sum(-1)
    off = np.abs(sums[sums != 0] - 1).max(initial=0)
    return [f"{what}: rows do not sum to one"] if maps.facts.rows_sum_to_one and off > 1e-3 else []


def first_row(maps: Any) -> Any:
    """Of a batch."""
    return maps[0] if isinstance(maps, list) else maps


def attempt(measure: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What is measured, or None if we refuse."""
    try:
        return measure(*args, **options)
    except (UnsupportedModel, InvalidInput):
        return None


def site_layers(recording: Recording, site: str) -> Iterator[tuple[Any, Any]]:
    """The layers of a site, each with that site's parts."""
    kind = recording.structure.site(site).kind
    for layer in recording.layers(site):
        yield layer, layer.site(kind)


def lengthened(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """A plain text of 40 tokens, or None if the input is not plain text or does not fit."""
    if set(given) - {"input_ids", "attention_mask", "token_type_ids"} or "input_ids" not in given:
        return None
    ids = given["input_ids"]
    if ids.dim() != 2:
        return None
    row = ids.flatten().repeat(LONG)[:LONG]
    made = {"input_ids": torch.stack([row, row.roll(3)])}
    if "attention_mask" in given:
        made["attention_mask"] = torch.ones_like(made["input_ids"])
    try:
        with torch.no_grad():
            model(**made)
    except Exception:  # too long for it
        return None
    return made
