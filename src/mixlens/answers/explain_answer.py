"""Score how much a generated or given answer depends on each passage of its prompt."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.answers.answer import Answer
from mixlens.answers.answer_parts import split_sentences, split_words
from mixlens.answers.method_scores import check_methods, default_method, score_by_methods
from mixlens.answers.prompt_parts import Documents, PromptParts, read_prompt, split_documents
from mixlens.errors import EmptyInput, InputTooLong, InvalidInput, no_such
from mixlens.maps.provenance import versions
from mixlens.model.session import open_session
from mixlens.text.input_checks import position_limit, takes_decoder_ids
from mixlens.text.prompts import tokenise_prompt
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.recording import Recording

NEW_TOKENS = 64
_ARGUMENTS = ("documents", "answer", "methods", "chat_template", "memory_budget")
_LENGTHS = ("max_new_tokens", "max_length", "stopping_criteria", "generation_config")


def explain_answer(
    lens: Lens,
    inputs: Any,
    *,
    documents: Documents,
    answer: str | Sequence[int] | None,
    methods: str | Sequence[str] | None,
    chat_template: bool,
    memory_budget: int | None,
    options: Mapping[str, Any],
) -> Answer:
    """Implement `Lens.answer`."""
    _check_names(options)
    names = check_methods(methods)
    if isinstance(answer, str) and not answer.strip():
        raise EmptyInput("The answer is empty. Pass its text, or leave it out to generate one.")
    prompt = read_prompt(
        lens.tokenizer,
        inputs,
        documents,
        chat_template=chat_template,
        model=lens.model,
        processor=lens.processor,
    )
    generation_options = dict(options)
    if answer is None and not any(name in generation_options for name in _LENGTHS):
        generation_options["max_new_tokens"] = NEW_TOKENS
    _require_positions(lens, prompt)
    recording = lens.generate(
        prompt.inputs,
        answer=answer,
        memory_budget=memory_budget,
        explain_end=False,
        **generation_options,
    )
    text, shift = _answer_text(recording, prompt, answer)
    passages = split_documents(prompt.text, prompt.parts)
    units = prompt.documents if len(prompt.documents) > 1 else passages
    site = _site(recording)
    names = names or (default_method(recording, site),)
    assert recording.produced is not None  # it is a continuation
    assert recording.targets is not None
    produced_tokens, positions = recording.produced[0].tokens, recording.targets[0]
    target_row = _answer_row(produced_tokens, positions, shift)
    assert target_row.offsets is not None
    sentences = split_sentences(text, target_row.offsets)
    with open_session(lens.model, restores=False):
        method_scores = score_by_methods(lens, recording, site, names, prompt, units, sentences)
    return Answer(
        text=text,
        prompt=prompt.text,
        parts=prompt.parts,
        passages=tuple(passages),
        sentences=sentences,
        words=split_words(produced_tokens, positions, text, shift),
        methods=method_scores,
        uses_template=prompt.uses_template,
        source_row=recording.source_tokens(site, 0),
        target_row=target_row,
        has_sink=not takes_decoder_ids(lens.model),
        provenance=_provenance(lens, site, is_given=answer is not None)
        | _cut_at(len(positions), answer, generation_options),
    )


def _check_names(options: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if a generation option looks like a misspelt argument.

    For example, `method` is close to `methods`, an argument of `Lens.answer`.
    """
    for name in options:
        near = difflib.get_close_matches(name, _ARGUMENTS, 1, 0.8)
        if near:
            raise InvalidInput(no_such("option", name, near))


def _site(recording: Recording) -> str:
    """Return the name of the attention that reads the prompt.

    This is cross-attention if the model has it, otherwise self-attention.
    """
    sites = recording.structure.sites
    return [name for name, stack_site in sites.items() if stack_site.stack is recording.last_stack][
        -1
    ]


def _require_positions(lens: Lens, prompt: PromptParts) -> None:
    """Raise `InputTooLong` with the name of the longest document if the prompt is too long."""
    limit = position_limit(lens.model)
    ids, _ = tokenise_prompt(lens.tokenizer, prompt.text, specially=prompt.adds_special)
    if limit is None or len(ids) <= limit:
        return
    lengths = {
        part.name: len(
            tokenise_prompt(lens.tokenizer, prompt.text[part.start : part.stop], specially=False)[0]
        )
        for part in prompt.documents
    }
    longest = max(lengths, key=lambda name: lengths[name])
    raise InputTooLong(
        f"The prompt has {len(ids)} tokens, but the model has {limit} positions. Shorten the"
        f" documents or leave some out. The longest is {longest!r} with {lengths[longest]} tokens."
    )


def _answer_text(recording: Recording, prompt: PromptParts, answer: Any) -> tuple[str, int]:
    """Return the text of the answer, and the character at which it starts in the recorded text."""
    text = recording.answer or ""
    assert recording.produced is not None
    assert recording.targets is not None
    produced_tokens, positions = recording.produced[0].tokens, recording.targets[0]
    if produced_tokens.text is None or produced_tokens.offsets is None:
        raise InvalidInput(
            "The tokenizer has no offset mapping, so words of the answer cannot be found. Use a"
            " fast tokenizer (tokenizer.json)."
        )
    if not text.strip():
        raise EmptyInput(
            "The model generated no words, only special tokens or blanks. Check the prompt and its"
            " chat template, or pass an answer."
        )
    if recording.structure.calls[0][0] is not recording.last_stack:
        return text, produced_tokens.text.find(text)
    if isinstance(answer, str) and produced_tokens.offsets[positions[0]][0] < len(prompt.text):
        raise InvalidInput(
            f"The answer {answer[:40]!r} merges with the end of the prompt, {prompt.text[-10:]!r}."
            " Begin the answer with a space or end the prompt earlier."
        )
    return produced_tokens.text[len(prompt.text) :], len(prompt.text)


def _answer_row(row: TokenRow, positions: Sequence[int], shift: int) -> TokenRow:
    """Return the tokens of the answer, with character offsets from the start of the answer."""
    assert row.text is not None
    assert row.offsets is not None
    first, last = positions[0], positions[-1] + 1
    return TokenRow(
        row.labels[first:last],
        row.text[shift:],
        tuple((max(a - shift, 0), max(b - shift, 0)) for a, b in row.offsets[first:last]),
        None if row.special is None else row.special[first:last],
    )


def _cut_at(length: int, answer: Any, options: Mapping[str, Any]) -> dict[str, int]:
    """Return `{"cut_at": length}` if a generated answer was cut off, otherwise an empty dict.

    An end-of-turn token counts towards `max_new_tokens` but is not explained. An answer of
    `max_new_tokens` explained tokens therefore has no end-of-turn token, so it was cut off.
    """
    is_cut = answer is None and length == options.get("max_new_tokens")
    return {"cut_at": length} if is_cut else {}


def _provenance(lens: Lens, site: str, *, is_given: bool) -> dict[str, Any]:
    parameter = next(lens.model.parameters())
    return {
        "model": type(lens.model).__name__,
        "name": getattr(lens.model.config, "_name_or_path", None) or None,
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "site": site,
        "answer": "given" if is_given else "generated",
        "versions": versions(),
    }
