"""The grids of tiles cover the boxes of the image that the processor cut out."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from mixlens.text.image_grids import ImageInput, find_grids


def test_tiles_of_a_wide_image_are_placed_by_row_and_column() -> None:
    """One row of three tiles and an overview, with four patches each."""
    labels: list[str] = []
    places: list[int] = []
    for mark in ("<row_1_col_1>", "<row_1_col_2>", "<row_1_col_3>", "<global-img>"):
        labels.append(mark)
        places += range(len(labels), len(labels) + 4)
        labels += ["<image>"] * 4
    pixels = torch.zeros(1, 4, 3, 8, 8)
    image = ImageInput(0, 1, places, labels, {"pixel_values": pixels})
    grids = find_grids(SimpleNamespace(), None, image)
    boxes = [(0, 0, 1 / 3, 1), (1 / 3, 0, 2 / 3, 1), (2 / 3, 0, 1, 1), (0, 0, 1, 1)]
    assert [each.grid.box for each in grids] == boxes
    assert [(each.kind, each.top, each.left) for each in grids] == [
        ("patch", 0, 0),
        ("patch", 0, 2),
        ("patch", 0, 4),
        ("overview", 0, 0),
    ]
