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
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.answer_leaderboard_text import (
    BASELINES,
    BUDGETS,
    DEFAULT,
    DEFAULT_REASON,
    ENDING,
    HEADS_NOTE,
    INTRODUCTION,
    LIMITS,
    MARKS,
    NAMES,
)
from docs.kept_pages import wrapped, write
from mixlens.evaluating.recovery import expected_recall, reciprocal_rank
from mixlens.evaluating.statistics import adjusted, difference_p, interval_of

ROOT = Path(__file__).resolve().parent / "leaderboard"
CELLS = ROOT / "answers"
COSTS = CELLS / "costs.json"
HEADS = CELLS / "heads.json"
PICTURE = ROOT / "answers.svg"
SIGNIFICANT = 0.05
ENOUGH = 100  # prompts of a method that may be the best, if others ran on more
Cell = Mapping[str, Any]


def taken(source: Path) -> int:
    """Condense the files of a run into cells."""
    CELLS.mkdir(parents=True, exist_ok=True)
    files = sorted(source.glob("*.jsonl"))
    for path in files:
        lines = _without_gaps(path)
        if not lines:
            continue
        model, task, documents, language = _parts(path.stem)
        cell = {
            "model": model,
            "task": task,
            "documents": documents,
            "language": language,
            "tried": len(lines),
            "answered": sum(line["answered"] for line in lines),
            "counted": sum(line["counts"] for line in lines),
            "methods": _condensed([line for line in lines if line["counts"]]),
        }
        text = json.dumps(cell, separators=(",", ":"))
        (CELLS / f"{path.stem}.json").write_text(text + "\n", encoding="utf-8")
    for path in source.glob("costs-*.json"):
        known = json.loads(COSTS.read_text()) if COSTS.exists() else {}
        known[path.stem.removeprefix("costs-")] = json.loads(path.read_text())
        COSTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    if (source / HEADS.name).exists():
        shutil.copyfile(source / HEADS.name, HEADS)
    return len(files)


def _without_gaps(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file in the order of the prompts, up to the first that is missing."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    by_number = {int(line["name"].rpartition(":")[2]): line for line in lines}
    together = itertools.takewhile(by_number.__contains__, itertools.count(1))
    return [by_number[number] for number in together]


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
    return methods


def cells() -> list[Cell]:
    """Return all cells: by model, then by task."""
    files = [path for path in sorted(CELLS.glob("*.json")) if path not in (COSTS, HEADS)]
    known = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return sorted(known, key=lambda c: (c["model"], c["documents"], c["task"]))


def costs() -> dict[str, dict[str, float]]:
    """Return the cost of each method in forward passes, by model."""
    known: dict[str, dict[str, float]] = json.loads(COSTS.read_text(encoding="utf-8"))
    return known


def values(cell: Cell, method: str, key: str = "rank") -> np.ndarray:
    """Return one number for each counted prompt; NaN if the method was not run on it."""
    numbers = np.full(cell["counted"], math.nan)
    known = cell["methods"].get(method)
    if known is not None:
        places = [int(place) for place in known["prompt"]]
        numbers[places] = [math.nan if v is None else v for v in known[key]]
    return numbers


def best_of(cell: Cell) -> str:
    """Return the method with the highest mean, among those that ran on enough prompts."""
    rivals = [m for m in cell["methods"] if m not in BASELINES and _has_enough(cell, m)]
    best: str = max(rivals, key=lambda m: float(np.nanmean(values(cell, m))))
    return best


def _has_enough(cell: Cell, method: str) -> bool:
    """Return whether a method ran on half of the prompts, or on `ENOUGH`."""
    count = int((~np.isnan(values(cell, method))).sum())
    return 2 * count >= cell["counted"] or count >= ENOUGH


def signs(cell: Cell) -> dict[str, str]:
    """Return the marks of each method: paired permutation tests with Holm's correction."""
    best = best_of(cell)
    others = [m for m in cell["methods"] if m != best]
    judged = [m for m in cell["methods"] if m != "random"]
    like_best = adjusted([difference_p(values(cell, best), values(cell, m)) for m in others])
    chance = adjusted([difference_p(values(cell, "random"), values(cell, m)) for m in judged])
    marks = {best: "★"}
    marks |= {m: "≈" for m, p in zip(others, like_best, strict=True) if p >= SIGNIFICANT}
    for method, p in zip(judged, chance, strict=True):
        ahead = np.nanmean(values(cell, method) - values(cell, "random")) > 0
        if p >= SIGNIFICANT or not ahead:
            marks[method] = marks.get(method, "") + "○"
    return marks


def table(cell: Cell) -> str:
    """Return the table of a cell, best method first."""
    marks, cost = signs(cell), costs().get(cell["model"], {})
    lines = [
        "| method | prompts | reciprocal rank | 95 % interval | first | recall | tokens | with sink"
        " | passes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = sorted(
        cell["methods"],
        key=lambda m: (m in BASELINES, -float(np.nanmean(values(cell, m)))),
    )
    for method in order:
        ranks = values(cell, method)
        low, high = interval_of(ranks[~np.isnan(ranks)])
        columns = [f"{_mean(cell, method, key)}" for key in ("first", "recall", "tokens", "sink")]
        mark = f" {marks[method]}" if method in marks else ""
        lines.append(
            f"| `{method}` | {int((~np.isnan(ranks)).sum())} | {np.nanmean(ranks):.2f}{mark} |"
            f" {low:.2f} to {high:.2f} | {' | '.join(columns)} |"
            f" {_number(cost.get(method), 1)} |"
        )
    return "\n".join(lines)


def _mean(cell: Cell, method: str, key: str) -> str:
    known = values(cell, method, key)
    return "" if np.isnan(known).all() else f"{np.nanmean(known):.2f}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def overview(known: Sequence[Cell]) -> str:
    """Return methods x cells, and all prompts together."""
    heads = [f"{_short(c['model'])}, {c['task']}, {c['documents']}" for c in known]
    whole = pooled(known)
    lines = [
        "| method | passes | " + " | ".join(heads) + " | all prompts |",
        "|---|---|" + "---|" * (len(heads) + 1),
        "| *counted of tried* | | "
        + " | ".join(f"*{c['counted']} of {c['tried']}*" for c in [*known, whole])
        + " |",
    ]
    marks = [signs(cell) for cell in known]
    for method in ordered(known):
        texts = [
            f"{np.nanmean(values(c, method)):.2f}{_few(c, method)} {mark.get(method, '')}".strip()
            if method in c["methods"]
            else ""
            for c, mark in zip(known, marks, strict=True)
        ]
        passes = [c[method] for c in costs().values() if method in c]
        cost = f"{np.mean(passes):.1f}" if passes else ""
        line = " | ".join(texts)
        lines.append(f"| `{method}` | {cost} | {line} | {summarised(whole, method)} |")
    return "\n".join(lines)


def pooled(known: Sequence[Cell]) -> Cell:
    """Return all prompts of several cells as one."""
    methods: dict[str, dict[str, list[Any]]] = {}
    before = 0
    for cell in known:
        for name, numbers in cell["methods"].items():
            kept = methods.setdefault(name, {key: [] for key in numbers})
            for key, values_of in numbers.items():
                shift = before if key == "prompt" else 0
                kept[key] += [value + shift for value in values_of] if shift else values_of
        before += cell["counted"]
    return {"counted": before, "tried": sum(c["tried"] for c in known), "methods": methods}


def summarised(cell: Cell, method: str) -> str:
    """Return the mean over all prompts with its interval."""
    ranks = values(cell, method)
    low, high = interval_of(ranks[~np.isnan(ranks)])
    mark = signs(cell).get(method, "")
    return f"{np.nanmean(ranks):.2f}{_few(cell, method)} [{low:.2f}, {high:.2f}] {mark}".strip()


def _few(cell: Cell, method: str) -> str:
    """Return the number of prompts, if the method did not run on all of them."""
    count = int((~np.isnan(values(cell, method))).sum())
    return "" if count == cell["counted"] else f" ({count})"


def ordered(known: Sequence[Cell]) -> list[str]:
    """Return all methods by their mean over all prompts, baselines last."""
    whole = pooled(known)
    return sorted(
        whole["methods"], key=lambda m: (m in BASELINES, -float(np.nanmean(values(whole, m))))
    )


def mean_over_cells(known: Sequence[Cell], method: str) -> float:
    """Return the mean reciprocal rank over the cells that have the method."""
    have = [float(np.nanmean(values(c, method))) for c in known if method in c["methods"]]
    return float(np.mean(have)) if have else math.nan


def recommendations(known: Sequence[Cell]) -> str:
    """Return a method for each budget, and what does not work, over all prompts."""
    whole, least = pooled(known), 0.0
    marks = signs(whole)
    have = [m for m in ordered(known) if m not in BASELINES and _has_enough(whole, m)]
    lines = ["## Recommendations", ""]
    for budget, most in BUDGETS.items():
        fits = [m for m in have if least < _passes(m) <= most]
        listed = ", ".join(f"`{m}` ({_mean(whole, m, 'rank')})" for m in fits[:3])
        lines.append(wrapped(f"* **{budget}:** {listed}."))
        least = most
    poor = [m for m in have if "○" in marks.get(m, "")]
    worse = [m for m in have if m not in marks and m != best_of(whole)]
    lines.append(wrapped(f"* **Worse than the best method** over all prompts: {_listed(worse)}."))
    lines.append(
        wrapped(f"* **Not better than random numbers** over all prompts: {_listed(poor)}.")
    )
    for method in have:
        means = {_short(m): mean_over_cells(group, method) for m, group in _models(known).items()}
        if max(means.values()) - min(means.values()) > 0.2:
            each = " and ".join(f"{mean:.2f} in {name}" for name, mean in means.items())
            lines.append(wrapped(f"* **Depends on the model:** `{method}`, {each}."))
    for cell in (c for c in known if c["task"] == "two_hop"):
        shown = ("leave_one_out", "logit_update", DEFAULT, "attention", "lexical", "random")
        recalls = ", ".join(f"`{m}` {_mean(cell, m, 'recall')}" for m in shown)
        said = f"recall of the two documents of `two_hop`, {cell['counted']} prompts: {recalls}."
        lines.append(wrapped(f"* **Both hops**, in {_short(cell['model'])}: {said}"))
    p = difference_p(values(whole, DEFAULT), values(whole, have[0]))
    lines.append(
        wrapped(
            f"* **The default of `lens.answer`** is `{DEFAULT}`: {summarised(whole, DEFAULT)}, in"
            f" about one pass. Against `{have[0]}`, the best of the table, p = {p:.4f} before"
            f" Holm's correction. {DEFAULT_REASON}"
        )
    )
    return "\n".join(lines)


def _models(known: Sequence[Cell]) -> dict[str, list[Cell]]:
    names = dict.fromkeys(c["model"] for c in known)
    return {name: [c for c in known if c["model"] == name] for name in names}


def _passes(method: str) -> float:
    return max((c[method] for c in costs().values() if method in c), default=math.inf)


def _listed(methods: Sequence[str]) -> str:
    return ", ".join(f"`{method}`" for method in methods) or "none"


def learned_heads() -> str:
    """Return the section on learned head weights."""
    report = json.loads(HEADS.read_text(encoding="utf-8"))
    rows = report["rows"]
    lines = [
        "| features | fitted on | tested on | prompts | learned | 95 % interval | equal weights |"
        " p, equal | p, attention |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        p_attention = "" if row["feature"] == "attention" else f"{row['p against attention']:.2f}"
        lines.append(
            f"| `{row['feature']}` | {row['fitted on']} | {row['tested on']} |"
            f" {row['fitted']}, {row['tested']} | {row['learned']:.2f} |"
            f" {row['low']:.2f} to {row['high']:.2f} | {row['equal weights']:.2f} |"
            f" {row['p against equal']:.2f} | {p_attention} |"
        )
    better = sum(
        row["p against equal"] < SIGNIFICANT and row["learned"] > row["equal weights"]
        for row in rows
    )
    others = [row for row in rows if row["feature"] != "attention"]
    ahead = sum(row["p against attention"] < SIGNIFICANT for row in others)
    said = (
        f"Weights of heads, learned on one task of the model `{report['model']}` and tested on"
        f" another, or on the other half of the same. Learned weights are better than equal ones in"
        f" {better} of {len(rows)} rows, and features other than attention differ from attention in"
        f" {ahead} of {len(others)}. {HEADS_NOTE}"
    )
    return "\n\n".join(["## Learned head weights", wrapped(said), "\n".join(lines)])


def _short(model: str) -> str:
    return NAMES.get(model, model)


def draw(known: Sequence[Cell]) -> None:
    """Draw cost against recovery, one panel for each model."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "answers", "svg.fonttype": "none", "font.size": 9})
    names = [method for method in ordered(known) if method not in BASELINES]
    looks = itertools.product("osD^v", ("#1f6f8b", "#d1495b", "#edae49", "#66a182"))
    styles = dict(zip(names, looks, strict=False))
    models = [model for model in dict.fromkeys(c["model"] for c in known) if model in costs()]
    figure, panels = plt.subplots(
        1, len(models), figsize=(3.6 * len(models) + 2.2, 4.2), sharey=True
    )
    for axes, model in zip(np.atleast_1d(panels), models, strict=True):
        _draw_model(axes, [c for c in known if c["model"] == model], costs()[model], styles)
        axes.set_title(_short(model))
        axes.set_xlabel("cost in forward passes")
    np.atleast_1d(panels)[0].set_ylabel("reciprocal rank of the evidence")
    np.atleast_1d(panels)[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def _draw_model(
    axes: Any,
    known: Sequence[Cell],
    cost: Mapping[str, float],
    styles: Mapping[str, tuple[str, str]],
) -> None:
    floor = mean_over_cells(known, "random")
    axes.axhline(floor, color="0.6", linestyle=":", linewidth=1)
    axes.text(24, floor + 0.008, "random", color="0.4", ha="right")
    for method, (marker, colour) in styles.items():
        means = [float(np.nanmean(values(c, method))) for c in known if method in c["methods"]]
        if not means or method not in cost:
            continue
        passes, height = cost[method], float(np.mean(means))
        axes.plot([passes] * 2, [min(means), max(means)], color="0.85", linewidth=1, zorder=1)
        axes.scatter(
            [passes],
            [height],
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
    axes.set_xlim(0.95, 50)
    axes.set_ylim(0.4, 1.03)
    axes.spines[["top", "right"]].set_visible(False)


def commands(known: Sequence[Cell]) -> Iterator[str]:
    """Yield the command of each cell."""
    for cell in known:
        if "command" in cell:
            yield cell["command"]
            continue
        data = f"generated:{cell['task']}?documents={cell['documents']}"
        yield (
            f"python -m training.leaderboard.answers --model FOLDER/{cell['model']} --out OUT"
            f' --data "{data}"'
        )


def pages() -> dict[Path, str]:
    """Return the page."""
    known = cells()
    parts = [
        INTRODUCTION.strip(),
        overview(known),
        wrapped(MARKS),
        recommendations(known),
        wrapped(LIMITS),
        learned_heads(),
        "## Every cell",
    ]
    for cell in known:
        parts += [
            f"### {cell['model']}: {cell['task']}, {cell['documents']} documents",
            wrapped(
                f"{cell['counted']} of {cell['tried']} prompts count. A random answer among the"
                f" values of the prompt would be right in about 1 of {_choices(cell)}."
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
    draw(cells())
