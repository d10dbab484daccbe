"""Store an answer with the scores of the passages in its prompt.

The scores of measures are normalised: for each token of the answer, the absolute scores of all
sources sum to one. The score of a document is the sum over its tokens, and the score for a word of
the answer is the mean over the tokens of the word. `mixlens.answers.method_scores` describes how
sentences and the whole answer are scored. Removal methods score the drop in the log-probability of
the answer (`leave_one_out`) or a weight in the log-odds of the answer (`context_cite`).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from mixlens.answers import answer_files
from mixlens.answers.answer_parts import OWN_WORDS, AnswerPart, kinds_of_tokens, locate_tokens
from mixlens.answers.printing import format_answer
from mixlens.answers.prompt_parts import (
    DOCUMENT,
    PARAGRAPH,
    TEMPLATE,
    PromptPart,
    split_documents,
)
from mixlens.errors import InvalidInput, no_such
from mixlens.maps import view
from mixlens.maps.ranked_scores import require_count
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    import pandas as pd

    from mixlens.answers.method_scores import MethodScores

LEVELS = ("documents", "paragraphs", "sentences")
_CLOSE = 0.6  # fraction of the best score from which other passages are cited
_MOST_CITED = 3


class RankedPassage(NamedTuple):
    """A passage of the prompt with its score for a part of the answer."""

    name: str
    document: str
    text: str
    score: float
    share: float  # of the sum over all passages, without negative scores
    start: int  # its first character in the prompt
    stop: int  # after its last


class MethodAgreement(NamedTuple):
    """The top-ranked passage of each method for one sentence of the answer."""

    sentence: str
    best: dict[str, str]
    agree: bool


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Answer:
    """An answer, with scores that show which passages of the prompt it depends on.

    Attributes
    ----------
    text : str
        The text of the answer.
    prompt : str
        The prompt as the model read it.
    parts : tuple of PromptPart
        Documents, question, system prompt, earlier turns and template, as character ranges of the
        prompt.
    passages : tuple of PromptPart
        The sentences of the documents.
    sentences, words : tuple of AnswerPart
        Sentences and words of the answer.
    methods : dict of str to MethodScores
        Scores of each method. The first one is the default.
    uses_template : bool
        True if mixlens applied the chat template to a plain text prompt.
    source_row, target_row : TokenRow
        The source tokens and the tokens of the answer.
    provenance : dict
        The model and the options.

    Examples
    --------
    The examples of the methods use this answer.

    >>> from mixlens import Lens
    >>> prompt = "Tom has a red ball.\\nLily has a blue car.\\nLily likes to play with her"
    >>> documents = ["Tom has a red ball.", "Lily has a blue car."]
    >>> answer = Lens.bundled("causal").answer(prompt, documents=documents, answer=" blue car.")
    >>> answer.text
    ' blue car.'
    """

    text: str
    prompt: str
    parts: tuple[PromptPart, ...]
    passages: tuple[PromptPart, ...]
    sentences: tuple[AnswerPart, ...]
    words: tuple[AnswerPart, ...]
    methods: dict[str, MethodScores]
    uses_template: bool
    source_row: TokenRow
    target_row: TokenRow
    has_sink: bool
    provenance: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Return whether all scores are bitwise equal and all other fields are equal."""
        if not isinstance(other, Answer):
            return NotImplemented
        return answer_files.same(self, other)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        count = len(self.documents)
        best = self.top(count=1)[0]
        return (
            f"<Answer {self.text!r:.60}: {count} document{'s' * (count != 1)},"
            f" {', '.join(self.methods)}; most from {best.document!r}>"
        )

    def __str__(self) -> str:
        return format_answer(self)

    @property
    def documents(self) -> dict[str, str]:
        """The documents in the prompt, as a dict from name to text."""
        return {part.name: self.prompt[part.start : part.stop] for part in self._documents}

    @property
    def method(self) -> str:
        """The name of the first method, which is the default."""
        return next(iter(self.methods))

    # --------------------------------------------------------------------------------------- scores

    def top(
        self,
        *,
        sentence: int | None = None,
        word: int | str | None = None,
        by: str = "documents",
        method: str | None = None,
        count: int | None = None,
    ) -> list[RankedPassage]:
        """Rank the passages of the prompt by their scores for the answer, a sentence or a word.

        Parameters
        ----------
        sentence
            The number of a sentence, from 0. By default the whole answer.
        word
            A word of the answer, or its index in `words`.
        by
            The kind of passage: "documents", "paragraphs" or "sentences".
        method
            The name of a method. By default the first method of the answer.
        count
            Number of passages to return, at least 1. By default all.

        Returns
        -------
        list of RankedPassage
            Passages with their scores, highest first.

        Raises
        ------
        InvalidInput
            If the sentence, word or method does not exist, or if the method has no scores for this
            kind of passage.

        Examples
        --------
        >>> [passage.document for passage in answer.top(word="blue")]
        ['document 2', 'document 1']
        """
        passages, scores = self._passage_scores(sentence, word, by, method)
        positive = np.maximum(scores, 0).sum()
        require_count(count)
        order = np.argsort(-scores, kind="stable")[:count]
        return [
            RankedPassage(
                name=passages[place].name,
                document=self._document_of(passages[place]),
                text=self.prompt[passages[place].start : passages[place].stop],
                score=float(scores[place]),
                share=float(max(scores[place], 0) / positive) if positive > 0 else 0.0,
                start=passages[place].start,
                stop=passages[place].stop,
            )
            for place in order
        ]

    def shares(
        self,
        *,
        sentence: int | None = None,
        word: int | str | None = None,
        method: str | None = None,
    ) -> dict[str, float]:
        """Return how much each kind of source (documents, question, …) contributes to the answer.

        Parameters
        ----------
        sentence, word
            As in `top`.
        method
            The name of a measure. By default the first measure of the answer.

        Returns
        -------
        dict of str to float
            Shares of documents, question, system prompt, earlier turns, template, the answer's own
            earlier words, and the first token (the attention sink). Kinds without tokens are left
            out. The answer's own words are also left out if the method does not score them, for
            example `alti` with an answer of more than 16 tokens.

        Raises
        ------
        InvalidInput
            If the method is a removal method, which scores only documents.

        Examples
        --------
        >>> list(answer.shares())
        ['documents', 'question', 'own words', 'first token']
        """
        measures = [
            name for name, method_scores in self.methods.items() if not method_scores.removes
        ]
        scores = self._find_scores(measures[0] if method is None and measures else method)
        if scores.removes:
            raise InvalidInput(
                f"{scores.name} scores only documents. Choose a measure: {self._measures()}."
            )
        source_scores = np.abs(self._row(scores, sentence, word))
        totals: dict[str, float] = {}
        for kind in _KIND_ORDER:
            places = [i for i, method_scores in enumerate(self.kinds) if method_scores == kind]
            if kind == OWN_WORDS and word is None and not source_scores[places].any():
                tokens = scores.values
                if sentence is not None:
                    own_part = _select_part(self.sentences, sentence, "sentence")
                    tokens = tokens[own_part.first : own_part.stop]
                if tokens[:, places].any():  # a span that leaves its own words out
                    continue
            if places:
                name = "documents" if kind == DOCUMENT else kind
                totals[name] = float(source_scores[places].sum())
        return totals

    def agreement(self) -> list[MethodAgreement]:
        """Check for each sentence of the answer whether all methods rank the same document first.

        If there is only one document, the sentences of this document are compared instead.

        Returns
        -------
        list of MethodAgreement
            For each sentence of the answer, the best document according to each method, and whether
            all methods agree.

        Examples
        --------
        >>> answer.agreement()[0].agree
        True
        """
        level = "documents" if len(self._documents) > 1 else "sentences"
        compared = []
        for number, part in enumerate(self.sentences):
            best = {
                name: self.top(sentence=number, method=name, by=level, count=1)[0].name
                for name in self.methods
            }
            compared.append(MethodAgreement(part.text, best, len(set(best.values())) == 1))
        return compared

    def citations(self, sentence: int, method: str | None = None) -> list[RankedPassage]:
        """Return the passages to cite for a sentence of the answer.

        These are the best sentence of the best document, and the best sentence of up to two other
        documents whose scores are at least 60 % of the best score. If there is only one document,
        its best sentences are cited. With several documents, removal methods score only whole
        documents, so they cite whole documents.

        Parameters
        ----------
        sentence
            The number of the sentence, from 0.
        method
            The name of a method. By default the first method of the answer.

        Returns
        -------
        list of RankedPassage
            At most three passages.

        Examples
        --------
        >>> answer.citations(0)[0].text
        'Lily has a blue car.'
        """
        several = len(self._documents) > 1
        by = "documents" if several else "sentences"
        ranked = self.top(sentence=sentence, method=method, by=by, count=_MOST_CITED)
        cited = [each for each in ranked if each.score >= _CLOSE * ranked[0].score > 0]
        if not several or self._find_scores(method).removes:
            return cited
        passages, scores = self._passage_scores(sentence, None, "sentences", method)
        best = []
        for each in cited:
            inside = np.flatnonzero(self._passage_documents == each.document)
            part = passages[inside[scores[inside].argmax()]]
            text = self.prompt[part.start : part.stop]
            best.append(each._replace(name=part.name, text=text, start=part.start, stop=part.stop))
        return best

    # ------------------------------------------------------------------------------------ internals

    @cached_property
    def kinds(self) -> list[str]:
        """For each source token, the kind of prompt part that contains the token."""
        return kinds_of_tokens(self.source_row, self.parts, has_sink=self.has_sink)

    @cached_property
    def _documents(self) -> tuple[PromptPart, ...]:
        return tuple(part for part in self.parts if part.kind == DOCUMENT)

    @property
    def units(self) -> tuple[PromptPart, ...]:
        """The parts that removal methods remove: documents, or the sentences of one document."""
        return self._documents if len(self._documents) > 1 else self.passages

    @property
    def _removed_levels(self) -> tuple[str, ...]:
        """The kinds of passages that removal methods score."""
        return LEVELS[:1] if self.units is self._documents else (LEVELS[0], LEVELS[-1])

    @cached_property
    def _passage_documents(self) -> np.ndarray:
        return np.array([self._document_of(part) for part in self.passages])

    @cached_property
    def _document_starts(self) -> list[int]:
        return [part.start for part in self._documents]

    def _document_of(self, part: PromptPart) -> str:
        return self._documents[bisect_right(self._document_starts, part.start) - 1].name

    def _find_scores(self, method: str | None) -> MethodScores:
        name = self.method if method is None else method
        if not isinstance(name, str) or name not in self.methods:
            raise InvalidInput(no_such("method", name, list(self.methods), "The answer has"))
        return self.methods[name]

    def _measures(self) -> str:
        return (
            ", ".join(name for name, scores in self.methods.items() if not scores.removes) or "none"
        )

    def _row(
        self, scores: MethodScores, sentence: int | None, word: int | str | None
    ) -> Float[np.ndarray, " column"]:
        """Return the score of each source for the answer, or for one sentence or word."""
        if sentence is not None and word is not None:
            raise InvalidInput("sentence and word are mutually exclusive. Pass one of them.")
        if sentence is not None:
            _select_part(self.sentences, sentence, "sentence")
            source_scores: np.ndarray = scores.parts[range(len(self.sentences))[sentence]]
            return source_scores
        if word is None:
            whole: np.ndarray = scores.parts[-1]
            return whole
        if isinstance(word, str):
            same = [part for part in self.words if part.text == word]
            if len(same) != 1:
                where = f"{len(same)} times in" if same else "not in"
                raise InvalidInput(
                    f"Word {word!r} is {where} the answer. Pass a number: 0 is the first of"
                    " `answer.words`."
                )
            part = same[0]
        else:
            part = _select_part(self.words, word, "word")
        return scores.of_word(part.first, part.stop)

    def _passage_scores(
        self, sentence: int | None, word: int | str | None, by: str, method: str | None
    ) -> tuple[Sequence[PromptPart], np.ndarray]:
        """Return the passages of one kind, with their scores for a part of the answer."""
        if by not in LEVELS:
            raise InvalidInput(no_such("kind of passages", by, LEVELS))
        passages = self._levels[by]
        scores = self._find_scores(method)
        source_scores = self._row(scores, sentence, word).astype(np.float64)
        if scores.removes and by not in self._removed_levels:
            raise InvalidInput(
                f"{scores.name} removed whole {self._removed_levels[-1]}. Pass"
                f" by={self._removed_levels[-1]!r}, or choose a measure: {self._measures()}."
            )
        owner = self._owner_of_units(passages) if scores.removes else self.owners[by]
        inside = owner >= 0
        return passages, np.bincount(owner[inside], source_scores[inside], len(passages))

    def _owner_of_units(self, passages: Sequence[PromptPart]) -> np.ndarray:
        if passages is self.units:
            return np.arange(len(self.units))
        return np.zeros(len(self.units), dtype=np.int64)  # sentences of the only document

    @cached_property
    def owners(self) -> Mapping[str, np.ndarray]:
        """Map each kind of passage to the index of the passage of each source token, or -1."""
        is_document = np.array([kind == DOCUMENT for kind in self.kinds])
        return {
            by: np.where(is_document, locate_tokens(self.source_row, parts), -1)
            for by, parts in self._levels.items()
        }

    @cached_property
    def _levels(self) -> Mapping[str, tuple[PromptPart, ...]]:
        paragraphs = tuple(split_documents(self.prompt, self.parts, PARAGRAPH))
        return dict(zip(LEVELS, (self._documents, paragraphs, self.passages), strict=True))

    # -------------------------------------------------------------------------------------- results

    def to_dataframe(self, by: str = "documents") -> pd.DataFrame:
        """Return all scores as a pandas DataFrame.

        Parameters
        ----------
        by
            The kind of passage: "documents", "paragraphs" or "sentences". Removal methods score no
            paragraphs, and sentences only if there is a single document.

        Returns
        -------
        pandas.DataFrame
            Columns: method, part ("answer", "sentence" or "word"), number, text, document, passage,
            score, share, rank.

        Examples
        --------
        >>> table = answer.to_dataframe()
        >>> table[(table.part == "answer") & (table["rank"] == 1)].document.item()
        'document 2'
        """
        from mixlens.maps.tables import make_table

        records = []
        answer_parts: list[tuple[str, int, str, dict[str, Any]]] = [("answer", 0, self.text, {})]
        answer_parts += [
            ("sentence", i, part.text, {"sentence": i}) for i, part in enumerate(self.sentences)
        ]
        answer_parts += [("word", i, part.text, {"word": i}) for i, part in enumerate(self.words)]
        for name, scores in self.methods.items():
            level = by
            if scores.removes and by not in self._removed_levels:
                level = self._removed_levels[-1]
            for part, number, text, which in answer_parts:
                for rank, each in enumerate(self.top(method=name, by=level, **which), 1):
                    records.append(
                        {
                            "method": name,
                            "part": part,
                            "number": number,
                            "text": text,
                            "document": each.document,
                            "passage": each.text,
                            "score": each.score,
                            "share": each.share,
                            "rank": rank,
                        }
                    )
        return make_table(records)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained HTML page that shows the answer next to the documents.

        Parameters
        ----------
        path
            The name of the file.

        Raises
        ------
        CannotWrite
            If the file cannot be written.

        Examples
        --------
        >>> answer.to_html("answer.html")
        """
        view("viewer.page").write(view("viewer.payload").answer_payload(self), path)

    def _repr_html_(self) -> str:
        frame: str = view("viewer.page").frame(view("viewer.payload").answer_payload(self))
        return frame

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answer to a safetensors file, which `mixlens.load` reads.

        Parameters
        ----------
        path
            The name of the file.

        Raises
        ------
        CannotWrite
            If the file cannot be written.

        Examples
        --------
        >>> import mixlens
        >>> answer.save("answer.mixlens")
        >>> mixlens.load("answer.mixlens") == answer
        True
        """
        answer_files.save(self, path)


_KIND_ORDER = (
    DOCUMENT,
    "question",
    "system prompt",
    "earlier turns",
    TEMPLATE,
    OWN_WORDS,
    "first token",
)


def _select_part(parts: Sequence[AnswerPart], number: Any, what: str) -> AnswerPart:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidInput(f"{number!r} is not a {what} of the answer. Pass its number, from 0.")
    if not -len(parts) <= number < len(parts):
        raise InvalidInput(f"{what.capitalize()} {number} is out of range (0–{len(parts) - 1}).")
    return parts[number]
