"""Store the scores of the passages of a prompt for an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mixlens.maps.ranked_scores import RankedScores, read_numbers

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PassageScores(RankedScores):
    """How much an answer depends on each passage of its prompt.

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
        Number of forward passes. If the prefix was reused, most of the passes run only a part of
        the prompt.
    notes : dict
        Settings of the method, and information about this run.
    within : PassageScores or None
        The scores of the larger passages if the search was hierarchical, else None. A hierarchical
        search scores only the segments inside the best larger passages.

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
        """The score of each passage, summed over the tokens of the answer."""
        total: np.ndarray = self.token_scores.sum(1)
        return total

    def __repr__(self) -> str:
        first, score = self.top(1)[0]
        return (
            f"<PassageScores {self.method} of {self.answer!r:.60}: {len(self.segments)} segments,"
            f" highest {first!r} ({score:.3g})>"
        )

    def to_dataframe(self, *, by_token: bool = False) -> pd.DataFrame:
        """Return the scores of the passages as a pandas DataFrame.

        Parameters
        ----------
        by_token
            True returns one row for each passage and token of the answer.

        Returns
        -------
        pandas.DataFrame
            Columns: segment, score, text; by token: segment, token, score.

        Examples
        --------
        >>> list(scores.to_dataframe().columns)
        ['segment', 'score', 'text']
        """
        from mixlens.maps.tables import make_table

        if not by_token:
            return super().to_dataframe()
        count, width = len(self.segments), len(self.tokens)
        columns = {
            "segment": np.repeat(np.array(self.segments, dtype=object), width),
            "token": self.tokens * count,
            "score": self.token_scores.reshape(-1),
        }
        return make_table(columns)

    _what = "passage scores"
    _format = "mixlens passage scores 1"
    _form: ClassVar[Mapping[str, Any]] = {
        "method": str,
        "answer": str,
        "tokens": [str],
        "log_probability": float,
        "passes": int,
        "notes": {str: object},
        "passages": [{"segment": str, "text": str, "tokens": [float]}],
        "within": object,
    }

    def _rank(self) -> tuple[Sequence[str], np.ndarray]:
        return self.segments, self.scores

    def _columns(self) -> Mapping[str, Any]:
        return {"segment": self.segments, "score": self.scores, "text": self.texts}

    def _as_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "answer": self.answer,
            "tokens": list(self.tokens),
            "log_probability": self.log_probability,
            "passes": self.passes,
            "notes": self.notes,
            "passages": [
                {"segment": name, "text": text, "score": float(scores.sum()), "tokens": tokens}
                for name, text, scores, tokens in zip(
                    self.segments,
                    self.texts,
                    self.token_scores,
                    self.token_scores.tolist(),
                    strict=True,
                )
            ],
            "within": None if self.within is None else self.within._describe(),
        }

    @classmethod
    def _from_json(cls, fields: Mapping[str, Any]) -> Self:
        passages, within = fields["passages"], fields["within"]
        scores = [passage["tokens"] for passage in passages]
        return cls(
            method=fields["method"],
            segments=tuple(passage["segment"] for passage in passages),
            texts=tuple(passage["text"] for passage in passages),
            token_scores=read_numbers(scores, (len(passages), len(fields["tokens"]))),
            tokens=tuple(fields["tokens"]),
            answer=fields["answer"],
            log_probability=float(fields["log_probability"]),
            passes=fields["passes"],
            notes=fields["notes"],
            within=None if within is None else cls._read(within),
        )
