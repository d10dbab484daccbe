"""Label the tokens of images and audio in a text: `image 1 patch (0, 2)`, `audio 1 0.40 s`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from torch import Tensor

from mixlens.text.image_grids import ImageInput, find_grids, packed_sizes
from mixlens.text.media_spans import (
    MediaSpan,
    Region,
    audio_token,
    image_token,
    media_tokens,
    runs_of,
    split_regions,
)
from mixlens.text.pictures import image_size, image_uri, pixels_uri, unpack_pixels
from mixlens.text.tokens import Picture, Segment, TokenRow


def find_media(
    config: Any, ids: Sequence[int], regions: Sequence[Region], counts: Sequence[int] = ()
) -> list[MediaSpan]:
    """Return the images and audio clips of one prompt, in order.

    `counts` contains the number of tokens of each image, if known.
    """
    spans: list[MediaSpan] = []
    for kind, token in (("image", image_token(config)), ("audio", audio_token(config))):
        if token is not None and token in ids:
            spans += split_regions(regions, ids, token, kind, counts if kind == "image" else ())
    return sorted(spans, key=lambda span: span.first)


def label_media(
    config: Any,
    ids: Sequence[int],
    row: TokenRow,
    spans: Sequence[MediaSpan],
    tensors: Mapping[str, Any],
    processor: Any = None,
    images: Sequence[Any] = (),
) -> TokenRow:
    """Label each image token of a text with its image, row and column, and attach the images for
    display.

    The attached images are those that the user passed, or otherwise the pixels that the model sees.
    """
    labels, pictures = list(row.labels), list[Picture]()
    token, image_spans = image_token(config), [span for span in spans if span.kind == "image"]
    for index, span in enumerate(image_spans):
        places = [i for i in range(span.first, min(span.stop, len(row))) if ids[i] == token]
        image = images[index] if len(images) == len(image_spans) else None
        size = None if image is None else image_size(image)
        about = ImageInput(index, len(image_spans), places, row.labels, tensors, size)
        grids = find_grids(config, processor, about)
        patch_labels = {
            place: text for patches in grids for place, text in patches.labels().items()
        }
        for number, place in enumerate(places):
            labels[place] = f"{span.name} {patch_labels.get(place, f'patch {number}')}"
        src = image_uri(image) if image is not None else _render_image(config, processor, about)
        if grids and src is not None:
            grids_of_image = tuple(patches.grid for patches in grids)
            pictures.append(Picture(src=src, name=span.name, grids=grids_of_image))
    return replace(row, labels=tuple(labels), pictures=tuple(pictures))


def _render_image(config: Any, processor: Any, image: ImageInput) -> str | None:
    """Return one image as a data URI, as the model sees it. Return None if the pixels of the image
    cannot be separated from those of other images.
    """
    pixels, grid = image.tensors.get("pixel_values"), image.tensors.get("image_grid_thw")
    if not isinstance(pixels, Tensor):
        return None
    if isinstance(grid, Tensor) and len(grid) == image.count:
        image_pixels = unpack_pixels(
            pixels, grid, image.index, getattr(config, "vision_config", None)
        )
        return None if image_pixels is None else pixels_uri(image_pixels, processor)
    if pixels.dim() == 5 and len(pixels) == 1:
        pixels = pixels[0]
    if pixels.dim() != 4 or len(pixels) != image.count:
        return None
    return pixels_uri(pixels[image.index], processor)


def overlay_media(row: TokenRow, spans: Sequence[MediaSpan]) -> TokenRow:
    """Return the tokens of a text, with a separate segment for each image and audio clip."""
    segments = row.segments or ()
    names = [part.name for part in segments for _ in range(part.start, part.stop)]
    for span in spans:
        names[span.first : span.stop] = [span.name] * len(names[span.first : span.stop])
    parts, start = [], 0
    for name, run in groupby(names):
        stop = start + len(list(run))
        parts.append(Segment(name, start, stop))
        start = stop
    return replace(row, segments=tuple(parts))


def label_texts(
    config: Any,
    ids: Tensor,
    texts: Sequence[TokenRow],
    tensors: Mapping[str, Any],
    processor: Any = None,
) -> list[TokenRow]:
    """Return the texts of a batch with labelled image tokens."""
    return [tokens for tokens, _ in locate_media(config, ids, texts, tensors, processor)]


def locate_media(
    config: Any,
    ids: Tensor,
    texts: Sequence[TokenRow],
    tensors: Mapping[str, Any],
    processor: Any,
) -> list[tuple[TokenRow, list[MediaSpan]]]:
    """Return the texts of a batch with labelled image tokens, and the image and audio spans of each
    text.

    The placeholders are unknown. Each run of image tokens therefore counts as one image, unless all
    images are known to have the same number of tokens.
    """
    media, token = media_tokens(config), image_token(config)
    if not any(bool((ids == token).any()) for token in media):
        return [(tokens, []) for tokens in texts]
    pixels = tensors.get("pixel_values")
    each = tokens_per_image(config, ids, pixels, processor)
    one_for_each = isinstance(pixels, Tensor) and len(pixels) == len(texts)
    labelled, before = [], 0
    for text_ids, tokens in zip(ids.tolist(), texts, strict=True):
        real = text_ids[: len(tokens)]
        images = real.count(token) // each if each else int(one_for_each)
        text_tensors = tensors
        if len(texts) > 1:  # those of this text, if each image has its own pixels
            text_tensors = {}
            if images and isinstance(pixels, Tensor):
                text_tensors = {"pixel_values": pixels[before : before + images]}
            before += images
        sizes = packed_sizes(config, text_tensors)
        counts = [tall * wide for tall, wide in sizes] if sizes else [each] * images if each else []
        spans = find_media(config, real, runs_of(real, media), counts)
        labelled.append((label_media(config, real, tokens, spans, text_tensors, processor), spans))
    return labelled


def tokens_per_image(config: Any, ids: Tensor, pixels: Any, processor: Any) -> int | None:
    """Return the number of tokens per image if it is the same for all images, or None if it is
    unknown.

    It is unknown if the processor cuts images into tiles, because one image then has several
    entries in `pixel_values`.
    """
    tiled = getattr(getattr(processor, "image_processor", processor), "crop_to_patches", False)
    image = image_token(config)
    if image is None or tiled or not isinstance(pixels, Tensor) or pixels.dim() != 4:
        return None
    is_image = ids == image
    each, remainder = divmod(int(is_image.sum()), len(pixels))
    runs = (
        len(list(run)) for flags in is_image.tolist() for is_run, run in groupby(flags) if is_run
    )
    return each if each and not remainder and all(length % each == 0 for length in runs) else None
