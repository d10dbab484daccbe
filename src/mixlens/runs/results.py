"""Read the results of a run lazily, and open saved maps, answers and runs (`mixlens.load`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mixlens.answers import answer_files
from mixlens.answers.answer import Answer
from mixlens.answers.hops import Hops
from mixlens.answers.knockout import Knockout
from mixlens.answers.passage_scores import PassageScores
from mixlens.contracts import Facts
from mixlens.contracts.head_weights import holds_head_weights, load_head_weights
from mixlens.datasets.object_storage import PREFIX, AnyPath, parquet_source, path_of
from mixlens.errors import InvalidInput
from mixlens.maps import mixing_maps as maps
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.maps.ranked_scores import RankedScores
from mixlens.maps.storage import kind_of
from mixlens.measuring.context_citing import ContextCitation
from mixlens.model.json_values import parse_json, require_form
from mixlens.runs.store import (
    AGGREGATES,
    DATA,
    MANIFEST,
    METADATA,
    SCHEMA_VERSION,
    require_parquet,
)
from mixlens.text.tokens import TokenRow

_MEASURE = {
    "facts": {str: (bool, str, None)},
    "provenance": {str: object},
    "rollout": [(float, bool, None)],
}
_DESCRIPTION = {"schema": int, "measures": {str: _MEASURE}}
_RANKED: Mapping[str, type[RankedScores]] = {
    kind._format: kind for kind in (PassageScores, Knockout, Hops, ContextCitation)
}


class _Place(NamedTuple):
    """The results file of a text, and the line of the text in the corpus."""

    path: AnyPath
    line: int  # of the corpus


class RunResults:
    """Results of `mixlens run`. They are read when you access them.

    Maps are available if the run kept them (`--keep scores` or `--keep rollout`). Summaries of any
    run are in `to_dataframe()`. Needs the extra `corpus`.

    Parameters
    ----------
    folder
        The folder of the run, local or `s3://BUCKET/NAME`.

    Raises
    ------
    InvalidInput
        If the folder has no results.

    Examples
    --------
    The examples use the results of
    `mixlens run texts.txt --measure attention --keep scores --out results`.

    >>> import mixlens
    >>> results = mixlens.load("results")
    >>> len(results), results.complete
    (2, True)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_parquet()
        self.folder: AnyPath = path_of(folder)
        parts = (self.folder / DATA).glob("part-*.parquet")
        self.files: list[AnyPath] = sorted(parts, key=str)
        if not self.files:
            raise InvalidInput(f"{self.folder} has no results. Pass the --out folder of a run.")

    @property
    def complete(self) -> bool:
        """Return True if every shard has been measured."""
        return (self.folder / MANIFEST).exists()

    @property
    def aggregates(self) -> dict[str, Any]:
        """Return the aggregates of the whole corpus by measure, as in `aggregates.json`."""
        if not self.complete:
            raise InvalidInput(f"{self.folder} contains an incomplete run. Resume it first.")
        path = self.folder / AGGREGATES
        with _readable(path):
            aggregates: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        return aggregates

    @cached_property
    def description(self) -> dict[str, Any]:
        """Return the settings of the run, and the provenance and properties of each measure."""
        import pyarrow.parquet as pq

        measures: dict[str, Any] = {}
        for path in self.files:
            with _readable(path):
                stored = pq.read_schema(parquet_source(path)).metadata or {}  # type: ignore[no-untyped-call]
                about = parse_json(stored.get(METADATA, b"{}"))
                require_form(about, _DESCRIPTION, "its description")
            if about["schema"] > SCHEMA_VERSION:
                raise InvalidInput(
                    f"{path} has schema {about['schema']}, but this version of mixlens "
                    f"reads schemas up to {SCHEMA_VERSION}. Install a newer version."
                )
            measures = {**about["measures"], **measures}
        return {**about, "measures": measures}

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[_Place]]:
        """Return the results file and the corpus line of each text and measure.

        An id normally belongs to one text, but several texts may share an id that comes from a
        column.
        """
        import pyarrow.parquet as pq

        places: dict[tuple[str, str], list[_Place]] = {}
        columns = ["id", "measure", "line"]
        for path in self.files:
            with _readable(path):
                table = pq.read_table(parquet_source(path), columns=columns)  # type: ignore[no-untyped-call]
            rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
            for name, measure, line in dict.fromkeys(rows):  # one for each layer
                places.setdefault((name, measure), []).append(_Place(path, line))
        return places

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the texts, in the order of the corpus."""
        return tuple(dict.fromkeys(name for name, _ in self._places))

    @property
    def measures(self) -> tuple[str, ...]:
        """Return the measures of the run."""
        return tuple(dict.fromkeys(measure for _, measure in self._places))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[MixingMaps]:
        """Yield the maps of every text and measure."""
        return (
            self._read(place, measure)
            for (_, measure), places in self._places.items()
            for place in places
        )

    def maps(self, name: str, measure: str | None = None) -> MixingMaps:
        """Return the maps of one text.

        Parameters
        ----------
        name
            The id of the text.
        measure
            The name of the measure. You can leave it out if the run had only one measure.

        Returns
        -------
        MixingMaps
            The maps that the run kept.

        Raises
        ------
        InvalidInput
            If the text or measure does not exist, if several texts have this id, or if the run kept
            no maps.

        Examples
        --------
        >>> results.maps(results.ids[0]).tokens
        ('[CLS]', 'the', 'dogs', 'bark', '.', '[SEP]')
        """
        if measure is None:
            if len(self.measures) > 1:
                raise InvalidInput(
                    f"The run has several measures. Pass one of: {', '.join(self.measures)}."
                )
            measure = self.measures[0]
        places = self._places.get((name, measure), [])
        if not places:
            raise InvalidInput(
                f"Unknown text {name!r} or measure {measure!r}. See `ids` and `measures`."
            )
        if len(places) > 1:
            raise InvalidInput(
                f"{len(places)} texts have the id {name!r}, the first on line "
                f"{places[0].line}. Iterate over the results, or run with an --id-column of "
                "unique values."
            )
        return self._read(places[0], measure)

    def _read(self, place: _Place, measure: str) -> MixingMaps:
        import pyarrow.parquet as pq

        filters = [("line", "==", place.line), ("measure", "==", measure)]
        with _readable(place.path):
            rows = pq.read_table(parquet_source(place.path), filters=filters).to_pylist()  # type: ignore[no-untyped-call]
            return self._maps(sorted(rows, key=lambda row: row["layer"]), measure)

    def _maps(self, rows: list[dict[str, Any]], measure: str) -> MixingMaps:
        first, about = rows[0], self.description["measures"][measure]
        if first["scores"] is None:
            raise InvalidInput(
                f"{self.folder} holds summaries, not maps. Run with --keep scores, or use "
                "to_dataframe()."
            )
        special = None if first["special"] is None else tuple(first["special"])
        sources = TokenRow(tuple(first["tokens"]), special=special)
        positions, labels = tuple(first["targets"]), tuple(first["target_tokens"])
        facts = Facts(**about["facts"])
        named_so = facts.same_tokens and labels == tuple(sources.labels[i] for i in positions)
        residual, normalised, adds_identity = about["rollout"]
        scores = np.stack(
            [np.array(row["scores"], np.float32).reshape(row["shape"]) for row in rows]
        )
        return MixingMaps(
            scores=scores,
            layers=tuple(row["layer"] for row in rows),
            target_row=sources if named_so else _sparse_row(positions, labels),
            source_row=sources,
            target_positions=positions,
            facts=facts.of(scores),
            provenance=about["provenance"],
            rollout_residual=residual,
            rollout_normalised=normalised,
            rollout_adds_identity=adds_identity,
        )

    def to_dataframe(self) -> Any:
        """Return a pandas table of all results, without the scores.

        Returns
        -------
        pandas.DataFrame
            One row per text, measure and layer.

        Examples
        --------
        >>> len(results.to_dataframe())
        12
        """
        import pandas as pd
        import pyarrow.parquet as pq

        parts = []
        for path in self.files:
            with _readable(path):
                names = pq.read_schema(parquet_source(path)).names  # type: ignore[no-untyped-call]
                names = [name for name in names if name not in ("scores", "shape")]
                parts.append(pq.read_table(parquet_source(path), columns=names).to_pandas())  # type: ignore[no-untyped-call]
        return pd.concat(parts, ignore_index=True)

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        return f"<RunResults {self.folder}: {len(self.files)} files{state}>"


@contextmanager
def _readable(path: AnyPath) -> Iterator[None]:
    """Convert errors in reading a results file to `InvalidInput`."""
    import pyarrow as pa

    try:
        yield
    except InvalidInput:
        raise
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({error}). It is damaged, or `mixlens run` did not write it."
        ) from error


def _sparse_row(positions: tuple[int, ...], labels: tuple[str, ...]) -> TokenRow:
    """Return a `TokenRow` with the labels of the targets at their positions.

    All other tokens are numbered, because the run did not store their labels.
    """
    label_of = dict(zip(positions, labels, strict=True))
    return TokenRow(tuple(label_of.get(i, f"token {i}") for i in range(max(positions) + 1)))


def load(path: str | os.PathLike[str]) -> Any:
    """Load a saved result, or open the folder of a run.

    Parameters
    ----------
    path
        A file that `save` of a result or `mixlens fit-heads` wrote, or a folder that `mixlens run`
        wrote, local or `s3://BUCKET/NAME`.

    Returns
    -------
    MixingMaps, Answer, PassageScores, Knockout, Hops, ContextCitation, HeadWeights or RunResults
        The result, equal (`==`) to the one that was saved; maps and answers are bitwise equal. The
        results of a run are read when you access them.

    Raises
    ------
    InvalidInput
        If the path does not exist, or if mixlens did not write it.

    Examples
    --------
    >>> import mixlens
    >>> maps = mixlens.Lens.bundled().measure("attention", "The dogs bark.")
    >>> maps.save("maps.safetensors")
    >>> mixlens.load("maps.safetensors") == maps
    True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{type(path).__name__} is not a path. Pass a file or a folder.")
    if str(path).startswith(PREFIX) or os.path.isdir(
        path
    ):  # False for a name that the system does not accept
        return RunResults(path)
    scores_class = _ranked_scores_in(path)
    if scores_class is not None:
        return scores_class.load(path)
    if holds_head_weights(path):
        return load_head_weights(path)
    if kind_of(path) == answer_files.KIND:
        return answer_files.load(path, Answer)
    return maps.load(path)


def _ranked_scores_in(path: str | os.PathLike[str]) -> type[RankedScores] | None:
    """Return the class of the scores in a JSON file, or None if it is a different file."""
    try:
        with open(path, "rb") as file:
            first = re.match(rb'\s*\{\s*"format": "([^"]*)"', file.read(200))
    except (OSError, ValueError):  # a name that the system does not accept
        return None
    return None if first is None else _RANKED.get(first[1].decode(errors="replace"))
