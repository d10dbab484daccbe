"""Scores of the passages of a prompt for an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.model.json_values import parse_json, require_form

if TYPE_CHECKING:
    import os

    import pandas as pd

_FORMAT = "mixlens passage scores 1"
_FORM = {
    "format": str,
    "method": str,
    "answer": str,
    "tokens": [str],
    "log_probability": float,
    "passes": int,
    "notes": {str: object},
    "passages": [{"segment": str, "text": str, "tokens": [float]}],
    "within": object,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PassageScores:
    """Scores of the passages of a prompt: how much an answer depends on each.

    Attributes
    ----------
    method : str
        The method, such as "leave_one_out" or "arc_jsd".
    segments, texts : tuple of str
        Names and texts of the passages.
    token_scores : numpy.ndarray
        [segment, token of the answer].
    tokens : tuple of str
        The tokens of the answer.
    answer : str
        The text of the answer.
    log_probability : float
        The log-probability of the answer after the whole prompt.
    passes : int
        Number of forward passes. With reuse of the prefix most of them are short.
    notes : dict
        Settings of the method, and facts about this run.
    within : PassageScores or None
        The scores of the larger passages, if the search was hierarchical. Only segments of the best
        of them have scores here.

    Examples
    --------
    >>> from mixlens import Lens
    >>> lens = Lens.bundled("causal")
    >>> scores = lens.leave_one_out("The dogs bark. The cat sleeps.", answer=" The dogs")
    >>> scores.segments
    ('sentence 1', 'sentence 2')
    """

    method: str
    segments: tuple[str, ...]
    texts: tuple[str, ...]
    token_scores: np.ndarray
    tokens: tuple[str, ...]
    answer: str
    log_probability: float
    passes: int
    notes: dict[str, Any] = field(default_factory=dict)
    within: PassageScores | None = None

    @property
    def scores(self) -> np.ndarray:
        """The score of each passage: the sum over the tokens of the answer."""
        total: np.ndarray = self.token_scores.sum(1)
        return total

    def __repr__(self) -> str:
        first, score = self.top(1)[0]
        return (
            f"<PassageScores {self.method} of {self.answer!r:.60}: {len(self.segments)} segments,"
            f" highest {first!r} ({score:.3g})>"
        )

    def top(self, count: int | None = None) -> list[tuple[str, float]]:
        """Return passages with their scores, highest first.

        Parameters
        ----------
        count
            How many to return. By default all.

        Returns
        -------
        list of (str, float)
            Names and scores.

        Examples
        --------
        >>> len(scores.top(1))
        1
        """
        totals = self.scores
        order = np.argsort(-totals, kind="stable")[:count]
        return [(self.segments[place], float(totals[place])) for place in order]

    def to_dataframe(self, *, by_token: bool = False) -> pd.DataFrame:
        """Return a pandas table of the passages.

        Parameters
        ----------
        by_token
            True gives one line for each passage and token of the answer.

        Returns
        -------
        pandas.DataFrame
            Columns: segment, score, text; by token: segment, token, score.

        Examples
        --------
        >>> list(scores.to_dataframe().columns)
        ['segment', 'score', 'text']
        """
        import pandas as pd

        if not by_token:
            return pd.DataFrame(
                {"segment": self.segments, "score": self.scores, "text": self.texts}
            )
        count, width = len(self.segments), len(self.tokens)
        columns = {
            "segment": np.repeat(np.array(self.segments, dtype=object), width),
            "token": self.tokens * count,
            "score": self.token_scores.reshape(-1),
        }
        return pd.DataFrame(columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores to a JSON file.

        Parameters
        ----------
        path
            The file.

        Examples
        --------
        >>> import tempfile, os
        >>> file = os.path.join(tempfile.mkdtemp(), "scores.json")
        >>> scores.save(file)
        """
        Path(path).write_text(
            json.dumps(self._as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PassageScores:
        """Read scores that `save` has written.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        PassageScores
            The scores.

        Raises
        ------
        InvalidInput
            If the file does not hold such scores.

        Examples
        --------
        >>> from mixlens.answers.passage_scores import PassageScores
        >>> PassageScores.load(file).top(1) == scores.top(1)
        True
        """
        try:
            given = parse_json(Path(path).read_text(encoding="utf-8"))
            return cls._from_json(given)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{path} does not hold passage scores ({error}). Pass a file that"
                " `PassageScores.save` has written."
            ) from None

    def _as_json(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "method": self.method,
            "answer": self.answer,
            "tokens": list(self.tokens),
            "log_probability": self.log_probability,
            "passes": self.passes,
            "notes": self.notes,
            "passages": [
                {"segment": name, "text": text, "score": float(scores.sum()), "tokens": own}
                for name, text, scores, own in zip(
                    self.segments,
                    self.texts,
                    self.token_scores,
                    self.token_scores.tolist(),
                    strict=True,
                )
            ],
            "within": None if self.within is None else self.within._as_json(),
        }

    @classmethod
    def _from_json(cls, given: Any) -> PassageScores:
        require_form(given, _FORM, "it")
        if given["format"] != _FORMAT:
            raise ValueError(f"its format is {given['format']!r}")
        passages, within = given["passages"], given["within"]
        scores = np.array([passage["tokens"] for passage in passages], dtype=np.float64)
        require_scores(scores, (len(passages), len(given["tokens"])))
        return cls(
            method=given["method"],
            segments=tuple(passage["segment"] for passage in passages),
            texts=tuple(passage["text"] for passage in passages),
            token_scores=scores,
            tokens=tuple(given["tokens"]),
            answer=given["answer"],
            log_probability=float(given["log_probability"]),
            passes=given["passes"],
            notes=given["notes"],
            within=None if within is None else cls._from_json(within),
        )


def require_scores(scores: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise `ValueError` unless scores of a file are numbers of this shape."""
    if scores.shape != shape or not scores.size:
        raise ValueError(f"its scores have the shape {scores.shape}, not {shape}")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not a number")
