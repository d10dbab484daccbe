"""The grammar and its words: agreement, seeds, inflection, benchmark sentences kept out."""

import pytest

from training.benchmarks import BenchmarkIndex, load_benchmarks, normalise
from training.grammar import Grammar
from training.lexicon import load_lexicon
from training.morphology import conjugate, plural

pytestmark = pytest.mark.smoke


def test_the_same_seed_gives_the_same_sentences() -> None:
    one, two, other = Grammar(3), Grammar(3), Grammar(4)
    first = [one.sentence().text for _ in range(50)]
    assert first == [two.sentence().text for _ in range(50)]
    assert first != [other.sentence().text for _ in range(50)]


def test_targets_are_unmarked_words_of_the_sentence() -> None:
    grammar = Grammar(0)
    drawn = [grammar.sentence() for _ in range(2000)]
    assert all("^" not in sentence.text for sentence in drawn)
    targets = {sentence.words[i] for sentence in drawn for i in sentence.targets}
    assert {
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "this",
        "these",
        "herself",
        "themselves",
    } <= targets
    assert any(len(sentence.words) > 32 for sentence in drawn)


def test_demonstratives_agree_with_their_noun() -> None:
    nouns = {n.singular[-1] for n in load_lexicon().things} - {
        n.plural[-1] for n in load_lexicon().things
    }
    many = {n.plural[-1] for n in load_lexicon().things} - {
        n.singular[-1] for n in load_lexicon().things
    }
    grammar = Grammar(7)
    seen = 0
    for words in (grammar.sentence().words for _ in range(8000)):
        word, noun = words[-3:-1]  # at the end no compound can follow
        if word in ("this", "these") and noun in nouns | many:
            seen += 1
            assert noun in (nouns if word == "this" else many), words
    assert seen > 50


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("box", "boxes"),
        ("lady", "ladies"),
        ("day", "days"),
        ("woman", "women"),
        ("truck driver", "truck drivers"),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("stop", ("stops", "stopped", "stopped", "stopping")),
        ("visit", ("visits", "visited", "visited", "visiting")),
        ("carry", ("carries", "carried", "carried", "carrying")),
        ("write", ("writes", "wrote", "written", "writing")),
        ("watch", ("watches", "watched", "watched", "watching")),
    ],
)
def test_verb_forms(verb: str, forms: tuple[str, ...]) -> None:
    made = conjugate(verb)
    assert (made.third, made.past, made.participle, made.ing) == forms


def test_benchmark_sentences_are_found_however_they_are_spelled() -> None:
    index = BenchmarkIndex(["The two old dogs haven't seen a cat .", "Mary slept ."])
    assert normalise("It hasn't!") == ("it", "has", "not")
    assert index.holds("He said: the two old dogs have not seen a cat, and left.")
    assert index.holds("It was late. Mary slept. Nobody came.")
    assert not index.holds("Mary slept well.")
    assert not index.holds("The two old dogs have not seen a bird.")


def test_the_demonstration_sentence_is_kept_out_even_without_data() -> None:
    assert load_benchmarks(None).holds("The pictures of some hat were scaring Marcus.")
