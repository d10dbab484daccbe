"""The layer calls of one pass."""

from __future__ import annotations

import gc
import weakref

import torch

from mixlens.capture.layer_calls import layer_calls
from tests.conformance.zoo import built, inputs


def test_calls_are_freed_with_their_last_user() -> None:
    """Not by the next collection of rings: on a GPU their tensors would fill the memory."""
    model = built("bert")
    gc.disable()
    try:
        with torch.no_grad():
            calls, output = layer_calls(model, inputs("bert"), {"encoder.layer.1"}, None)
        hidden = weakref.ref(calls[0].hidden_in)
        del calls, output
        assert hidden() is None
    finally:
        gc.enable()


def test_a_layer_with_plain_weights_is_not_copied() -> None:
    with torch.no_grad():
        calls, _ = layer_calls(built("bert"), inputs("bert"), {"encoder.layer.1"}, None)
    assert calls[0].is_readable
    assert calls[0].readable is calls[0].module
