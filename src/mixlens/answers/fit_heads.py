"""Fit head weights on prompts with answers, and write them to a file (`mixlens fit-heads`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.answers.head_examples import (
    FitPrompt,
    collect_examples,
    example_key,
    keep_examples,
    load_examples,
    read_fit_prompts,
)
from mixlens.answers.head_fitting import HeadExample, fit_weights
from mixlens.contracts.head_weights import FEATURES, HeadWeights, sample_layer
from mixlens.errors import InvalidInput, UnsupportedModel, no_such
from mixlens.maps.provenance import model_name, versions, weights_digest

if TYPE_CHECKING:
    from mixlens.lens import Lens

Progress = Callable[[int, int], None]


def fit_heads(
    lens: Lens,
    prompts: str | os.PathLike[str] | Iterable[FitPrompt],
    *,
    features: str = "attention",
    masks: int = 32,
    steps: int = 1000,
    seed: int = 0,
    keep: str | os.PathLike[str] | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> HeadWeights:
    """Learn a weight for each attention head from prompts with answers (AT2).

    Each prompt takes one forward pass for the features and `masks` passes with hidden sources.

    Parameters
    ----------
    lens
        The lens of the model.
    prompts
        A file with one JSON object per line, or a list of prompts.
    features
        The measure whose per-head scores are weighted: "attention", "attention_norm",
        "contribution_weights" or "flow_routes".
    masks
        Number of random masks for each prompt.
    steps
        Number of optimiser steps.
    seed
        Seed for the order of the examples.
    keep
        A folder in which to store the examples of each prompt. Stored examples are not computed
        again.
    batch_size
        Number of masks to run at once.
    progress
        A function that is called with the number of finished prompts and the total number of
        prompts.

    Returns
    -------
    HeadWeights
        The weights. `weights.save(file)` writes them for `lens.measure("learned_heads", …)`.

    Raises
    ------
    InvalidInput
        If a prompt cannot be read, or no prompt has two segments.
    """
    _check(features, masks, steps)
    fit_prompts = (
        read_fit_prompts(prompts) if isinstance(prompts, (str, os.PathLike)) else list(prompts)
    )
    digest, report = weights_digest(lens.model), progress or (lambda done, total: None)
    folder = None if keep is None else Path(keep)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    examples = []
    for number, each in enumerate(fit_prompts, 1):
        prompt_examples = _examples(lens, each, features, masks, digest, folder, batch_size)
        examples += [prompt_examples] if prompt_examples else []
        report(number, len(fit_prompts))
    if not examples:
        raise InvalidInput(
            "No prompt can be used for the fit, because hiding its segments does not change the"
            " answer. Pass other prompts."
        )
    fit = fit_weights(examples, steps, seed)
    layers = _layers(lens, fit_prompts[0])
    heads, remainder = divmod(len(fit.weights), len(layers))
    if remainder:
        raise UnsupportedModel(
            f"{type(lens.model).__name__} has layers with different numbers of heads. "
            "Choose another model."
        )
    return HeadWeights(
        fit.weights.reshape(len(layers), heads),
        features,
        np.stack([_sample(layer) for layer in layers]),
        {
            "model": model_name(lens.model),
            "class": type(lens.model).__name__,
            "digest": digest,
            "prompts": len(fit_prompts),
            "used": len(examples),
            "targets": sum(map(len, examples)),
            "masks": masks,
            "steps": steps,
            "seed": seed,
            "correlation": -fit.loss,
            "versions": versions(),
        },
    )


def _check(features: str, masks: int, steps: int) -> None:
    if features not in FEATURES:
        raise InvalidInput(no_such("features", features, FEATURES))
    for name, count, least in (("masks", masks, 3), ("steps", steps, 1)):
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise InvalidInput(f"{name}={count!r} is out of range. Pass at least {least}.")


def _examples(
    lens: Any,
    prompt: FitPrompt,
    features: str,
    masks: int,
    digest: str,
    folder: Path | None,
    batch_size: int | None,
) -> list[HeadExample]:
    if folder is None:
        return collect_examples(lens, prompt, features, masks, batch_size)
    path = folder / f"{example_key(prompt, features, masks, digest)}.npz"
    if not path.exists():
        keep_examples(path, collect_examples(lens, prompt, features, masks, batch_size))
    return load_examples(path)


def _layers(lens: Any, prompt: FitPrompt) -> list[Any]:
    """Return the layers whose heads get a weight."""
    recording = lens.generate(prompt.prompt, answer=prompt.answer)
    stack = recording.last_stack
    return [lens.model.get_submodule(layer.path) for layer in stack.layers]


def _sample(layer: Any) -> np.ndarray:
    sample = sample_layer(layer)
    if sample is None:
        raise UnsupportedModel(
            "The weights of the model are offloaded or quantised, so they cannot be read. Load the"
            " model without offloading and quantisation."
        )
    return sample
