"""Run an experiment and store its results in its own folder.

The observations of each text are saved during the run, so that an interrupted run can resume with
the next text. The folder appears only when the experiment is complete. If the folder already exists
with different settings, `reproduce` raises an error that lists the differences.
"""

from __future__ import annotations

import contextlib
import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens import __version__
from mixlens.datasets.dataset import digest
from mixlens.datasets.examples import Aligned, Example
from mixlens.errors import InvalidInput
from mixlens.maps.provenance import model_name, plain
from mixlens.papers.catalogue import module, resolve_experiment
from mixlens.papers.contracts import ExperimentSpec, Outcome, Setting
from mixlens.papers.folder import read_finished, result_of, select_published, write_finished
from mixlens.papers.questions import Memory
from mixlens.runs.example_view import MEASURES, example_frame
from mixlens.runs.journal import Journal
from mixlens.runs.observing import Progress, Workers
from mixlens.runs.settings import describe_model

if TYPE_CHECKING:
    from mixlens.datasets import Dataset
    from mixlens.lens import Lens


@dataclass(frozen=True)
class Reproduced:
    """A finished experiment, with its result and its folder."""

    name: str
    folder: Path | None
    result: Mapping[str, Any]
    outcome: Outcome | None = None  # None if an earlier run finished it


def reproduce(
    name: str,
    lens: Lens,
    dataset: Dataset | None = None,
    *,
    out: Path | None = None,
    sample: int | None = None,
    seed: int = 0,
    other: Lens | None = None,
    progress: Progress | None = None,
    context: Mapping[str, Any] | None = None,
    measure_options: Mapping[str, Mapping[str, Any]] | None = None,
    memory: Memory | None = None,
    workers: Workers | None = None,
    **options: Any,
) -> Reproduced:
    """Run one experiment (`paper/id`) on a model and a data set.

    The results are stored in a folder in `out`. Pass the same `memory` to several experiments to
    compute each observation and each measure of a text only once.
    """
    name = resolve_experiment(name)
    spec: ExperimentSpec = module(name).SPEC
    run: Callable[..., Outcome] = module(name).run
    require_model(spec, lens)
    other = _second(spec, other)
    count = sample if sample is not None else spec.texts
    examples = _cut(_examples(spec, dataset, count, seed), lens, spec.longest)
    settings = {
        "experiment": name,
        **_describe_models(lens, other),
        **_describe_data(dataset, examples),
        "seed": seed,
        **_describe_options(run, options, measure_options or {}),
        "mixlens": __version__,
    }
    folder = out / name.replace("/", "_") if out is not None else None
    if folder is not None and folder.exists():
        return Reproduced(name, folder, read_finished(folder, settings))
    with _journal(folder, settings) as journal:
        setting = Setting(
            lens=lens,
            examples=examples,
            seed=seed,
            other=other,
            progress=progress,
            context=dict(context or {}),
            measure_options=dict(measure_options or {}),
            memory=memory or Memory(),
            journal=journal,
            workers=workers,
        )
        outcome: Outcome = run(setting, **options)
        as_published = not options and not measure_options and sample is None
        numbers = _published_numbers(spec, lens, dataset) if as_published else None
        result = result_of(spec, settings, outcome, numbers)
        if folder is not None:
            example = example_frame(lens, examples, MEASURES)
            write_finished(folder, spec, result, outcome, example)
    return Reproduced(name, folder, result, outcome)


def _describe_models(lens: Lens, other: Lens | None) -> dict[str, Any]:
    first, second = describe_model(lens), {} if other is None else describe_model(other)
    return {
        "model": first["model"],
        "dtype": first["model dtype"],
        "weights": first["model weights"],
        "other_model": second.get("model"),
        "other_weights": second.get("model weights"),
    }


def _describe_data(dataset: Dataset | None, examples: list[Example]) -> dict[str, Any]:
    return {
        "data": _data_name(dataset),
        "texts": len(examples),
        "texts_digest": digest(examples),
    }


def _describe_options(
    run: Callable[..., Outcome], options: Mapping[str, Any], measure_options: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "options": plain(options),
        "all_options": plain({**_defaults(run), **options}),
        "measure_options": plain(measure_options),
    }


def _published_numbers(
    spec: ExperimentSpec, lens: Lens, dataset: Dataset | None
) -> Mapping[str, float] | None:
    """Return the numbers that the paper reports, or None if the model or the data differ."""
    return select_published(
        spec, model_name(lens.model), dataset.origin if dataset is not None else ""
    )


@contextlib.contextmanager
def _journal(folder: Path | None, settings: Mapping[str, Any]) -> Iterator[Journal]:
    """Yield the journal of an unfinished experiment.

    The journal is stored next to the experiment's folder.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as place, Journal.open(Path(place), {}) as journal:
            yield journal
        return
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    with Journal.open(unfinished, settings) as journal:
        yield journal
        shutil.rmtree(unfinished)


def _defaults(run: Callable[..., Outcome]) -> dict[str, Any]:
    return {
        name: p.default
        for name, p in inspect.signature(run).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }


def _second(spec: ExperimentSpec, other: Lens | None) -> Lens | None:
    """Return the second model if the experiment compares two models, or None otherwise."""
    if not spec.compares:
        return None
    if other is None:
        raise InvalidInput(
            "This experiment compares two models. Pass the second with --other-model."
        )
    require_model(spec, other)
    return other


def require_model(spec: ExperimentSpec, lens: Lens) -> None:
    """Raise an error if the experiment needs a different kind of model."""
    config = lens.model.config
    kind = type(lens.model).__name__
    translates = bool(getattr(config, "is_encoder_decoder", False))
    listens = getattr(lens.model, "main_input_name", "") in ("input_features", "input_values")
    if spec.needs == "speech":
        if not listens or lens.processor is None:
            raise InvalidInput(
                f"{kind} does not take audio, or has no processor. Pass a speech model such as "
                "Whisper with --model."
            )
        return
    if spec.needs == "translation" and not translates:
        raise InvalidInput(
            f"{kind} is not a translation model. Pass one (such as Marian) with --model."
        )
    if spec.needs != "translation" and translates:
        raise InvalidInput(
            f"{kind} is an encoder-decoder model. Pass a model with a single stack of layers "
            "with --model."
        )
    if spec.needs == "classifier" and not kind.endswith("ForSequenceClassification"):
        raise InvalidInput(
            f"{kind} is not a classifier. Train one with `mixlens finetune classification`, "
            "or pass one with --model."
        )
    if spec.needs == "masked" and not kind.endswith(("ForMaskedLM", "ForPreTraining")):
        raise InvalidInput(f"{kind} is not a masked language model. Pass one with --model.")
    if spec.needs == "causal" and not kind.endswith(("ForCausalLM", "LMHeadModel")):
        raise InvalidInput(f"{kind} is not a causal language model. Pass one with --model.")
    if spec.needs == "language" and not kind.endswith(
        ("ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel")
    ):
        raise InvalidInput(f"{kind} is not a language model. Pass one with --model.")


def _examples(
    spec: ExperimentSpec, dataset: Dataset | None, sample: int | None, seed: int
) -> list[Example]:
    if not spec.kinds:
        return []
    if dataset is None:
        raise InvalidInput(f"This experiment needs data ({spec.data}). Pass it with --data.")
    if sample is not None:
        dataset = dataset.sample(sample, seed)
    examples = []
    for example in dataset.examples:
        if example.kind in spec.kinds:
            examples.append(example)
        elif "text" in spec.kinds and not isinstance(example, Aligned):
            examples.append(
                Example(
                    name=example.name, text=example.text, pair=example.pair, group=example.group
                )
            )
    if not examples:
        raise InvalidInput(
            f"{dataset.name} has {dataset.kind} examples. This experiment needs "
            f"{' or '.join(spec.kinds)} examples ({spec.data})."
        )
    return examples


def _cut(examples: list[Example], lens: Lens, longest: int | None) -> list[Example]:
    """Truncate plain texts to `longest` tokens."""
    if longest is None or not getattr(lens.tokenizer, "is_fast", False):
        return examples
    cut_examples = []
    for example in examples:
        if type(example) is Example and example.pair is None:
            ends = lens.tokenizer(
                example.text, add_special_tokens=False, return_offsets_mapping=True
            )["offset_mapping"]
            if len(ends) > longest:
                example = replace(example, text=example.text[: ends[longest - 1][1]])
        cut_examples.append(example)
    return cut_examples


def _data_name(dataset: Dataset | None) -> str | None:
    """Return the name of a data set with its folder, because many files are called dev.tsv."""
    if dataset is None:
        return None
    origin = Path(dataset.origin)
    return (
        "/".join(origin.parts[-2:])
        if origin.name == dataset.name and origin.suffix
        else dataset.name
    )


def data_path(spec: ExperimentSpec, data: Path) -> Path:
    """Return the path of an experiment's data.

    If `data` is a folder of data sets, return the file in it that matches the usual names of the
    paper's data. Otherwise, return `data`.
    """
    if data.is_dir():
        for pattern in spec.files:
            for path in sorted(data.glob(pattern)):
                return path
    return data
