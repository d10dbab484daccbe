"""Rank the scores of the parts of a prompt, convert them to a table, and save them to a JSON file.

Leave-one-out scores, knockouts, ContextCite and hops share these methods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.maps.storage import writable, write_whole
from mixlens.model.json_values import parse_json, require_form

if TYPE_CHECKING:
    import os

    import pandas as pd


class RankedScores:
    """Scores of the parts of a prompt, which you can rank, tabulate and save.

    Examples
    --------
    >>> from mixlens import Lens
    >>> lens = Lens.bundled("causal")
    >>> scores = lens.leave_one_out("The dogs bark. The cat sleeps.", answer=" The dogs")
    """

    _what: ClassVar[str]  # contents of a file, for messages
    _format: ClassVar[str]  # the first entry of a file
    _form: ClassVar[Mapping[str, Any]]  # its other entries

    def _rank(self) -> tuple[Sequence[str], np.ndarray]:
        """Return the names of the parts, and the scores by which they are ranked."""
        raise NotImplementedError

    def _columns(self) -> Mapping[str, Any]:
        """Return the columns of the table."""
        raise NotImplementedError

    def _as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        raise NotImplementedError

    @classmethod
    def _from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Create the scores from the contents of a file. Raise `ValueError` if they are invalid."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Return whether two results have the same scores and settings."""
        if type(other) is not type(self):
            return NotImplemented
        return self._describe() == other._describe()

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def top(self, count: int | None = None) -> list[tuple[str, float]]:
        """Return names with their scores, highest first.

        For a knockout, the score of a passage is its highest score over all windows.

        Parameters
        ----------
        count
            The number of names to return, at least 1. By default, all of them.

        Returns
        -------
        list of (str, float)
            Names and scores.

        Raises
        ------
        InvalidInput
            If `count` is not an integer of at least 1.

        Examples
        --------
        >>> len(scores.top(1))
        1
        """
        require_count(count)
        names, numbers = self._rank()
        order = np.argsort(-numbers, kind="stable")[:count]
        return [(names[place], float(numbers[place])) for place in order]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table of the scores.

        Returns
        -------
        pandas.DataFrame
            Scores of passages have the columns segment, score and text. A knockout has one row per
            passage and window, with the layers of the window and the change of the answer's
            probability in percent. Hops have one row per token, with its position and its score in
            each hop.

        Examples
        --------
        >>> list(scores.to_dataframe().columns)
        ['segment', 'score', 'text']
        """
        from mixlens.maps.tables import make_table

        return make_table(dict(self._columns()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores to a JSON file.

        Parameters
        ----------
        path
            The path of the file.

        Raises
        ------
        CannotWrite
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile, os
        >>> file = os.path.join(tempfile.mkdtemp(), "scores.json")
        >>> scores.save(file)
        """
        text = json.dumps(self._describe(), ensure_ascii=False, indent=1)
        write_whole(writable(path), text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read scores that `save` has written.

        Parameters
        ----------
        path
            The path of the file.

        Returns
        -------
        RankedScores
            The scores, as an instance of the class whose `load` you call.

        Raises
        ------
        InvalidInput
            If the file does not contain scores of this class.

        Examples
        --------
        >>> type(scores).load(file).top() == scores.top()
        True
        """
        try:
            return cls._read(parse_json(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{path} does not hold {cls._what} ({error}). Pass a file that"
                f" `{cls.__name__}.save` has written."
            ) from None

    def _describe(self) -> dict[str, Any]:
        return {"format": self._format, **self._as_json()}

    @classmethod
    def _read(cls, fields: Any) -> Self:
        require_form(fields, {"format": str, **cls._form}, "it")
        if fields["format"] != cls._format:
            raise ValueError(f"its format is {fields['format']!r}")
        return cls._from_json(fields)


def require_count(count: Any) -> None:
    """Raise `InvalidInput` if `count` is neither None nor an integer of at least 1."""
    if count is not None and (not hasattr(count, "__index__") or count < 1):
        raise InvalidInput(f"count={count!r} is out of range. Pass an integer of at least 1.")


def read_numbers(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Convert a list of numbers to an array of this shape. Raise `ValueError` if that is not
    possible.
    """
    numbers = np.array(values, dtype=np.float64)
    if numbers.shape != shape or not numbers.size:
        raise ValueError(f"its scores have the shape {numbers.shape}, not {shape}")
    if not np.isfinite(numbers).all():
        raise ValueError("a score is not a number")
    return numbers
