"""What a layer of a short call starts beyond the model's own operations must not grow back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.operations import Started, of_one_output, of_one_target, of_short_texts

Counted = Callable[[str, int], tuple[Started, Started]]


@pytest.mark.parametrize(
    ("counted", "name", "computing", "views"),
    [
        # A fingerprint of the model takes a view of every matrix: 7 in a layer of a Llama, and 6 in
        # a layer of a BERT. Norms go through the same parts as spans: five operations on one number
        # or vector for each target. The queries are scaled, and the mask is added to the sources
        # that it hides.
        (of_one_target, "attention_norm", 19 + 5 + 2, 39 + 7),
        (of_one_target, "value_zeroing", 89 + 4, 75 + 7),
        (of_one_output, "attention_gradient", 86 + 4, 96),
        (of_short_texts, "attention", 10, 11 + 6),
        (of_short_texts, "attention_norm", 31, 44 + 6),
    ],
)
def test_a_layer_starts_few_operations(
    counted: Counted, name: str, computing: int, views: int
) -> None:
    (short, short_call), (long, long_call) = counted(name, 2), counted(name, 4)
    operations = (long_call.computing - short_call.computing) - (long.computing - short.computing)
    reshapes = (long_call.views - short_call.views) - (long.views - short.views)
    assert operations <= 2 * computing
    assert reshapes <= 2 * views
