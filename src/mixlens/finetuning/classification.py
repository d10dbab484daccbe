"""Fine-tune a classifier of texts or pairs of texts (SST-2, CoLA, MRPC …).

A pretrained model gets a new classification head, and all weights are trained.

Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers", NAACL, appendix A.3:
batch size 32, learning rate 2e-5 (the paper tries 5e-5, 3e-5 and 2e-5), and 3 epochs (the paper
tries 2, 3 and 4). AdamW with weight decay 0.01, linear warm-up over a tenth of the steps, linear
decay and gradient clipping at norm 1 follow the paper's code. These learning rates suit models of
BERT's size. Smaller models need a higher rate or more epochs.

mixlens uses the head of `AutoModelForSequenceClassification` in transformers. You can pass any
model whose architecture has such a head, even a masked or causal language model, or a model without
a head. The pretrained weights are copied, and weights that only the new model has are initialised
from the seed.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from mixlens.datasets.examples import Example, Labelled
from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.finetuning.loop import log
from mixlens.finetuning.result import Finetuned, finetune_and_evaluate, working_copy
from mixlens.finetuning.scoring import ClassChoices, Item, Objective, Settings
from mixlens.finetuning.training_data import most_tokens, portion, token_inputs
from mixlens.lens import Lens
from mixlens.model.loading import newly_initialised

SETTINGS = Settings(epochs=3, rate=2e-5, batch=32, weight_decay=0.01, clip=1.0)


def classifier_finetuned(
    lens: Lens,
    examples: Sequence[Example],
    held_out: Sequence[Example] | None = None,
    *,
    settings: Settings = SETTINGS,
    out: str | os.PathLike[str] | None = None,
    source: str | None = None,
    held_out_source: str | None = None,
    in_place: bool = False,
) -> Finetuned:
    """Fine-tune a classifier on labelled examples.

    The report contains the accuracy and the Matthews correlation on `held_out` (by default, a tenth
    of the examples of each class), and the names of the data sources.

    If you pass `out`, the model is saved there, and an interrupted run resumes after its last
    epoch. The model is copied unless you pass `in_place=True`. In that case, the model must already
    be a classifier with the classes of the data.
    """
    first = list_labelled(examples)
    second = [] if held_out is None else list_labelled(held_out)
    split = "given" if held_out is not None else "a tenth of each class, by seed"
    if held_out is None:
        first, second = portion(first, seed=settings.seed)
    labels = label_order(first)
    _require_known(labels, second)
    model, fresh = classifier(lens, labels, settings, in_place)
    if fresh:
        log(f"new, not trained before: {', '.join(fresh)}")
    tokenizer = _padding_tokenizer(lens.tokenizer, model)
    longest = min(settings.longest, most_tokens(model, tokenizer))
    cut: list[str] = []
    items, held_out_items = (
        [_item(model, tokenizer, example, labels, longest, cut) for example in part]
        for part in (first, second)
    )
    about = {
        "source": source,
        "held_out_source": held_out_source,
        "split": split,
        "labels": labels,
        "cut_short": len(cut),
        "held_out_texts_also_trained_on": _shared_texts(first, second),
        "new_parts": fresh,
    }
    task = Objective(lambda logits, _: logits, tokenizer.pad_token_id)
    return finetune_and_evaluate(
        "classification",
        model,
        tokenizer,
        (items, held_out_items),
        task,
        settings,
        correlations,
        about,
        out,
    )


def list_labelled(examples: Sequence[Example]) -> list[Labelled]:
    """Return the examples as a list.

    Raise an error if there are no examples, or if one of them has no class.
    """
    if not examples:
        raise InvalidInput("No training examples were passed. Pass at least one.")
    for example in examples:
        if not isinstance(example, Labelled):
            raise InvalidInput(
                f"{example.name} is of kind {example.kind} and has no class. Pass labelled texts."
            )
    return [example for example in examples if isinstance(example, Labelled)]


def label_order(examples: Sequence[Labelled]) -> list[str]:
    """Return the class names in a fixed order, whatever the order of the examples.

    Numbers come first in numerical order, then words in alphabetical order.
    """
    labels = {example.label for example in examples}
    order = sorted(
        labels, key=lambda label: (0, int(label), label) if label.isdecimal() else (1, 0, label)
    )
    if len(order) < 2:
        raise InvalidInput(f"Every example has the class {order[0]!r}. Pass at least two classes.")
    return order


def _require_known(labels: Sequence[str], held_out: Sequence[Labelled]) -> None:
    for example in held_out:
        if example.label not in labels:
            raise InvalidInput(
                f"{example.name} has the class {example.label!r}, which is not among the "
                f"trained ones: {', '.join(labels)}. Remove the example."
            )


def _shared_texts(first: Sequence[Labelled], second: Sequence[Labelled]) -> int:
    first_texts = {(example.text, example.pair) for example in first}
    count = sum((example.text, example.pair) in first_texts for example in second)
    if count:
        log(
            f"{count} of the {len(second)} held-out texts are also training texts, so the "
            "scores below are too high"
        )
    return count


# ---------------------------------------------------------------------------------------- the model


def classifier(
    lens: Lens, labels: Sequence[str], settings: Settings, in_place: bool = False
) -> tuple[Any, list[str]]:
    """Return the model with a classification head for these labels.

    Also return the names of the modules that have newly initialised weights.
    """
    source: Any = lens.model
    names = dict(enumerate(labels))
    same = (
        "ForSequenceClassification" in type(source).__name__
        and dict(source.config.id2label) == names
        and not newly_initialised(source)
    )
    if same:
        return working_copy(source, settings, in_place), []
    if in_place:
        raise InvalidInput(
            "This model has no classifier for these classes, which in_place=True needs. Pass "
            "in_place=False."
        )
    config = copy.deepcopy(source.config)
    config.id2label, config.label2id = names, {label: number for number, label in names.items()}
    config.problem_type = "single_label_classification"
    head: Any = transformers.AutoModelForSequenceClassification
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        try:
            model = head.from_config(config, dtype=torch.float32)
        except ValueError as error:
            raise InvalidInput(
                "transformers has no text classifier for models of type "
                f"{config.model_type!r}. Use a different model."
            ) from error
    fresh = _take_over(model, source)
    return working_copy(model.to(source.device), settings, True), fresh


def _take_over(model: Any, source: Any) -> list[str]:
    """Copy the weights below the classification head from the original model.

    Return the names of all other modules, whose weights are initialised from the seed: the head,
    and modules that the original model or its checkpoint lacks (such as a pooler).
    """
    body, source_weights = model.base_model, source.base_model.state_dict()
    prefix = "" if source.base_model is source else f"{source.base_model_prefix}."
    for name in newly_initialised(source):
        source_weights.pop(name.removeprefix(prefix), None)
    lacking, different = body.load_state_dict(source_weights, strict=False)
    numbered = [name for name in lacking if any(part.isdecimal() for part in name.split("."))]
    if numbered or different:
        raise InvalidInput(
            f"The layers of {type(source).__name__} do not match those of "
            f"{type(model).__name__} ({', '.join((numbered + different)[:3])} …). Use a "
            "different model."
        )
    copied_names = {f"{model.base_model_prefix}.{name}" for name in source_weights}
    return sorted(
        {
            name.rpartition(".")[0]
            for name, _ in model.named_parameters()
            if name not in copied_names
        }
    )


def _padding_tokenizer(tokenizer: Any, model: Any) -> Any:
    """Return a tokenizer that has a padding token, and set its id in the model's configuration.

    A classifier may read the class from the last token that is not padding.
    """
    if tokenizer is None:
        raise MissingTokenizer("Fine-tuning needs a tokenizer. Add one to the model.")
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise InvalidInput("The tokenizer has no padding token. Set tokenizer.pad_token.")
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def _item(
    model: Any,
    tokenizer: Any,
    example: Labelled,
    labels: Sequence[str],
    longest: int,
    cut: list[str],
) -> Item:
    text = example.text if example.pair is None else (example.text, example.pair)
    inputs = token_inputs(model, tokenizer, text)
    if len(inputs["input_ids"]) > longest:
        cut.append(example.name)
        inputs = token_inputs(model, tokenizer, text, longest)
    return Item(example.name, inputs, labels.index(example.label), example.group)


# ------------------------------------------------------------------------------------------- scores


def correlations(items: Sequence[Item], scores: ClassChoices) -> dict[str, Any]:
    """Return the accuracy, the Matthews correlation and the loss."""
    answers = [item.answer for item in items]
    return {
        "accuracy": scores.accuracy(items),
        "matthews": matthews(answers, scores.choices),
        "loss": scores.loss,
    }


def matthews(answers: Sequence[int], predictions: Sequence[int]) -> float:
    """Return the Matthews correlation for any number of classes, or 0 if it is undefined.

    See Gorodkin (2004), "Comparing two K-category assignments".
    """
    size = max(*answers, *predictions) + 1
    table = np.zeros((size, size))
    np.add.at(table, (np.asarray(answers), np.asarray(predictions)), 1)
    total, right, truth, guess = table.sum(), np.trace(table), table.sum(1), table.sum(0)
    below = np.sqrt((total**2 - guess @ guess) * (total**2 - truth @ truth))
    return float((right * total - truth @ guess) / below) if below else 0.0
