"""Unwrap PEFT, compiled and parallel models, pipelines and sentence encoders.

PEFT adapters are part of the layers of the adapted model, so the model is measured with its
adapter. A compiled or parallel copy is equivalent to the original model.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.model.distributed import require_measurable
from mixlens.model.module_walk import tensors_of
from mixlens.model.sentence_encoder import SentenceTokenizer, encoder_of, remember_encoder


def unwrap_model(model: Any, tokenizer: Any = None) -> tuple[nn.Module, Any]:
    """Return the transformers model inside a wrapper, and the tokenizer of the wrapper if it has
    one.
    """
    while True:
        inner, wrapper_tokenizer = _inner(model)
        if inner is None:
            break
        if tokenizer is None or (
            isinstance(wrapper_tokenizer, SentenceTokenizer) and wrapper_tokenizer.wraps(tokenizer)
        ):
            tokenizer = wrapper_tokenizer
        model = inner
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise InvalidInput(_describe_wrong_model(model))
    _require_own_numbers(model)
    if tokenizer is not None and not callable(tokenizer):
        raise InvalidInput(
            f"{type(tokenizer).__name__} is not a tokenizer. Load one with "
            "transformers.AutoTokenizer.from_pretrained, or load everything with "
            "Lens.from_pretrained."
        )
    return model, tokenizer


def _require_own_numbers(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if the weights of a model cannot be read or differentiated."""
    require_measurable(model)
    weights = tensors_of(model, buffers=False)
    if any(weight.is_inference() for weight in weights):
        raise UnsupportedModel(
            "the model was created in torch.inference_mode, so its weights do not support "
            "gradients or track changes. Create or load it outside inference mode, or use "
            "copy.deepcopy(model) there"
        )


def processor_of(pipeline: Any) -> Any:
    """Return the processor of images and audio in a pipeline, or None.

    Pipelines for audio also have a `feature_extractor`, which is part of the processor.
    """
    if not _is_pipeline(pipeline):
        return None
    names = ("processor", "image_processor", "feature_extractor")
    candidates = (getattr(pipeline, name, None) for name in names)
    return next((each for each in candidates if callable(each)), None)


def _is_pipeline(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.split(".")[0] == "transformers" and kind.__name__.endswith("Pipeline")


def _inner(model: Any) -> tuple[Any, Any]:
    """Return the object inside a wrapper and the wrapper's tokenizer, or (None, None) for an
    unknown wrapper.
    """
    kind = type(model).__name__
    packages = {each.__module__.split(".")[0] for each in type(model).__mro__}
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return model.module, None
    if kind == "OptimizedModule" and "torch" in packages:
        return model._orig_mod, None
    if "sentence_transformers" in packages:
        first = model[0] if isinstance(model, nn.Sequential) else model
        inner = next((part for part in first.children() if hasattr(part, "config")), None)
        tokenizer = getattr(model, "tokenizer", None)
        if inner is not None and isinstance(model, nn.Sequential):
            remember_encoder(inner, model)
            if encoder_of(inner) is model and tokenizer is not None:
                tokenizer = SentenceTokenizer(model)
        return inner, tokenizer
    if "peft" in packages and hasattr(model, "get_base_model"):
        _require_adapters_inside(model)
        return model.get_base_model(), None
    if _is_pipeline(model):
        return model.model, model.tokenizer
    return None, None


def _require_adapters_inside(model: Any) -> None:
    """Raise `UnsupportedModel` if PEFT's own `forward` does more than call the wrapped model."""
    instead = "mixlens supports adapters inside the layers that act on every token, such as LoRA"
    for adapter in model.active_adapters:
        config = model.peft_config[adapter]
        kind = type(config).__name__
        if getattr(config, "is_prompt_learning", False):
            raise UnsupportedModel(
                f"{kind} adds learned vectors before the text, which are not in the model "
                f"itself; {instead}"
            )
        if getattr(config, "alora_invocation_tokens", None) is not None:
            raise UnsupportedModel(
                f"the adapter {adapter!r} is an activated LoRA, which PEFT enables after its "
                "invocation tokens. The wrapped model ignores these tokens. Train the adapter as a "
                "plain LoRA, or measure the model without it (get_base_model after delete_adapter)."
            )
    tuner = type(model.base_model)
    if tuner.forward.__qualname__.split(".")[0] not in _PLAIN_TUNERS:
        raise UnsupportedModel(
            f"PEFT's {tuner.__name__} does more than call the wrapped model; {instead}"
        )


# AdaLoRA adds only to the loss; adaption prompts call the model's own `forward`.
_PLAIN_TUNERS = ("BaseTuner", "AdaLoraModel", "_forward_unimplemented")


def _describe_wrong_model(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, str):
        return f"{value!r} is a name, not a model. Load it with Lens.from_pretrained({value!r})"
    if isinstance(value, type):
        return (
            f"{value.__name__} is a class, not a model. Create an instance, or load a model with "
            "Lens.from_pretrained"
        )
    if name.endswith("Config"):
        return f"{name} is a configuration, not a model. Load one with Lens.from_pretrained"
    if hasattr(value, "keys"):
        return f"{name} is not a model. If it holds weights, load them into a model first"
    return f"{name} is not a transformers model. Load one with Lens.from_pretrained"
