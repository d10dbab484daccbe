"""Convert the logits of a head to probabilities, with the same function as the model's own API.

* Words (masked, causal and encoder-decoder language models): softmax over the vocabulary.
* Classes of a text, an image or audio: `config.problem_type` decides, as in the pipelines of
  transformers. Multi-label models use a sigmoid of each logit, single-label models a softmax.
  Regression models have no probabilities.
* Classes of tokens, next-sentence prediction, multiple choice: softmax.

Other heads (replaced tokens, table cells, speakers, boxes) have their own conventions. You can
explain their logits, but asking for a probability raises `InvalidInput`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from mixlens.errors import InvalidInput
from mixlens.text.vocabulary import gives_token_classes

if TYPE_CHECKING:
    from jaxtyping import Float

Link = Literal["softmax", "sigmoid"]
"""The function between logits and probabilities."""

_ONE_OF_SEVERAL = ("ForMultipleChoice", "ForNextSentencePrediction")
_OWN_CONVENTION = ("ForPreTraining", "ForXVector", "ForQuestionAnswering")
_ADVICE = "pass of=logit"


def to_probabilities(
    logits: Float[Tensor, "*rows outputs"], link: Link
) -> Float[Tensor, "*rows outputs"]:
    """Apply the link function, softmax or sigmoid, to logits."""
    return torch.sigmoid(logits) if link == "sigmoid" else torch.softmax(logits, -1)


def find_link(model: nn.Module, output: Any) -> Link:
    """Return the link function that turns the model's logits into probabilities: softmax or
    sigmoid.

    Raise `InvalidInput` if the head has none.
    """
    logits: Tensor = output.logits
    name, outputs = type(model).__name__, int(logits.shape[-1])
    config: Any = model.config
    problem = getattr(config, "problem_type", None)
    labels = getattr(model, "num_labels", getattr(config, "num_labels", None))
    if _is_a(model, _OWN_CONVENTION):
        raise InvalidInput(f"The logits of {name} are not scores of words or classes: {_ADVICE}")
    if getattr(output, "pred_boxes", None) is not None:
        if outputs != (labels or 0) + 1:  # the last class is "no object"
            raise InvalidInput(
                f"mixlens does not know how {name} computes the probabilities of boxes: {_ADVICE}"
            )
        return "softmax"
    if logits.dim() == 2:
        if _is_a(model, _ONE_OF_SEVERAL):
            return "softmax"
        if outputs != labels:
            raise InvalidInput(
                f"{name} returns {outputs} numbers but num_labels is {labels}, so they may "
                f"not be classes: {_ADVICE}, or correct num_labels in its configuration"
            )
        return _link_of_classes(name, outputs, problem)
    if gives_token_classes(config, logits):
        if _link_of_classes(name, outputs, problem) == "sigmoid":
            raise InvalidInput(
                f"problem_type is {problem!r}, which transformers defines for classes of a "
                f"whole text, but {name} returns classes of tokens: {_ADVICE}"
            )
    elif outputs == 1:
        raise _regression()
    return "softmax"


def _link_of_classes(name: str, outputs: int, problem: str | None) -> Link:
    if problem == "multi_label_classification":
        return "sigmoid"
    if problem == "regression" or outputs == 1:
        raise _regression()
    if problem not in (None, "single_label_classification"):
        raise InvalidInput(
            f"problem_type={problem!r} of {name} does not define probabilities: {_ADVICE}, or "
            "correct it in the configuration"
        )
    return "softmax"


def _regression() -> InvalidInput:
    return InvalidInput(
        f"This model returns numbers, not probabilities (a regression): {_ADVICE}. A binary "
        "classifier with one output has problem_type='multi_label_classification'."
    )


def _is_a(model: nn.Module, endings: tuple[str, ...]) -> bool:
    return any(kind.__name__.endswith(endings) for kind in type(model).__mro__)
