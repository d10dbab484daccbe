"""Find the position of each image token in its image, in one or several grids of patches.

A processor may split an image into tiles and add an overview of the full image (Idefics 3,
LLaVA-NeXT), or crop or pad the image. Each grid covers a box of the user's image, in fractions of
its width and height. Rows and columns of patches are counted across all tiles. If the number of
tokens does not match the grids, the positions are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from torch import Tensor

from mixlens.text.tokens import Box, PatchGrid

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
PATCH, OVERVIEW = "patch", "overview"
_TILE = re.compile(r"<row_(\d+)_col_(\d+)>")

Size = tuple[int, int]
"""Rows and columns, or height and width."""


class Patches(NamedTuple):
    """Describes a grid of patches in an image, and how the patches are labelled."""

    grid: PatchGrid
    kind: str = PATCH
    top: int = 0  # row and column of its first patch among those of all tiles
    left: int = 0

    def labels(self) -> dict[int, str]:
        """Return the label of each token of the grid, without the name of the image."""
        place_labels = {}
        for row in range(self.grid.rows):
            start = self.grid.first + row * self.grid.stride
            for column in range(self.grid.columns):
                place_labels[start + column] = (
                    f"{self.kind} ({self.top + row}, {self.left + column})"
                )
            for place in range(start + self.grid.columns, start + self.grid.stride):
                place_labels[place] = f"end of row {self.top + row}"
        return place_labels


@dataclass(frozen=True)
class ImageInput:
    """Describes one image of a prompt: its index, its tokens, the labels of all tokens, the input
    tensors, and the size of the user's image.

    `size` is (height, width), or None if it is unknown.
    """

    index: int
    count: int  # of all images
    places: Sequence[int]
    labels: Sequence[str]
    tensors: Mapping[str, Any]
    size: Size | None = None


def find_grids(config: Any, processor: Any, image: ImageInput) -> list[Patches]:
    """Return the grids of one image, or an empty list if the positions of its tokens are
    unknown.
    """
    packed = packed_sizes(config, image.tensors)
    if len(packed) == image.count:
        return _one_grid(image, packed[image.index], WHOLE)
    runs = _runs(image.places)
    if any(_TILE.search(image.labels[max(0, run[0] - 1)]) for run in runs):
        return _tiles(image, runs)
    if len(runs) > 1:
        return []
    with_ends = _with_row_ends(config, image)
    if with_ends:
        return with_ends
    pixels = image.tensors.get("pixel_values")
    return _one_grid(image, grid_size(len(image.places), pixels), _box(processor, image))


def packed_sizes(config: Any, tensors: Mapping[str, Any]) -> list[Size]:
    """Return the number of rows and columns of tokens in each image, or an empty list if they are
    unknown.

    They are known if the processor returned the grid sizes together with the patches (Qwen-VL,
    GLM-V). These models merge each square of patches into one token.
    """
    grid = tensors.get("image_grid_thw")
    if not isinstance(grid, Tensor):
        return []
    vision = getattr(config, "vision_config", config)
    merged = getattr(vision, "spatial_merge_size", None) or 1
    return [(int(rows) // merged, int(columns) // merged) for _, rows, columns in grid.tolist()]


def grid_size(count: int, pixels: Any) -> Size | None:
    """Return the rows and columns of a grid with this many patches, or None if no grid matches.

    The grid has the aspect ratio of the model's input image, or is square if the size of this image
    is unknown.
    """
    tall, wide = pixels.shape[-2:] if isinstance(pixels, Tensor) and pixels.dim() >= 4 else (1, 1)
    rows = round((count * tall / wide) ** 0.5)
    if rows < 1 or count % rows or rows * wide != count // rows * tall:
        return None
    return rows, count // rows


def _one_grid(image: ImageInput, size: Size | None, box: Box) -> list[Patches]:
    places = image.places
    is_run = bool(places) and places[-1] - places[0] + 1 == len(places)
    if size is None or size[0] * size[1] != len(places) or not is_run:
        return []
    rows, columns = size
    return [Patches(PatchGrid(places[0], rows, columns, columns, box))]


def _runs(places: Sequence[int]) -> list[list[int]]:
    pairs = groupby(enumerate(places), lambda pair: pair[1] - pair[0])
    return [[place for _, place in run] for _, run in pairs]


def _tiles(image: ImageInput, runs: Sequence[Sequence[int]]) -> list[Patches]:
    """Return the grids of all tiles and of the overview. The token before each tile contains the
    tile's row and column.
    """
    marks = [_TILE.search(image.labels[max(0, run[0] - 1)]) for run in runs]
    tiles = [None if mark is None else (int(mark[1]) - 1, int(mark[2]) - 1) for mark in marks]
    located = [tile for tile in tiles if tile is not None]
    tall, wide = (max(tile[axis] for tile in located) + 1 for axis in (0, 1))
    grids = []
    for run, tile in zip(runs, tiles, strict=True):
        size = grid_size(len(run), image.tensors.get("pixel_values"))
        if size is None or len({len(each) for each in runs}) > 1:
            return []
        rows, columns = size
        if tile is None:
            grids.append(Patches(PatchGrid(run[0], rows, columns, columns, WHOLE), OVERVIEW))
            continue
        row, column = tile
        box = (column / wide, row / tall, (column + 1) / wide, (row + 1) / tall)
        grid = PatchGrid(run[0], rows, columns, columns, box)
        grids.append(Patches(grid, PATCH, row * rows, column * columns))
    return grids


def _with_row_ends(config: Any, image: ImageInput) -> list[Patches]:
    """Return the two grids of LLaVA-NeXT: the overview and the full image.

    The tiles of the full image form one grid, without the padding around the image. Each row of
    this grid ends with an extra token.
    """
    points, sizes = getattr(config, "image_grid_pinpoints", None), image.tensors.get("image_sizes")
    vision = getattr(config, "vision_config", None)
    if not points or not isinstance(sizes, Tensor) or vision is None or image.index >= len(sizes):
        return []
    from transformers.image_processing_utils import select_best_resolution

    tall, wide = (int(each) for each in sizes[image.index])
    side = vision.image_size // vision.patch_size
    best = select_best_resolution((tall, wide), points)
    rows, columns = (edge // vision.image_size * side for edge in best)
    if wide / tall > columns / rows:
        rows -= (rows - int(round(tall * (columns / wide), 7))) // 2 * 2
    else:
        columns -= (columns - int(round(wide * (rows / tall), 7))) // 2 * 2
    if side * side + rows * (columns + 1) != len(image.places):
        return []
    first = image.places[0]
    fine = PatchGrid(first + side * side, rows, columns, columns + 1, WHOLE)
    return [Patches(PatchGrid(first, side, side, side, WHOLE), OVERVIEW), Patches(fine)]


def _box(processor: Any, image: ImageInput) -> Box:
    """Return the part of the user's image that the model saw.

    It is smaller than the image if the processor crops it, and larger if the processor pads it.
    """
    image_processor = getattr(processor, "image_processor", processor)
    mask = image.tensors.get("pixel_attention_mask")
    if isinstance(mask, Tensor) and mask.dim() == 4 and mask.shape[1] == image.count:
        is_image = mask[0, image.index].bool()
        wide, tall = int(is_image.any(0).sum()), int(is_image.any(1).sum())
        return 0.0, 0.0, is_image.shape[1] / max(wide, 1), is_image.shape[0] / max(tall, 1)
    if image.size is None or not getattr(image_processor, "do_center_crop", False):
        return WHOLE
    return _crop(
        image.size, dict(image_processor.size or {}), dict(image_processor.crop_size or {})
    )


def _crop(size: Size, resized: Mapping[str, Any], cropped: Mapping[str, Any]) -> Box:
    """Return the box of a centre crop that is applied after resizing the image."""
    tall, wide = map(float, size)
    if resized.get("shortest_edge"):
        scale = resized["shortest_edge"] / min(tall, wide)
        tall, wide = tall * scale, wide * scale
    elif resized.get("height") and resized.get("width"):
        tall, wide = float(resized["height"]), float(resized["width"])
    across = cropped.get("width", wide) / wide / 2
    down = cropped.get("height", tall) / tall / 2
    return 0.5 - across, 0.5 - down, 0.5 + across, 0.5 + down
