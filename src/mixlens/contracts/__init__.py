"""What a measure is, what it is asked for and what it gives back.

* `spec`: `Spec`, `Facts`, `Option`, `AttentionKind`, and the protocols of a measure
* `request`: `Request`, the layers and targets that are asked for
* `scores`: `Scores`, the numbers for the whole batch
* `sizes`: `Sizes`, what the memory of a measure depends on
"""

from mixlens.contracts.request import Request
from mixlens.contracts.scores import Scores, by_layer
from mixlens.contracts.sizes import Sizes
from mixlens.contracts.spec import (
    AttentionKind,
    Facts,
    Measure,
    Option,
    Refusal,
    ScoreFunction,
    Spec,
    is_released,
)

__all__ = [
    "AttentionKind",
    "Facts",
    "Measure",
    "Option",
    "Refusal",
    "Request",
    "ScoreFunction",
    "Scores",
    "Sizes",
    "Spec",
    "by_layer",
    "is_released",
]
