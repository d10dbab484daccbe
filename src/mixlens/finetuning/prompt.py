"""Prompt fine-tuning: train a language model to prefer the right word at a mask.

Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers", EACL, section 4.2, following
Gao et al. (2021), "Making Pre-trained Language Models Better Few-shot Learners", ACL: the model
gets no new head, and the loss is the cross-entropy of the softmax over {target, foil} at the mask.
Half of the examples are used for training, and the other half is held out.

Learning rate 3e-5, AdamW without weight decay, linear warm-up over a tenth of the steps and linear
decay follow the authors' code. A batch size of 64 and 5 epochs are mixlens's choice, because the
authors' code takes both as arguments and only mentions these values in a comment. The authors split
the five paradigms together, after drawing the singular examples of one paradigm with replacement.
mixlens splits each paradigm into halves that share no sentence.

A causal model predicts the target from the text before it. Examples that it cannot answer, because
the target is the first word or a cue comes after the target, are skipped and counted. Examples
whose target or foil is not a single token are also skipped, as in the authors' code.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens.datasets.examples import Agreement, Example
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.finetuning.loop import log
from mixlens.finetuning.result import Finetuned, finetune_and_evaluate, working_copy
from mixlens.finetuning.scoring import ClassChoices, Item, Objective, Settings
from mixlens.finetuning.training_data import halves, most_tokens, token_inputs
from mixlens.lens import Lens
from mixlens.model.loading import require_head
from mixlens.text.vocabulary import word_id

SETTINGS = Settings(epochs=5, rate=3e-5, batch=64)


def prompt_finetuned(
    lens: Lens,
    examples: Sequence[Example],
    *,
    settings: Settings = SETTINGS,
    out: str | os.PathLike[str] | None = None,
    source: str | None = None,
    in_place: bool = False,
) -> Finetuned:
    """Fine-tune a language model on half of the agreement examples.

    The report contains the accuracy on the other half before and after training, and `source`.

    If you pass `out`, the model is saved there, and an interrupted run resumes after its last
    epoch. The model is copied unless you pass `in_place=True`.
    """
    usable = agreements(examples)
    require_head(lens.model)
    first, second = halves(usable, settings.seed)
    reasons: Counter[str] = Counter()
    longest = min(settings.longest, most_tokens(lens.model, lens.tokenizer))
    items, held_out = (prompts(lens, part, longest, reasons) for part in (first, second))
    if not items or not held_out:
        raise InvalidInput(
            f"None of the {len(usable)} examples can be used with this model: "
            f"{dict(reasons)}. Use other data."
        )
    if reasons:
        log("left out: " + ", ".join(f"{count} ({reason})" for reason, count in reasons.items()))
    about = {"source": source, "split": "halves of each group, by seed", "left_out": dict(reasons)}
    model = working_copy(lens.model, settings, in_place)
    padding = getattr(lens.tokenizer, "pad_token_id", None) or 0
    return finetune_and_evaluate(
        "prompt",
        model,
        lens.tokenizer,
        (items, held_out),
        Objective(choices, padding),
        settings,
        accuracies,
        about,
        out,
    )


def agreements(examples: Sequence[Example]) -> list[Agreement]:
    """Return the examples. Raise an error if one of them has no target or foil."""
    for example in examples:
        if not isinstance(example, Agreement):
            raise InvalidInput(
                f"{example.name} is of kind {example.kind}. Pass agreement examples, with a "
                "target and a foil."
            )
    return [example for example in examples if isinstance(example, Agreement)]


def prompts(
    lens: Lens, examples: Sequence[Agreement], longest: int, reasons: Counter[str]
) -> list[Item]:
    """Convert the examples to prompts, and count skipped examples by reason in `reasons`."""
    items = []
    for example in examples:
        try:
            items.append(_prompt(lens, example, longest))
        except _LeftOut as reason:
            reasons[str(reason)] += 1
    return items


class _LeftOut(Exception):
    """Raised to skip an example, with the reason as its message."""


def _prompt(lens: Lens, example: Agreement, longest: int) -> Item:
    case, start = Case(lens, example), example.place[0]
    if case.causal:
        if not example.text[:start].strip():
            raise _LeftOut("the target is the first word")
        if any(first > start for first, _ in example.cues):
            raise _LeftOut("a cue comes after the target")
    inputs = token_inputs(lens.model, lens.tokenizer, case.given)
    ids = inputs["input_ids"]
    if len(ids) > longest:
        raise _LeftOut(f"more than {longest} tokens")
    try:
        words = tuple(
            word_id(lens.tokenizer, word, len(lens.tokenizer))
            for word in (example.target, example.foil)
        )
    except InvalidInput:
        raise _LeftOut("target or foil is not one token") from None
    if words[0] == words[1]:
        raise _LeftOut("target and foil are the same token")
    if case.causal:
        return Item(example.name, inputs, 0, example.group, words, len(ids) - 1)
    if ids.count(lens.tokenizer.mask_token_id) != 1:
        raise _LeftOut("the text does not have exactly one mask")
    return Item(
        example.name, inputs, 0, example.group, words, ids.index(lens.tokenizer.mask_token_id)
    )


def choices(logits: Tensor, items: Sequence[Item]) -> Tensor:
    """Return the logits of target and foil at the target position."""
    if logits.dim() != 3:
        raise InvalidInput(
            "This model predicts a class of the whole text. Pass a masked or causal language model."
        )
    texts = torch.arange(len(items), device=logits.device)
    places = torch.tensor([item.place for item in items], device=logits.device)
    words = torch.tensor([item.words for item in items], device=logits.device)
    return logits[texts, places].gather(1, words)


def accuracies(items: Sequence[Item], scores: ClassChoices) -> dict[str, Any]:
    """Return the accuracy over all examples, and for each group if the data has groups."""
    groups: dict[str, list[bool]] = {}
    for item, choice in zip(items, scores.choices, strict=True):
        groups.setdefault(item.group or "", []).append(choice == item.answer)
    summary: dict[str, Any] = {"accuracy": scores.accuracy(items), "loss": scores.loss}
    if set(groups) != {""}:
        summary["by_group"] = {
            group: sum(right) / len(right) for group, right in sorted(groups.items())
        }
    return summary
