"""`mixlens demo`: explain a word choice and an answer of bundled models, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.cli.loading import lens_from

if TYPE_CHECKING:
    from rich.console import Console

    from mixlens.lens import Lens
    from mixlens.maps.comparison import Comparison

EXAMPLES = "mixlens demo"
SENTENCE = ("The boys did not see [MASK] door of the houses.", "door", "this", "these")
DOCUMENTS = {
    "document 1": "Ben keeps the key in the kitchen.",
    "document 2": "Amy keeps the key in the garden.",
    "document 3": "Amy keeps the book in the tower.",
}
QUESTION = "Question: Where does Amy keep the key?\nAnswer:"
ANSWER_TOKENS, PLACE, EVIDENCE = 8, "garden", "document 2"
METHODS = ("leave_one_out", "flow_routes", "attention", "gradient_x_input")
OUTPUT_MEASURE, LAYER_MEASURE = "blank_out", "value_zeroing"
BAR = 30  # the widest bar


def demo() -> None:
    """Explain a choice and an answer of the bundled models."""
    from rich.console import Console

    console = Console(highlight=False)
    lens = lens_from(None, "cpu", "float32")
    text, cue, word, foil = SENTENCE
    comparison = _compare(lens, SENTENCE)
    _show_choice(console, lens)
    _show_deciding_words(console, comparison)
    _show_measures(console, comparison)
    _show_layers(console, lens)
    _show_answer(console)
    console.print(
        f'\nTry it yourself:\n  mixlens compare "{text}" \\\n      --cue {cue} --word {word} --foil'
        f" {foil}\n  mixlens answer YOUR_PROMPT_FILE --model YOUR_MODEL",
        markup=False,
    )


def _compare(lens: Lens, sentence: tuple[str, str, str, str]) -> Comparison:
    text, cue, word, foil = sentence
    return lens.compare(text, "[MASK]", explain={"word": word, "foil": foil}, cue=cue)


def _show_choice(console: Console, lens: Lens) -> None:
    text, cue, word, foil = SENTENCE
    config: Any = lens.model.config
    chances = dict(lens.predictions(text, top=config.vocab_size))
    console.print("\n1. The choice", style="bold")
    console.print(f"   {text}", markup=False)
    _print_text(
        console,
        f'Which word fills the gap, "{word}" or "{foil}"? The model predicts "{word}" with a'
        f' probability of {chances[word]:.0%} and "{foil}" with {chances[foil]:.2%}. The right'
        f' choice depends on "{cue}", which is singular. The other two nouns are plural.',
    )


def _show_deciding_words(console: Console, comparison: Comparison) -> None:
    _, cue, word, foil = SENTENCE
    scores = comparison.scores[OUTPUT_MEASURE]
    order = sorted(comparison.others, key=lambda position: -scores[position])[:3]
    console.print("\n2. Which words decide?", style="bold")
    _print_text(
        console,
        f'{OUTPUT_MEASURE} replaces one token at a time and compares "{word}" with "{foil}". Share'
        " of the total effect:",
    )
    for position in order:
        _print_bar(console, comparison.sources[position], float(scores[position]))
    _print_text(console, f'Only "{cue}" changes the choice.')


def _show_measures(console: Console, comparison: Comparison) -> None:
    import textwrap

    names_by_rank: dict[int, list[str]] = {}
    for name, rank in comparison.rank_of(comparison.cue or 0).items():
        names_by_rank.setdefault(rank, []).append(name)
    console.print("\n3. Which measures find it?", style="bold")
    _print_text(
        console, f'Rank of "{SENTENCE[1]}" among {len(comparison.others)} tokens, by measure:'
    )
    for rank, names in sorted(names_by_rank.items()):
        first, *more = textwrap.wrap(", ".join(names), 68)
        console.print("\n".join([f"   {rank:>4}   {first}", *(f"          {x}" for x in more)]))
    _print_text(console, "random draws its scores at random. A useful measure does better.")


def _show_layers(console: Console, lens: Lens) -> None:
    text, cue, _, _ = SENTENCE
    maps = lens.measure(LAYER_MEASURE, text, targets=["[MASK]"])
    source, target = list(maps.source_tokens).index(cue), maps.target_positions[0]
    other_scores = maps.scores[:, 0].copy()
    other_scores[:, target] = 0
    shares = other_scores[:, source] / other_scores.sum(-1)
    console.print("\n4. In which layers does it arrive?", style="bold")
    _print_text(
        console, f"Share of {cue} among the tokens that the gap mixes in ({LAYER_MEASURE}):"
    )
    for layer, share in zip(maps.layers, shares, strict=True):
        _print_bar(console, f"layer {layer}", float(share))


def _show_answer(console: Console) -> None:
    from mixlens.lens import Lens

    answer = Lens.bundled("causal").answer(
        "\n\n".join([*DOCUMENTS.values(), QUESTION]),
        documents=DOCUMENTS,
        methods=METHODS,
        max_new_tokens=ANSWER_TOKENS,
    )
    console.print("\n5. Which document does an answer rest on?", style="bold")
    for line in (*DOCUMENTS.values(), *f"{QUESTION}{answer.text}".splitlines()):
        console.print(f"   {line}", markup=False)
    _print_text(
        console,
        f"The bundled causal model wrote the answer. Share of {EVIDENCE} in the scores of"
        f' "{PLACE}", by method:',
    )
    ranked = {method: answer.top(word=PLACE, method=method) for method in METHODS}
    for method, documents in ranked.items():
        share = next(each.share for each in documents if each.document == EVIDENCE)
        _print_bar(console, method, share)
    first = [method for method, documents in ranked.items() if documents[0].document == EVIDENCE]
    _print_text(console, f"These methods rank it first of three: {', '.join(first)}.")


def _print_text(console: Console, text: str) -> None:
    from mixlens.cli.help import wrap

    console.print("\n".join(f"   {line}" for line in wrap(text, 77)), markup=False)


def _print_bar(console: Console, label: str, share: float) -> None:
    bar = "█" * round(BAR * max(share, 0))
    console.print(f"   {label:<16} {share:4.0%} {bar}".rstrip(), markup=False)
