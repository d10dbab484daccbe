"""Convert images and audio to tensors with a processor.

Processors of transformers accept `{"images": picture, "text": "what is this?"}`, `{"audio":
waveform}`, or a single PIL image.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.text.decoder_inputs import labels_of_texts
from mixlens.text.input_checks import takes_decoder_ids
from mixlens.text.inputs import RAW_INPUTS


def run_processor(processor: Any, inputs: Any, model: nn.Module) -> dict[str, Any]:
    """Run the model's own processor, and return the input tensors."""
    parts = dict(inputs) if isinstance(inputs, Mapping) else {"images": inputs}
    if processor is None:
        raise MissingTokenizer(
            f"A dict with {' and '.join(name for name in RAW_INPUTS if name in parts)} needs the "
            "model's processor. Use Lens(model, processor=…), or pass a text or a dict of "
            "input tensors."
        )
    labels = {}
    if {"audio", "text"} <= set(parts) and takes_decoder_ids(model):  # the text is the decoder's
        tokenizer = getattr(processor, "tokenizer", processor)
        labels["labels"] = labels_of_texts(model, tokenizer, parts.pop("text"))
    if "audio" in parts:
        _check_audio(processor, parts["audio"], parts.get("sampling_rate"))
    takes = inspect.signature(processor.__call__).parameters
    if "audio" in parts and "audio" not in takes and "raw_speech" in takes:
        parts["raw_speech"] = parts.pop("audio")
        parts.setdefault("sampling_rate", getattr(processor, "sampling_rate", None))
    padding = takes.get("padding")
    if _several(parts.get("text")) or (
        padding is not None and padding.default is False and _several(parts.get("raw_speech"))
    ):
        parts.setdefault("padding", True)  # Whisper's own default is a fixed length
    try:
        tensors = processor(**parts, return_tensors="pt")
    except (TypeError, ValueError, AttributeError, ImportError) as error:
        raise InvalidInput(
            f"{type(processor).__name__} rejects these {', '.join(parts)} ({error}). Check "
            "their types and shapes."
        ) from error
    return {**tensors, **labels}


def audio_seconds(processor: Any, inputs: Any) -> list[float] | None:
    """Return the duration of each waveform that the user passed, or None if it is unknown.

    These are the durations before padding, because a processor may pad waveforms to a fixed length.
    """
    waves = inputs.get("audio") if isinstance(inputs, Mapping) else None
    rate = _sampling_rate(processor)
    if waves is None or not rate:
        return None
    try:
        return [len(wave) / rate for wave in _waveforms(waves)]
    except TypeError:
        return None


def _sampling_rate(processor: Any) -> float | None:
    """Return the sampling rate in Hz that a processor expects, or None if it is unknown."""
    rate = getattr(getattr(processor, "feature_extractor", processor), "sampling_rate", None)
    return rate if isinstance(rate, (int, float)) else None


def _waveforms(audio: Any) -> Sequence[Any]:
    """Return the clips as a sequence: the entries of a list, the rows of a 2-D array, or a single
    clip.
    """
    is_list = isinstance(audio, (list, tuple)) and bool(audio) and hasattr(audio[0], "__len__")
    return audio if is_list or len(getattr(audio, "shape", ())) > 1 else [audio]


def _check_audio(processor: Any, audio: Any, rate: Any) -> None:
    """Raise an error for audio that a processor would misread.

    Such audio has several channels (which the processor would treat as clips), integer samples
    (which it would not scale), or a wrong sampling rate.
    """
    model_rate = _sampling_rate(processor)
    if rate is not None and model_rate and rate != model_rate:
        raise InvalidInput(
            f"The audio has a sampling rate of {rate} Hz, but {type(processor).__name__} expects "
            f"{model_rate} Hz. Resample it, for example with scipy.signal.resample_poly."
        )
    for array in (audio, *_waveforms(audio)):
        shape = tuple(getattr(array, "shape", ()))
        if len(shape) > 2 or (len(shape) == 2 and (array is not audio or shape[0] > shape[1])):
            raise InvalidInput(
                f"The audio has shape {shape}, but only a single channel is supported. Average "
                "the channels, or choose one."
            )
        if shape and "int" in str(array.dtype):
            raise InvalidInput(
                f"The audio has samples of type {array.dtype}. Pass floats from -1 to 1: divide "
                "16-bit samples by 32768."
            )


def _several(inputs: Any) -> bool:
    """Return whether `inputs` is a list of several inputs, which may have different lengths."""
    return (
        isinstance(inputs, (list, tuple)) and len(inputs) > 1 and not isinstance(inputs[0], float)
    )
