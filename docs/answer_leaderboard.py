"""Write `docs/leaderboard/answers.md` and its picture from the cells in `docs/leaderboard/answers`.

    python -m docs.answer_leaderboard --take OUT   # condense the files of a run
    python -m docs.answer_leaderboard              # write the page and the picture

A cell is one model on one task. It keeps a few numbers of every prompt and method, so that
intervals and paired tests can be computed again.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.answer_leaderboard_text import (
    ACCURACY,
    BASELINES,
    BUDGETS,
    DEFAULT,
    DEFAULT_REASON,
    ENDING,
    HEADS_INTRODUCTION,
    HEADS_NOTE,
    INTRODUCTION,
    LANGUAGES,
    LIMITS,
    MARKS,
    MODEL_OPTIONS,
    MODELS,
    NAMES,
    TWO_DOCUMENTS,
)
from docs.kept_pages import wrapped, write
from mixlens.datasets.generated_prompts import TASKS
from mixlens.evaluating.recovery import expected_recall, reciprocal_rank
from mixlens.evaluating.statistics import RESAMPLES, adjust_p_values

ROOT = Path(__file__).resolve().parent / "leaderboard"
CELLS = ROOT / "answers"
COSTS = CELLS / "costs.json"
HEADS = CELLS / "heads.json"
PICTURE = ROOT / "answers.svg"
SIGNIFICANT = 0.05
FLIPS = 10_000
ENOUGH = 100  # prompts of a method that may be the best, if others ran on more
LEAST = 10  # prompts that count in a cell with a table
KEYS = ("first", "recall", "tokens", "sink")
LIKE = {"sink": "rank", "recall": "first"}  # a number that is left out is the same as this one
TWO = ("two_hop", "variables")  # tasks with two documents of evidence
Cell = Mapping[str, Any]
Marks = Mapping[str, Mapping[str, str]]


def taken(source: Path) -> int:
    """Condense the files of a run into cells. A file that goes on after the prompts of a kept cell
    is added to it.
    """
    CELLS.mkdir(parents=True, exist_ok=True)
    files = sorted(source.glob("*.jsonl"))
    for path in files:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        place = CELLS / f"{path.stem}.json"
        cell = _cell(path.stem, _without_gaps(lines, 1))
        if not cell["tried"] and place.exists():
            kept = json.loads(place.read_text(encoding="utf-8"))
            cell = _joined(kept, _cell(path.stem, _without_gaps(lines, kept["tried"] + 1)))
        if cell["tried"]:
            text = json.dumps(cell, separators=(",", ":"))
            place.write_text(text + "\n", encoding="utf-8")
    for path in source.glob("costs-*.json"):
        known = json.loads(COSTS.read_text()) if COSTS.exists() else {}
        known[path.stem.removeprefix("costs-")] = json.loads(path.read_text())
        COSTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for path in source.glob("heads-*.json"):
        known = json.loads(HEADS.read_text()) if HEADS.exists() else {}
        known[path.stem.removeprefix("heads-")] = json.loads(path.read_text())
        HEADS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return len(files)


def _without_gaps(lines: Sequence[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    """Return the lines in the order of the prompts, from the first up to one that is missing."""
    by_number = {int(line["name"].rpartition(":")[2]): line for line in lines}
    together = itertools.takewhile(by_number.__contains__, itertools.count(first))
    return [by_number[number] for number in together]


def _cell(name: str, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    model, task, documents, language = _parts(name)
    return {
        "model": model,
        "task": task,
        "documents": documents,
        "language": language,
        "tried": len(lines),
        "answered": sum(line["answered"] for line in lines),
        "counted": sum(line["counts"] for line in lines),
        "methods": _condensed([line for line in lines if line["counts"]]),
    }


def _joined(kept: Cell, later: Cell) -> dict[str, Any]:
    """Return a cell with the prompts of both."""
    whole = {key: kept[key] + later[key] for key in ("tried", "answered", "counted")}
    methods: dict[str, dict[str, list[Any]]] = {}
    for cell, start in ((kept, 0), (later, kept["counted"])):
        for name, shortened in cell["methods"].items():
            numbers = _lengthened(shortened)
            numbers["prompt"] = [start + number for number in numbers["prompt"]]
            known = methods.setdefault(name, {key: [] for key in numbers})
            for key, values_of in numbers.items():
                known[key] += values_of
    return {**kept, **whole, "methods": {name: _shortened(m) for name, m in methods.items()}}


def _parts(stem: str) -> tuple[str, str, int, str]:
    """Split `SmolLM2-135M-Instruct-key_value-documents-4`, perhaps with `-language-de`."""
    name, _, rest = stem.partition("-documents-")
    documents, _, language = rest.partition("-language-")
    model, _, task = name.rpartition("-")
    return model, task, int(documents), language or "en"


def _condensed(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Return the numbers of every method: prompt, reciprocal rank, right document first, recall,
    token recovery, and the reciprocal rank with the sink.
    """
    methods: dict[str, dict[str, list[Any]]] = {}
    for number, line in enumerate(lines):
        evidence = line["evidence"]
        wanted = np.isin(np.arange(line["documents"]), evidence)
        for name, known in line["methods"].items():
            scores = np.array(known["scores"])
            with_sink = np.array(known.get("with_sink", known["scores"]))
            numbers = {
                "prompt": number,
                "rank": reciprocal_rank(scores, evidence),
                "first": expected_recall(scores, wanted, 1) * wanted.sum(),
                "recall": expected_recall(scores, wanted, int(wanted.sum())),
                "tokens": known.get("tokens"),
                "sink": reciprocal_rank(with_sink, evidence),
            }
            kept = methods.setdefault(name, {key: [] for key in numbers})
            for key, value in numbers.items():
                kept[key].append(value if value is None else round(float(value), 4))
    return {name: _shortened(kept) for name, kept in methods.items()}


def _shortened(kept: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out numbers that follow from the others."""
    numbers = dict(kept)
    for key, other in LIKE.items():
        if numbers[key] == numbers[other]:
            del numbers[key]
    if numbers["prompt"] == list(range(len(numbers["rank"]))):
        del numbers["prompt"]
    if all(value is None for value in numbers["tokens"]):
        del numbers["tokens"]
    return numbers


def _lengthened(kept: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Undo `_shortened`."""
    count = len(kept["rank"])
    first = kept["first"]
    return {
        "prompt": kept.get("prompt", list(range(count))),
        "rank": kept["rank"],
        "first": first,
        "recall": kept.get("recall", first),
        "tokens": kept.get("tokens", [None] * count),
        "sink": kept.get("sink", kept["rank"]),
    }


def cells() -> list[Cell]:
    """Return all cells by model, language, task and number of documents."""
    files = [path for path in sorted(CELLS.glob("*.json")) if path not in (COSTS, HEADS)]
    known = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    models, tasks = list(MODELS), list(TASKS)
    return sorted(
        known,
        key=lambda c: (
            models.index(c["model"]) if c["model"] in models else len(models),
            c["language"] != "en",
            tasks.index(c["task"]),
            c["documents"],
        ),
    )


def costs() -> dict[str, dict[str, float]]:
    """Return the cost of each method in forward passes, by model."""
    known: dict[str, dict[str, float]] = json.loads(COSTS.read_text(encoding="utf-8"))
    return known


def values(cell: Cell, method: str, key: str = "rank") -> np.ndarray:
    """Return one number for each counted prompt; NaN if the method was not run on it."""
    numbers = np.full(cell["counted"], math.nan)
    known = cell["methods"].get(method)
    if known is not None:
        ranks = known["rank"]
        places = known.get("prompt", range(len(ranks)))
        found = next((known[name] for name in (key, LIKE.get(key)) if name in known), [])
        for place, value in zip(places, found, strict=False):
            numbers[int(place)] = math.nan if value is None else value
    return numbers


def has(cell: Cell, method: str, key: str = "rank") -> bool:
    """Return whether a method has a number in a cell."""
    return not np.isnan(values(cell, method, key)).all()


def mean(group: Sequence[Cell], method: str, key: str = "rank") -> float:
    """Return the mean over the cells that have the method. Each cell has the same weight."""
    means = [float(np.nanmean(values(c, method, key))) for c in group if has(c, method, key)]
    return float(np.mean(means)) if means else math.nan


def interval(group: Sequence[Cell], method: str, key: str = "rank") -> tuple[float, float]:
    """Return a 95 % bootstrap interval of `mean`: prompts are drawn within each cell."""
    numbers = [values(c, method, key) for c in group if has(c, method, key)]
    drawn = np.concatenate([v[~np.isnan(v)] for v in numbers])
    sizes = [int((~np.isnan(v)).sum()) for v in numbers]
    generator = np.random.default_rng(0)
    total, start = np.zeros(RESAMPLES), 0
    for size in sizes:
        part = drawn[start : start + size]
        total += part[generator.integers(0, size, (RESAMPLES, size))].mean(1)
        start += size
    low, high = np.quantile(total / len(sizes), [0.025, 0.975])
    return float(low), float(high)


def p_of(group: Sequence[Cell], a: str, b: str, key: str = "rank", other: str = "") -> float:
    """Return the p-value of a paired permutation test between two methods, on the prompts that both
    have. Each cell has the same weight. `other` is the number of the second method.
    """
    gaps = gaps_of(group, a, b, key, other)
    if not len(gaps):
        return math.nan
    return sign_flip_p(gaps)


def sign_flip_p(gaps: np.ndarray) -> float:
    """Return the p-value of a two-sided sign-flip permutation test.

    It is the test of `difference_p`, but gaps of one size are drawn together: a binomial number of
    them is positive.
    """
    sizes, counts = np.unique(np.abs(gaps), return_counts=True)
    positive = np.random.default_rng(0).binomial(counts, 0.5, (FLIPS, len(counts)))
    sums = np.abs((2 * positive - counts) @ sizes)
    as_far = int((sums >= abs(gaps.sum()) * (1 - 1e-12)).sum())
    return (1 + as_far) / (1 + FLIPS)


def gaps_of(
    group: Sequence[Cell], a: str, b: str, key: str = "rank", other: str = ""
) -> np.ndarray:
    """Return the differences between two methods on the prompts that both have. They add up to the
    sum over cells of the mean difference.
    """
    gaps: list[np.ndarray] = []
    for cell in group:
        gap = values(cell, a, key) - values(cell, b, other or key)
        gap = gap[~np.isnan(gap)]
        gaps.append(gap / max(1, len(gap)))
    return np.concatenate(gaps)


def prompts_of(group: Sequence[Cell], method: str) -> int:
    """Return the number of prompts on which a method ran."""
    return sum(int((~np.isnan(values(cell, method))).sum()) for cell in group)


def methods_of(group: Sequence[Cell]) -> list[str]:
    """Return all methods by their mean, baselines last."""
    names = dict.fromkeys(name for cell in group for name in cell["methods"])
    return sorted(names, key=lambda m: (m in BASELINES, -mean(group, m)))


def best_of(group: Sequence[Cell]) -> str:
    """Return the method with the highest mean, among those that ran on enough prompts."""
    return next(m for m in methods_of(group) if m not in BASELINES and _has_enough(group, m))


def _has_enough(group: Sequence[Cell], method: str) -> bool:
    """Return whether a method ran in all cells, on half of the prompts or on `ENOUGH`."""
    count = prompts_of(group, method)
    everywhere = all(has(cell, method) for cell in group)
    return everywhere and (2 * count >= _counted(group) or count >= ENOUGH)


def _counted(group: Sequence[Cell]) -> int:
    return sum(int(cell["counted"]) for cell in group)


def signs(group: Sequence[Cell], key: str = "rank") -> dict[str, str]:
    """Return the marks of each method: paired permutation tests with Holm's correction."""
    best = best_of(group)
    names = [m for m in methods_of(group) if any(has(cell, m, key) for cell in group)]
    others = [m for m in names if m != best]
    judged = [m for m in names if m != "random"]
    like_best = adjust_p_values([p_of(group, best, m, key) for m in others])
    chance = adjust_p_values([p_of(group, "random", m, key) for m in judged])
    marks = {best: "★"}
    marks |= {m: "≈" for m, p in zip(others, like_best, strict=True) if p >= SIGNIFICANT}
    for method, p in zip(judged, chance, strict=True):
        if p >= SIGNIFICANT or gaps_of(group, method, "random", key).sum() <= 0:
            marks[method] = marks.get(method, "") + "○"
    return marks


def table(cell: Cell) -> str:
    """Return the table of a cell, best method first."""
    group, cost = [cell], costs().get(cell["model"], {})
    marks = signs(group)
    lines = [
        "| method | prompts | reciprocal rank | 95 % interval | first | recall | tokens | with sink"
        " | passes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for method in methods_of(group):
        low, high = interval(group, method)
        columns = [_number(mean(group, method, key)) for key in KEYS]
        entry = f"{mean(group, method):.2f} {marks.get(method, '')}".strip()
        lines.append(
            f"| `{method}` | {prompts_of(group, method)} | {entry} | {low:.2f} to {high:.2f} |"
            f" {' | '.join(columns)} | {_number(cost.get(method, math.nan), 1)} |"
        )
    return "\n".join(lines)


def _number(value: float, digits: int = 2) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def by_task(group: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each task, and all of them."""
    cells_of = list(group)
    return _by(cells_of, lambda c: c["task"]) | {"all": cells_of}


def marks_of(group: Sequence[Cell]) -> Marks:
    """Return the marks of all methods for each task, and over all of them."""
    return {name: signs(part) for name, part in by_task(group).items()}


def overview(group: Sequence[Cell], marks: Marks) -> str:
    """Return methods x tasks of one model, with the cells of a task together."""
    parts = by_task(group)
    cost = costs().get(group[0]["model"])
    counts = [f"*{_counted(part)}*" for part in parts.values()]
    passes = ["passes"] if cost else []
    lines = [
        _row(["method", *passes, *parts]),
        "|---" * (1 + len(passes) + len(parts)) + "|",
        _row(["*counted*", *("" for _ in passes), *counts]),
    ]
    for method in methods_of(group):
        texts = [
            f"{_number(mean(part, method))} {marks[name].get(method, '')}".strip()
            for name, part in parts.items()
        ]
        spent = [_number(cost.get(method, math.nan), 1)] if cost else []
        lines.append(_row([f"`{method}`", *spent, *texts]))
    return "\n".join(lines)


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def details(group: Sequence[Cell]) -> str:
    """Return the other numbers of one model over all cells, and its cells by their size."""
    english = [c for c in group if c["language"] == "en"]
    parts = {f"{n} documents": c for n, c in _by(english, lambda c: c["documents"]).items()}
    parts |= {LANGUAGES[n]: c for n, c in _by(group, lambda c: c["language"]).items() if n != "en"}
    if len(parts) == 1:
        parts = {}
    heads = ["prompts", "95 % interval", "first", "recall", "tokens", "with sink", *parts]
    lines = [_row(["method", *heads]), "|---" * (1 + len(heads)) + "|"]
    for method in methods_of(group):
        low, high = interval(group, method)
        texts = [str(prompts_of(group, method)), f"{low:.2f} to {high:.2f}"]
        texts += [_number(mean(group, method, key)) for key in KEYS]
        texts += [_number(mean(part, method)) for part in parts.values()]
        lines.append(_row([f"`{method}`", *texts]))
    return "\n".join(lines)


def _by(group: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    """Return cells by a property, in their order."""
    parts: dict[Any, list[Cell]] = {}
    for cell in group:
        parts.setdefault(key(cell), []).append(cell)
    return parts


def usable(known: Sequence[Cell]) -> list[Cell]:
    """Return the cells in which enough prompts count."""
    return [cell for cell in known if cell["counted"] >= LEAST]


def accuracy(known: Sequence[Cell]) -> str:
    """Return how many prompts each model answers, and how many count."""
    sizes = sorted({c["documents"] for c in known})
    lines = [
        _row(["model", "task", *(f"{size} documents" for size in sizes)]),
        "|---" * (2 + len(sizes)) + "|",
    ]
    for (model, task), group in _by(known, lambda c: (c["model"], _task(c))).items():
        by_size = {c["documents"]: c for c in group}
        texts = [_accuracy(by_size[size]) if size in by_size else "" for size in sizes]
        lines.append(_row([short(model), task, *texts]))
    return "\n".join(lines)


def _accuracy(cell: Cell) -> str:
    entry = f"{cell['answered'] / cell['tried']:.0%} of {cell['tried']}, {cell['counted']} count"
    return entry if cell["counted"] >= LEAST else f"{entry} ✗"


def _task(cell: Cell) -> str:
    language = "" if cell["language"] == "en" else f", {LANGUAGES[cell['language']]}"
    return f"{cell['task']}{language}"


def both_documents(known: Sequence[Cell]) -> str:
    """Return the recall of both documents of evidence, on the tasks that have two."""
    groups = _by(
        [c for c in known if c["task"] in TWO], lambda c: f"{short(c['model'])}, {c['task']}"
    )
    marks = {name: signs(group, "recall") for name, group in groups.items()}
    everything = [cell for group in groups.values() for cell in group]
    names = sorted(
        dict.fromkeys(name for cell in everything for name in cell["methods"]),
        key=lambda m: (m in BASELINES, -mean(everything, m, "recall")),
    )
    lines = [_row(["method", *groups]), "|---" * (1 + len(groups)) + "|"]
    for method in names:
        texts = [
            f"{_number(mean(group, method, 'recall'))}"
            + (" ○" if "○" in marks[name].get(method, "") else "")
            for name, group in groups.items()
        ]
        lines.append(_row([f"`{method}`", *texts]))
    return "\n".join(lines)


def recommendations(known: Sequence[Cell], marks: Mapping[str, Marks]) -> str:
    """Return a method for each budget, and the methods that do not work, by model."""
    models = _by(known, lambda c: c["model"])
    timed = [group for model, group in models.items() if model in costs()]
    names = sorted(
        {m for c in known for m in c["methods"] if m not in BASELINES},
        key=lambda m: -_typical(timed, m),
    )
    lines, least = [], 0.0
    for budget, most in BUDGETS.items():
        fits = [m for m in names if least < _passes(m) <= most]
        listed = ", ".join(f"`{m}` ({_in_models(models, m)})" for m in fits[:3])
        lines.append(f"* **{budget}:** {listed}.")
        least = most
    for model, group in models.items():
        have = [m for m in methods_of(group) if m not in BASELINES]
        worse = [m for m in have if not {"★", "≈"} & set(marks[model]["all"].get(m, ""))]
        lines.append(
            f"* **{short(model)}:** the best method is `{best_of(group)}`. Over all tasks, these"
            f" methods are significantly worse: {_listed(worse)}. Not better than random:"
            f" {_poor(have, marks[model])}"
        )
    sinks = "; ".join(f"{short(model)}: {_sink(group)}" for model, group in models.items())
    lines.append(
        "* **The first token** of the prompt is an attention sink, so it does not count for its"
        f" document. If it counted, these scores would change by 0.02 or more. {sinks}."
    )
    lines.append(f"* **With a search for shared words** (`lexical`), {_lexical(known)}")
    lines.append(_default(models, [m for m in names if _passes(m) <= min(BUDGETS.values())]))
    return "\n".join(wrapped(line) for line in lines)


def _default(models: Mapping[str, Sequence[Cell]], rivals: Sequence[str]) -> str:
    """Compare the default of `lens.answer` with the best other method of its cost."""
    rival = next(m for m in rivals if m != DEFAULT)
    tests = "; ".join(
        f"{short(model)} {mean(group, DEFAULT):.2f} and {mean(group, rival):.2f},"
        f" p = {p_of(group, DEFAULT, rival):.4f}"
        for model, group in models.items()
    )
    return (
        f"* **The default of `lens.answer`** is `{DEFAULT}`. Compared with `{rival}`, the best"
        f" other method with this cost, its scores are: {tests} (paired tests, without Holm's"
        f" correction). {DEFAULT_REASON}"
    )


def _typical(groups: Sequence[Sequence[Cell]], method: str) -> float:
    """Return the mean over models, or -1 if none has the method."""
    means = [mean(group, method) for group in groups]
    known = [each for each in means if not math.isnan(each)]
    return float(np.mean(known)) if known else -1.0


def _poor(methods: Sequence[str], marks: Marks) -> str:
    """Return the methods that are not better than random, over all tasks and in single ones."""
    always = [m for m in methods if "○" in marks["all"].get(m, "")]
    texts = [_listed(always)] if always else []
    for task in marks:
        poor = [m for m in methods if "○" in marks[task].get(m, "") and m not in always]
        if poor and task != "all":
            texts.append(f"in `{task}` {_listed(poor)}")
    return f"{'; '.join(texts) or 'none'}."


def _in_models(models: Mapping[str, Sequence[Cell]], method: str) -> str:
    return ", ".join(
        f"{short(model)} {mean(group, method):.2f}"
        for model, group in models.items()
        if any(has(cell, method) for cell in group)
    )


def _sink(group: Sequence[Cell]) -> str:
    """Return the methods whose rank changes most if the first token counts for its document."""
    names = [m for m in methods_of(group) if any("sink" in c["methods"].get(m, {}) for c in group)]
    p_values = adjust_p_values([p_of(group, m, m, "rank", "sink") for m in names])
    changes = [
        f"`{m}` from {mean(group, m):.2f} to {mean(group, m, 'sink'):.2f}"
        for m, p in zip(names, p_values, strict=True)
        if p < SIGNIFICANT and abs(mean(group, m, "sink") - mean(group, m)) >= 0.02
    ]
    if not changes:
        return "none"
    return ", ".join(changes)


def _lexical(known: Sequence[Cell]) -> str:
    """Return the tasks in which a search for shared words is not perfect."""
    tasks = _by(known, lambda c: c["task"])
    misses = [
        f"`{task}` ({mean(group, 'lexical'):.2f})"
        for task, group in tasks.items()
        if mean(group, "lexical") < 0.995
    ]
    partial = [
        f"`{task}` ({mean(group, 'lexical', 'recall'):.2f})"
        for task, group in tasks.items()
        if task in TWO and mean(group, "lexical", "recall") < 0.995
    ]
    text = "an evidence document comes first in every task"
    if misses:
        text += f" except {', '.join(misses)}"
    if partial:
        text += f". The search does not always find both documents in {' and '.join(partial)}"
    return f"{text}."


def _passes(method: str) -> float:
    return max((c[method] for c in costs().values() if method in c), default=math.inf)


def _listed(methods: Sequence[str]) -> str:
    return ", ".join(f"`{method}`" for method in methods) or "none"


def learned_heads() -> str:
    """Return the section on learned head weights."""
    parts = ["## Learned head weights", wrapped(HEADS_INTRODUCTION)]
    lines = [
        "| model | features | tested on | rows | learned | equal weights | better | worse |"
        " better than attention | worse |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, report in json.loads(HEADS.read_text(encoding="utf-8")).items():
        rows = report["rows"]
        for row in rows:
            if row["feature"] == "attention":
                row["p against attention"] = math.nan  # no test against itself
        for kind in ("p against equal", "p against attention"):
            for row, p in zip(rows, adjust_p_values([row[kind] for row in rows]), strict=True):
                row[kind] = p
        for feature in dict.fromkeys(row["feature"] for row in rows):
            for same in (True, False):
                chosen = [
                    row
                    for row in rows
                    if row["feature"] == feature and (row["fitted on"] == row["tested on"]) == same
                ]
                lines.append(_heads_line(short(model), feature, same, chosen, rows))
    return "\n\n".join([*parts, "\n".join(lines), wrapped(HEADS_NOTE)])


def _heads_line(
    model: str,
    feature: str,
    same: bool,
    chosen: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
) -> str:
    by_attention = {
        (row["fitted on"], row["tested on"]): row["learned"]
        for row in rows
        if row["feature"] == "attention"
    }
    gaps = [(row["learned"] - row["equal weights"], row["p against equal"]) for row in chosen]
    ahead = [
        (
            row["learned"] - by_attention[row["fitted on"], row["tested on"]],
            row["p against attention"],
        )
        for row in chosen
    ]
    counts = [
        str(sum(p < SIGNIFICANT and gap * sign > 0 for gap, p in pairs))
        for pairs in (gaps, ahead)
        for sign in (1, -1)
    ]
    if feature == "attention":
        counts[2:] = ["", ""]
    means = [f"{np.mean([row[key] for row in chosen]):.2f}" for key in ("learned", "equal weights")]
    tested = "the same task" if same else "another task"
    return f"| {model} | `{feature}` | {tested} | {len(chosen)} | {' | '.join(means + counts)} |"


def short(model: str) -> str:
    """Return the name of a model in tables."""
    return NAMES.get(model, model)


def draw(known: Sequence[Cell]) -> None:
    """Draw cost against recovery for each model, and recovery by the number of documents."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "answers", "svg.fonttype": "none", "font.size": 9})
    names = [method for method in methods_of(known) if method not in BASELINES]
    looks = itertools.product("osD^v", ("#1f6f8b", "#d1495b", "#edae49", "#66a182"))
    styles = dict(zip(names, looks, strict=False))
    models = {m: group for m, group in _by(known, lambda c: c["model"]).items() if m in costs()}
    sized = [
        (model, _by([c for c in group if c["language"] == "en"], lambda c: c["documents"]))
        for model, group in models.items()
    ]
    sized = [(model, sizes) for model, sizes in sized if len(sizes) > 2]
    count = len(models) + len(sized)
    figure, panels = plt.subplots(1, count, figsize=(3.4 * count + 2.2, 4.2), sharey=True)
    every = list(np.atleast_1d(panels))
    for axes, (model, group) in zip(every, models.items(), strict=False):
        _draw_costs(axes, group, costs()[model], styles)
        axes.set_title(short(model))
        axes.set_xlabel("cost in forward passes")
    for axes, (model, sizes) in zip(every[len(models) :], sized, strict=True):
        _draw_sizes(axes, sizes, styles)
        axes.set_title(f"{short(model)}: {', '.join(_tasks_of(sizes))}")
        axes.set_xlabel("documents")
    every[0].set_ylabel("reciprocal rank of the evidence")
    every[0].legend(
        *_legend(every),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        bbox_transform=every[-1].transAxes,
        frameon=False,
    )
    figure.subplots_adjust(wspace=0.12)
    figure.savefig(PICTURE, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def _legend(panels: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return each method of the panels once."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return list(entries.values()), list(entries)


def _draw_costs(
    axes: Any,
    group: Sequence[Cell],
    cost: Mapping[str, float],
    styles: Mapping[str, tuple[str, str]],
) -> None:
    floor = mean(group, "random")
    axes.axhline(floor, color="0.6", linestyle=":", linewidth=1)
    axes.text(48, floor + 0.008, "random", color="0.4", ha="right")
    for method, (marker, colour) in styles.items():
        means = [mean(part, method) for part in _by(group, lambda c: c["task"]).values()]
        means = [each for each in means if not math.isnan(each)]
        if not means or method not in cost:
            continue
        passes = cost[method]
        axes.plot([passes] * 2, [min(means), max(means)], color="0.85", linewidth=1, zorder=1)
        axes.scatter(
            [passes],
            [mean(group, method)],
            s=34,
            marker=marker,
            color=colour,
            alpha=0.85,
            label=method,
            zorder=2,
        )
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.minorticks_off()
    axes.set_xlim(0.85, 50)
    axes.set_ylim(top=1.03)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_sizes(
    axes: Any, sizes: Mapping[int, Sequence[Cell]], styles: Mapping[str, tuple[str, str]]
) -> None:
    """Draw the mean over the tasks that have all sizes."""
    tasks = _tasks_of(sizes)
    groups = {
        size: [c for c in group if c["task"] in tasks] for size, group in sorted(sizes.items())
    }
    for method, (marker, colour) in (styles | {"random": ("", "0.6")}).items():
        means = [mean(group, method) for group in groups.values()]
        axes.plot(
            list(groups),
            means,
            marker=marker or None,
            color=colour,
            markersize=5,
            linewidth=1,
            linestyle="-" if marker else ":",
            alpha=0.85,
        )
    floor = mean(groups[min(groups)], "random")
    axes.text(min(groups) * 1.06, floor - 0.002, "random", color="0.4")
    axes.set_xscale("log")
    axes.set_xticks(list(groups), [str(size) for size in groups])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)


def _tasks_of(sizes: Mapping[int, Sequence[Cell]]) -> list[str]:
    """Return the tasks that have all sizes."""
    tasks = [{c["task"] for c in group} for group in sizes.values()]
    return [task for task in TASKS if all(task in each for each in tasks)]


def commands(known: Sequence[Cell]) -> Iterator[str]:
    """Yield the command of each cell."""
    for cell in known:
        data = f"generated:{cell['task']}?documents={cell['documents']}"
        if cell["language"] != "en":
            data += f"&language={cell['language']}"
        model = MODEL_OPTIONS.get(cell["model"], f"--model FOLDER/{cell['model']}")
        yield f'python -m training.leaderboard.answers {model} --out OUT --data "{data}"'


def pages() -> dict[Path, str]:
    """Return the page."""
    known = cells()
    enough = usable(known)
    models = _by(enough, lambda c: c["model"])
    marks = {model: marks_of(group) for model, group in models.items()}
    parts = [
        INTRODUCTION.strip(),
        "## Recommendations",
        recommendations(enough, marks),
        wrapped(LIMITS),
    ]
    for model, group in models.items():
        parts += [
            f"## {short(model)}",
            wrapped(f"{MODELS[model]} {_counted(group)} prompts in {len(group)} cells."),
            overview(group, marks[model]),
            details(group),
        ]
    parts += [wrapped(MARKS)]
    parts += ["## Two documents of evidence", wrapped(TWO_DOCUMENTS), both_documents(enough)]
    parts += ["## How many prompts are answered?", wrapped(ACCURACY), accuracy(known)]
    parts += [learned_heads(), "## Every cell"]
    for cell in enough:
        parts += [
            f"### {short(cell['model'])}: {_task(cell)}, {cell['documents']} documents",
            wrapped(
                f"The model answers {cell['answered']} of {cell['tried']} prompts, and"
                f" {cell['counted']} count. A random value from the prompt would be right in about"
                f" 1 of {_choices(cell)} cases."
            ),
            table(cell),
        ]
    parts += ["## Run it again", "\n".join(["```sh", *commands(known), "```"]), ENDING.strip()]
    return {ROOT / "answers.md": "\n\n".join(parts) + "\n"}


def _choices(cell: Cell) -> int:
    count: int = cell["documents"]
    return {"two_hop": count // 2, "variables": count - 1}.get(cell["task"], count)


if __name__ == "__main__":
    write(__doc__, taken, pages)
    draw(usable(cells()))
