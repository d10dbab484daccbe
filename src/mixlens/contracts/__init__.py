"""The interface of a measure: its description, its arguments and its result.

* `spec`: `Spec`, `Facts`, `Option`, `AttentionKind`, and the protocols of a measure
* `head_weights`: `HeadWeights`, learned weights of attention heads, and their file
* `request`: `Request`, the requested layers and targets, and `Targets`, the targets of one layer
* `scores`: `Scores` and `LayerScores`, the scores of a whole batch, and `Extra`, an array that was
  measured with them
* `span`: `Span` and `SpanRule`, for several targets that are scored as one
"""

from mixlens.contracts.request import Request, Targets
from mixlens.contracts.scores import LayerScores, Scores, by_layer
from mixlens.contracts.span import Span, SpanRule
from mixlens.contracts.spec import (
    AttentionKind,
    Facts,
    Measure,
    Option,
    Refusal,
    ScoreLayer,
    ScoreModel,
    Sizes,
    Spec,
    is_released,
)

__all__ = [
    "AttentionKind",
    "Facts",
    "LayerScores",
    "Measure",
    "Option",
    "Refusal",
    "Request",
    "ScoreLayer",
    "ScoreModel",
    "Scores",
    "Sizes",
    "Span",
    "SpanRule",
    "Spec",
    "Targets",
    "by_layer",
    "is_released",
]
