"""Read prompts with known evidence: HotpotQA, RULER and TracLLM.

* HotpotQA (Yang et al. 2018), a JSON list: `question`, `answer`, `context` (titles with their
  sentences) and `supporting_facts`. Every paragraph is a document; the supporting sentences are the
  evidence.
* RULER (Hsieh et al. 2024), JSON lines: `input`, `outputs` and optionally `answer_prefix`. The
  documents are the numbered documents of the prompt ("Document 1:") or, if there are none, its
  sentences. Every document that contains an output is evidence, except the last one (the question).
  The answer is the first output.
* TracLLM (Wang et al. 2025), a JSON list of results, as written by the authors' program:
  `question`, `contexts`, `answer` and `gt_important_texts`. A single context is split into
  documents of 100 words, as the program does by default. A document is evidence if it shares more
  than 10 characters with an injected text: one contains the other, or the end of one is the
  beginning of the other.

HotpotQA and TracLLM prompts consist of the documents, separated by blank lines, followed by
"Question: ..." and "Answer:". RULER prompts are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mixlens.datasets.examples import EvidencePrompt, Example, Span
from mixlens.datasets.files import Refused, parse_record, text_of
from mixlens.errors import InvalidInput
from mixlens.model.json_values import parse_json

_HOTPOT = {"question", "answer", "context", "supporting_facts"}
_RULER = {"input", "outputs"}
_TRACLLM = {"question", "contexts", "answer", "gt_important_texts"}
_WORDS = 100  # of a piece of a single context
_SHARED = 10  # characters that a piece may share with an injected text by chance
_NUMBERED = re.compile(r"^Document \d+:", re.MULTILINE)
_SENTENCE = re.compile(r"\S[^.!?\n]*(?:[.!?]+(?=\s|$)|(?=\n)|$)")


def recognises(fields: Collection[str]) -> bool:
    """Return whether records with these fields are prompts with known evidence."""
    return any(set(fields) >= required for required in (_HOTPOT, _RULER, _TRACLLM))


def read(path: Path) -> Iterator[Example | Refused]:
    """Read the prompts of a file that contains a JSON list of records."""
    try:
        records = parse_json(text_of(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON ({error}). Check the file.") from None
    first = records[0] if isinstance(records, list) and records else None
    if not isinstance(first, Mapping) or not recognises(first):
        raise InvalidInput(
            f"{path} is not a list of HotpotQA, RULER or TracLLM records. Use .jsonl, .csv or .tsv"
            " for other data."
        )
    for number, record in enumerate(records, 1):
        name = f"{path.name}:{number}"
        entry = record if isinstance(record, dict) else Refused(name, "not a JSON object")
        yield parse_record(name, entry, prompt)


def prompt(name: str, record: Mapping[str, Any]) -> EvidencePrompt:
    """Convert one record to a prompt. The fields of the record tell which format it has."""
    try:
        if set(record) >= _HOTPOT:
            return _hotpot(name, record)
        return _ruler(name, record) if set(record) >= _RULER else _tracllm(name, record)
    except InvalidInput:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"the record has an unexpected form ({error!r})") from None


def _hotpot(name: str, record: Mapping[str, Any]) -> EvidencePrompt:
    context, facts = record["context"], record["supporting_facts"]
    if isinstance(context, Mapping):  # as on the hub: columns instead of pairs
        context = list(zip(context["title"], context["sentences"], strict=True))
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    documents = [f"{title}: {''.join(sentences).strip()}" for title, sentences in context]
    titles = [title for title, _ in context]
    needles = []
    for title, number in facts:
        sentences = context[titles.index(title)][1]
        if number < len(sentences):  # some records name a sentence that is not there
            needles.append((titles.index(title), sentences[number].strip()))
    return _join_documents(name, documents, needles, record["question"], record["answer"])


def _tracllm(name: str, record: Mapping[str, Any]) -> EvidencePrompt:
    documents = [text.strip() for text in record["contexts"]]
    if len(documents) == 1:
        words = documents[0].split(" ")
        begins = range(0, len(words), _WORDS)
        documents = [" ".join(words[start : start + _WORDS]).strip() for start in begins]
    needles = []
    for number, text in enumerate(documents):
        parts = (_common(text, injected.strip()) for injected in record["gt_important_texts"])
        needles += [(number, part) for part in dict.fromkeys(parts) if part]
    return _join_documents(name, documents, needles, record["question"], record["answer"])


def _common(text: str, injected: str) -> str:
    """Return the overlap of a document with an injected text, or an empty string if they do not
    overlap.
    """
    if injected in text:
        return injected
    if text in injected:
        return text
    for size in range(min(len(text), len(injected)), _SHARED, -1):
        if text[-size:] == injected[:size]:
            return text[-size:]
        if text[:size] == injected[-size:]:
            return text[:size]
    return ""


def _join_documents(
    name: str,
    documents: Sequence[str],
    needles: Sequence[tuple[int, str]],
    question: str,
    answer: str,
) -> EvidencePrompt:
    """Join documents, question and the beginning of the answer into one prompt."""
    text, spans = "", list[Span]()
    for document in documents:
        spans.append((len(text), len(text) + len(document)))
        text += f"{document}\n\n"
    places = [
        (start, start + len(sentence))
        for number, sentence in needles
        for start in [text.index(sentence, *spans[number])]
    ]
    text += f"Question: {question.strip()}\nAnswer:"
    evidence = sorted({number for number, _ in needles})
    return _check_evidence(name, text, spans, evidence, places, answer)


def _ruler(name: str, record: Mapping[str, Any]) -> EvidencePrompt:
    text = (record["input"].rstrip() + " " + record.get("answer_prefix", "").strip()).rstrip()
    outputs = [str(output) for output in record["outputs"]]
    starts = [match.start() for match in _NUMBERED.finditer(text)]
    if starts:
        end = text.find("\n\n", starts[-1])
        stops = [*starts[1:], end if end > 0 else len(text)]
        spans = [
            (start, start + len(text[start:stop].rstrip()))
            for start, stop in zip(starts, stops, strict=True)
        ]
    else:
        question = text.rfind("\n")  # the last line asks
        spans = [match.span() for match in _SENTENCE.finditer(text[: max(question, 0)])]
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(output)}(?!\w)" for output in outputs))
    evidence = [place for place, span in enumerate(spans) if pattern.search(text[slice(*span)])]
    needles = [spans[place] for place in evidence]
    return _check_evidence(name, text, spans, evidence, needles, outputs[0])


def _check_evidence(
    name: str,
    text: str,
    documents: Sequence[Span],
    evidence: Sequence[int],
    needles: Sequence[Span],
    answer: str,
) -> EvidencePrompt:
    if not evidence:
        raise InvalidInput("no document contains the evidence")
    if len(documents) < 2:
        raise InvalidInput(f"the prompt has {len(documents)} document, but at least 2 are needed")
    if not answer.strip():
        raise InvalidInput("the answer is empty")
    return EvidencePrompt(
        name=name,
        text=text,
        documents=tuple(documents),
        evidence=tuple(evidence),
        needles=tuple(needles),
        answer=f" {answer.strip()}",
    )
