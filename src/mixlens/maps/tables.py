"""Convert scores with their labels to xarray and to pandas.

Importing xarray and pandas takes half a second, so they are imported inside the functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from mixlens.maps.mixing_maps import MixingMaps


def label_array(
    maps: MixingMaps, name: str, dims: tuple[str, ...], values: np.ndarray
) -> xr.DataArray:
    """Return an xarray `DataArray` of values, labelled with the layers, targets and sources of the
    maps.

    The coordinates `target` and `source` are positions, `target_token` and `source_token` are
    labels, and `source_segment` is the segment of each source, if the text has segments.
    """
    import xarray as xr

    coords: dict[str, Any] = {"layer": list(maps.layers)}
    if "head" in dims:
        coords["head"] = np.arange(values.shape[dims.index("head")])
    if "target" in dims:
        coords |= {
            "target": list(maps.target_positions),
            "target_token": ("target", list(maps.tokens)),
        }
    if "source" in dims:
        coords |= {
            "source": np.arange(len(maps.source_row)),
            "source_token": ("source", list(maps.source_tokens)),
        }
        names = maps.source_row.segment_names
        coords |= {} if names is None else {"source_segment": ("source", list(names))}
    return xr.DataArray(values, dims=dims, coords=coords, name=name)


def long_table(maps: MixingMaps) -> pd.DataFrame:
    """Return a table with one row per score, with its labels."""
    index = np.indices(maps.scores.shape).reshape(maps.scores.ndim, -1)
    columns: dict[str, Any] = {"layer": np.array(maps.layers, dtype=int)[index[0]]}
    if maps.per_head:
        columns["head"] = index[1]
    columns["target"] = np.array(maps.target_positions, dtype=int)[index[-2]]
    columns["target_token"] = np.array(maps.tokens, dtype=object)[index[-2]]
    columns["source"] = index[-1]
    columns["source_token"] = np.array(maps.source_tokens, dtype=object)[index[-1]]
    names = maps.source_row.segment_names
    if names is not None:
        columns["source_segment"] = np.array(names, dtype=object)[index[-1]]
    return make_table({**columns, "score": maps.scores.reshape(-1)})


def make_table(data: Any, columns: list[str] | None = None) -> pd.DataFrame:
    """Return `pandas.DataFrame(data, columns=columns)`.

    pandas stores texts as UTF-8, which has no lone surrogates, so they become question marks.
    """
    import pandas as pd

    try:
        return pd.DataFrame(data, columns=columns)
    except UnicodeEncodeError:
        table = pd.DataFrame(data, columns=columns, dtype=object)
        table = table.map(lambda value: well_formed(value) if isinstance(value, str) else value)
        return table.infer_objects()


def well_formed(text: str) -> str:
    """Replace lone surrogates in a text, because they cannot be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")
