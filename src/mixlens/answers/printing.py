"""Print an answer with numbered citations, and the cited passages below it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from mixlens.answers.answer_parts import OWN_WORDS
from mixlens.answers.prompt_parts import QUESTION, WHOLE
from mixlens.errors import format_count

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer, RankedPassage

_WIDTH = 80
_CLEAR, _MOST_WORDS = 0.4, 5  # share of a word's best document, and words that are listed


def format_answer(answer: Answer, width: int = _WIDTH) -> str:
    """Return the answer with numbered citations, followed by the cited passages and notes."""
    numbers: dict[tuple[int, int], int] = {}
    cited: dict[int, RankedPassage] = {}
    text, end = "", 0
    for place, sentence in enumerate(answer.sentences):
        marks = []
        for passage in answer.citations(place):
            number = numbers.setdefault((passage.start, passage.stop), len(numbers) + 1)
            cited.setdefault(number, passage)
            marks.append(f"[{number}]")
        text += answer.text[end : sentence.end] + (f" {''.join(marks)}" if marks else "")
        end = sentence.end
    lines = [textwrap.fill(line, width) for line in (text + answer.text[end:]).strip().split("\n")]
    if cited:
        lines.append("")
    for number, passage in cited.items():
        lines += _passage(answer, number, passage, width)
    lines += ["", *_notes(answer, width, is_cited=bool(cited))]
    return "\n".join(lines)


def _passage(answer: Answer, number: int, passage: RankedPassage, width: int) -> list[str]:
    passage_text = " ".join(passage.text.split())
    lines = [
        f"[{number}] {passage.document} ({passage.share:.0%} of the score of all documents)",
        _indent(passage_text, width),
    ]
    words = _words_from(answer, passage.document)
    if words and len(answer.documents) > 1:
        lines.append(_indent(f"Most for: {', '.join(words)}", width))
    return lines


def _indent(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    ")


def _words_from(answer: Answer, document: str) -> list[str]:
    """Return the words of the answer that clearly depend on a document, highest score first."""
    clear: dict[str, RankedPassage] = {}
    for number, word in enumerate(answer.words):
        best = answer.top(word=number, count=1)[0]
        is_clear = best.document == document and best.share >= _CLEAR
        if is_clear and any(letter.isalnum() for letter in word.text):
            text = " ".join(word.text.split())
            if text not in clear or best.score > clear[text].score:
                clear[text] = best
    ranked = sorted(clear, key=lambda text: -clear[text].score)[:_MOST_WORDS]
    return [f"{text} ({clear[text].share:.0%})" for text in ranked]


def _notes(answer: Answer, width: int, *, is_cited: bool) -> list[str]:
    """Return notes on the method, the shares of all sources, and the agreement of methods."""
    scores = answer.methods[answer.method]
    notes = [f"Method: {answer.method} ({scores.reading})."]
    if not is_cited:
        notes.append("No passage has a positive score, so none is cited.")
    if list(answer.documents) == [WHOLE] and all(part.kind != QUESTION for part in answer.parts):
        notes.append(
            "The prompt marks no documents, so all of its sentences were ranked, the question too."
            " Pass documents, or start each one with a line such as === document 1 ===."
        )
    measure = next(
        (name for name, method_scores in answer.methods.items() if not method_scores.removes), None
    )
    if measure is not None:
        shares = answer.shares()
        parts = [f"{name} {share:.0%}" for name, share in shares.items()]
        by = f" by {measure}" if measure != answer.method else ""
        is_left_out = OWN_WORDS in answer.kinds and OWN_WORDS not in shares
        without = f", without {OWN_WORDS}" if is_left_out else ""
        notes.append(f"Shares of all sources{by}{without}: {', '.join(parts)}.")
    if len(answer.methods) > 1:
        notes += _agreement(answer)
    if "cut_at" in answer.provenance:
        length = format_count(answer.provenance["cut_at"], "token")
        notes.append(
            f"The answer was cut after {length}. Allow more with max_new_tokens, or --generate on"
            " the command line."
        )
    if answer.uses_template:
        notes.append("mixlens wrote the prompt with the chat template of the model.")
    return [textwrap.fill(note, width) for note in notes]


def _agreement(answer: Answer) -> list[str]:
    compared = answer.agreement()
    same = sum(each.agree for each in compared)
    lines = [
        f"{format_count(len(answer.methods), 'method')} agree on the best passage for {same} of"
        f" {format_count(len(compared), 'sentence')}."
    ]
    for each in compared:
        if not each.agree:
            best = ", ".join(f"{method}: {name}" for method, name in each.best.items())
            lines.append(f"They differ for “{textwrap.shorten(each.sentence, 50)}” ({best}).")
    return lines
