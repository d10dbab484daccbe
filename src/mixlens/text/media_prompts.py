"""Prepare prompts with images or audio: a chat with such parts, {"images": …, "text": …}, or
tensors.

The model's processor replaces each placeholder in the text ("<image>") with several tokens. The
text of the prompt keeps its placeholders, and all tokens of an image have the character span of its
placeholder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.errors import EmptyInput, InvalidInput, MissingTokenizer
from mixlens.text.chats import format_chat, media_parts
from mixlens.text.encoding import token_row, tokenise_checked
from mixlens.text.image_grids import packed_sizes
from mixlens.text.input_checks import takes_decoder_ids
from mixlens.text.inputs import as_tensor, check_text, normalise_inputs
from mixlens.text.media_labels import find_media, label_media, locate_media, overlay_media
from mixlens.text.media_spans import (
    MediaSpan,
    Region,
    find_regions,
    image_token,
    media_tokens,
    runs_of,
)
from mixlens.text.processing import audio_seconds, run_processor
from mixlens.text.prompts import Prompt
from mixlens.text.segments import CHAT, Spans
from mixlens.text.tokens import TokenRow

_RAW = ("images", "audio", "videos")
_PLAIN = ("input_ids", "attention_mask")
_OF_MEDIA = (
    *("audio", "feature", "input_features", "input_values"),
    *("image_grid", "image_sizes", "pixel", "video"),
)  # how names of the inputs for images and audio begin
_IMAGES_SEEN = ("image_attention_mask", "cross_attention_mask")  # token x image, for each token
TEXT = "text"  # the segment of the words next to images


@dataclass(frozen=True)
class MediaPrompt(Prompt):
    """Stores a prompt with images or audio, and the input tensors that the processor returned for
    it.
    """

    tensors: Mapping[str, Any] = field(default_factory=dict)
    spans: tuple[MediaSpan, ...] = ()
    seconds: Sequence[float] | None = None  # length of the audio

    @property
    def placeholders(self) -> Spans:
        """Return the character span of the placeholder of each image and audio clip, if known."""
        return [(each.name, *each.placeholder) for each in self.spans if each.placeholder]

    def divide(self, row: TokenRow) -> TokenRow:
        """Divide a sequence that begins with this prompt into the segments of the prompt. Each
        image and audio clip is a separate segment.
        """
        return overlay_media(super().divide(row), self.spans)


def has_media(prompt: Any) -> bool:
    """Return whether a prompt has images, audio, or tensors other than token ids and their mask."""
    if isinstance(prompt, Mapping):
        return bool(set(prompt) - {*_PLAIN, "text"})
    if isinstance(prompt, str):
        return False
    return isinstance(prompt, Sequence) and any(True for _ in media_parts(prompt))


def media_prompt(model: nn.Module, tokenizer: Any, processor: Any, inputs: Any) -> MediaPrompt:
    """Prepare a prompt with images or audio: its tokens and its input tensors."""
    if isinstance(inputs, Mapping) and not set(_RAW) & set(inputs):
        return _from_tensors(model, tokenizer, processor, inputs)
    if processor is None:
        kind = next(iter(media_parts(inputs)), {}).get("type") or "images"
        raise MissingTokenizer(
            f"The prompt has a part of type {kind!r}, which needs the model's processor. Load "
            "the model together with its processor."
        )
    raw = dict(inputs) if isinstance(inputs, Mapping) else _raw_chat(processor, list(inputs))
    turns: Spans | None = raw.pop("turns", None)
    text = raw.get("text")
    if "videos" in raw:
        raise InvalidInput(
            "Videos in a prompt are not supported. Pass a few frames of the video as images."
        )
    if text is None and takes_decoder_ids(model):
        return _audio_prompt(model, processor, raw)
    if not isinstance(text, str):
        raise InvalidInput(
            f"The text of a prompt has type {type(text).__name__}. Pass one str with a placeholder "
            "for each image, or the messages of a chat."
        )
    check_text(text)
    tensors = run_processor(processor, raw, model)
    ids = tensors["input_ids"]
    if ids.dim() != 2 or len(ids) != 1:
        raise InvalidInput(f"The processor returned {len(ids)} texts. Pass one prompt at a time.")
    tokens, spans = _locate_tokens(model, tokenizer, processor, raw, tensors)
    specially, name = (
        raw.get("add_special_tokens", True),
        TEXT if isinstance(inputs, Mapping) else CHAT,
    )
    prompt = MediaPrompt(tuple(ids[0].tolist()), tokens, specially, name, turns, tensors, spans)
    return replace(prompt, row=prompt.divide(tokens))


def _audio_prompt(model: nn.Module, processor: Any, raw: Mapping[str, Any]) -> MediaPrompt:
    """Return a prompt without words, for audio or an image that the encoder reads."""
    tensors = run_processor(processor, raw, model)
    main = next((value for value in tensors.values() if isinstance(value, Tensor)), None)
    if main is None or len(main) != 1:
        raise InvalidInput("The prompt has several clips or images. Pass one at a time.")
    seconds = audio_seconds(processor, raw)
    return MediaPrompt((), TokenRow(()), False, tensors=tensors, seconds=seconds)


def _raw_chat(processor: Any, messages: list[Any]) -> dict[str, Any]:
    """Convert a chat to the arguments of the processor."""
    template = processor if getattr(processor, "chat_template", None) else processor.tokenizer
    text, turns = format_chat(template, messages)
    raw: dict[str, Any] = {"text": text, "turns": turns}
    for part in media_parts(messages):
        if part["type"] == "video":
            raise InvalidInput(
                "Videos in a prompt are not supported. Pass a few frames of the video as images."
            )
        name, open_part = ("images", open_image) if part["type"] == "image" else ("audio", _sound)
        raw.setdefault(name, []).append(open_part(part))
    start = getattr(processor.tokenizer, "bos_token", None)
    if start is not None and text.startswith(start):
        raw["add_special_tokens"] = False
    return raw


def _sound(part: Mapping[str, Any]) -> Any:
    if part.get("audio") is None or isinstance(part["audio"], str):
        raise InvalidInput(
            "A part of type 'audio' has no waveform. Pass {'type': 'audio', 'audio': array}."
        )
    return part["audio"]


def _from_tensors(
    model: nn.Module, tokenizer: Any, processor: Any, inputs: Mapping[str, Any]
) -> MediaPrompt:
    tensors = {name: as_tensor(name, value) for name, value in inputs.items() if value is not None}
    ids = tensors.get("input_ids")
    if not isinstance(ids, Tensor):
        raise InvalidInput(
            f"A dict with {', '.join(inputs)} is not a prompt. Pass a text, the messages of a chat,"
            " or the input tensors of the model with input_ids."
        )
    if ids.dim() != 2 or len(ids) != 1:
        raise InvalidInput(
            f"input_ids has the shape {tuple(ids.shape)}. Pass the token ids of one prompt at a "
            "time."
        )
    if not ids.numel():
        raise EmptyInput("The prompt is empty. Pass at least one token.")
    mask = tensors.get("attention_mask")
    if isinstance(mask, Tensor) and not bool(mask.bool().all()):
        raise InvalidInput("The prompt has padding. Remove the padding, or pass a chat.")
    normalise_inputs(
        model, dict(tensors)
    )  # raises for names and shapes that the model does not take
    numbers = ids[0].tolist()
    plain = token_row(tokenizer, numbers)
    ((tokens, spans),) = locate_media(model.config, ids, [plain], tensors, processor)
    prompt = MediaPrompt(tuple(numbers), tokens, False, TEXT, None, tensors, tuple(spans))
    return replace(prompt, row=prompt.divide(tokens))


def continue_tensors(model: nn.Module, prompt: MediaPrompt, ids: Sequence[int]) -> dict[str, Any]:
    """Return the input tensors for a prompt with its continuation. `ids` begin with the ids of the
    prompt.

    Tensors with one number per token are extended to the answer: `attention_mask` with ones, token
    types with zeros (text), and image cross-attention masks with the values of the prompt's last
    token. The tensors of images and audio stay the same.
    """
    if not prompt.ids:
        return dict(prompt.tensors)
    more = len(ids) - len(prompt.ids)
    media = media_tokens(model.config).intersection(ids[len(prompt.ids) :])
    if media:
        raise InvalidInput(
            f"The answer contains the placeholder token {min(media)} without an image or audio. "
            f"Generate with suppress_tokens={sorted(media)}."
        )
    longer = dict(prompt.tensors)
    for name, value in prompt.tensors.items():
        if is_per_token(name, value, len(prompt.ids)):
            column = value[:, -1:] if name in _IMAGES_SEEN else torch.zeros_like(value[:, -1:])
            column = torch.ones_like(column) if name == "attention_mask" else column
            longer[name] = torch.cat([value, *[column] * more], 1)
    longer["input_ids"] = torch.tensor([list(ids)])
    return longer


def is_per_token(name: str, value: Any, tokens: int) -> bool:
    """Return whether an input of one prompt has one entry for each token.

    The name is checked as well, because an audio mask may happen to have as many frames as the
    prompt has tokens.
    """
    if not isinstance(value, Tensor) or value.shape[:2] != (1, tokens):
        return False
    return name in _IMAGES_SEEN or (value.dim() == 2 and not name.startswith(_OF_MEDIA))


# ----------------------------------------------------------------------- tokens of the placeholders


def _locate_tokens(
    model: nn.Module,
    tokenizer: Any,
    processor: Any,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Any],
) -> tuple[TokenRow, tuple[MediaSpan, ...]]:
    """Return the tokens of the processor, and the spans of images and audio.

    If the tokenizer has an offset mapping, the tokens also have their character spans in the text.
    """
    ids, config = tensors["input_ids"][0].tolist(), model.config
    media = media_tokens(config)
    if getattr(tokenizer, "is_fast", False):
        specially = raw.get("add_special_tokens", True)
        how = {"add_special_tokens": specially, "return_offsets_mapping": True}
        encoding = tokenise_checked(tokenizer, raw["text"], **how)
        offsets, regions = find_regions(
            encoding["input_ids"], encoding["offset_mapping"], ids, media
        )
        tokens = token_row(tokenizer, ids, raw["text"], offsets)
    else:
        tokens, regions = token_row(tokenizer, ids), runs_of(ids, media)
    images = raw.get("images", [])
    images = list(images) if isinstance(images, (list, tuple)) else [images]
    counts = _token_counts(config, processor, raw, tensors, regions, images)
    spans = find_media(config, ids, regions, counts)
    if tokens.offsets is not None:
        places = list(tokens.offsets)
        for span in spans:
            if span.placeholder is not None:
                places[span.first : span.stop] = [span.placeholder] * (span.stop - span.first)
        tokens = replace(tokens, offsets=tuple(places))
    tokens = label_media(config, ids, tokens, spans, tensors, processor, images)
    return tokens, tuple(spans)


def _token_counts(
    config: Any,
    processor: Any,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Any],
    regions: Sequence[Region],
    images: Sequence[Any],
) -> list[int]:
    """Return the number of tokens of each image, or an empty list if they are not needed.

    They are needed only if images are adjacent, without a token in between. The processor is then
    called for each image separately.
    """
    sizes, token = packed_sizes(config, tensors), image_token(config)
    if sizes:
        return [rows * columns for rows, columns in sizes]
    places = [place for region in regions for place in region.placeholders]
    if len(regions) == len(images) or len(places) != len(images):
        return []
    counts = []
    for (start, stop), image in zip(places, images, strict=True):
        processed = processor(text=raw["text"][start:stop], images=[image], return_tensors="pt")
        counts.append(int((processed["input_ids"] == token).sum()))
    return counts


_SOURCES = ("image", "path")
_HOW = "Pass {'type': 'image', 'image': …} with a PIL image, an array or the path of a file."


def open_image(part: Mapping[str, Any]) -> Any:
    """Return the image of a message part. Local files are opened; nothing is downloaded."""
    source = next((part[name] for name in _SOURCES if part.get(name) is not None), None)
    if source is None:
        other = ", ".join(name for name in part if name != "type") or "nothing"
        raise InvalidInput(f"A part of type 'image' has {other}, but no image. {_HOW}")
    if not isinstance(source, (str, os.PathLike)):
        return source
    try:
        from PIL import Image

        with Image.open(source) as file:
            return file.convert("RGB")
    except ImportError:
        raise InvalidInput(
            f"{source!r} cannot be opened, because Pillow is not installed. Run pip install pillow."
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{str(source)!r:.80} is not an image file ({error}). {_HOW}") from error
