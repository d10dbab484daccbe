"""What people hold instead of a transformers model, and the model inside it.

PEFT adapters live inside the layers of the model that they adapt, so that model is what is
measured, adapter included. A compiled or parallel copy computes what its original computes.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.parts import tensors_of
from mixlens.pooling import remember_pooling
from mixlens.recording.placement import rounds_activations


def unwrapped(model: Any, tokenizer: Any = None) -> tuple[nn.Module, Any]:
    """The transformers model inside whatever was given, and its tokenizer if one comes with it."""
    while True:
        inner, own = _inner(model)
        if inner is None:
            break
        model, tokenizer = inner, tokenizer or own
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise InvalidInput(f"a transformers model is needed, not {_described(model)}")
    _require_own_numbers(model)
    if tokenizer is not None and not callable(tokenizer):
        raise InvalidInput(
            f"a tokenizer is needed, not {type(tokenizer).__name__}: load it by"
            " transformers.AutoTokenizer.from_pretrained, or all by Lens.from_pretrained"
        )
    return model, tokenizer


def _require_own_numbers(model: nn.Module) -> None:
    """Refuses models whose numbers cannot be read or followed."""
    if any(type(part).__module__.startswith(_INT8) for part in model.modules()):
        raise UnsupportedModel(
            "the model was quantised to int8 by torch (quantize_dynamic), and its parts cannot be"
            " taken apart any more: measure the model as it was before"
        )
    weights = tensors_of(model, buffers=False)
    if any(map(rounds_activations, weights)):
        raise UnsupportedModel(
            "activations are quantised in every run of this model (torchao), so the smallest"
            " difference between two runs may become a whole step, no part can be proved, and no"
            " gradient passes: quantise the weights alone (Int8WeightOnlyConfig), or measure the"
            " model as it was before"
        )
    if any(weight.is_inference() for weight in weights):
        raise UnsupportedModel(
            "the model was made in torch.inference_mode, and such weights pass on no gradient and"
            " do not show when they change: make or load it outside, or take"
            " copy.deepcopy(model), outside as well"
        )


_INT8 = ("torch.ao.nn.quantized", "torch.nn.quantized")


def processor_of(given: Any) -> Any:
    """What makes tensors of pictures and sounds in a pipeline; None of anything else. A model of
    sounds has a `feature_extractor` too, which is a part of it.
    """
    if not _is_pipeline(given):
        return None
    names = ("processor", "image_processor", "feature_extractor")
    own = (getattr(given, name, None) for name in names)
    return next((each for each in own if callable(each)), None)


def _is_pipeline(given: Any) -> bool:
    kind = type(given)
    return kind.__module__.split(".")[0] == "transformers" and kind.__name__.endswith("Pipeline")


def _inner(model: Any) -> tuple[Any, Any]:
    """What is inside one wrapper, and its tokenizer; None if this is not a known wrapper."""
    package, kind = type(model).__module__.split(".")[0], type(model).__name__
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return model.module, None
    if kind == "OptimizedModule" and package == "torch":
        return model._orig_mod, None
    if package == "sentence_transformers":
        first = model[0] if isinstance(model, nn.Sequential) else model
        inner = next((part for part in first.children() if hasattr(part, "config")), None)
        if inner is not None and isinstance(model, nn.Sequential):
            remember_pooling(inner, model)
        return inner, getattr(model, "tokenizer", None)
    if package == "peft" and hasattr(model, "get_base_model"):
        if getattr(model.active_peft_config, "is_prompt_learning", False):
            raise UnsupportedModel(
                f"{type(model.active_peft_config).__name__} puts learned vectors in front of the"
                " text, which are not in the model itself: only adapters inside the layers, such"
                " as LoRA, can be measured"
            )
        return model.get_base_model(), None
    if _is_pipeline(model):
        return model.model, model.tokenizer
    return None, None


def _described(given: Any) -> str:
    name = type(given).__name__
    if isinstance(given, str):
        return f"a name: load it with Lens.from_pretrained({given!r})"
    if isinstance(given, type):
        return f"the class {given.__name__}: make one, or load it with Lens.from_pretrained"
    if name.endswith("Config"):
        return f"its configuration ({name})"
    if hasattr(given, "keys"):
        return f"a dict of weights ({name}): load them into a model first"
    return name
