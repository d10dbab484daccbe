"""Label the tokens of images and audio in a text: `image 1 patch (0, 2)`, `audio 1 0.40 s`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from torch import Tensor

from mixlens.text.media_spans import MediaSpan, Region, runs_of, split_regions
from mixlens.text.media_tokens import audio_token, image_token, media_tokens
from mixlens.text.tokens import Segment, TokenRow

Size = tuple[int, int]
"""Rows and columns of patches."""


def find_media(
    config: Any,
    ids: Sequence[int],
    regions: Sequence[Region],
    tensors: Mapping[str, Any],
    images: int | None = None,
) -> list[MediaSpan]:
    """Return the images and audio clips of one prompt in their order. `images` is the number of
    images, if known.
    """
    spans: list[MediaSpan] = []
    for kind, token in (("image", image_token(config)), ("audio", audio_token(config))):
        if token is not None and token in ids:
            counts = token_counts(config, ids, tensors, images) if kind == "image" else []
            spans += split_regions(regions, ids, token, kind, counts)
    return sorted(spans, key=lambda span: span.first)


def token_counts(
    config: Any, ids: Sequence[int], tensors: Mapping[str, Any], images: int | None
) -> list[int]:
    """Return the number of tokens of each image: from the grid of its patches if the processor
    returns one, else the same for all.
    """
    grids = packed_grids(config, tensors)
    if grids:
        return [rows * columns for rows, columns in grids]
    if not images:
        return []
    each, rest = divmod(sum(token == image_token(config) for token in ids), images)
    return [] if rest else [each] * images


def packed_grids(config: Any, tensors: Mapping[str, Any]) -> list[Size]:
    """Return the rows and columns of the tokens of each image, if the processor returned them with
    the patches (Qwen-VL, GLM-V). A square of patches becomes one token.
    """
    grid = tensors.get("image_grid_thw")
    if not isinstance(grid, Tensor):
        return []
    vision = getattr(config, "vision_config", config)
    merged = getattr(vision, "spatial_merge_size", None) or 1
    return [(int(rows) // merged, int(columns) // merged) for _, rows, columns in grid.tolist()]


def grid_size(count: int, pixels: Any) -> Size | None:
    """Return rows and columns of this many patches, in the proportions of the model's image (a
    square if they are unknown), or None if there is no such grid.
    """
    tall, wide = pixels.shape[-2:] if isinstance(pixels, Tensor) and pixels.dim() >= 4 else (1, 1)
    rows = round((count * tall / wide) ** 0.5)
    if rows < 1 or count % rows or rows * wide != count // rows * tall:
        return None
    return rows, count // rows


def label_media(
    config: Any,
    ids: Sequence[int],
    row: TokenRow,
    spans: Sequence[MediaSpan],
    tensors: Mapping[str, Any],
) -> TokenRow:
    """Return a text whose image tokens are labelled by image, row and column."""
    labels = list(row.labels)
    token, grids = image_token(config), packed_grids(config, tensors)
    images = [span for span in spans if span.kind == "image"]
    for number, span in enumerate(images):
        places = [i for i in range(span.first, min(span.stop, len(row))) if ids[i] == token]
        size = grids[number] if len(grids) == len(images) else None
        for place, label in zip(places, _patches(span, places, size, tensors), strict=True):
            labels[place] = label
    return replace(row, labels=tuple(labels))


def _patches(
    span: MediaSpan, places: Sequence[int], size: Size | None, tensors: Mapping[str, Any]
) -> Iterator[str]:
    size = size or grid_size(len(places), tensors.get("pixel_values"))
    if size is None or size[0] * size[1] != len(places):
        yield from (f"{span.name} patch {number}" for number in range(len(places)))
        return
    for number in range(len(places)):
        yield f"{span.name} patch ({number // size[1]}, {number % size[1]})"


def overlay_media(row: TokenRow, spans: Sequence[MediaSpan]) -> TokenRow:
    """Return a text in which every image is a segment of its own."""
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
    rows: Sequence[TokenRow],
    tensors: Mapping[str, Any],
    processor: Any = None,
) -> list[TokenRow]:
    """Return the texts of a batch, with labelled images. The placeholders are unknown, so a run of
    image tokens is one image, unless all images have the same number of tokens.
    """
    media, token = media_tokens(config), image_token(config)
    if not any(bool((ids == token).any()) for token in media):
        return list(rows)
    each = tokens_per_image(config, ids, tensors.get("pixel_values"), processor)
    known = tensors if len(rows) == 1 else {"pixel_values": tensors.get("pixel_values")}
    labelled = []
    for own, row in zip(ids.tolist(), rows, strict=True):
        real = own[: len(row)]
        images = real.count(token) // each if each else None
        spans = find_media(config, real, runs_of(real, media), known, images)
        labelled.append(label_media(config, real, row, spans, known))
    return labelled


def tokens_per_image(config: Any, ids: Tensor, pixels: Any, processor: Any) -> int | None:
    """Return the number of tokens of each image, if all have the same, or None if it is unknown.

    A processor that cuts images into tiles has several entries of pixels for one image.
    """
    tiled = getattr(getattr(processor, "image_processor", processor), "crop_to_patches", False)
    image = image_token(config)
    if image is None or tiled or not isinstance(pixels, Tensor) or pixels.dim() != 4:
        return None
    is_image = ids == image
    each, rest = divmod(int(is_image.sum()), len(pixels))
    runs = (len(list(run)) for row in is_image.tolist() for own, run in groupby(row) if own)
    return each if each and not rest and all(length % each == 0 for length in runs) else None
