"""Derive nouns and verbs from the WikiText-2 training text, by the words around them.

A noun is kept when both its numbers occur and each follows a determiner that fixes the number (“a
castle”, “several castles”); it counts as a person when “who” follows it. A verb is kept when its
base follows “to” or a modal and its other forms occur; it counts as transitive when determiners and
pronouns often follow it. No tagger, no other corpus, no benchmark file. The result is committed
(words/derived_*.txt), so that the grammar works without the corpus:

    python -m training.derive_lexicon --data DATA
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from .corpora import wikitext_paragraphs
from .morphology import conjugate, listed, plural

SINGULAR_BEFORE = set(listed("a an this each every another one that"))
PLURAL_BEFORE = set(
    listed(
        "these those many several two three four five six few various numerous all most other both"
    )
)
BASE_BEFORE = set(listed("to will would can could may might must should not did"))
OBJECT_AFTER = set(
    listed("the a an his her their its him them it this these that those all many two some")
)
AGREEING_AFTER = set(listed("are were have do include"))
NOT_NOUNS = set(
    listed(
        "other new less lot one two three good first second third mean means need can right white"
        " black red condom single back half long later like due human"
    )
)
NOT_VERBS = set(
    listed(
        "be have do her state case can will may must one two time been found near man air ground"
        " port seat chart market battle campaign store bond mate back date contract span say"
    )
)
WORD = re.compile(r"[A-Za-z]+|[.,;:!?()\"]")


def count_company(paragraphs: list[str]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Counts of lower-case words and of pairs of neighbours (names fall out by case)."""
    words: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for paragraph in paragraphs:
        tokens = WORD.findall(paragraph)
        words.update(token for token in tokens if token.islower())
        pairs.update((a.lower(), b) for a, b in pairwise(tokens) if b.islower() or not b.isalpha())
    return words, pairs


def derive_nouns(
    words: Counter[str], pairs: Counter[tuple[str, str]], least: int = 5
) -> tuple[list[str], list[str]]:
    """People and other nouns, most frequent first."""
    people, others = [], []
    for noun, count in words.most_common():
        many = plural(noun)
        if (
            count + words[many] < least
            or words[many] < 2
            or len(noun) < 3
            or noun.endswith(("s", "ly", "men"))
        ):
            continue
        if noun in NOT_NOUNS:
            continue
        sg = sum(pairs[d, noun] for d in SINGULAR_BEFORE)
        pl = sum(pairs[d, many] for d in PLURAL_BEFORE) + sum(
            pairs[many, v] for v in AGREEING_AFTER
        )
        sg_bad = sum(pairs[d, noun] for d in PLURAL_BEFORE)
        verbal = sum(pairs[d, noun] for d in BASE_BEFORE - {"to"})
        adjectival = pairs["very", noun] + pairs["more", noun] + pairs["most", noun]
        if sg < 1 or pl < 1 or sg_bad * 3 > sg or verbal * 3 > sg or adjectival * 4 > sg:
            continue
        who = pairs[noun, "who"] + pairs[many, "who"]
        (people if who >= 2 and who * 60 >= count else others).append(noun)
    return people, others


def derive_verbs(
    words: Counter[str], pairs: Counter[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Transitive and intransitive verbs, most frequent first."""
    transitive, intransitive = [], []
    for verb, _ in words.most_common():
        if len(verb) < 3 or verb in NOT_VERBS:
            continue
        forms = conjugate(verb)
        governed = sum(pairs[w, verb] for w in BASE_BEFORE)
        if governed < 4 or words[forms.third] < 1 or words[forms.past] < 2 or words[forms.ing] < 1:
            continue
        every = {forms.base, forms.past, forms.third, forms.ing}
        total = sum(words[f] for f in every)
        objects = sum(pairs[f, w] for f in every for w in OBJECT_AFTER)
        bare = sum(
            pairs[f, w]
            for f in every
            for w in (".", ",", "in", "to", "at", "from", "with", "into", "on")
        )
        if objects > 0.2 * total and objects > 4:
            transitive.append(verb)
        elif objects < 0.06 * total and bare > 0.4 * total:
            intransitive.append(verb)
    return transitive, intransitive


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds wikitext2/")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "words")
    arguments = parser.parse_args()
    words, pairs = count_company(wikitext_paragraphs(arguments.data / "wikitext2", "train"))
    people, others = derive_nouns(words, pairs)
    transitive, intransitive = derive_verbs(words, pairs)
    lists = {
        "people": people,
        "nouns": others,
        "verbs": transitive,
        "verbs_intransitive": intransitive,
    }
    for name, entries in lists.items():
        lines = [" ".join(entries[i : i + 12]) for i in range(0, len(entries), 12)]
        note = (
            "# derived from the WikiText-2 training text by derive_lexicon.py, most frequent"
            " first\n"
        )
        (arguments.out / f"derived_{name}.txt").write_text(
            note + "\n".join(lines) + "\n", encoding="utf-8"
        )
        print(f"derived_{name}: {len(entries)}")


if __name__ == "__main__":
    main()
