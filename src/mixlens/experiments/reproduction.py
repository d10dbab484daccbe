"""Runs an experiment and keeps what it found: CSV tables, SVG figures, one `result.json` and a page
`README.md` in a folder of its own.

A folder appears only when its experiment is finished, so that a run that was stopped goes on with
the first unfinished one. A finished folder made with other settings is never mixed up with this
run: the error says what differs.
"""

from __future__ import annotations

import inspect
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens import __version__
from mixlens.corpus.dataset import digest
from mixlens.corpus.examples import Aligned, Example
from mixlens.errors import InvalidInput
from mixlens.experiments import module, resolved
from mixlens.experiments.contracts import Outcome, Setting, Spec
from mixlens.experiments.memory import Memory
from mixlens.provenance import model_name, plain, weights_digest

if TYPE_CHECKING:
    from mixlens.corpus import Dataset
    from mixlens.lens import Lens


@dataclass(frozen=True)
class Reproduced:
    """A finished experiment: its numbers, and the folder where all of it lies."""

    name: str
    folder: Path | None
    result: Mapping[str, Any]
    outcome: Outcome | None = None  # None where an earlier run had it finished


def reproduce(
    name: str,
    lens: Lens,
    dataset: Dataset | None = None,
    *,
    out: Path | None = None,
    sample: int | None = None,
    seed: int = 0,
    other: Lens | None = None,
    track: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
    context: Mapping[str, Any] | None = None,
    measure_options: Mapping[str, Mapping[str, Any]] | None = None,
    memory: Memory | None = None,
    **options: Any,
) -> Reproduced:
    """Runs one experiment (`paper/id`) on a model and a data set; `out` is where its folder is
    made.

    Experiments that are given the same `memory` ask each question of a text only once.
    """
    name = resolved(name)
    found = module(name)
    spec: Spec = found.SPEC
    require_model(spec, lens)
    if spec.compares and other is None:
        raise InvalidInput("this experiment compares two models: name the second by --other-model")
    if spec.compares and other is not None:
        require_model(spec, other)
    examples = _cut(
        _examples(spec, dataset, sample if sample is not None else spec.texts, seed),
        lens,
        spec.longest,
    )
    complete = {**_defaults(found.run), **options}
    settings = {
        "experiment": name,
        "model": model_name(lens.model),
        "dtype": str(next(lens.model.parameters()).dtype),
        "weights": weights_digest(lens.model),
        "other_weights": weights_digest(other.model) if other is not None else None,
        "data": _data_name(dataset),
        "texts": len(examples),
        "texts_digest": digest(examples),
        "seed": seed,
        "other_model": model_name(other.model) if other is not None else None,
        "options": options,
        "all_options": plain(complete),
        "measure_options": dict(measure_options or {}),
        "mixlens": __version__,
    }
    folder = out / name.replace("/", "_") if out is not None else None
    if folder is not None and folder.exists():
        return Reproduced(name, folder, _finished(folder, settings))
    known: dict[str, Any] = {
        **({"track": track} if track else {}),
        **({"memory": memory} if memory else {}),
    }
    setting = Setting(
        lens,
        examples,
        seed,
        other,
        context=dict(context or {}),
        measure_options=dict(measure_options or {}),
        **known,
    )
    outcome: Outcome = found.run(setting, **options)
    as_published = not options and not measure_options and sample is None
    origin = dataset.origin if dataset is not None else ""
    result = _result(
        spec,
        settings,
        outcome,
        published(spec, model_name(lens.model), origin) if as_published else None,
    )
    if folder is not None:
        _write(folder, spec, result, outcome)
    return Reproduced(name, folder, result, outcome)


def _defaults(run: Callable[..., Outcome]) -> dict[str, Any]:
    return {
        name: p.default
        for name, p in inspect.signature(run).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }


def require_model(spec: Spec, lens: Lens) -> None:
    """The kind of model that an experiment is about, or an error that says how to get one."""
    config = lens.model.config
    kind = type(lens.model).__name__
    translates = bool(getattr(config, "is_encoder_decoder", False))
    if spec.needs == "translation" and not translates:
        raise InvalidInput(
            f"this experiment needs a translation model (such as Marian), and {kind} is none: name"
            " one by --model"
        )
    if spec.needs != "translation" and translates:
        raise InvalidInput(
            "this experiment is about a single stack of layers, not about an encoder-decoder model"
            f" ({kind})"
        )
    if spec.needs == "classifier" and not kind.endswith("ForSequenceClassification"):
        raise InvalidInput(
            f"this experiment needs a classifier, and {kind} is none: make one with `mixlens"
            " finetune classification`, or name one by --model"
        )
    if spec.needs == "masked" and not kind.endswith(("ForMaskedLM", "ForPreTraining")):
        raise InvalidInput(
            f"this experiment masks words, and {kind} is no masked language model: name one by"
            " --model"
        )
    if spec.needs == "language" and not kind.endswith(
        ("ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel")
    ):
        raise InvalidInput(
            f"this experiment asks the model for words, and {kind} is no language model: name one"
            " by --model"
        )


def _examples(spec: Spec, dataset: Dataset | None, sample: int | None, seed: int) -> list[Example]:
    if not spec.kinds:
        return []
    if dataset is None:
        raise InvalidInput(f"this experiment needs data: {spec.data}")
    if sample is not None:
        dataset = dataset.sample(sample, seed)
    found = []
    for example in dataset.examples:
        if example.kind in spec.kinds:
            found.append(example)
        elif "text" in spec.kinds and not isinstance(example, Aligned):
            found.append(
                Example(
                    name=example.name, text=example.text, pair=example.pair, group=example.group
                )
            )
    if not found:
        raise InvalidInput(
            f"this experiment takes {' or '.join(spec.kinds)} examples ({spec.data});"
            f" {dataset.name} has {dataset.kind}"
        )
    return found


def _cut(examples: list[Example], lens: Lens, longest: int | None) -> list[Example]:
    """Plain texts without what stands after the last token that is wanted."""
    if longest is None or not getattr(lens.tokenizer, "is_fast", False):
        return examples
    found = []
    for example in examples:
        if type(example) is Example and example.pair is None:
            ends = lens.tokenizer(
                example.text, add_special_tokens=False, return_offsets_mapping=True
            )["offset_mapping"]
            if len(ends) > longest:
                example = replace(example, text=example.text[: ends[longest - 1][1]])
        found.append(example)
    return found


def _data_name(dataset: Dataset | None) -> str | None:
    """With the folder that it lies in: there are many files dev.tsv."""
    if dataset is None:
        return None
    origin = Path(dataset.origin)
    return (
        "/".join(origin.parts[-2:])
        if origin.name == dataset.name and origin.suffix
        else dataset.name
    )


def published(spec: Spec, model: str, origin: str) -> Mapping[str, float] | None:
    """The paper's numbers where both the checkpoint and the data are the paper's own: only then can
    they be compared one to one.
    """
    name = model.rstrip("/").split("/")[-1].lower()
    own_data = not spec.kinds or any(Path(origin).match(pattern) for pattern in spec.own_files)
    return spec.published.get(name, {}) if name in spec.models and own_data else None


def _result(
    spec: Spec, settings: Mapping[str, Any], outcome: Outcome, own: Mapping[str, float] | None
) -> dict[str, Any]:
    return {
        "settings": dict(settings),
        "title": spec.title,
        "papers_own_model_and_data": own is not None,
        "numbers": {
            key: {"measured": _plain(value), "published": (own or {}).get(key)}
            for key, value in outcome.measured.items()
        },
        "findings": [
            {
                "statement": found.statement,
                "holds": None if found.holds is None else bool(found.holds),
                "numbers": found.numbers,
            }
            for found in outcome.findings
        ],
        "skipped": [list(pair) for pair in outcome.skipped],
        "notes": outcome.notes,
        "tables": [f"{key}.csv" for key in outcome.tables],
        "figures": [f"{key}.svg" for key in outcome.figures],
    }


def _plain(value: Any) -> Any:
    number = float(value)
    return None if math.isnan(number) else number


def _finished(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    path = folder / "result.json"
    if not path.is_file():
        raise InvalidInput(
            f"{folder} is in the way: it holds no result of an experiment. Choose another --out"
        )
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    before = result["settings"]
    for key, value in settings.items():
        if json.loads(json.dumps(value)) != before.get(key) and key != "options":
            raise InvalidInput(
                f"{folder} was made with {key} = {before.get(key)}, now it is {value}: choose"
                " another --out, or delete the folder"
            )
    return result


def _write(folder: Path, spec: Spec, result: Mapping[str, Any], outcome: Outcome) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for key, frame in outcome.tables.items():
            frame.to_csv(making / f"{key}.csv", index=False)
        for key, figure in outcome.figures.items():
            figure.savefig(making / f"{key}.svg", metadata={"Date": None})
        (making / "result.json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (making / "README.md").write_text(page(spec, result, outcome), encoding="utf-8")
        making.chmod(0o755)
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def page(spec: Spec, result: Mapping[str, Any], outcome: Outcome) -> str:
    """The outcome as one Markdown page."""
    settings = result["settings"]
    about = (
        f"{settings['model']}, {settings['texts']} texts of {settings['data']}, seed"
        f" {settings['seed']}."
    )
    parts = [f"# {settings['experiment']}: {spec.title}", about]
    parts.append(
        f"The paper ({', '.join(spec.models) or 'its own models'}; {spec.data}): {spec.finding}"
    )
    if result["findings"]:
        verdicts = {True: "holds", False: "does not hold", None: "cannot be told"}
        rows = [
            f"| {cell(f['statement'])} | {verdicts[f['holds']]} | {cell(f['numbers'])} |"
            for f in result["findings"]
        ]
        parts.append("\n".join(["| statement | here | numbers |", "|---|---|---|", *rows]))
    if result["numbers"]:
        rows = [
            f"| {cell(key)} | {_shown(pair['measured'])} | {_shown(pair['published'])} |"
            for key, pair in result["numbers"].items()
        ]
        parts.append("\n".join(["| number | measured | published |", "|---|---|---|", *rows]))
    parts += [f"![{Path(name).stem}]({name})" for name in result["figures"]]
    parts += [f"[{name}]({name})" for name in result["tables"]]
    if outcome.skipped:
        parts.append(
            f"{len(outcome.skipped)} texts were left out; the first: {outcome.skipped[0][0]}:"
            f" {outcome.skipped[0][1]}"
        )
    return "\n\n".join([*parts, *([outcome.notes] if outcome.notes else [])]) + "\n"


def cell(text: str) -> str:
    """Text in a table of Markdown, where a bar would begin the next cell."""
    return text.replace("|", "\\|")


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def data_path(spec: Spec, given: Path) -> Path:
    """Where an experiment's data lies: below a folder of data sets by the paper's usual names, else
    what was given.
    """
    if given.is_dir():
        for pattern in spec.files:
            for found in sorted(given.glob(pattern)):
                return found
    return given
